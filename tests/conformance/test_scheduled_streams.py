"""A Kafka Streams task that reads a scheduled topic beside an ordinary one, as joins and merges do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import batches, java
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient, eventually
from tests.harness.readers import now_ms

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.skipif(reference_wanted(), reason="Apache Kafka has no scheduled topics"),
]

SOURCE = Path(__file__).resolve().parents[1] / "jvm" / "MergingStreams.java"
HOUR_MS = 3_600_000
TIMEOUT_S = 60


@pytest.fixture
def printed(shared_broker: BrokerProcess, unique: str, tmp_path: Path) -> Iterator[Path]:
    """Give the file that an application writes to; it does not wait for records that it knows of and has not got."""
    output = tmp_path / "streams.log"
    topics = f"{unique}-ordinary,{unique}-scheduled"
    arguments = (shared_broker.bootstrap, unique, str(tmp_path / "state"), "-1", topics)
    with RawClient((shared_broker.host, shared_broker.port)) as client, output.open("wb") as sink:
        client.create_topic(f"{unique}-ordinary")
        client.create_topic(f"{unique}-scheduled", delivery_mode="scheduled")
        command = java.program(SOURCE, *arguments)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
    yield output
    process.kill()
    process.wait()


def test_a_task_goes_on_with_other_topics_while_records_are_pending(
    printed: Path, shared_broker: BrokerProcess, unique: str
) -> None:
    """With max.task.idle.ms=-1: by default the task would wait for what the high watermark promises, and so for all."""

    def values() -> set[str]:
        return {line.split()[1] for line in printed.read_text().splitlines() if line.startswith("value ")}

    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.append(f"{unique}-scheduled", batches.simple("due", timestamp=int(now_ms()) - 1_000))
        client.append(f"{unique}-scheduled", batches.simple("pending", timestamp=int(now_ms()) + HOUR_MS))
        eventually(lambda: values() == {"due"}, within_s=TIMEOUT_S, what="what is due is processed")
        client.append(f"{unique}-ordinary", batches.simple("other"))
        eventually(lambda: values() == {"due", "other"}, within_s=TIMEOUT_S, what="the other topic is processed")
