"""5,000 long polls parked at scheduled partitions: what they take, that hidden appends leave them be, their release."""

import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.fleet import Fleet, fleet
from tests.bench.load import PinnedBroker, Result
from tests.bench.scheduled.pending import described, lateness
from tests.bench.scheduled.probe import Probe
from tests.bench.scheduled.topics import Usage, batch_at, fill, now_ms, poll_frame, started, wait_for
from tests.harness.raw import RawClient

POLLS = 5_000
PARTITIONS = 100
APPENDS = 200
"""To each partition, behind its pending batch."""

REST_S = 10.0
TOPIC = "t"
WAIT_MS = 300_000
RELEASE_AFTER_MS = 60_000


def run(directory: Path) -> Iterator[Result]:
    """Park, rest, append, release."""
    with started(directory / "polls") as (broker, client):
        client.create_topic(TOPIC, PARTITIONS, delivery_mode="scheduled")
        at = now_ms() + RELEASE_AFTER_MS
        fill(client, TOPIC, range(PARTITIONS), batch_at(at), 1)
        alone = _appended(broker, client, at)
        before = broker.resident_bytes()
        with fleet(client.address, POLLS) as load:
            connected = broker.resident_bytes()
            _park(load)
            time.sleep(1)
            parked = broker.resident_bytes()
            yield Result(
                f"{POLLS:,} long polls, {PARTITIONS} partitions: a poll", "KB", [(parked - connected) / POLLS / 1e3]
            )
            yield Result("... with its connection", "KB", [(parked - before) / POLLS / 1e3])
            usage = Usage(broker)
            time.sleep(REST_S)
            yield Result("... at rest: wake-ups of the event loop", "/s", [usage.waits_per_s()])
            yield Result("... at rest: of a core", "%", [usage.cpu_percent()])
            beside = _appended(broker, client, at)
            yield Result("append behind a pending batch, nobody parked", "us", [alone])
            yield Result("... 50 long polls parked there", "us", [beside])
            wait_for(at)
            probe, usage = Probe(client.address), Usage(broker)
            late = lateness(load, at)
            cpu_us = usage.cpu_us()
            waits = probe.waits_ms()
        yield from described(f"{POLLS:,} long polls released at once", late)
        yield Result("... longest wait of another client", "ms", waits[-1:])
        yield Result("... processor time for each", "us", [cpu_us / POLLS])


def _park(load: Fleet) -> None:
    for index in range(POLLS):
        load.send(index, poll_frame(TOPIC, index % PARTITIONS, 0, WAIT_MS))


def _appended(broker: PinnedBroker, client: RawClient, at_ms: int) -> float:
    """Append to every partition what nobody may see; return the processor time of one append."""
    usage = Usage(broker)
    fill(client, TOPIC, range(PARTITIONS), batch_at(at_ms), APPENDS)
    return usage.cpu_us() / APPENDS / PARTITIONS
