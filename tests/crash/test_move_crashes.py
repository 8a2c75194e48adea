"""Sweep every mutating call of moves between directories, as storage makes them.

Whenever the power fails, a restart finds one log that is whole, under the partition's name or as a copy that the
metadata names; never two logs under the partition's name, nor two copies. The move can then go on and comes to its end.
The metadata is a value here: what is assigned is committed. STRIDE=1 stops at every call, else at every third.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from config.views import LogConfig
from storage.dirs.manager import LogManager
from storage.env.clock import SeededRng
from storage.env.fs import FileSystem
from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition
from tests.sim.crash_fs import Crashed, CrashFS
from tests.sim.log_life import Clock
from tests.sim.logs import append, batch, batches_of
from tests.sim.moves import begin, catch_up

STRIDE = int(os.environ.get("STRIDE", "3"))
SEEDS = range(4)
TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=3 * len(batch()), segment_index_bytes=120, file_delete_delay_ms=0)
PLACES = ("a", "b", "c")
PLAIN, FUTURE = "t-0", "-future"


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class FailingPromotion(CrashFS):
    """Refuses to give a copy the partition's name."""

    def rename(self, source: str, target: str) -> None:
        if source.endswith(FUTURE) and os.path.basename(target) == PLAIN:
            raise OSError(errno.EIO, "as if the disk were broken", source)
        super().rename(source, target)


class Broker:
    """One run of the storage side of a broker, and what outlives it: the metadata and what was promised."""

    def __init__(self, root: Path, named: str, *, flushed: int, fs: FileSystem) -> None:
        self.root = root
        self.named = named  # the directory that the metadata names
        self.flushed = flushed  # below this everything must be there after a crash
        self.fs = fs
        self.manager = LogManager(fs, Clock(), SeededRng(1), [str(root / place) for place in PLACES])
        self.manager.open_dirs(1)

    def load(self) -> None:
        """Start, and correct the metadata where the log lies elsewhere."""
        self.manager.load_all(lambda tp: CONFIG)
        is_current = lambda tp, topic_id: topic_id in (None, TOPIC_ID)  # noqa: E731
        self.manager.settle_rivals(is_current)
        self.manager.settle_futures(is_current, lambda tp: self._id_of(self.named))
        self.named = self.place

    def _id_of(self, place: str) -> bytes:
        return self.manager.dirs[PLACES.index(place)].directory_id

    @property
    def place(self) -> str:
        log_dir = self.manager.dir_of(TP)
        assert log_dir is not None, "there is no log"
        return os.path.basename(log_dir.path)

    @property
    def log(self) -> PartitionLog:
        return self.manager.logs[TP]

    def put(self, count: int) -> None:
        for _ in range(count):
            append(self.log)
        self.log.flush()
        self.flushed = self.log.log_end_offset

    def move(self, place: str) -> None:
        """Begin or resume a move, and swap."""
        self.begin(place)
        self.named = place
        retired = self.manager.retire(TP)
        retired.log_dir.sync()
        try:
            self.manager.promote(TP, retired)
        except StorageFailure:
            self.manager.restore(TP, retired)
            retired.log_dir.sync()
            self.named = self.place
            return
        self.fs.sync_dir(str(self.root / place))
        self.checkpoint()

    def begin(self, place: str) -> None:
        future = self.manager.futures.get(TP)
        if future is not None and future.log_dir.path != str(self.root / place):
            self.manager.drop_future(TP)
            future = None
        if future is None:
            future = begin(self.manager, TP, str(self.root / place))
        catch_up(self.manager, future)

    def checkpoint(self) -> None:
        for write in (
            self.manager.checkpoint_recovery_points,
            self.manager.checkpoint_log_starts,
            self.manager.checkpoint_high_watermarks,
            self.manager.checkpoint_cleaner_offsets,
        ):
            write()

    def purge(self) -> None:
        self.manager.deleted_logs.purge(1 << 60)


def move_and_move_back(broker: Broker) -> None:
    broker.put(2)
    broker.move("b")
    broker.put(2)
    broker.purge()
    broker.move("a")
    broker.purge()
    broker.put(1)


def redirect(broker: Broker) -> None:
    broker.put(2)
    broker.begin("b")
    broker.put(2)
    broker.move("c")
    broker.put(1)
    broker.purge()


def give_up_and_begin_again(broker: Broker) -> None:
    broker.begin("b")
    broker.manager.drop_future(TP)
    broker.put(2)
    broker.begin("b")
    broker.manager.drop_future(TP)
    broker.purge()
    broker.move("b")


def delete(broker: Broker) -> None:
    broker.begin("b")
    broker.flushed = 0
    broker.manager.delete(TP)
    broker.purge()


SCRIPTS = [move_and_move_back, redirect, give_up_and_begin_again]


def prepare(path: Path) -> None:
    """Leave a log of four batches in a, after a clean stop."""
    broker = Broker(path, "a", flushed=0, fs=PosixFileSystem())
    broker.manager.load_all(lambda tp: CONFIG)
    broker.manager.create(TP, TOPIC_ID, CONFIG)
    broker.put(4)
    broker.manager.close()


