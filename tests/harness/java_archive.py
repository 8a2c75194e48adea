"""Make the archive of Kafka's classes that harness.java lets every JVM of the tests begin with.

A broker loads and checks some 8,000 classes whenever it starts, which is half of what its start costs; the JVM can keep
them as one broker has them when it ends. What measures Kafka does not use the archive: no installation of it has one.
``python -m tests.harness.java_archive``
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.harness.broker import KafkaProcess
from tests.harness.java import ARCHIVE_FILE


class ArchivingKafka(KafkaProcess):
    """Leaves its classes when it ends."""

    def command(self) -> list[str]:
        program, *arguments = super().command()
        return [program, f"-XX:ArchiveClassesAtExit={ARCHIVE_FILE}.part", *arguments]


def main() -> None:
    """Run a broker for a moment."""
    with tempfile.TemporaryDirectory(prefix="odradek-archive-") as directory:
        broker = ArchivingKafka(Path(directory))
        broker.start()
        broker.stop()
    os.replace(f"{ARCHIVE_FILE}.part", ARCHIVE_FILE)


if __name__ == "__main__":
    if ARCHIVE_FILE.exists():  # a JVM that uses one cannot make one
        ARCHIVE_FILE.unlink()
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
