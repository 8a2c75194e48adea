"""Lookups by time: the same answer for every window, lazily, and beside a log that goes on."""

import os
import random
import tracemalloc
from itertools import pairwise

import pytest

from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.errors import CorruptRecord, InvalidRecord, LogClosed, StorageFailure
from storage.types import AppendOrigin
from tests.sim.logs import NOW, append, batch, batches_of

WINDOWS = (1, 61, 128, 4096, 64 * 1024, 100 << 20)
SIZE = len(batch())


class CountingFile:
    """Passes reads on and writes down how much was read."""

    def __init__(self, file, counts) -> None:
        self._file, self._counts = file, counts

    def read_at(self, size, position):
        self._counts.append(size)
        return self._file.read_at(size, position)

    def __getattr__(self, name):
        return getattr(self._file, name)


def counted(log, monkeypatch, suffix=".log") -> list[int]:
    """Write down the sizes of all reads of files that are opened from now on."""
    counts: list[int] = []
    real = type(log._state.fs).open

    def opened(fs, path, **options):
        file = real(fs, path, **options)
        return CountingFile(file, counts) if path.endswith(suffix) else file

    monkeypatch.setattr(type(log._state.fs), "open", opened)
    return counts


def filled(open_log, seed: int, **options) -> tuple:
    """Make a log of several segments with times that go up and down, and the list of (offset, timestamp) in it."""
    chance = random.Random(seed)
    log = open_log(segment_bytes=6000, index_interval_bytes=500, **options)
    records = []
    for number in range(60):
        count = chance.randint(1, 9)
        times = [NOW - 100_000 + number * 50 + chance.randint(-400, 400) for _ in range(count)]
        rows = [(b"k", chance.randbytes(chance.randint(0, 300)), (), time) for time in times]
        base = log.log_end_offset
        log.append(bytearray(build_batch(rows, codec=chance.choice((0, 0, 1, 2, 3, 4)))), leader_epoch=0)
        records += [(base + index, time) for index, time in enumerate(times)]
    log.advance_high_watermark(log.log_end_offset)
    assert log.segment_count > 3
    return log, records


def expected(records, timestamp: int, start: int = 0):
    return next(((time, offset) for offset, time in records if time >= timestamp and offset >= start), None)


@pytest.mark.parametrize("window", WINDOWS)
def test_the_answer_does_not_depend_on_the_window(open_log, window):
    log, records = filled(open_log, 3, timestamp_scan_window_bytes=window)
    end = log.log_end_offset
    for start in (0, 77):
        log.increment_log_start_offset(start)
        for timestamp in sorted({time + delta for _, time in records for delta in (-1, 0, 1)}):
            found = log.offset_for_timestamp(timestamp, bound=end)
            assert (found and found[:2]) == expected(records, timestamp, start), timestamp
    newest = max(time for _, time in records)
    assert log.offset_of_max_timestamp(end)[:2] == expected(records, newest)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_was_just_loaded_gives_the_same_answers(open_log, clean):
    log, records = filled(open_log, 5)
    end = log.log_end_offset
    if clean:
        log.close()
    again = open_log(segment_bytes=6000, clean=clean, high_watermark=end, recovery_point=end if clean else 0)
    for _, time in records:
        assert again.offset_for_timestamp(time, bound=end)[:2] == expected(records, time)
    assert again.offset_of_max_timestamp(end)[:2] == expected(records, max(time for _, time in records))
    assert again.offset_for_timestamp(NOW, bound=end) is None


@pytest.mark.parametrize("suffix", [".timeindex", ".index"])
def test_a_damaged_index_makes_a_lookup_longer_and_not_wrong(open_log, suffix):
    log, records = filled(open_log, 6)
    end = log.log_end_offset
    log.close()
    again = open_log(segment_bytes=6000, clean=True, high_watermark=end, validate_on_open=False)
    for name in os.listdir(again.path):
        if name.endswith(suffix):
            path = os.path.join(again.path, name)
            size = os.path.getsize(path)
            with open(path, "r+b") as file:
                file.write(b"\xff" * size)
    for _, time in records[:100:7]:
        assert again.offset_for_timestamp(time, bound=end)[:2] == expected(records, time)


