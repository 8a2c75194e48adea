"""What produce and fetch take of the broker's processor: an immediate topic, and scheduled ones in every state."""

from collections.abc import Iterator
from pathlib import Path

from tests.bench.load import PinnedBroker, Result, connect, pump
from tests.bench.scheduled.topics import FETCH, Usage, batch_at, now_ms, poll_frame, started
from tests.harness import wire
from tests.harness.raw import RawClient, produce_values

REQUESTS = 30_000
PER_BLOCK = 50
WINDOW = 4
DUE, HELD = -60_000, 86_400_000
"""Times from now of what is active, and of what stays pending."""

KINDS = {
    "immediate": ({"delivery_mode": "immediate"}, DUE, False),
    "scheduled, due": ({"delivery_mode": "scheduled"}, DUE, False),
    "scheduled, due, monotonic": ({"delivery_mode": "scheduled", "delivery_schedule_monotonic": "true"}, DUE, False),
    "scheduled, behind a pending batch": ({"delivery_mode": "scheduled"}, DUE, True),
    "scheduled, each pending": ({"delivery_mode": "scheduled"}, HELD, True),
}
"""The topic's keys, the time of what is appended over and over, whether a pending batch is in front of it."""


def run(directory: Path, rounds: int) -> Iterator[Result]:
    """Take the kinds in turn, round after round, on one broker."""
    produced: dict[str, list[float]] = {kind: [] for kind in KINDS}
    fetched: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with started(directory / "cost") as (broker, client):
        for number in range(rounds):
            for kind in KINDS:
                topic = f"{kind.replace(' ', '-').replace(',', '')}-{number}"
                produced[kind].append(_produce(broker, client, kind, topic))
                fetched[kind].append(_fetch(broker, client, topic))
                client.delete_topic(topic)
    for what, samples in (("produce", produced), ("fetch", fetched)):
        yield from (Result(f"{what}: {kind}", "us", samples[kind]) for kind in KINDS)


def _produce(broker: PinnedBroker, client: RawClient, kind: str, topic: str) -> float:
    configs, after_ms, is_behind = KINDS[kind]
    client.create_topic(topic, **configs)
    client.append(topic, batch_at(now_ms() + DUE), acks=1)
    if is_behind:
        client.append(topic, batch_at(now_ms() + HELD), acks=1)
    _, frame = client.frame("produce", 9, **produce_values(topic, {0: batch_at(now_ms() + after_ms)}, acks=1))
    return _through(broker, client, frame)


def _fetch(broker: PinnedBroker, client: RawClient, topic: str) -> float:
    """Fetch one batch from the beginning of the log, which every kind may see."""
    size = len(batch_at(0))
    frame = poll_frame(topic, 0, 0, 0).replace((1 << 20).to_bytes(4, "big"), size.to_bytes(4, "big"))
    client.socket.sendall(frame)
    [[row]] = [entry.partitions for entry in wire.decode_answer("fetch", FETCH, client.receive_frame())[1].responses]
    assert len(row.records) == size
    return _through(broker, client, frame)


def _through(broker: PinnedBroker, client: RawClient, frame: bytes) -> float:
    """Send the request over and over; return the processor time of one."""
    client.socket.sendall(frame)
    answer_size = (len(client.receive_frame()) + 4) * PER_BLOCK
    with connect(client.address) as connection:
        usage = Usage(broker)
        pump(connection, [frame * PER_BLOCK] * (REQUESTS // PER_BLOCK), lambda _: answer_size, WINDOW)
        return usage.cpu_us() / REQUESTS
