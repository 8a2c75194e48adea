"""Stop, damage, start: what the storage cases share."""

import time
from collections.abc import Mapping
from pathlib import Path

from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient, eventually

# Two hours ago: older batches would let their producers expire.
START = int(time.time() * 1000) - 7_200_000
START_WITHIN_S = 60 if reference_wanted() else 15


def folder(broker: BrokerProcess, topic: str, partition: int = 0) -> Path:
    return broker.data_directory / f"{topic}-{partition}"


def newest(directory: Path, suffix: str) -> Path:
    return max(directory.glob(f"*{suffix}"))


def start(broker: BrokerProcess, *topics: str) -> RawClient:
    """Start the broker within the limit and wait until the topics have leaders."""
    started = time.monotonic()
    broker.start()
    assert time.monotonic() - started < START_WITHIN_S
    client = RawClient((broker.host, broker.port))
    for topic in topics:
        eventually(lambda topic=topic: client.list_offset(topic, -1).error_code == 0, what=f"leader of {topic}")
    return client


def checkpointed(broker: BrokerProcess, name: str, topic: str, partition: int = 0) -> int | None:
    """Return what a checkpoint file of the log directory says of a partition, or None if it does not."""
    path = broker.data_directory / name
    rows = path.read_text().splitlines()[2:] if path.exists() else []
    return next((int(row.split()[2]) for row in rows if row.split()[:2] == [topic, str(partition)]), None)


def wait_until_cleaned(broker: BrokerProcess, topic: str, offset: int, partition: int = 0) -> None:
    """Wait until the cleaner has compacted a partition up to an offset."""

    def is_cleaned() -> bool:
        return (checkpointed(broker, "cleaner-offset-checkpoint", topic, partition) or 0) >= offset

    eventually(is_cleaned, what=f"{topic}-{partition} cleaned up to {offset}")


def active_base(broker: BrokerProcess, topic: str, partition: int = 0) -> int:
    """Return the base offset of the newest segment."""
    return int(newest(folder(broker, topic, partition), ".log").stem)


def replace_log(broker: BrokerProcess, topic: str, segments: Mapping[int, bytes]) -> None:
    """Give the stopped broker other segments, {base offset: batches}, without any index: it has to rebuild them."""
    directory = folder(broker, topic)
    for path in directory.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
            path.unlink()
    for base_offset, data in segments.items():
        (directory / f"{base_offset:020}.log").write_bytes(data)


def values(client: RawClient, topic: str) -> list[bytes | None]:
    return [record.value for record in batches.records_of(client.fetch_all(topic))]


class Idempotent:
    """A producer that keeps its own sequence numbers."""

    def __init__(self, client: RawClient, topic: str):
        self.topic = topic
        self.producer_id = client.producer_id()

    def batch(self, sequence: int, count: int = 1) -> bytes:
        records = [Record(b"%d" % (sequence + delta), timestamp=START + sequence) for delta in range(count)]
        return batches.build(records, producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence)

    def send(self, client: RawClient, sequence: int, count: int = 1) -> tuple[int, int]:
        result = client.produce(self.topic, self.batch(sequence, count))
        return result.error_code, result.base_offset
