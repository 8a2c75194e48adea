"""Moves: 1 GiB from one log directory to another, and what producers of that partition feel of it.

The steady load is on the partition that moves, so it also meets the moment in which the copy takes over. Once nothing
moves, once under a throttle, once at full speed. The directories are on one file system: the copy reads and writes the
same disk.
"""

import os
import time
from pathlib import Path

from protocol.records.builder import build_batch
from tests.bench import steady
from tests.bench.load import MEBIBYTE, PinnedBroker, Result, connect, pump
from tests.harness.batches import Record, build
from tests.harness.log_dirs import create_in, folders, log_dirs, move, throttle, wait_until_only_in
from tests.harness.raw import RawClient, eventually, produce_values

VERSION = 9
LOG_BYTES = 1024 * MEBIBYTE
THROTTLE_BYTES = 48 * MEBIBYTE
BATCH_RECORDS = 900
IDLE_SECONDS = 10
MAX_ROUNDS = 3
PATIENCE_S = 300


def run(directory: Path, rounds: int) -> list[Result]:
    """Measure on a fresh broker; each round moves the partition there and back."""
    broker = PinnedBroker(directory / "move")
    disks = directory / "disk-0", directory / "disk-1"
    broker.properties.update({**log_dirs(*disks), "log.segment.delete.delay.ms": "0"})
    broker.start()
    phases = ("nothing moves", "throttled move", "move at full speed")
    latencies: dict[str, dict[str, list[float]]] = {name: {"p50": [], "p99": [], "max": []} for name in phases}
    rates: dict[str, list[float]] = {name: [] for name in phases[1:]}
    try:
        with RawClient((broker.host, broker.port), timeout_s=60) as client:
            create_in(client, "t", disks[0])
            _fill(client)
            frame, answer_size = steady.frame_of(
                client, "t", build([Record(os.urandom(100), timestamp=int(time.time() * 1000))])
            )
            with connect(client.address) as connection:
                steady.run(connection, frame, answer_size, steady.for_seconds(1))  # warm
                for _ in range(min(rounds, MAX_ROUNDS)):
                    steady.note(
                        latencies[phases[0]],
                        steady.run(connection, frame, answer_size, steady.for_seconds(IDLE_SECONDS)),
                    )
                    for name, rate, source, destination in (
                        (phases[1], THROTTLE_BYTES, *disks),
                        (phases[2], None, *reversed(disks)),
                    ):
                        throttle(client, rate)
                        size = sum(path.stat().st_size for path in (source / "t-0").glob("*.log"))
                        assert move(client, destination, "t") == 0
                        arrival = _Arrival(destination)
                        steady.note(latencies[name], steady.run(connection, frame, answer_size, arrival))
                        rates[name].append(size / arrival.seconds)
                        wait_until_only_in(client, destination, "t")
                        eventually(lambda there=source: not folders(there, "t"), within_s=PATIENCE_S)
    finally:
        broker.close()
    ratio = [
        100 * moving / still
        for moving, still in zip(latencies[phases[1]]["p99"], latencies[phases[0]]["p99"], strict=True)
    ]
    return [
        Result("1 GiB moved under a throttle, of the rate asked", "%", _of(rates[phases[1]]), "90 to 110"),
        Result("1 GiB moved at full speed", "MB/s", [rate / 1e6 for rate in rates[phases[2]]]),
        *(
            Result(f"1,000 req/s, {phase}, {name}", "ms", samples)
            for phase, of_phase in latencies.items()
            for name, samples in of_phase.items()
        ),
        Result("  p99 during the throttled move, of before", "%", ratio, "<= 300"),
    ]


def _of(rates: list[float]) -> list[float]:
    return [100 * rate / THROTTLE_BYTES for rate in rates]


class _Arrival:
    """Looks at the folder, which gets its name at the end of a move: cheaper than to ask the broker."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "t-0"
        self._begun = time.perf_counter()
        self.seconds = 0.0

    def __call__(self) -> bool:
        if not self.seconds and self._folder.exists():
            self.seconds = time.perf_counter() - self._begun
        return self.seconds > 0


def _fill(client: RawClient) -> None:
    value = os.urandom(990)
    records = [(b"key-%08d" % number, value) for number in range(BATCH_RECORDS)]
    batch = bytes(build_batch(records, timestamp=int(time.time() * 1000)))
    _, frame = client.frame("produce", VERSION, **produce_values("t", {0: batch}, acks=1))
    client.socket.sendall(frame)
    answer_size = len(client.receive_frame()) + 4
    with connect(client.address) as connection:
        pump(connection, [frame] * (LOG_BYTES // len(frame)), lambda _: answer_size, 4)
