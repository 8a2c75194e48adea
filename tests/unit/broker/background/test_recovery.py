"""Loading and closing in threads: what comes out is what one thread would have made, and one can watch it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.background.recovery import CLOSING_THREADS, PROGRESS_EVERY_MS, Recovery
from broker.runtime.pools import Pools
from config.views import LogConfig
from storage.dirs.manager import LogManager
from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition
from tests.harness.hosted import ManualClock
from tests.sim.logs import append, batch

CONFIG = LogConfig()


class _Timer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class _Scheduler:
    """Notes what is due when, and lets the test do it."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None], _Timer]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Timer:
        self.due.append((delay_ms, callback, _Timer()))
        return self.due[-1][2]


class Start:
    """One start of a broker's logs."""

    def __init__(self, *paths: Path, threads: int = 3) -> None:
        self.clock = ManualClock()
        self.logs = LogManager(PosixFileSystem(), self.clock, SeededRng(1), [str(path) for path in paths])
        self.logs.open_dirs(1)
        self.scheduler = _Scheduler()
        self.pools = Pools()
        self.recovery = Recovery(
            self.logs,
            self.pools,
            self.scheduler,  # type: ignore[arg-type]
            threads,
            self.clock.monotonic_ns,
        )


def fill(*paths: Path, count: int = 20) -> None:
    """Write logs of different length and die."""
    start = Start(*paths)
    start.logs.load_all(lambda tp: CONFIG)
    for number in range(count):
        log = start.logs.create(TopicPartition("t", number), bytes(16), CONFIG)
        for _ in range(number + 1):
            append(log)
    start.logs.close(clean=False)


def state_of(logs: LogManager) -> list[tuple[TopicPartition, str, int, int]]:
    return [(tp, log.path, log.log_end_offset, log.recovery_point) for tp, log in logs.logs.items()]


async def test_threads_and_directories_change_nothing_in_the_result(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    fill(*paths)
    alone = Start(*paths)
    alone.logs.load_all(lambda tp: CONFIG)
    expected, scanned = state_of(alone.logs), alone.logs.stats.scanned_bytes
    alone.logs.close(clean=False)
    assert len(expected) == 20
    for threads in (1, 2, 7):
        start = Start(*paths, threads=threads)
        await start.recovery.load(lambda tp: CONFIG)
        assert state_of(start.logs) == expected
        assert start.logs.stats.scanned_bytes == scanned == 210 * len(batch())
        assert [len(one.workers) for one in start.recovery.directories] == [threads] * 3
        assert start.recovery.where() == ""
        start.logs.close(clean=False)


async def test_a_long_start_says_how_far_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path, count=3)
    start = Start(tmp_path, threads=1)
    seen = []

    def watching(tp: TopicPartition) -> LogConfig:
        start.clock.wall_ms += 1_000
        ((delay_ms, report, _),) = start.scheduler.due[-1:]
        assert delay_ms == PROGRESS_EVERY_MS
        report()
        seen.append(start.recovery.where())
        return CONFIG

    with caplog.at_level("INFO"):
        await start.recovery.load(watching)
    size = len(batch())
    prefix = f"dir={tmp_path} left={{}} of=3 scanned_bytes={{}} of_bytes={6 * size} rate_bytes_per_s={{}}"
    assert seen == [
        prefix.format(3, 0, 0),
        prefix.format(2, size, size // 2) + " estimate_s=10",
        prefix.format(1, 3 * size, size) + " estimate_s=3",
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("loading logs")] == [f"loading logs {line}" for line in seen]
    assert f"logs loaded dir={tmp_path} count=3 clean=False scanned_bytes={6 * size} cut_bytes=0 took_s=3.000" in lines
    assert start.scheduler.due[-1][2].is_cancelled
    assert start.recovery.seconds == 3.0
    start.clock.wall_ms += 60_000
    assert start.recovery.seconds == 3.0
    start.logs.close(clean=False)


@pytest.mark.parametrize(("configured", "closing"), [(2, CLOSING_THREADS), (12, 12)])
async def test_closing_takes_several_threads_or_the_changed_number_of_them_and_leaves_the_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: int, closing: int
) -> None:
    fill(tmp_path, count=closing)
    start = Start(tmp_path, threads=1)
    await start.recovery.load(lambda tp: CONFIG)
    logs = list(start.logs.logs.values())
    together = threading.Barrier(closing)
    close = PartitionLog.close

    def meeting(log: PartitionLog) -> None:
        together.wait(10)  # nobody gets on before all threads are here
        close(log)

    monkeypatch.setattr(PartitionLog, "close", meeting)
    start.recovery.thread_count = configured
    await start.recovery.close()
    assert all(log.is_closed for log in logs)
    assert start.logs.dirs[0].is_online
    again = Start(tmp_path)
    await again.recovery.load(lambda tp: CONFIG)
    assert again.recovery.directories[0].is_clean
    again.logs.close(clean=False)
