"""Write-back: 4 GiB appended at full speed, with the window and without, and what the slowest appends took.

One request of 256 KiB is in flight at a time, so what is measured is the append with its trip over loopback and, with
the window, the wait for room. Without the window the kernel decides when it writes, and whoever appends then pays.
The last flush, at the stop, is timed too: it is what the kernel still owed.
"""

import os
import shutil
import statistics
import time
from pathlib import Path

from tests.bench.load import MEBIBYTE, PinnedBroker, Result, connect
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.raw import RawClient, produce_values

VERSION = 9
TOTAL_BYTES = 4096 * MEBIBYTE
BATCH_BYTES = 256 * 1024
MAX_ROUNDS = 2
WINDOW_KEY = "odradek.log.writeback.window.bytes"


def run(directory: Path, rounds: int) -> list[Result]:
    """Measure on a fresh broker for each window and round."""
    results = []
    for name, properties in (("window of 8 MiB", {}), ("no window", {WINDOW_KEY: "0"})):
        samples = [_round(directory / "writeback", properties) for _ in range(min(rounds, MAX_ROUNDS))]
        speed, late, longest, waited, stop = map(list, zip(*samples, strict=True))
        target = "<= 50" if not properties else ""
        results += [
            Result(f"4 GiB appended, {name}", "MB/s", speed),
            Result("  append, p99.9", "ms", late),
            Result("  append, max", "ms", longest, target),
            Result("  appends held up for room, in all", "ms", waited),
            Result("  stop with the last flush", "ms", stop),
        ]
    return results


def _round(directory: Path, properties: dict[str, str]) -> tuple[float, ...]:
    """Give MB/s; in milliseconds the p99.9 and maximum of the appends, the waits for room, and the stop."""
    broker = PinnedBroker(directory)
    broker.properties.update(properties)
    broker.start()
    try:
        with RawClient((broker.host, broker.port), timeout_s=60) as client:
            client.create_topic("t")
            latencies_ms = _append_all(client, _batch())
            assert client.end_offset("t") == len(latencies_ms)
            waited_ms = 1e3 * _metric(broker, "odradek_log_writeback_wait_seconds_total")
        stopped = time.perf_counter()
        broker.stop(timeout_s=60)
        stop_ms = (time.perf_counter() - stopped) * 1e3
    finally:
        broker.close()
        shutil.rmtree(directory, ignore_errors=True)
    speed = TOTAL_BYTES / 1e6 / (sum(latencies_ms) / 1e3)
    return speed, statistics.quantiles(latencies_ms, n=1000)[-1], max(latencies_ms), waited_ms, stop_ms


def _metric(broker: PinnedBroker, name: str) -> float:
    (line,) = (line for line in broker.http_get("/metrics").splitlines() if line.startswith(name + " "))
    return float(line.split()[1])


def _append_all(client: RawClient, batch: bytes) -> list[float]:
    _, frame = client.frame("produce", VERSION, **produce_values("t", {0: batch}, acks=1))
    latencies_ms = []
    clock = time.perf_counter
    with connect(client.address) as connection:
        answer = memoryview(bytearray(1024))
        for _ in range(TOTAL_BYTES // BATCH_BYTES):
            started = clock()
            connection.sendall(frame)
            size = int.from_bytes(_receive(connection, answer, 4), "big")
            _receive(connection, answer, size)
            latencies_ms.append((clock() - started) * 1e3)
    return latencies_ms


def _receive(connection, buffer: memoryview, size: int) -> memoryview:
    got = 0
    while got < size:
        count = connection.recv_into(buffer[got:size])
        if not count:
            raise ConnectionError("closed under load")
        got += count
    return buffer[:size]


def _batch() -> bytes:
    value = os.urandom(BATCH_BYTES - batches.HEADER_SIZE - 16)
    return batches.build([Record(value, timestamp=int(time.time() * 1000))])
