"""Latency of a Java producer at a fixed rate of 5,000 records a second, which sends each record at once."""

from tests.bench.kafka.session import Session

COUNT = 30_000
WARM_UP = 5_000
PER_SECOND = 5_000
PROPERTIES = {"acks": "all", "linger.ms": "0"}
PARTITIONS = 12


def run(session: Session, name: str) -> None:
    """Note the mean, and p50 and p99 in whole milliseconds, which is what the tool gives."""
    count = session.scaled(COUNT)
    session.client.create_topic(name, PARTITIONS)
    before = session.cpu_seconds()
    produced = session.tools.produce(
        name,
        count=count,
        record_size=1024,
        warm_up=min(WARM_UP, count // 3),
        per_second=PER_SECOND,
        properties=PROPERTIES,
    )
    used = session.cpu_seconds() - before
    session.check_held(name, PARTITIONS, count)
    session.note(f"{name}-mean", produced.mean_ms)
    session.note(f"{name}-p50", produced.p50_ms)
    session.note(f"{name}-p99", produced.p99_ms)
    session.note_cpu(f"{name}-mean", used, count)
    session.client.delete_topic(name)
