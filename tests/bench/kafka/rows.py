"""The rows of the document: what each key of the results means, and what was to be reached."""

import dataclasses

from tests.bench.kafka.brokers import BARE, KAFKA
from tests.bench.kafka.results import CPU


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A quantity of both brokers, or of ours and a bare loop. `reach` and `aim` are ratios, ours to the other's."""

    key: str
    title: str
    unit: str
    lower_is_better: bool = False
    reach: float | None = None
    aim: float | None = None
    beside: str = KAFKA

    def is_met(self, ratio: float, goal: float) -> bool:
        """Tell whether a ratio is at least as good as a goal."""
        return ratio <= goal if self.lower_is_better else ratio >= goal


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """Rows that stand together, all beside the same."""

    title: str
    rows: tuple[Row, ...]

    @property
    def beside(self) -> str:
        """Name what ours is beside."""
        return self.rows[0].beside


RATE = "records/s"
CPU_UNIT = "s per million"


def _more(key: str, title: str, unit: str = RATE, reach: float | None = None, aim: float | None = None) -> Row:
    return Row(key, title, unit, False, reach, aim)


def _less(key: str, title: str, unit: str, reach: float | None = None, aim: float | None = None) -> Row:
    return Row(key, title, unit, True, reach, aim)


GOALS = Section(
    "Goals",
    (
        _more("produce-1k", "produce 1 KiB, 64 KiB batches, acks=all, 12 partitions", RATE, 1.0, 1.3),
        _more("produce-100b", "produce 100 B, same", RATE, 1.0, 1.3),
        _more("consume-1k", "consume 1 KiB, warm", RATE, 1.0, 1.5),
        _more("consume-100b", "consume 100 B, warm", RATE, 1.0, 1.5),
        _less("rate-raw-p50", "p50 at 5,000 records/s, one a request, raw sockets", "ms", 1.0, 0.5),
        _less("rate-raw-p99", "p99, same", "ms", 1.0, 0.5),
        _less("rate-java-mean", "mean at 5,000 records/s, Java producer, linger 0", "ms", 1.0, 0.5),
        _less("rate-java-p50", "p50, same", "whole ms", 1.0, 0.5),
        _less("rate-java-p99", "p99, same", "whole ms", 1.0, 0.5),
        _more("one-in-flight-1", "one record a request, one in flight, 1 connection", "requests/s", 1.0, 1.5),
        _more("one-in-flight-64", "same, 64 connections", "requests/s", 1.0, 1.5),
        _less("produce-1k" + CPU, "broker CPU, produce 1 KiB", CPU_UNIT, 1.0, 0.5),
        _less("produce-100b" + CPU, "broker CPU, produce 100 B", CPU_UNIT, 1.0, 0.5),
        _less("consume-1k" + CPU, "broker CPU, consume 1 KiB", CPU_UNIT, 1.0, 0.5),
        _less("consume-100b" + CPU, "broker CPU, consume 100 B", CPU_UNIT, 1.0, 0.5),
        _less("memory", "RSS under load", "MB", 1 / 6, 1 / 10),
        _less("start", "exec to first acknowledged record", "s", 1 / 5, 1 / 10),
        _less("partitions-5k-start", "5,000 partitions: clean restart to first acknowledged record", "s", 1.0, 0.5),
        _less("partitions-5k-memory-started", "5,000 partitions: RSS after it", "MB", 1.0, 0.5),
    ),
)

LOOPS = Section(
    "Goals against bare loops that move the same bytes",
    tuple(
        Row(key, title, "MB/s", False, reach, aim, BARE)
        for key, title, reach, aim in (
            ("bare-produce-1", "produce 16 KiB batches of 1 KiB; receive, CRC, write", 0.6, 0.8),
            ("bare-produce-2", "produce 16 KiB batches of 100 B; same", 0.6, 0.8),
            ("bare-fetch-1", "fetch 1 MiB, one in flight; sendfile", 0.7, 0.9),
            ("bare-fetch-2", "fetch 1 MiB, two in flight; same", 0.7, 0.9),
        )
    ),
)

PRODUCE = Section(
    "Produce: one thing varied",
    (
        _more("produce-1k-1-partition", "1 KiB, 1 partition"),
        _more("produce-1k-acks-1", "1 KiB, acks=1, not idempotent"),
        _more("produce-1k-not-idempotent", "1 KiB, acks=all, not idempotent"),
        _more("produce-1k-16k-batches", "1 KiB, the client's default batches of 16 KiB"),
        _more("produce-1k-lz4", "1 KiB, lz4"),
        _more("produce-100b-lz4", "100 B, lz4"),
        _more("produce-100b-lz4-16k-batches", "100 B, lz4, default batches of 16 KiB"),
        _more("produce-10k", "10 KiB"),
        _more("produce-100k", "100 KiB"),
    ),
)

CONSUME = Section(
    "Consume",
    (
        _more("consume-100b-lz4", "100 B, lz4, warm"),
        _more("consume-1k-cold", "1 KiB, cold: from the disk"),
        _more("groups-10", "1 KiB, 10 groups on one topic, all together"),
        _less("tail-50-p50", "50 consumers at the tail, 100 records/s: p50 from producer to each", "ms"),
        _less("tail-50-p99", "p99, same", "ms"),
    ),
)

STATE = Section(
    "Memory, connections, partitions",
    (
        _less("memory-peak", "peak RSS under load", "MB"),
        _less("idle-5k-memory", "5,000 idle connections: each", "KB"),
        _more("idle-5k-requests", "one record a request, one in flight, beside them", "requests/s"),
        _less("partitions-1k-create", "1,000 partitions: create", "s"),
        _less("partitions-1k-metadata", "metadata of all", "ms"),
        _less("partitions-1k-memory", "RSS", "MB"),
        _less("partitions-1k-stop", "clean stop", "s"),
        _less("partitions-1k-start", "clean restart to first acknowledged record", "s"),
        _less("partitions-1k-memory-started", "RSS after it", "MB"),
        _less("partitions-5k-create", "5,000 partitions: create 4,000 more", "s"),
        _less("partitions-5k-metadata", "metadata of all", "ms"),
        _less("partitions-5k-memory", "RSS", "MB"),
        _less("partitions-5k-stop", "clean stop", "s"),
    ),
)

DISK = Section(
    "Stop, start, recovery, compaction",
    (
        _less("recovery", "exec to first acknowledged record after SIGKILL under the records of these loads", "s"),
        _less("clean-stop", "clean stop, same records", "s"),
        _less("clean-start", "exec to first acknowledged record after it", "s"),
        _more("compaction", "compaction of 256 MiB, an eighth stays", "MB/s"),
    ),
)

TUNED = Section(
    "Both tuned",
    (
        _more("tuned-produce-1k", "produce 1 KiB, 64 KiB batches, acks=all, 12 partitions"),
        _more("tuned-produce-100b", "produce 100 B, same"),
        _more("tuned-consume-1k", "consume 1 KiB, warm"),
        _less("tuned-rate-raw-p50", "p50 at 5,000 records/s, one a request, raw sockets", "ms"),
        _less("tuned-rate-raw-p99", "p99, same", "ms"),
        _more("tuned-one-in-flight-1", "one record a request, one in flight, 1 connection", "requests/s"),
        _more("tuned-one-in-flight-64", "same, 64 connections", "requests/s"),
    ),
)

SECTIONS = (GOALS, LOOPS, PRODUCE, CONSUME, STATE, DISK, TUNED)
