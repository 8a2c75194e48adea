"""Resident memory under load: after the produce and consume work of the goals, and the most there was until then."""

from tests.bench.kafka import consume, process
from tests.bench.kafka.session import Session


def run(session: Session, name: str) -> None:
    """Note both in megabytes, once the loads have run."""
    for topic in consume.READS.values():
        if topic not in session.filled:
            raise RuntimeError(f"the load {topic} has not run: choose it as well")
    session.note(name, process.resident_megabytes(session.broker.pid))
    session.note(f"{name}-peak", process.peak_megabytes(session.broker.pid))
