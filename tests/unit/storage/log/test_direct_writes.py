"""Preallocated logs: space, direct writes here and beside the owner, settings that change, what crashes leave."""

import errno
import logging
import os

import pytest

from config.views import LogConfig
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog
from storage.segment.region import FileRegion, MemoryRegion
from tests.sim.crash_fs import CrashFS
from tests.sim.logs import NOW, TP, append, batch, known, offsets_of, read_all

SIZE = len(batch())
BLOCK = 512
SETTINGS = {"preallocate": True, "segment_bytes": 10 * SIZE, "index_interval_bytes": 2 * SIZE}


@pytest.fixture
def open_direct(clock, rng, tmp_path):
    """Open the one log of the test on a file system that always has direct files; every call is a restart."""
    (tmp_path / "t-0").mkdir()

    def opener(*, clean: bool = False, recovery_point: int = 0, **settings) -> PartitionLog:
        fs = CrashFS(str(tmp_path), direct_block_bytes=BLOCK)
        config = LogConfig(**{**SETTINGS, **settings})
        path = str(tmp_path / "t-0")
        return PartitionLog.open(fs, clock, rng, path, TP, config, clean=clean, recovery_point=recovery_point)

    return opener


def log_path(log: PartitionLog, base_offset: int) -> str:
    return os.path.join(log.path, f"{base_offset:020d}.log")


def length(log: PartitionLog, base_offset: int) -> int:
    return os.path.getsize(log_path(log, base_offset))


def read_at(log: PartitionLog, offset: int, max_bytes: int):
    return log.read(offset, max_bytes=max_bytes, bound=log.high_watermark, min_one_batch=True).region


def settle(log: PartitionLog) -> None:
    while (plan := log.direct_writes.plan()) is not None:
        plan.run()
        log.direct_writes.written(plan)
    log.advance_high_watermark(log.log_end_offset)


# --- the real file system ---


def test_space_is_reserved_before_the_first_append_and_given_back_by_the_roll(open_log):
    settings = {"preallocate": True, "segment_bytes": 1 << 20}
    log = open_log(**settings)
    append(log)
    status = os.stat(log_path(log, 0))
    if status.st_blocks * 512 < 1 << 20:
        pytest.skip("the file system of the test directory reserves nothing")
    assert status.st_size < 8192
    append(log, 3)
    written = log.size_bytes
    log.roll()
    status = os.stat(log_path(log, 0))
    assert status.st_size == written
    assert status.st_blocks * 512 <= 8192
    append(log)
    log.close()
    status = os.stat(log_path(log, 4))
    assert (status.st_size, status.st_blocks * 512 <= 8192) == (SIZE, True)
    assert open_log(clean=True, **settings).log_end_offset == 5


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no tmpfs at hand")
def test_a_file_system_in_memory_keeps_the_page_cache(fs, clock, rng):
    path = f"/dev/shm/odradek-test-{os.getpid()}-0"
    log = PartitionLog.open(fs, clock, rng, path, TP, LogConfig(**SETTINGS))
    try:
        for _ in range(25):
            append(log)
        active = log._state.segments.active.log
        assert active.tail is None and active.writer is active.file
        assert offsets_of(log) == list(range(25))
        assert length(log, 0) == 10 * SIZE
    finally:
        log.delete()


# --- what is reserved, written and cut ---


def test_each_segment_asks_once_and_the_file_is_longer_by_less_than_a_block(open_direct):
    log = open_direct()
    for _ in range(25):
        append(log)
    assert log._state.fs.reservations == [(log_path(log, base), 10 * SIZE) for base in (0, 10, 20)]
    assert [length(log, base) for base in (0, 10)] == [10 * SIZE] * 2
    assert length(log, 20) == BLOCK
    assert log._state.segments.active.log.size == 5 * SIZE
    log.close()
    assert length(log, 20) == 5 * SIZE
    log = open_direct(clean=True)
    log.advance_high_watermark(25)
    assert offsets_of(log) == list(range(25))


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSPC])
def test_a_refused_reservation_is_no_error_and_not_asked_for_again(open_direct, monkeypatch, caplog, code):
    caplog.set_level(logging.DEBUG)
    asked = []

    def refuse(file, size):
        asked.append(size)
        raise OSError(code, "refused")

    monkeypatch.setattr("tests.sim.crash_fs.CrashFile.reserve", refuse)
    log = open_direct()
    for _ in range(5):
        append(log)
    log.truncate_to(2)
    append(log)
    assert len(asked) == 1
    level = logging.DEBUG if code == errno.EOPNOTSUPP else logging.WARNING
    assert [record.levelno for record in caplog.records if "no space is reserved" in record.message] == [level]
    assert offsets_of(log) == [0, 1, 2]


