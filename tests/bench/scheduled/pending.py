"""100,000 pending batches in 100 and in 1,000 partitions: memory, rest, restart, the release of all at one instant.

What they take of memory is seen beside the same batches in an immediate topic.
"""

import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.fleet import Fleet, fleet
from tests.bench.load import PinnedBroker, Result
from tests.bench.scheduled.probe import Probe
from tests.bench.scheduled.topics import (
    UNCERTAINTY_MS,
    Usage,
    batch_at,
    fill,
    now_ms,
    poll_frame,
    restart,
    started,
    until_right,
    visible_ends,
    wait_for,
)
from tests.harness.raw import RawClient
from tests.harness.scraped import scrape

BATCHES = 100_000
ACTIVE = 10
"""Batches of each partition that are visible, in front of the pending ones."""

DAY_MS = 86_400_000
REST_S = 10.0
RESTARTS = 3
TOPIC = "t"
WAKE_UPS = "odradek_delivery_scheduler_wakeups_total"
SETTLED_S = 1.0


def run(directory: Path) -> Iterator[Result]:
    """Measure each number of partitions on brokers of its own."""
    for partitions in (100, 1_000):
        yield from _held(directory / f"held-{partitions}", partitions)
        yield from _released(directory / f"released-{partitions}", partitions)


def _held(directory: Path, partitions: int) -> Iterator[Result]:
    """Pending batches that stay pending; beside them as many visible ones of an immediate topic."""
    ends = {"immediate": ACTIVE + BATCHES // partitions, "scheduled": ACTIVE}
    grown: dict[str, int] = {}
    ready: dict[str, list[float]] = {}
    right: dict[str, list[float]] = {}
    for mode, end in ends.items():
        with started(directory / mode) as (broker, client):
            grown[mode] = _take_in(broker, client, partitions, mode)
            if mode == "scheduled":
                yield Result(f"{BATCHES:,} pending, {partitions:,} partitions: memory", "MB", [grown[mode] / 1e6])
                each = (grown["scheduled"] - grown["immediate"]) / BATCHES
                yield Result("... each, beyond an immediate topic's", "bytes", [each], "~ 0")
                yield from _rest(broker)
            is_right = partial(_ends_at, partitions=partitions, end=end)
            again = [restart(broker, is_right) for _ in range(RESTARTS)]
            ready[mode], right[mode] = ([seconds[part] for seconds in again] for part in (0, 1))
    for what, seconds in (("restart after SIGKILL: ready", ready), ("exec to all watermarks right", right)):
        yield Result(f"... {what}", "s", seconds["scheduled"], "<= 2")
        yield Result("...... of an immediate topic", "s", seconds["immediate"])


def _ends_at(client: RawClient, *, partitions: int, end: int) -> bool:
    return visible_ends(client, TOPIC, partitions) == [end] * partitions


def _take_in(broker: PinnedBroker, client: RawClient, partitions: int, mode: str) -> int:
    """Fill the partitions; return by how much the broker has grown."""
    client.create_topic(TOPIC, partitions, delivery_mode=mode, message_timestamp_after_max_ms=str(2 * DAY_MS))
    now, numbers = now_ms(), range(partitions)
    fill(client, TOPIC, numbers, batch_at(now - 60_000), ACTIVE)
    time.sleep(SETTLED_S)
    before = broker.resident_bytes()
    fill(client, TOPIC, numbers, batch_at(now + DAY_MS), BATCHES // partitions)
    time.sleep(SETTLED_S)
    return broker.resident_bytes() - before


def _rest(broker: PinnedBroker) -> Iterator[Result]:
    before = scrape(broker)
    usage = Usage(broker)
    time.sleep(REST_S)
    percent, waits = usage.cpu_percent(), usage.waits_per_s()
    passes = _total(scrape(broker), WAKE_UPS) - _total(before, WAKE_UPS)
    yield Result("... at rest: passes of the scheduler", "/s", [passes / REST_S], "<= 1")
    yield Result("... at rest: wake-ups of the event loop", "/s", [waits])
    yield Result("... at rest: of a core", "%", [percent])


def _total(page: dict[str, dict[frozenset[tuple[str, str]], float]], name: str) -> float:
    return sum(page[name].values())


def _released(directory: Path, partitions: int) -> Iterator[Result]:
    """All of them due at one instant, a long poll parked at each partition."""
    with started(directory) as (_, client):
        client.create_topic(TOPIC, partitions, delivery_mode="scheduled")
        at = now_ms() + 8_000 + 10 * partitions
        fill(client, TOPIC, range(partitions), batch_at(at), BATCHES // partitions)
        with fleet(client.address, partitions) as load:
            for index in range(partitions):
                load.send(index, poll_frame(TOPIC, index, 0, 120_000))
            wait_for(at)
            probe = Probe(client.address)
            late = lateness(load, at)
            until_right(client, TOPIC, partitions, BATCHES // partitions)
            right = now_ms() - at - UNCERTAINTY_MS
            waits = probe.waits_ms()
        yield from described(f"{BATCHES:,} due at once, {partitions:,} partitions", late)
        yield Result("... all watermarks right, after due", "ms", [right])
        yield Result("... longest wait of another client", "ms", waits[-1:])


def lateness(load: Fleet, at_ms: int) -> list[float]:
    """Receive one answer on each connection; return by how much after their time they came, in milliseconds."""
    due_ms = at_ms + UNCERTAINTY_MS
    late: list[float] = []
    while len(late) < len(load):
        for _, answer in load.answers():
            late.append(time.time() * 1000 - due_ms)
            assert len(answer) > 100, "answered without a record"
    assert min(late) >= 0, f"early by {-min(late)} ms"
    return late


def described(name: str, late: list[float]) -> Iterator[Result]:
    """Give the rows of a release."""
    cuts = statistics.quantiles(late, n=100)
    yield Result(f"{name}: first seen, p50", "ms", [cuts[49]])
    yield Result("... p99", "ms", [cuts[98]])
    yield Result("... max", "ms", [max(late)])
