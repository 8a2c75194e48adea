"""How late scheduled records come: the moment a consumer has one in hand, after the first at which it may be seen.

Ten thousand records a minute, each a batch of its own, their times spread at random; one client after the other reads
them. `bare` is a loop of long polls that decodes little: what is left when there is no client. The part of it that is
the broker's own is what the broker measures itself, from the moment a batch may be seen to that at which it is.
"""

import contextlib
import itertools
import random
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.load import PinnedBroker, Result
from tests.harness import batches, java
from tests.harness.client_host import ClientHost
from tests.harness.raw import RawClient, eventually, fetch_row, fetch_values, produce_values
from tests.harness.readers import MakeReader, Reader, Wanted, now_ms, readers
from tests.harness.scraped import scrape
from tests.harness.sightings import UNCERTAINTY_MS, Place, check_never_early, check_once_in_order, lateness_ms

RECORDS_PER_S = 10_000 / 60
PARTITIONS = 4
FETCH_VERSION = 11
PRODUCE_VERSION = 9
WINDOW = 50
# All records are there before the first is due: so long it takes to append them, and some.
LEAD_PER_RECORD_MS = 0.6
LEAD_MS = 2_000
WAIT_MS = 500
ARRIVED_WITHIN_S = 30
HISTOGRAM = "odradek_delivery_activation_lateness_seconds"
WAKEUPS = "odradek_delivery_scheduler_wakeups_total"
P50 = "p50"
PASSES = "passes of the scheduler"
CORE = "the broker's share of its core"
UNITS = {PASSES: "", CORE: "%"}


class BareReader(Reader):
    """Long polls over a plain socket."""

    def _run(self) -> None:
        host, port = self.bootstrap.split(":")
        offsets = dict.fromkeys(range(self.wanted.partitions), 0)
        with RawClient((host, int(port))) as client:
            self.is_ready = True
            while not self._has_to_stop.is_set():
                rows = [fetch_row(partition, offset) for partition, offset in offsets.items()]
                asked = [{"topic": self.wanted.topic, "partitions": rows}]
                values = fetch_values(asked, version=FETCH_VERSION, max_wait_ms=WAIT_MS)
                answer = client.request("fetch", FETCH_VERSION, **values)
                at_ms = now_ms()
                for row in (row for topic in answer.responses for row in topic.partitions):
                    for batch in batches.parse(row.records or b""):
                        offsets[row.partition_index] = batch.next_offset
                        for record in batch.records():
                            self._note(row.partition_index, record.offset, record.value, at_ms)


def run(directory: Path, rounds: int, *, seconds: float = 60) -> list[Result]:
    """Let every client read what comes due in so many seconds."""
    samples: dict[str, dict[str, list[float]]] = {}
    broker = PinnedBroker(directory / "lateness")
    broker.start()
    try:
        with _clients() as clients:
            for number, (name, make) in itertools.product(range(rounds), clients.items()):
                taken = samples.setdefault(name, {})
                for quantity, value in _read(broker, f"{name}-{number}", make, seconds).items():
                    taken.setdefault(quantity, []).append(value)
    finally:
        broker.close()
    return [
        Result(f"{name if quantity == P50 else '...'} {quantity}", UNITS.get(quantity, "ms"), values)
        for name, taken in samples.items()
        for quantity, values in taken.items()
    ]


@contextlib.contextmanager
def _clients() -> Iterator[dict[str, MakeReader]]:
    """Give the clients there are on this machine."""
    host = ClientHost() if java.missing() is None else None
    try:
        yield {"bare": BareReader, **readers(host, shutil.which("kcat"))}
    finally:
        if host is not None:
            host.close()


def _read(broker: PinnedBroker, topic: str, make: MakeReader, seconds: float) -> dict[str, float]:
    """Send everything, have one client read it, and look at both ends."""
    count = round(seconds * RECORDS_PER_S)
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(topic, PARTITIONS, delivery_mode="scheduled")
        reader = make(broker.bootstrap, Wanted(topic, PARTITIONS))
        try:
            eventually(lambda: reader.is_ready, what=f"{topic} is read")
            first_ms = int(now_ms() + LEAD_MS + count * LEAD_PER_RECORD_MS)
            due_ms = _append(client, topic, _times_ms(first_ms, count, seconds))
            assert now_ms() < first_ms, "some records were due before all had been sent"
            before = _own(broker)
            busy_ns = _cpu_ns(broker)
            time.sleep((first_ms - now_ms()) / 1000 + seconds)
            eventually(lambda: len(reader.seen) >= count, within_s=ARRIVED_WITHIN_S, what=f"all of {topic}")
            busy_ns = _cpu_ns(broker) - busy_ns
            after = _own(broker)
        finally:
            reader.stop()
    check_never_early(reader.seen, due_ms)
    check_once_in_order(reader.seen, {place: "" for place in due_ms})
    late_ms = lateness_ms(reader.seen, due_ms)
    cuts = statistics.quantiles(late_ms, n=100)
    return {
        P50: cuts[49],
        "p99": cuts[98],
        "max": late_ms[-1],
        **_broker_part(before, after),
        CORE: busy_ns / 1e7 / seconds,
    }


def _times_ms(first_ms: int, count: int, seconds: float) -> list[int]:
    """Choose the times, in order: what stands behind a later one would wait for it."""
    rng = random.Random(count)
    return sorted(first_ms + rng.randrange(round(seconds * 1000)) for _ in range(count))


def _append(client: RawClient, topic: str, times_ms: list[int]) -> dict[Place, int]:
    """Send each as a batch, spread over the partitions; return when each place may be seen."""
    due_ms: dict[Place, int] = {}
    ends = [0] * PARTITIONS
    for index, time_ms in enumerate(times_ms):
        partition = index % PARTITIONS
        batch = batches.simple("", timestamp=time_ms)
        client.send("produce", PRODUCE_VERSION, **produce_values(topic, {partition: batch}))
        due_ms[partition, ends[partition]] = time_ms + UNCERTAINTY_MS
        ends[partition] += 1
        if index >= WINDOW:
            client.receive("produce", PRODUCE_VERSION)
    for _ in range(min(WINDOW, len(times_ms))):
        client.receive("produce", PRODUCE_VERSION)
    return due_ms


def _own(broker: PinnedBroker) -> dict[str, float]:
    """Return what the broker counts: activations by how late they were, the sum of it, passes of the scheduler."""
    found = scrape(broker)
    buckets = {f"le {dict(labels)['le']}": value for labels, value in found.get(f"{HISTOGRAM}_bucket", {}).items()}
    sums = {name: sum(found.get(name, {}).values()) for name in (f"{HISTOGRAM}_sum", f"{HISTOGRAM}_count", WAKEUPS)}
    return {**buckets, **sums}


def _broker_part(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Say how late the broker itself was; the bounds are those of its buckets."""
    more = {name: after[name] - before.get(name, 0) for name in after}
    count = more[f"{HISTOGRAM}_count"]
    bounds = sorted((float(name.removeprefix("le ")), value) for name, value in more.items() if name.startswith("le "))

    def under_ms(part: float) -> float:
        return 1000 * next(bound for bound, value in bounds if value >= part * count)

    return {
        "the broker's own, mean": 1000 * more[f"{HISTOGRAM}_sum"] / count,
        "the broker's own, 99 of 100 under": under_ms(0.99),
        "the broker's own, all under": under_ms(1),
        PASSES: more[WAKEUPS],
    }


def _cpu_ns(broker: PinnedBroker) -> int:
    """Return the processor time of all threads of the broker so far."""
    tasks = Path(f"/proc/{broker.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)