def test_a_file_that_cannot_be_opened_past_the_page_cache_is_written_through_it(open_direct, monkeypatch):
    log = open_direct()

    def refuse(path):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(log._state.fs, "open_direct", refuse)
    append(log)
    assert log._state.segments.active.log.tail is None
    assert length(log, 0) == SIZE


def test_a_failed_write_leaves_everything_as_before(open_direct, monkeypatch):
    log = open_direct()
    append(log, 3)
    tail = log._state.segments.active.log.tail
    before = (log.log_end_offset, tail.written, tail.partial, read_all(log))

    def torn(buffers, position):
        content = b"".join(map(bytes, buffers))
        type(tail.direct).write_at(tail.direct, content[:BLOCK].replace(b"v", b"x"), position)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(tail.direct, "writev_at", torn, raising=False)
    with pytest.raises(StorageFailure):
        log.append(batch(20), leader_epoch=0)
    monkeypatch.undo()
    assert (log.log_end_offset, tail.written, tail.partial, read_all(log)) == before
    append(log)
    assert length(log, 0) == BLOCK
    log.fail()
    again = open_direct()
    again.advance_high_watermark(4)
    assert offsets_of(again) == [0, 3]


def test_truncation_cuts_the_file_and_reserves_again(open_direct):
    log = open_direct()
    for n in range(9):
        append(log, timestamp=NOW + n)
    log.truncate_to(4)
    assert length(log, 0) == 4 * SIZE
    append(log, timestamp=NOW + 100)
    assert log._state.fs.reservations == [(log_path(log, 0), 10 * SIZE)] * 2
    assert offsets_of(log) == [0, 1, 2, 3, 4]
    with open(log_path(log, 0), "rb") as file:
        assert file.read()[: 5 * SIZE] == read_all(log)