def test_a_batch_larger_than_the_window_and_the_buffer_is_read_whole(open_log, monkeypatch):
    log = open_log(timestamp_scan_window_bytes=128, read_buffer_cap_bytes=1000)
    append(log)
    append(log, 3, value=random.Random(1).randbytes(50_000), timestamp=NOW + 50, codec=4)
    assert log.offset_for_timestamp(NOW + 52, bound=4)[:2] == (NOW + 52, 3)
    sizes = counted(log, monkeypatch)
    assert log.offset_for_timestamp(NOW + 52, bound=4)[:2] == (NOW + 52, 3)
    assert sum(sizes) == log.size_bytes + 128 - SIZE  # the first window ends within a header
    assert sizes[:2] == [128, 128]
    assert sizes[2] == 1000
    assert all(size <= sum(sizes[2:at]) for at, size in enumerate(sizes) if at > 2)


def test_batches_that_cannot_hold_the_record_are_passed_over_unread(open_log, monkeypatch):
    log = open_log(index_interval_bytes=1 << 30, timestamp_scan_window_bytes=100)
    for number in range(5):
        append(log, value=bytes(20_000), timestamp=NOW + number)
    sizes = counted(log, monkeypatch)
    assert log.offset_for_timestamp(NOW + 4, bound=5)[:2] == (NOW + 4, 4)
    assert sum(sizes[:5]) == 500
    assert len(sizes) == 6


@pytest.mark.parametrize("codec", range(5))
def test_the_record_in_the_middle_of_a_batch_is_found_not_its_base(open_log, codec):
    log = open_log()
    append(log, 10, timestamp=NOW, codec=codec)
    assert log.offset_for_timestamp(NOW + 6, bound=10)[:2] == (NOW + 6, 6)


def test_only_records_that_are_decoded_count_against_the_limit(open_log):
    log = open_log()
    small, large = (b"k", b"v" * 50, ()), (b"k", b"v" * 5000, ())
    rows = [(*small, NOW), (*large, NOW + 1), (*small, NOW + 2)]
    log.append(bytearray(build_batch(rows, codec=1)), leader_epoch=0)
    append(log, value=b"v" * 5000, timestamp=NOW + 9)
    log.advance_high_watermark(4)
    log.config = LogConfig(max_decompressed_message_bytes=1000)
    assert log.offset_for_timestamp(NOW, bound=4).offset == 0
    for timestamp in (NOW + 1, NOW + 2):
        with pytest.raises(InvalidRecord, match="5008 bytes exceeds the configured limit of 1000"):
            log.offset_for_timestamp(timestamp, bound=4)
    assert log.offset_for_timestamp(NOW + 3, bound=4).offset == 3
    assert log.offset_of_max_timestamp(4).offset == 3
    log.config = LogConfig(max_decompressed_message_bytes=5008)
    assert log.offset_for_timestamp(NOW + 2, bound=4).offset == 2


def test_the_largest_timestamp_is_decoded_for_too(open_log):
    log = open_log()
    append(log, 2, value=b"v" * 5000, codec=1)
    log.config = LogConfig(max_decompressed_message_bytes=1000)
    with pytest.raises(InvalidRecord):
        log.offset_of_max_timestamp(2)


def test_a_damaged_batch_is_told_of(open_log):
    log = open_log()
    append(log, 5, codec=1)
    with open(os.path.join(log.path, "00000000000000000000.log"), "r+b") as file:
        file.seek(70)
        file.write(bytes(20))
    with pytest.raises(CorruptRecord):
        log.offset_for_timestamp(NOW + 3, bound=5)


# --- beside a log that goes on ---


def test_what_is_known_to_be_nowhere_needs_no_search(open_log):
    log = open_log()
    assert log.time_search(0, bound=0) is log.largest_timestamp_search(0) is None
    append(log, 3)
    assert log.time_search(NOW + 3, bound=3) is None
    assert log.time_search(NOW, bound=0) is None


def test_appends_and_rolls_do_not_disturb_a_search(open_log):
    log = open_log(index_interval_bytes=100)
    for number in range(20):
        append(log, timestamp=NOW + number)
    search = log.time_search(NOW + 7, bound=20)
    largest = log.largest_timestamp_search(20)
    log.roll()
    append(log, timestamp=NOW + 50)
    assert search.run()[:2] == (NOW + 7, 7)
    assert largest.run()[:2] == (NOW + 19, 19)
    assert log.holds(search) and log.holds(largest)


def test_a_segment_that_is_removed_meanwhile_is_noticed(open_log, clock):
    log = open_log(segment_bytes=5 * SIZE, retention_ms=1000)
    for number in range(20):
        append(log, timestamp=NOW + number)
    before, after = log.time_search(NOW + 1, bound=20), log.time_search(NOW + 1, bound=20)
    clock.now += 1010
    removal = log.retain(clock.now)
    assert before.run().offset == 1
    assert not log.holds(before)
    removal.rename()
    log.removed(removal)
    with pytest.raises(LogClosed):
        after.run()
    assert not log.holds(after)
    assert log.time_search(NOW + 1, bound=20).run().offset == log.log_start_offset > 1


