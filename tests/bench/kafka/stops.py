"""What comes after a stop: a start after SIGKILL with a gibibyte of records, and a clean stop and start of the same."""

import time

from tests.bench.kafka import produce
from tests.bench.kafka.session import Session, reconnect, start

TOPIC = "produce-1k"


def recovery(session: Session, name: str) -> None:
    """Kill the broker; note the seconds from exec to the first record that a topic with data takes."""
    held = produce.filled(session, TOPIC)
    session.broker.kill()
    session.note(name, start(session.broker, TOPIC))
    reconnect(session)
    session.client.wait_for_topic(TOPIC, produce.SHAPES[TOPIC].partitions)
    session.check_held(TOPIC, produce.SHAPES[TOPIC].partitions, held + 1)
    session.filled[TOPIC] += 1


def clean(session: Session, name: str) -> None:
    """Stop the broker properly and start it again; note both in seconds."""
    produce.filled(session, TOPIC)
    began = time.perf_counter()
    session.broker.stop(timeout_s=session.broker.stop_timeout_s)
    session.note(f"{name}-stop", time.perf_counter() - began)
    session.note(f"{name}-start", start(session.broker, TOPIC))
    reconnect(session)
    session.filled[TOPIC] += 1
