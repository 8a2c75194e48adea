"""Stop, damage, start: what the storage cases share."""

import time
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
