"""How Java runs Apache Kafka's main classes, and our programs, from the class path that `make jvm` resolved."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CLASSPATH_FILE = Path(__file__).resolve().parents[2] / "build" / "jvm-classpath.txt"
# Kafka's classes as a JVM has them once they are loaded and checked; `make jvm` makes it, see harness.java_archive.
ARCHIVE_FILE = CLASSPATH_FILE.with_name("jvm-classes.jsa")
TIMEOUT_S = 120.0


def _archive_options() -> tuple[str, ...]:
    """Take classes from the archive, if there is one; a JVM that it does not fit goes without, and says nothing."""
    return (f"-XX:SharedArchiveFile={ARCHIVE_FILE}", "-Xlog:disable") if ARCHIVE_FILE.exists() else ()


# Short-lived JVMs: a small heap, no second compiler and no class loaded twice start fastest.
QUICK_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *_archive_options())
TOOL_OPTIONS = ("-Xmx256m", *QUICK_OPTIONS)
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dlog4j2.level=OFF")

MAIN_CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


def missing() -> str | None:
    """Return why no Java tool can run here, or None if they can."""
    if shutil.which("java") is None:
        return "no java on PATH"
    if not CLASSPATH_FILE.exists():
        return "no class path: run `make jvm`"
    return None


def command_line(main_class: str, *arguments: str, jvm_options: tuple[str, ...] = TOOL_OPTIONS) -> list[str]:
    """Return the command that runs a main class."""
    class_path = CLASSPATH_FILE.read_text(encoding="utf-8").strip()
    return ["java", *jvm_options, "-cp", class_path, main_class, *arguments]


def program(source: Path, *arguments: str, jvm_options: tuple[str, ...] = TOOL_OPTIONS) -> list[str]:
    """Return the command that runs one of the programs in tests/jvm."""
    *before, class_path, main_class = command_line(source.stem, jvm_options=(*jvm_options, *QUIET))
    return [*before, f"{class_path}:{_compiled(source)}", main_class, *arguments]


def _compiled(source: Path) -> Path:
    """Return where the classes of a program lie: `java` by itself would compile it for two seconds at each start."""
    directory = CLASSPATH_FILE.with_name("jvm-programs") / hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    if not directory.exists():
        directory.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as place:
            fresh = Path(place) / "classes"
            done = subprocess.run(
                ["java", *QUICK_OPTIONS, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(fresh), str(source)],
                env={**os.environ, "CLASSPATH": CLASSPATH_FILE.read_text(encoding="utf-8").strip()},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            with contextlib.suppress(OSError):  # another worker was quicker
                fresh.rename(directory)
    return directory


def end(process: subprocess.Popen[Any]) -> None:
    """End a JVM that ends with its input."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
