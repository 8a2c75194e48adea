"""Odradek and Apache Kafka side by side: the same inputs to both, what each of them shows in return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.harness import batches
from tests.harness.batches import Batch
from tests.harness.broker import BrokerProcess, KafkaProcess, broker_class
from tests.harness.log_dirs import log_dirs, new_directories
from tests.harness.raw import RawClient
from tests.harness.stored import segment_paths
from tests.harness.wire import Struct

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
# Where a directory of ours begins: two that are compared are at one metadata.version.
OUR_RELEASE_VERSION = "4.2-IV1"
_T = TypeVar("_T")


class Pair:
    """The two running brokers."""

    def __init__(
        self,
        directory: Path,
        *,
        disks: int = 0,
        properties: Mapping[str, str] = {},
        release_version: str = OUR_RELEASE_VERSION,
    ):
        """Start both; with several disks, these are directories of each broker's own, named alike."""
        self.ours = broker_class()(directory / "ours", {**PROPERTIES, **properties})
        self.kafka = KafkaProcess(directory / "kafka", {**PROPERTIES, **properties})
        for broker in self.brokers:
            if isinstance(broker, KafkaProcess):
                broker.release_version = release_version
            if disks:
                broker.properties.update(log_dirs(*new_directories(broker.directory, disks)))
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


def described_disks(answer: Struct) -> Any:
    """Give an answer of DescribeLogDirs without what is the machine's: paths by their last part, disks by sign."""
    results = [
        {
            "fields": sorted(vars(result)),
            "error": result.error_code,
            "disk": Path(result.log_dir).name,
            "is absolute": Path(result.log_dir).is_absolute(),
            "topics": sorted(
                (
                    topic.name,
                    sorted(
                        (row.partition_index, row.partition_size, row.offset_lag, row.is_future_key)
                        for row in topic.partitions
                    ),
                )
                for topic in result.topics
            ),
            "total": _sign(getattr(result, "total_bytes", None)),
            "usable": _sign(getattr(result, "usable_bytes", None)),
            "cordoned": getattr(result, "is_cordoned", None),
        }
        for result in answer.results
    ]
    return {
        "fields": sorted(vars(answer)),
        "error": getattr(answer, "error_code", None),
        "results": sorted(results, key=lambda result: result["disk"]),
    }


def _sign(number: int | None) -> int | None:
    return None if number is None else (number > 0) - (number < 0)


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
