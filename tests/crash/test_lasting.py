"""What a flush has promised outlives a power failure, also where a roll, a kill, a recovery or a cut came before it.

Each test does a short story on a simulated disk, then lets the machine stop at its end with many seeds, since each
chooses differently what of the unsynced survives.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from config.views import LogConfig
from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from tests.crash.test_log_crashes import StillClock
from tests.sim.crash_fs import Crashed, CrashFS
from tests.sim.logs import NOW, TP, append, append_marker, batch, batches_of, offsets_of, read_all

SIZE = len(batch())
CONFIG = LogConfig(segment_bytes=4 * SIZE, index_interval_bytes=10 * SIZE, segment_index_bytes=1200)
SEEDS = range(int(os.environ.get("SEED", "1")), int(os.environ.get("SEED", "1")) + 60)


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class Disk:
    """A simulated disk, and what restarts find on it."""

    def __init__(self, tmp_path: Path) -> None:
        self._tmp_path = tmp_path
        (tmp_path / "disk").mkdir(parents=True)
        self.fs = CrashFS(str(tmp_path / "disk"))
        self.recovery_point = 0  # as the checkpoint has it

    def open(self, config: LogConfig = CONFIG, *, clean: bool = False) -> PartitionLog:
        return self._open(self.fs, str(self._tmp_path / "disk"), config, clean=clean)

    def _open(self, fs, root: str, config: LogConfig, *, clean: bool = False) -> PartitionLog:
        return PartitionLog.open(
            fs,
            StillClock(),
            SeededRng(1),
            os.path.join(root, "t-0"),
            TP,
            config,
            recovery_point=self.recovery_point,
            clean=clean,
        )

    def flush(self, log: PartitionLog) -> None:
        log.flush()
        self.recovery_point = log.recovery_point

    def after_power_failures(self, check: Callable[[PartitionLog], None], config: LogConfig = CONFIG) -> None:
        for seed in SEEDS:
            after = str(self._tmp_path / "after")
            self.fs.aftermath(after, seed)
            log = self._open(PosixFileSystem(), after, config)
            log.advance_high_watermark(log.log_end_offset)
            try:
                check(log)
            except AssertionError as error:
                raise AssertionError(f"SEED={seed}: {error}") from error
            finally:
                log.fail()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    yield Disk(tmp_path)


def put(log: PartitionLog, count: int, *, epoch: int = 0) -> None:
    for _ in range(count):
        append(log, timestamp=NOW + log.log_end_offset, epoch=epoch)


def find_all_by_time(log: PartitionLog) -> None:
    for offset in range(log.log_end_offset):
        found = log.offset_for_timestamp(NOW + offset, bound=log.log_end_offset)
        assert found is not None and found.offset == offset, (offset, found)


def test_a_flushed_log_keeps_its_directory(disk):
    log = disk.open()
    put(log, 3)
    disk.flush(log)
    disk.after_power_failures(lambda one: _is_whole(one, 3))


def test_a_flush_after_a_kill_makes_a_directory_last_that_was_never_flushed(disk):
    log = disk.open()
    put(log, 1)
    log.fail()
    log = disk.open()
    put(log, 2)
    disk.flush(log)
    disk.after_power_failures(lambda one: _is_whole(one, 3))


@pytest.mark.parametrize("is_flushed_again", [False, True])
def test_a_segment_that_was_flushed_before_it_was_rolled_keeps_its_newest_timestamp(disk, is_flushed_again):
    log = disk.open()
    put(log, 3)
    disk.flush(log)
    log.roll()
    if is_flushed_again:
        put(log, 1)
        disk.flush(log)
        log.roll()
        put(log, 1)
        disk.flush(log)
    disk.after_power_failures(find_all_by_time)


def test_a_flush_that_was_planned_before_a_roll_and_ends_after_it_leaves_the_seal_to_the_next_one(disk):
    log = disk.open()
    put(log, 3)
    plan = log.durability.flush_plan()
    assert plan is not None
    plan.run()
    log.roll()
    log.durability.flushed(plan)
    put(log, 1)
    disk.flush(log)
    log.roll()
    put(log, 1)
    disk.flush(log)
    disk.after_power_failures(find_all_by_time)


def test_a_flush_after_a_kill_makes_names_last_that_were_given_before_it(disk):
    log = disk.open()
    put(log, 3)
    disk.flush(log)
    put(log, 3)  # rolls
    log.fail()
    log = disk.open()
    disk.flush(log)
    assert disk.recovery_point == 6
    disk.after_power_failures(lambda one: _is_whole(one, 6))


def _is_whole(log: PartitionLog, count: int) -> None:
    assert offsets_of(log) == list(range(count))
    find_all_by_time(log)


@pytest.mark.parametrize("is_recovered", [False, True])
def test_a_flush_takes_indexes_that_were_closed_since_they_were_written(disk, is_recovered):
    """Recovery closes what it has written, and so does the bound on open files with an idle segment."""
    config = replace(CONFIG, index_interval_bytes=SIZE)
    log = disk.open(config)
    for timestamp in (0, 9, 3, 4):  # one entry, which says that the second is the newest
        append(log, timestamp=NOW + timestamp)
    if is_recovered:
        log.fail()
        log = disk.open(config)
    else:
        log._state.segments.active.release_files()
    disk.flush(log)
    log.roll()

    def check(one: PartitionLog) -> None:
        found = one.offset_for_timestamp(NOW + 5, bound=4)
        assert found is not None and found.offset == 1

    disk.after_power_failures(check, config)


def test_a_flush_takes_a_transaction_index_that_was_closed_since_it_was_written(disk):
    log = disk.open()
    append(log, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 1, is_abort=True)
    log._state.segments.active.release_files()
    disk.flush(log)
    log.roll()

    def check(one: PartitionLog) -> None:
        assert one.transactions.aborted(0, 2) == [(1, 0)]

    disk.after_power_failures(check)


def test_a_flush_after_a_kill_takes_the_seal_before_it(disk):
    log = disk.open()
    put(log, 3)
    disk.flush(log)
    log.roll()
    log.fail()
    log = disk.open()
    for _ in range(2):
        put(log, 1)
        disk.flush(log)
        log.roll()
    disk.after_power_failures(find_all_by_time)


def test_a_new_beginning_lasts_before_the_log_start_checkpoint_forgets_the_old_one(disk):
    log = disk.open()
    put(log, 3)
    log.roll()
    disk.flush(log)
    log.increment_log_start_offset(2)
    assert log.log_start_to_checkpoint == 2
    log.truncate_fully_and_start_at(10)
    assert log.log_start_to_checkpoint is None

    def check(one: PartitionLog) -> None:
        assert (one.log_start_offset, one.log_end_offset) == (10, 10)

    disk.after_power_failures(check)


def test_epochs_that_recovery_has_found_are_in_the_file_before_the_recovery_point_passes_them(disk):
    log = disk.open()
    put(log, 2)
    log.fail()
    assert not os.path.exists(os.path.join(log.path, "leader-epoch-checkpoint")), "a flush writes it"
    log = disk.open()
    assert log.epoch_entries() == [(0, 0)]
    disk.flush(log)
    disk.after_power_failures(lambda one: _knows(one, [(0, 0)]))


def _knows(log: PartitionLog, entries: list[tuple[int, int]]) -> None:
    assert log.epoch_entries() == entries


def test_epochs_that_recovery_has_found_outlive_a_clean_stop_after_another_leader_was_chosen(disk):
    log = disk.open()
    put(log, 2)
    log.fail()
    assert not os.path.exists(os.path.join(log.path, "leader-epoch-checkpoint")), "a flush writes it"
    log = disk.open()
    log.assign_epoch(1)  # at the log end, without a batch
    log.close()
    assert disk.open(clean=True).epoch_entries() == [(0, 0)]


def test_a_power_failure_after_a_cut_leaves_the_epochs_that_stay(disk):
    log = disk.open()
    for epoch in range(3):
        log.assign_epoch(epoch)
        log.roll()
        put(log, 1, epoch=epoch)
    disk.flush(log)
    log.truncate_to(2)
    disk.recovery_point = 2
    disk.after_power_failures(lambda one: _begins_with(one.epoch_entries(), [(0, 0), (1, 1)]))


def _begins_with(entries: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert entries[: len(expected)] == expected


def test_a_crash_within_a_cut_leaves_no_hole_and_no_batch_without_its_epoch(tmp_path):
    def story(disk: Disk, crash_within: int | None = None) -> int:
        log = disk.open()
        for epoch in range(3):
            log.assign_epoch(epoch)
            put(log, 1, epoch=epoch)
            log.roll()
        disk.flush(log)
        calls = disk.fs.calls
        disk.fs.crash_at = None if crash_within is None else calls + crash_within
        log.truncate_to(1)
        return disk.fs.calls - calls

    def check(log: PartitionLog) -> None:
        assert offsets_of(log) == list(range(log.log_end_offset))
        _has_the_epochs_of_its_batches(log)

    for crash_within in range(story(Disk(tmp_path / "whole"))):
        disk = Disk(tmp_path / str(crash_within))
        with pytest.raises(Crashed):
            story(disk, crash_within)
        disk.after_power_failures(check)


def _has_the_epochs_of_its_batches(log: PartitionLog) -> None:
    for header in batches_of(read_all(log)):
        assert log.epoch_for_offset(header.base_offset) == header.partition_leader_epoch, header


def test_what_was_cut_does_not_come_back_in_the_epoch_that_has_begun_there(disk):
    log = disk.open()
    for epoch in (0, 1):
        log.roll()
        log.assign_epoch(epoch)
        put(log, 1, epoch=epoch)
    disk.flush(log)
    log.truncate_to(1)
    disk.flush(log)
    log.assign_epoch(2)
    put(log, 1, epoch=2)
    disk.after_power_failures(_has_the_epochs_of_its_batches)


def test_what_was_cut_does_not_come_back_below_what_was_appended_since(disk):
    log = disk.open(replace(CONFIG, segment_bytes=100 * SIZE))
    put(log, 4)
    log.roll()
    put(log, 4)
    disk.flush(log)
    log.truncate_to(2)
    disk.recovery_point = 2
    log.roll()
    put(log, 1)
    disk.flush(log)

    def check(one: PartitionLog) -> None:
        assert offsets_of(one) == [0, 1, 2]
        assert one.segment_count == 2

    disk.after_power_failures(check)


def test_a_tail_that_recovery_has_cut_does_not_come_back_below_later_segments(disk):
    log = disk.open()
    put(log, 2)
    disk.flush(log)
    log._state.segments.active.log.open().write_at(bytes(batch())[:40], 2 * SIZE)
    log._state.segments.active.log.open().sync()
    log.fail()
    log = disk.open()
    log.roll()
    put(log, 1)
    disk.flush(log)
    disk.after_power_failures(lambda one: _is_whole(one, 3))


def test_a_tail_that_comes_back_behind_the_last_flush_is_cut_again(disk):
    log = disk.open()
    put(log, 2)
    disk.flush(log)
    segment = log._state.segments.active
    log.roll()
    put(log, 1)
    disk.fs.open(segment.log.path).write_at(bytes(batch())[:40], 2 * SIZE)
    disk.flush(log)
    disk.fs.open(segment.log.path).sync()
    disk.recovery_point = 2
    disk.after_power_failures(lambda one: _is_whole(one, 3))


def test_batches_of_the_segment_after_it_are_no_part_of_a_sealed_segment(disk):
    """A cut that is undone brings back batches whose offsets were given again."""
    log = disk.open()
    put(log, 2)
    disk.flush(log)
    segment = log._state.segments.active
    log.roll()
    put(log, 2)
    again = bytearray(batch())
    again[:8] = (3).to_bytes(8, "big")
    disk.fs.open(segment.log.path).write_at(bytes(again), 2 * SIZE)
    disk.fs.open(segment.log.path).sync()
    disk.flush(log)
    disk.recovery_point = 2

    def check(one: PartitionLog) -> None:
        headers = batches_of(read_all(one))
        assert [header.base_offset for header in headers] == [0, 1, 2, 3]

    disk.after_power_failures(check)
