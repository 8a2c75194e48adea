"""Fifty consumers that wait at the end of one partition: how long a record takes from its producer to each of them."""

import time

from tests.bench.fleet import Fleet, fleet
from tests.bench.kafka.session import Session
from tests.bench.kafka.wires import TailReader, check_produced, produce_frame

CONSUMERS = 50
INTERVAL_S = 0.01
"""A hundred records a second, five thousand deliveries."""
WARM_UP_RECORDS = 50
RECORDS = 300
MAX_WAIT_MS = 500


def run(session: Session, name: str) -> None:
    """Note p50 and p99 over all deliveries, and the broker's processor time for a million of them."""
    session.client.create_topic(name)
    with fleet(session.address, CONSUMERS + 1) as links:
        readers = [TailReader(name, 0, MAX_WAIT_MS) for _ in range(CONSUMERS)]
        for index, reader in enumerate(readers):
            links.send(index, reader.next_request())
        _deliver(links, readers, name, WARM_UP_RECORDS)
        before = session.cpu_seconds()
        records = session.scaled(RECORDS)
        latencies = sorted(_deliver(links, readers, name, records))
        used = session.cpu_seconds() - before
    session.note(f"{name}-p50", latencies[len(latencies) // 2] * 1e3)
    session.note(f"{name}-p99", latencies[len(latencies) * 99 // 100] * 1e3)
    session.note_cpu(f"{name}-p50", used, len(latencies))
    session.client.delete_topic(name)


def _deliver(links: Fleet, readers: list[TailReader], topic: str, count: int) -> list[float]:
    """Produce so many records at their times; return the seconds from each one's time until each reader had it."""
    producer = len(readers)
    request = produce_frame(topic)
    first_offset = readers[0].offset
    due: list[float] = []
    latencies: list[float] = []
    began = time.perf_counter()
    while len(latencies) < count * len(readers):
        now = time.perf_counter()
        if len(due) < count and now >= (next_s := began + len(due) * INTERVAL_S):
            due.append(next_s)
            links.send(producer, request)
        for index, answer in links.answers(0):
            if index == producer:
                check_produced(answer)
                continue
            reader = readers[index]
            before = reader.offset - first_offset
            got = reader.take(answer)
            now = time.perf_counter()
            latencies += [now - due[before + one] for one in range(got)]
            links.send(index, reader.next_request())
        if now - began > count * INTERVAL_S + 60:
            raise RuntimeError("records did not arrive")
    return latencies