def test_a_segment_that_becomes_active_again_is_written_past_the_page_cache_too(open_direct):
    log = open_direct()
    for _ in range(15):
        append(log)
    log.truncate_to(7)
    append(log)
    assert log._state.segments.active.log.tail is not None
    assert offsets_of(log) == list(range(8))
    assert length(log, 0) == -(-8 * SIZE // BLOCK) * BLOCK


def test_an_active_segment_whose_files_were_given_back_goes_on_where_it_was(open_direct):
    log = open_direct()
    append(log, 3)
    log._state.segments.active.release_files()
    append(log)
    assert offsets_of(log) == [0, 3]
    log._state.segments.active.release_files()
    size = log.size_bytes
    log.close()
    assert length(log, 0) == size


# --- settings that change ---


def test_the_key_may_be_turned_off_and_on_for_a_live_log(open_direct):
    log = open_direct()
    append(log)
    assert length(log, 0) == BLOCK
    log.config = LogConfig(**{**SETTINGS, "preallocate": False})
    append(log)
    assert length(log, 0) == 2 * SIZE
    log.config = LogConfig(**SETTINGS)
    append(log)
    assert length(log, 0) == BLOCK
    assert offsets_of(log) == [0, 1, 2]
    with open(log_path(log, 0), "rb") as file:
        assert file.read()[: 3 * SIZE] == read_all(log)


def test_a_smaller_tail_cache_lets_go_with_the_next_append(open_direct):
    log = open_direct(segment_bytes=1 << 20)
    for _ in range(6):
        append(log)
    cache = log._state.segments.active.log.tail.cache
    assert cache.start == 0
    log.config = LogConfig(**{**SETTINGS, "segment_bytes": 1 << 20, "tail_cache_bytes": 2 * SIZE})
    append(log)
    assert (cache.start, cache.end) == (5 * SIZE, 7 * SIZE)


# --- reads ---


def test_reads_inside_the_window_come_from_memory_and_others_from_the_file(open_direct):
    log = open_direct(tail_cache_bytes=3 * SIZE)
    for _ in range(8):
        append(log)
    everything = read_all(log)
    inside = read_at(log, 5, 1 << 20)
    assert isinstance(inside, MemoryRegion)
    assert (len(inside), inside.read()) == (3 * SIZE, everything[5 * SIZE :])
    for start in (0, 4):
        across = read_at(log, start, 1 << 20)
        assert isinstance(across, FileRegion)
        assert across.read() == everything[start * SIZE :]
        across.release()
    below = read_at(log, 0, 4 * SIZE)
    assert isinstance(below, FileRegion)
    below.release()


def test_a_sealed_segment_is_read_from_its_file(open_direct):
    log = open_direct()
    for _ in range(11):
        append(log)
    region = read_at(log, 9, 1 << 20)
    assert isinstance(region, FileRegion)
    region.release()
    assert isinstance(read_at(log, 10, 1 << 20), MemoryRegion)


# --- writes beside the owner ---


@pytest.fixture
def deferred(open_direct):
    log = open_direct()
    log.direct_writes.defer()
    return log


def put(log: PartitionLog, count: int = 1) -> None:
    for _ in range(count):
        append(log, timestamp=NOW + log.log_end_offset)


def test_records_lie_above_the_high_watermark_until_they_are_written(deferred):
    put(deferred, 3)
    assert (deferred.log_end_offset, deferred.high_watermark, deferred.direct_writes.written_end_offset) == (3, 0, 0)
    assert length(deferred, 0) == 0
    plan = deferred.direct_writes.plan()
    assert deferred.direct_writes.plan() is None
    put(deferred)
    plan.run()
    assert deferred.high_watermark == 0
    deferred.direct_writes.written(plan)
    deferred.advance_high_watermark(4)
    assert (deferred.high_watermark, deferred.direct_writes.has_unwritten) == (3, True)
    assert offsets_of(deferred) == [0, 1, 2]
    settle(deferred)
    assert (deferred.high_watermark, deferred.direct_writes.has_unwritten) == (4, False)
    assert offsets_of(deferred) == [0, 1, 2, 3]
    assert len(deferred._state.fs.reservations) == 1


def test_a_roll_does_not_wait_for_a_write_and_the_next_plans_write_in_order(deferred):
    put(deferred, 4)
    plan = deferred.direct_writes.plan()
    put(deferred, 21)
    assert deferred.segment_count == 3
    plan.run()
    deferred.direct_writes.written(plan)
    targets = []
    while (plan := deferred.direct_writes.plan()) is not None:
        plan.run()
        deferred.direct_writes.written(plan)
        targets.append(deferred.direct_writes.written_end_offset)
    assert targets == [10, 20, 25]
    assert [length(deferred, base) for base in (0, 10, 20)] == [10 * SIZE, 10 * SIZE, BLOCK]
    deferred.advance_high_watermark(25)
    assert offsets_of(deferred) == list(range(25))
    deferred.close()
    assert length(deferred, 20) == 5 * SIZE


def test_unwritten_records_are_duplicates_and_found_by_time_once_they_are_written(deferred):
    for sequence in range(8):
        deferred.append(
            batch(producer_id=5, producer_epoch=0, base_sequence=sequence, timestamp=NOW + sequence), leader_epoch=0
        )
    repeated = deferred.append(
        batch(producer_id=5, producer_epoch=0, base_sequence=6, timestamp=NOW + 6), leader_epoch=0
    )
    assert (repeated.is_duplicate, repeated.base_offset) == (True, 6)
    assert deferred.offset_for_timestamp(NOW + 5, bound=8) is None
    assert deferred.offset_of_max_timestamp(8) is None
    settle(deferred)
    assert deferred.offset_for_timestamp(NOW + 5, bound=8).offset == 5
    assert deferred.offset_of_max_timestamp(8).offset == 7


def test_a_flush_covers_what_is_written_and_no_more(deferred):
    put(deferred, 2)
    settle(deferred)
    put(deferred, 3)
    plan = deferred.durability.flush_plan()
    plan.run()
    deferred.durability.flushed(plan)
    assert deferred.recovery_point == 2
    deferred.flush()
    assert (deferred.recovery_point, deferred.direct_writes.has_unwritten) == (5, False)


def test_closing_writes_first_and_refuses_while_a_write_runs(open_direct):
    log = open_direct()
    log.direct_writes.defer()
    put(log, 13)
    log.close()
    again = open_direct(clean=True)
    assert again.log_end_offset == 13
    again.direct_writes.defer()
    put(again)
    plan = again.direct_writes.plan()
    with pytest.raises(StorageFailure, match="still running"):
        again.close()
    plan.run()
    again.direct_writes.written(plan)
    assert not again.direct_writes.has_unwritten
    assert open_direct().log_end_offset == 14


def test_a_deleted_log_lets_its_running_write_end(deferred):
    put(deferred, 3)
    plan = deferred.direct_writes.plan()
    deferred.delete()
    plan.run()
    deferred.direct_writes.written(plan)
    assert deferred.direct_writes.plan() is None
    assert not os.path.exists(deferred.path)


def test_truncation_writes_first_and_forgets_what_it_cuts(deferred):
    put(deferred, 15)
    deferred.truncate_to(12)
    assert (deferred.log_end_offset, deferred.direct_writes.written_end_offset) == (12, 12)
    put(deferred)
    assert deferred.direct_writes.written_end_offset == 12
    deferred.truncate_to(3)
    put(deferred)
    assert deferred.direct_writes.written_end_offset == 3
    settle(deferred)
    assert offsets_of(deferred, start=0) == [0, 1, 2, 3]


def test_turning_the_key_off_leaves_once_everything_is_written(deferred):
    put(deferred, 2)
    plan = deferred.direct_writes.plan()
    deferred.config = LogConfig(**{**SETTINGS, "preallocate": False})
    put(deferred)
    plan.run()
    deferred.direct_writes.written(plan)
    settle(deferred)
    assert length(deferred, 0) == 3 * SIZE
    put(deferred)
    assert not deferred.direct_writes.has_unwritten
    assert length(deferred, 0) == 4 * SIZE
    assert offsets_of(deferred) == [0, 1, 2, 3]


@pytest.mark.pure
def test_an_index_that_cannot_be_written_takes_the_append_back_from_memory(deferred, monkeypatch):
    put(deferred, 4)
    plan = deferred.direct_writes.plan()
    segment = deferred._state.segments.active

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(segment.offset_index), "append", refuse)
    with pytest.raises(StorageFailure):
        for _ in range(4):
            put(deferred)
    end = deferred.log_end_offset
    monkeypatch.undo()
    plan.run()
    deferred.direct_writes.written(plan)
    settle(deferred)
    assert offsets_of(deferred) == list(range(end))


