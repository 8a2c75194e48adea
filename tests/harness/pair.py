"""Odradek and Apache Kafka side by side: the same inputs to both, what each of them shows in return."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.harness import batches
from tests.harness.batches import Batch
from tests.harness.broker import BrokerProcess, KafkaProcess
from tests.harness.raw import RawClient
from tests.harness.stored import segment_paths

# Both look for work all the time; topics that shall not be touched say so.
PROPERTIES = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
_T = TypeVar("_T")


class Pair:
    """The two running brokers."""

    def __init__(self, directory: Path):
        self.ours = BrokerProcess(directory / "ours", PROPERTIES)
        self.kafka = KafkaProcess(directory / "kafka", PROPERTIES)
        for broker in self.brokers:
            broker.start()

    @property
    def brokers(self) -> tuple[BrokerProcess, BrokerProcess]:
        return self.ours, self.kafka

    def same(self, run: Callable[[BrokerProcess, RawClient], _T]) -> _T:
        """Run the same steps on both, assert that they show the same, and return it."""
        ours, kafka = self.both(run)
        assert ours == kafka, f"ours, Kafka's: {differences(ours, kafka)}"
        return ours

    def both(self, run: Callable[[BrokerProcess, RawClient], _T]) -> tuple[_T, _T]:
        """Run the same steps on both; return what Odradek showed and what Apache Kafka did."""
        shown = []
        for broker in self.brokers:
            with RawClient((broker.host, broker.port)) as client:
                shown.append(run(broker, client))
        return shown[0], shown[1]

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()
        assert not self.ours.trouble(), self.ours.trouble()


def differences(ours: Any, kafka: Any) -> Any:
    """Return only what differs, as (ours, Kafka's) at each place."""
    if isinstance(ours, dict) and isinstance(kafka, dict) and ours.keys() == kafka.keys():
        return {key: differences(ours[key], kafka[key]) for key in ours if ours[key] != kafka[key]}
    if isinstance(ours, list | tuple) and type(ours) is type(kafka) and len(ours) == len(kafka):
        return {
            place: differences(*pair) for place, pair in enumerate(zip(ours, kafka, strict=True)) if pair[0] != pair[1]
        }
    return ours, kafka


def visible(client: RawClient, topic: str) -> dict[str, Any]:
    """Return all that a consumer sees of a partition."""
    start = client.start_offset(topic)
    records = [record for record in batches.records_of(client.fetch_all(topic, offset=start)) if record.offset >= start]
    return {"start": start, "end": client.end_offset(topic), "records": records}


def segment_names(broker: BrokerProcess, topic: str) -> list[str]:
    return [path.stem for path in segment_paths(broker.data_directory, topic)]


DELETE_HORIZON = 0x40


def layout(stored: list[Batch]) -> list[tuple[Any, ...]]:
    """Describe batches without what may differ: compressed bytes, producer ids, the moment of cleaning.

    Shape of a row: base offset, last offset delta, count, attributes, base timestamp (None for a delete horizon),
    largest timestamp, producer by order of appearance, its epoch, base sequence, offsets of the records.
    """
    producers: dict[int, int] = {-1: -1}
    return [
        (
            batch.base_offset,
            batch.last_offset_delta,
            batch.count,
            batch.attributes,
            None if batch.attributes & DELETE_HORIZON else batch.base_timestamp,
            batch.max_timestamp,
            producers.setdefault(batch.producer_id, len(producers)),
            batch.producer_epoch,
            batch.base_sequence,
            [record.offset for record in batch.records()],
        )
        for batch in stored
    ]
