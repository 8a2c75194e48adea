"""What the benchmarks of scheduled topics share: filling partitions, asking for what is visible, what a broker used."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.load import PinnedBroker
from tests.bench.members import frame
from tests.harness.batches import Record, build
from tests.harness.raw import ConnectionClosed, RawClient, eventually, fetch_row, fetch_values, produce_values

UNCERTAINTY_MS = 250
"""The default of odradek.log.delivery.clock.uncertainty.ms."""

FETCH = 11
_PRODUCE = 9
_PER_REQUEST = 200
_WINDOW = 8
_PATIENCE_S = 60.0


@contextmanager
def started(directory: Path) -> Iterator[tuple[PinnedBroker, RawClient]]:
    """Give a running broker on a directory of its own, and a client."""
    broker = PinnedBroker(directory)
    broker.start()
    try:
        with RawClient((broker.host, broker.port), timeout_s=_PATIENCE_S) as client:
            yield broker, client
    finally:
        broker.close()


def now_ms() -> int:
    """Read the wall clock."""
    return time.time_ns() // 1_000_000


def wait_for(at_ms: int) -> None:
    """Sleep until shortly before a moment, which must still be to come."""
    left_s = (at_ms - now_ms()) / 1000
    assert left_s > 0, "filling took too long on this machine"
    time.sleep(max(0.0, left_s - 0.5))


def batch_at(timestamp_ms: int, size: int = 100) -> bytes:
    """Build a batch of one record that wants to be delivered then."""
    return build([Record(os.urandom(size), timestamp=timestamp_ms)])


def fill(client: RawClient, topic: str, partitions: Sequence[int], batch: bytes, count: int) -> None:
    """Append the batch so often to each partition."""
    groups = [partitions[first : first + _PER_REQUEST] for first in range(0, len(partitions), _PER_REQUEST)]
    frames = [
        frame("produce", _PRODUCE, **produce_values(topic, dict.fromkeys(group, batch), acks=1)) for group in groups
    ]
    waiting = 0
    for number in range(count * len(frames)):
        client.socket.sendall(frames[number % len(frames)])
        waiting += 1
        if waiting == _WINDOW or number == count * len(frames) - 1:
            for _ in range(waiting):
                _, answer = client.receive("produce", _PRODUCE)
                rows = answer.responses[0].partition_responses
                assert all(row.error_code == 0 for row in rows), rows[0]
            waiting = 0


def visible_ends(client: RawClient, topic: str, partitions: int) -> list[int]:
    """Ask for the latest offset of every partition."""
    rows = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    answer = client.request("list_offsets", 1, replica_id=-1, topics=[{"name": topic, "partitions": rows}])
    found = {row.partition_index: row.offset for row in answer.topics[0].partitions if not row.error_code}
    return [found.get(index, -1) for index in range(partitions)]


def until_right(client: RawClient, topic: str, partitions: int, end: int) -> None:
    """Ask until every partition is visible up to the offset `end`."""
    wanted = [end] * partitions
    eventually(lambda: visible_ends(client, topic, partitions) == wanted, every_s=0.002, what=f"visible ends {end}")


def poll_frame(topic: str, partition: int, offset: int, max_wait_ms: int) -> bytes:
    """Encode a long poll of one partition."""
    row = fetch_row(partition, offset, partition_max_bytes=1 << 20)
    wanted = [{"topic": topic, "partitions": [row]}]
    return frame("fetch", FETCH, **fetch_values(wanted, version=FETCH, max_wait_ms=max_wait_ms, max_bytes=1 << 20))


def restart(broker: PinnedBroker, is_right: Callable[[RawClient], bool]) -> tuple[float, float]:
    """Kill the broker and start it; return the seconds until it is ready, and until what it shows is right.

    The first is what the ready line says, from the first instruction of ours; the second begins with the exec.
    """
    broker.kill()
    began = time.perf_counter()
    broker.launch()
    while True:
        assert time.perf_counter() - began < _PATIENCE_S, "not right in time"
        try:
            with RawClient((broker.host, broker.port)) as client:
                while not is_right(client):
                    time.sleep(0.002)
            break
        except (ConnectionClosed, OSError):
            time.sleep(0.002)
    right_s = time.perf_counter() - began
    broker.wait_ready()
    found = re.search(r"Kafka Server started .* took_s=([\d.]+)", broker.log_text())
    assert found is not None
    return float(found[1]), right_s


class Usage:
    """What a broker has used since this was made: processor time of all its threads, waits of its main thread."""

    def __init__(self, broker: PinnedBroker) -> None:
        self._pid = broker.pid
        self._cpu_ns = self._cpu()
        self._waits = self._switches()
        self._began = time.perf_counter()

    def _cpu(self) -> int:
        tasks = Path(f"/proc/{self._pid}/task").glob("*/schedstat")
        return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks)

    def _switches(self) -> int:
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)
        assert found is not None
        return int(found[1])

    def cpu_us(self) -> float:
        """Give the processor time, in microseconds."""
        return (self._cpu() - self._cpu_ns) / 1000

    def cpu_percent(self) -> float:
        """Give the processor time as a part of one core."""
        return self.cpu_us() / 1e4 / (time.perf_counter() - self._began)

    def waits_per_s(self) -> float:
        """Give how often a second the event loop's thread went to sleep, and so was woken."""
        return (self._switches() - self._waits) / (time.perf_counter() - self._began)