# --- crashes ---


def test_a_kill_leaves_zeros_that_recovery_cuts(open_direct):
    log = open_direct()
    for _ in range(7):
        append(log)
    assert length(log, 0) == 2 * BLOCK
    log.fail()
    again = open_direct()
    assert length(again, 0) == 7 * SIZE
    assert again.log_end_offset == 7
    append(again)
    assert offsets_of(again) == list(range(8))


def test_a_kill_between_roll_and_write_leaves_no_hole(open_direct):
    log = open_direct()
    log.direct_writes.defer()
    put(log, 4)
    settle(log)
    put(log, 8)
    assert log.segment_count == 2
    log.fail()
    again = open_direct()
    assert again.log_end_offset == 4
    assert again.segment_count == 1
    append(again)
    assert offsets_of(again) == list(range(5))


@pytest.mark.parametrize("preallocate", [False, True])
def test_a_file_as_long_as_its_segment_opens_as_the_reference_leaves_it(open_direct, preallocate):
    """Apache Kafka sets the length of a preallocated file to segment.bytes; a kill leaves all of its zeros."""
    log = open_direct(preallocate=False)
    for _ in range(6):
        append(log)
    log.fail()
    os.truncate(log_path(log, 0), 1 << 20)
    again = open_direct(preallocate=preallocate, recovery_point=3)
    assert again.log_end_offset == 6
    assert length(again, 0) == 6 * SIZE
    append(again)
    assert offsets_of(again) == list(range(7))


# --- scheduled delivery ---


def test_a_search_for_what_is_pending_passes_nothing_that_is_in_memory_only(open_direct):
    log = open_direct(delivery_mode="scheduled", segment_bytes=3 * SIZE)
    append(log, timestamp=0)
    log.direct_writes.defer()
    for timestamp in (0, NOW + 5000, 0, 0, 0, 0):
        append(log, timestamp=timestamp)
    log.delivery.begin_at(0)
    search = log.delivery.plan_search(NOW)
    assert search.run().offset <= 2
    log.delivery.take(search, search.run())
    log.delivery.advance(NOW)
    assert known(log) == (2, NOW + 5000)