def test_truncation_a_moved_log_start_and_the_end_of_the_log_are_noticed(open_log):
    log = open_log()
    for number in range(9):
        append(log, timestamp=NOW + number)
    searches = [log.time_search(NOW + 2, bound=9), log.largest_timestamp_search(9)]
    log.increment_log_start_offset(4)
    assert [log.holds(search) for search in searches] == [False, True]
    searches = [log.time_search(NOW + 2, bound=9), log.largest_timestamp_search(9)]
    log.truncate_to(6)
    assert not any(log.holds(search) for search in searches)
    search = log.time_search(NOW + 2, bound=6)
    assert search.run().offset == 4 and log.holds(search)
    log.close()
    assert search.run().offset == 4 and not log.holds(search)
    with pytest.raises(LogClosed):
        log.time_search(NOW, bound=6)


def test_a_directory_that_is_renamed_meanwhile_is_noticed(open_log):
    log = open_log()
    append(log)
    search = log.time_search(NOW, bound=1)
    moved = log.path + "-moved"
    os.rename(log.path, moved)
    with pytest.raises(LogClosed):
        search.run()
    log.move_to_directory(moved)
    assert not log.holds(search)
    assert log.time_search(NOW, bound=1).run().offset == 0


def test_a_disk_that_fails_is_told_of(open_log, monkeypatch):
    log = open_log()
    append(log)
    search = log.time_search(NOW, bound=1)

    def refuse(*_, **__):
        raise OSError(5, "I/O error")

    monkeypatch.setattr(type(log._state.fs), "open", refuse)
    with pytest.raises(StorageFailure):
        search.run()


# --- the first buffer of a read ---


@pytest.mark.parametrize("cap", [1, 1000, 1 << 20, 1 << 30])
def test_every_cap_gives_the_same_bytes(open_log, cap):
    log = open_log()
    append(log, 40, value=bytes(500))
    found = log.read(0, max_bytes=1 << 30, bound=40, min_one_batch=True)
    data = found.region.read(cap)
    found.region.release()
    assert [header.base_offset for header in batches_of(data)] == [0]
    assert len(data) == log.size_bytes


def test_a_huge_limit_costs_no_memory_beyond_what_there_is(open_log):
    log = open_log(read_buffer_cap_bytes=1 << 20)
    for _ in range(40):
        append(log, value=bytes(1 << 18))
    assert log.size_bytes > 10 << 20
    tracemalloc.start()
    try:
        found = log.read(0, max_bytes=1 << 30, bound=40, min_one_batch=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        assert log.offset_for_timestamp(NOW, bound=40).offset == 0
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert found.size == log.size_bytes
    found.region.release()


def test_a_size_that_is_only_claimed_is_not_allocated(open_log, monkeypatch):
    log = open_log()
    append(log)
    found = log.read(0, max_bytes=1 << 30, bound=1, min_one_batch=True)
    found.region.size = 1 << 30
    sizes = counted(log, monkeypatch)
    found.region._file = CountingFile(found.region._file, sizes)
    assert len(found.region.read(4096)) == log.size_bytes
    assert sizes == [4096]
    found.region.release()


def test_buffers_grow_as_bytes_arrive(open_log):
    log = open_log()
    append(log, 30, value=bytes(1000))
    found = log.read(0, max_bytes=1 << 30, bound=30, min_one_batch=True)
    sizes: list[int] = []
    found.region._file = CountingFile(found.region._file, sizes)
    assert len(found.region.read(1000)) == log.size_bytes
    assert all(b <= 2 * a or a == 1000 for a, b in pairwise(sizes)) and len(sizes) < 8
    found.region.release()


def test_removed_offsets_keep_their_time_index_hits_right(open_log):
    log = open_log(index_interval_bytes=50)
    for base, time in ((0, 1), (9, 5), (20, 5), (31, 9)):
        data = bytes(batch(base_offset=base, leader_epoch=0, timestamp=NOW + time))
        log.append(data, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.advance_high_watermark(log.log_end_offset)
    assert [log.offset_for_timestamp(NOW + t, bound=32).offset for t in (0, 2, 5, 6, 9)] == [0, 9, 9, 31, 31]
