"""Sweep every mutating call of recovery, and crash in the one after it, too: however often it is cut off, it converges.

The directories are what a crash, a lost index or an old broker may leave. Whatever two interrupted starts make of them,
the third one finds the same log as a start that nothing interrupted.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from config.views import LogConfig
from protocol.records.batch import patch_offset_and_epoch
from protocol.records.control import build_marker
from storage.env.clock import SeededRng
from storage.env.fs import FileSystem
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from tests.sim.crash_fs import Crashed, CrashFS
from tests.sim.logs import NOW, TP, append, append_marker, batch, read_all

SIZE = len(batch())
CONFIG = LogConfig(segment_bytes=8 * SIZE, index_interval_bytes=SIZE, segment_index_bytes=600)
FAR = 1 << 31
SECOND_CRASHES = 3


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class StillClock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ns(self) -> int:
        return 0


class Case:
    """A directory and what the checkpoints of the broker say of it."""

    def __init__(self, build: Callable[[str], None], *, recovery_point: int = 0) -> None:
        self.build = build
        self.recovery_point = recovery_point

    def open(self, fs: FileSystem, root: str) -> PartitionLog:
        """Start after an unclean stop."""
        return PartitionLog.open(
            fs,
            StillClock(),
            SeededRng(1),
            os.path.join(root, "t-0"),
            TP,
            CONFIG,
            recovery_point=self.recovery_point,
        )


def path_of(root: str, base: int, kind: str) -> str:
    return os.path.join(root, "t-0", f"{base:020d}{kind}")


def transactions(root: str) -> PartitionLog:
    log = PartitionLog.open(
        PosixFileSystem(), StillClock(), SeededRng(1), os.path.join(root, "t-0"), TP, CONFIG, clean=True
    )
    log.assign_epoch(0)
    for producer_id in range(8):
        for sequence in range(2):
            append(
                log,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
                timestamp=NOW + log.log_end_offset,
                epoch=0,
            )
        append_marker(log, producer_id, is_abort=producer_id % 3 != 2)
    append(log, timestamp=NOW + 1000, epoch=0)
    log.flush()
    return log


def with_lost_indexes(root: str) -> None:
    """Transaction indexes as STOR-11 has them: one deleted where recovery comes by, one cut, one full of zeros."""
    log = transactions(root)
    bases = log_bases(log)
    log.fail()
    with open(path_of(root, bases[0], ".txnindex"), "r+b") as file:
        file.truncate(10)
    with open(path_of(root, bases[1], ".txnindex"), "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.write(bytes(size))
    if os.path.exists(path_of(root, bases[-1], ".txnindex")):
        os.unlink(path_of(root, bases[-1], ".txnindex"))


def with_damage(root: str) -> None:
    """A flipped byte in the middle, with later segments behind it."""
    log = transactions(root)
    middle = log_bases(log)[1]
    log.fail()
    with open(path_of(root, middle, ".log"), "r+b") as file:
        file.seek(2 * SIZE)
        file.write(b"\xff")


def with_overflow(root: str, *, damages_index: bool = False) -> None:
    """One segment with offsets far above its base, a transaction on each side, and its index."""
    os.makedirs(os.path.join(root, "t-0"))
    transactional = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    data = bytearray()
    for offset, producer_id in ((0, 1), (FAR + 1, 2)):
        marker = build_marker(
            is_abort=True, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
        for at, one in ((offset, batch(timestamp=NOW, producer_id=producer_id, **transactional)), (offset + 1, marker)):
            one = bytearray(one)
            patch_offset_and_epoch(one, 0, at, 0)
            data += one
    Path(path_of(root, 0, ".log")).write_bytes(data)
    Path(root, "t-0", "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    entries = [(0, 1, 0, 1, 2), (0, 2, FAR + 1, FAR + 2, FAR + 3)]
    Path(path_of(root, 0, ".txnindex")).write_bytes(b"".join(struct.pack(">hqqqq", *entry) for entry in entries))
    if damages_index:
        Path(path_of(root, 0, ".txnindex")).write_bytes(bytes(68))


def log_bases(log: PartitionLog) -> list[int]:
    return sorted(int(path.stem) for path in Path(log.path).glob("*.log"))


def contents(log: PartitionLog) -> tuple[object, ...]:
    """What readers and producers see of a log."""
    log.advance_high_watermark(log.log_end_offset)
    return (
        read_all(log),
        log.log_end_offset,
        log.last_stable_offset,
        log.transactions.aborted(0, log.log_end_offset),
        log.epoch_entries(),
        [repr(entry) for entry in log.active_producers()],
        log_bases(log),
    )


CASES = {
    "lost transaction indexes": Case(with_lost_indexes, recovery_point=20),
    "lost transaction indexes, nothing checkpointed": Case(with_lost_indexes),
    "damage in the middle": Case(with_damage),
    "an overflowing segment": Case(with_overflow),
    "an overflowing segment below the recovery point": Case(with_overflow, recovery_point=FAR + 9),
    "an overflowing segment with an unusable index": Case(
        partial(with_overflow, damages_index=True), recovery_point=FAR + 9
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_interrupted_recovery_converges(name, tmp_path):
    case = CASES[name]
    origin = str(tmp_path / "origin")
    case.build(origin)
    CrashFS(origin).aftermath(str(tmp_path / "undisturbed"), 1)
    counting = CrashFS(str(tmp_path / "undisturbed"))
    log = case.open(counting, str(tmp_path / "undisturbed"))
    expected = contents(log)
    assert expected[3], "there is something to lose"
    log.fail()
    assert counting.calls > 0
    for crash_at in range(counting.calls):
        chance = random.Random(crash_at)
        first = crash(case, origin, tmp_path / "first", crash_at, seed=chance.randrange(1000))
        for second in range(SECOND_CRASHES):
            again = crash(case, first, tmp_path / "second", chance.randrange(30), seed=chance.randrange(1000))
            log = case.open(PosixFileSystem(), again)
            assert contents(log) == expected, f"crash_at={crash_at} second={second}"
            assert not [one for one in os.listdir(log.path) if one.endswith((".cleaned", ".swap", ".tmp"))]
            log.fail()


def crash(case: Case, source: str, target: Path, crash_at: int, *, seed: int) -> str:
    """Start on a copy of `source`, die at a call if it comes to it, and return what a restart finds."""
    CrashFS(source).aftermath(str(target), 1)
    crashing = CrashFS(str(target), crash_at=crash_at)
    with suppress(Crashed):
        case.open(crashing, str(target)).fail()
    after = f"{target}-after"
    crashing.aftermath(after, seed)
    return after
