"""Produce with Kafka's ProducerPerformance: each shape varies one thing of those the goals are about."""

import dataclasses
from collections.abc import Mapping

from tests.bench.kafka.session import Session

LARGE_BATCHES = {"batch.size": "65536", "linger.ms": "5", "acks": "all"}
WARM_UP_SHARE = 0.15
WARM_UP_AMOUNT = 0.7


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """What is produced and how; the client's other settings are its defaults, so it is idempotent with acks=all."""

    record_size: int
    count: int
    properties: Mapping[str, str]
    partitions: int = 12


SHAPES = {
    "produce-1k-1-partition": Shape(1024, 250_000, LARGE_BATCHES, partitions=1),
    "produce-1k-acks-1": Shape(1024, 350_000, {**LARGE_BATCHES, "acks": "1", "enable.idempotence": "false"}),
    "produce-1k-not-idempotent": Shape(1024, 350_000, {**LARGE_BATCHES, "enable.idempotence": "false"}),
    "produce-1k-16k-batches": Shape(1024, 280_000, {"acks": "all"}),
    "produce-1k-lz4": Shape(1024, 300_000, {**LARGE_BATCHES, "compression.type": "lz4"}),
    "produce-100b-lz4": Shape(100, 1_800_000, {**LARGE_BATCHES, "compression.type": "lz4"}),
    "produce-100b-lz4-16k-batches": Shape(100, 900_000, {"acks": "all", "compression.type": "lz4"}),
    "produce-10k": Shape(10_240, 35_000, LARGE_BATCHES),
    "produce-100k": Shape(102_400, 4_000, LARGE_BATCHES),
    "produce-1k": Shape(1024, 600_000, LARGE_BATCHES),
    "produce-100b": Shape(100, 2_500_000, LARGE_BATCHES),
}
"""In the order in which they run: those of the goals last, when a JVM has compiled all it will."""

KEPT = ("produce-1k", "produce-100b", "produce-100b-lz4")
"""Consumers read these afterwards."""


def run(session: Session, name: str) -> None:
    """Measure a shape on a topic of its own."""
    if name not in KEPT:
        _measure(session, name)
        session.client.delete_topic(name)
    elif name not in session.filled:
        session.filled[name] = _measure(session, name)


def filled(session: Session, name: str) -> int:
    """Have a topic that consumers can read; return its records."""
    run(session, name)
    return session.filled[name]


def _measure(session: Session, name: str) -> int:
    shape = SHAPES[name]
    count = session.scaled(shape.count)
    session.client.create_topic(name, shape.partitions)
    before = session.cpu_seconds()
    produced = session.tools.produce(
        name,
        count=count,
        record_size=shape.record_size,
        warm_up=int(count * WARM_UP_SHARE),
        properties=shape.properties,
    )
    used = session.cpu_seconds() - before
    session.check_held(name, shape.partitions, count)
    session.note(name, produced.rate)
    session.note_cpu(name, used, count)
    return count


def warm_up(session: Session) -> None:
    """Have broker, tools and the compilers of their JVMs work through what is measured later."""
    for number, name in enumerate(("produce-1k", "produce-1k-16k-batches", "produce-100b", "produce-100b-lz4")):
        shape = SHAPES[name]
        topic = f"warm-up-{number}"
        count = session.scaled(int(shape.count * WARM_UP_AMOUNT))
        session.client.create_topic(topic, shape.partitions)
        session.tools.produce(topic, count=count, record_size=shape.record_size, properties=shape.properties)
        session.tools.consume(topic, count=count, group=topic)
        session.client.delete_topic(topic)