def offsets_of(log: PartitionLog) -> list[int]:
    offsets: list[int] = []
    while (offset := offsets[-1] + 1 if offsets else log.log_start_offset) < log.log_end_offset:
        found = log.read(offset, max_bytes=1 << 20, bound=log.log_end_offset, min_one_batch=True)
        assert found.region is not None, offset
        offsets += [header.base_offset for header in batches_of(found.region.read())]
        found.region.release()
    return offsets


def check_holes(log: PartitionLog, offsets: list[int], flushed: int) -> None:
    """See that offsets are missing nowhere but at the end of a segment that was not flushed when the power failed."""
    after_a_hole = [after for before, after in pairwise([-1, *offsets]) if after != before + 1]
    assert set(after_a_hole) <= {int(path.stem) for path in Path(log.path).glob("*.log")}, offsets
    assert all(hole > flushed for hole in after_a_hole), (offsets, flushed)
    assert offsets[:flushed] == list(range(flushed)), (offsets, flushed)


def names_in(root: Path) -> list[str]:
    return [name for place in PLACES for name in os.listdir(root / place) if name.startswith("t-0")]


def check_restart(root: Path, crashed: Broker) -> None:
    """Start after the crash: one log, whole; then the move comes to its end, and another start finds one log alone."""
    names = names_in(root)
    assert names.count(PLAIN) <= 1, names
    assert sum(name.endswith(FUTURE) for name in names) <= 1, names
    broker = Broker(root, crashed.named, flushed=crashed.flushed, fs=PosixFileSystem())
    try:
        broker.load()
        end = broker.log.log_end_offset
        assert end >= crashed.flushed, (end, crashed.flushed)
        kept = offsets_of(broker.log)
        check_holes(broker.log, kept, crashed.flushed)
        broker.put(1)
        broker.move("b" if broker.place != "b" else "c")
        broker.purge()
        assert offsets_of(broker.log) == [*kept, end]
    finally:
        broker.manager.close(clean=False)
    assert names_in(root) == [PLAIN]
    again = Broker(root, broker.named, flushed=end + 1, fs=PosixFileSystem())
    try:
        again.load()
        assert (again.place, again.log.log_end_offset) == (broker.named, end + 1)
    finally:
        again.manager.close(clean=False)


def sweep(
    tmp_path: Path,
    script: Callable[[Broker], None],
    seed: int,
    *,
    check: Callable[[Path, Broker], None] = check_restart,
    disk: type[CrashFS] = CrashFS,
) -> None:
    """Run a script to its end, then stop it at one call after the other and see what a restart makes of it."""
    prepare(tmp_path / "prepared")

    def begin() -> Broker:
        root = tmp_path / "disk"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tmp_path / "prepared", root)
        return Broker(root, "a", flushed=4, fs=disk(str(root)))

    def run(broker: Broker) -> None:
        broker.load()
        script(broker)

    whole = begin()
    first = whole.fs.calls
    run(whole)
    whole.manager.close(clean=False)
    assert whole.fs.calls - first > 20
    for crash_at in range(first + seed % STRIDE, whole.fs.calls, STRIDE):
        broker = begin()
        broker.fs.crash_at = crash_at
        with pytest.raises(Crashed):
            run(broker)
        broker.manager.close(clean=False)
        for choice in SEEDS:
            after = tmp_path / "after"
            broker.fs.aftermath(str(after), seed + choice)
            try:
                check(after, broker)
            except BaseException as error:
                raise AssertionError(f"SEED={seed} crash_at={crash_at} of {whole.fs.calls}, {choice=}") from error


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_crash_at_any_call_of_a_move_leaves_one_whole_log(tmp_path, seed, script):
    sweep(tmp_path, script, seed)


def test_a_crash_at_any_call_of_a_swap_that_fails_leaves_one_whole_log(tmp_path, seed):
    """The destination comes back with the restart, as it was."""

    def move_in_vain(broker: Broker) -> None:
        broker.put(1)
        broker.move("b")
        broker.put(2)

    sweep(tmp_path, move_in_vain, seed, disk=FailingPromotion)


def test_a_crash_during_a_deletion_leaves_nothing_that_is_served(tmp_path, seed):
    def check(root: Path, crashed: Broker) -> None:
        broker = Broker(root, "a", flushed=0, fs=PosixFileSystem())
        try:
            broker.manager.load_all(lambda tp: CONFIG)
            for tp in list(broker.manager.logs):
                broker.manager.set_stray(tp)
            broker.manager.settle_futures(lambda tp, topic_id: False, lambda tp: None)
            assert (broker.manager.logs, broker.manager.futures) == ({}, {})
            broker.purge()
        finally:
            broker.manager.close(clean=False)
        assert all(name.endswith("-stray") for name in names_in(root))

    sweep(tmp_path, delete, seed, check=check)
