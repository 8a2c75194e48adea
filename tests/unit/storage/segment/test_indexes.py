import errno
import os

import pytest

from storage.errors import CorruptIndex
from storage.segment.index_file import MAX_WAITING_ENTRIES
from storage.segment.offset_index import OffsetIndex
from storage.segment.time_index import TimeIndex
from storage.segment.txn_index import AbortedTxn, TxnIndex
from tests.sim.faulty_fs import FaultyFS


def test_index_files_are_rounded_down_to_whole_entries_and_trimmed(fs, tmp_path):
    for max_bytes, offset_bytes, time_bytes in ((300, 296, 300), (100, 96, 96)):
        offsets = OffsetIndex(fs, str(tmp_path / f"{max_bytes}.index"), 0, max_bytes)
        times = TimeIndex(fs, str(tmp_path / f"{max_bytes}.timeindex"), 0, max_bytes)
        offsets.file.make_writable(max_bytes)
        times.file.make_writable(max_bytes)
        assert os.path.getsize(offsets.file.path) == offset_bytes
        assert os.path.getsize(times.file.path) == time_bytes
        offsets.append(5, 100)
        times.maybe_append(7, 5)
        offsets.file.close()
        times.file.close()
        assert os.path.getsize(offsets.file.path) == 8
        assert os.path.getsize(times.file.path) == 12


def test_golden_entries(fs, tmp_path):
    offsets = OffsetIndex(fs, str(tmp_path / "a.index"), 100, 80)
    offsets.file.make_writable(80)
    offsets.append(142, 4096)
    offsets.file.close()
    assert (tmp_path / "a.index").read_bytes().hex() == "0000002a00001000"
    times = TimeIndex(fs, str(tmp_path / "a.timeindex"), 100, 120)
    times.file.make_writable(120)
    times.maybe_append(1_700_000_000_000, 142)
    times.file.close()
    assert (tmp_path / "a.timeindex").read_bytes().hex() == "0000018bcfe568000000002a"


def test_lookup_equals_a_linear_scan_on_both_sides_of_the_page_bound(fs, tmp_path):
    count = 2000
    index = OffsetIndex(fs, str(tmp_path / "a.index"), 1000, 8 * count)
    index.file.make_writable(8 * count)
    entries = [(1000 + 3 * n, 50 * n) for n in range(1, count)]
    for offset, position in entries:
        index.append(offset, position)
    for target in (1000, 1002, 1003, 1004, 2500, 2501, 1000 + 3 * count, 1 << 30):
        expected = max((position for offset, position in entries if offset <= target), default=0)
        assert index.lookup(target) == expected
    for limit in (0, 49, 50, 51, 777, 50 * count):
        assert index.boundary_at_or_before(limit) == max((p for _, p in entries if p <= limit), default=0)


def test_offsets_must_ascend_and_a_full_index_refuses(fs, tmp_path):
    index = OffsetIndex(fs, str(tmp_path / "a.index"), 0, 16)
    index.file.make_writable(16)
    index.append(1, 10)
    with pytest.raises(CorruptIndex):
        index.append(1, 20)
    index.append(2, 20)
    assert index.file.is_full()
    with pytest.raises(CorruptIndex):
        index.append(3, 30)


def test_an_index_that_exists_keeps_room_for_one_entry_whatever_the_settings_say(fs, tmp_path):
    index = OffsetIndex(fs, str(tmp_path / "a.index"), 0, 7)
    index.file.make_writable(7)
    index.append(1, 10)
    assert index.file.is_full()


def test_checks_find_zero_tails_foreign_positions_and_torn_lengths(fs, tmp_path):
    def loaded(content: bytes) -> OffsetIndex:
        path = tmp_path / "b.index"
        path.write_bytes(content)
        index = OffsetIndex(fs, str(path), 10, 800)
        index.load(len(content))
        return index

    good = bytes.fromhex("0000000500000064")
    loaded(good).check(101)
    with pytest.raises(CorruptIndex, match="outside"):
        loaded(good).check(100)
    with pytest.raises(CorruptIndex, match="not above the base"):
        loaded(good + bytes(8)).check(101)
    with pytest.raises(CorruptIndex, match="multiple"):
        loaded(good[:5])


@pytest.mark.parametrize("is_sound", [True, False])
def test_zeros_are_no_entries_of_a_time_index(fs, tmp_path, is_sound):
    path = tmp_path / "b.timeindex"
    path.write_bytes(bytes(12) + (bytes.fromhex("000000000000000900000001") if is_sound else bytes(24)))
    index = TimeIndex(fs, str(path), 0, 800)
    index.load(path.stat().st_size)
    if is_sound:
        index.check()  # from 1970, but in order
    else:
        with pytest.raises(CorruptIndex, match="out of order"):
            index.check()


def test_a_time_before_1970_is_no_entry_of_a_time_index(fs, tmp_path):
    """What has none is not indexed; such an entry would tell that all of a segment is due."""
    path = tmp_path / "b.timeindex"
    path.write_bytes(bytes.fromhex("800000000000000000000001"))
    index = TimeIndex(fs, str(path), 0, 800)
    index.load(12)
    with pytest.raises(CorruptIndex, match="out of order"):
        index.check()


def test_time_index_ignores_what_is_not_newer_and_keeps_a_slot_for_the_roll(fs, tmp_path):
    index = TimeIndex(fs, str(tmp_path / "a.timeindex"), 0, 36)
    index.file.make_writable(36)
    index.maybe_append(5, 1)
    index.maybe_append(5, 2)
    index.maybe_append(4, 3)
    assert index.file.count == 1
    assert not index.is_full_for_roll()
    index.maybe_append(6, 4)
    assert index.is_full_for_roll()
    index.maybe_append(9, 9, is_final=True)
    assert index.lookup(8) == (6, 4)
    assert index.lookup(4) == (-1, 0)
    assert index.lookup(9) == (9, 9)
    index.truncate_to(9)
    assert (index.last_timestamp, index.last_offset) == (6, 4)


def test_truncation_of_a_writable_index_leaves_no_old_bytes_behind(fs, tmp_path):
    index = OffsetIndex(fs, str(tmp_path / "a.index"), 0, 80)
    index.file.make_writable(80)
    for n in range(1, 6):
        index.append(n, n * 10)
    index.truncate_to(3)
    assert index.last_offset == 2
    assert (tmp_path / "a.index").read_bytes()[16:] == bytes(64)


def test_txn_index_collects_what_touches_the_range_and_says_when_to_stop(fs, tmp_path):
    index = TxnIndex(fs, str(tmp_path / "a.txnindex"), 0)
    assert index.entries() == []
    assert not (tmp_path / "a.txnindex").exists()
    index.append(AbortedTxn(7, 0, 10, 11))
    index.append(AbortedTxn(8, 5, 20, 30))
    assert index.collect(0, 5) == ([AbortedTxn(7, 0, 10, 11)], True)
    assert index.collect(11, 40) == ([AbortedTxn(8, 5, 20, 30)], False)
    index.truncate_to(20)
    assert index.entries() == [AbortedTxn(7, 0, 10, 11)]
    (tmp_path / "a.txnindex").write_bytes(b"\0" * 34)
    with pytest.raises(CorruptIndex):
        index.check()


def waiting_index(fs, tmp_path, count: int) -> OffsetIndex:
    index = OffsetIndex(fs, str(tmp_path / "w.index"), 0, 8000)
    index.file.make_writable(8000)
    for n in range(1, count + 1):
        index.append(n, 100 * n)
    return index


def on_disk(index: OffsetIndex) -> int:
    """Count the entries that the file holds."""
    with open(index.file.path, "rb") as file:
        return len(file.read().rstrip(b"\0") + bytes(7)) // 8


def test_new_entries_wait_until_there_are_dozens(fs, tmp_path):
    index = waiting_index(fs, tmp_path, MAX_WAITING_ENTRIES - 1)
    assert (on_disk(index), index.file.written_bytes) == (0, 0)
    index.append(MAX_WAITING_ENTRIES, 10_000)
    assert on_disk(index) == MAX_WAITING_ENTRIES
    assert index.file.written_bytes == 8 * MAX_WAITING_ENTRIES


@pytest.mark.parametrize(
    "use",
    [
        lambda index: index.file.to_sync(),
        lambda index: index.file.sync(),
        lambda index: index.file.close(),
    ],
)
def test_what_waits_is_written_before_the_file_is_synced_or_trimmed(fs, tmp_path, use):
    index = waiting_index(fs, tmp_path, 5)
    use(index)
    assert on_disk(index) == 5


def test_what_waits_is_read_where_it_is(fs, tmp_path):
    index = waiting_index(fs, tmp_path, MAX_WAITING_ENTRIES + 5)
    last = MAX_WAITING_ENTRIES + 5
    assert [index.lookup(n) for n in (1, last - 6, last - 5, last - 4, last, last + 9)] == [
        100 * n for n in (1, last - 6, last - 5, last - 4, last, last)
    ]
    assert index.boundary_at_or_before(100 * last - 1) == 100 * last - 100
    assert [index.entry(slot) for slot in range(last)] == [(n, 100 * n) for n in range(1, last + 1)]
    assert on_disk(index) == MAX_WAITING_ENTRIES


def test_an_entry_that_cannot_be_written_can_be_dropped(tmp_path):
    fs = FaultyFS()
    index = waiting_index(fs, tmp_path, MAX_WAITING_ENTRIES - 1)
    fs.break_("write", tmp_path, ".index", code=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        index.append(MAX_WAITING_ENTRIES, 10_000)
    index.truncate_to(MAX_WAITING_ENTRIES)
    assert (index.file.count, index.lookup(MAX_WAITING_ENTRIES)) == (MAX_WAITING_ENTRIES - 1, 3100)
    fs.faults.clear()
    index.append(MAX_WAITING_ENTRIES, 10_000)
    assert on_disk(index) == MAX_WAITING_ENTRIES


def test_what_waits_outlives_the_descriptor_and_a_rename(fs, tmp_path):
    index = waiting_index(fs, tmp_path, 5)
    index.file.release()
    os.rename(index.file.path, tmp_path / "renamed.index")
    index.file.rename(str(tmp_path / "renamed.index"))
    index.append(6, 600)
    assert [index.entry(slot) for slot in range(6)] == [(n, 100 * n) for n in range(1, 7)]


def test_what_waits_is_cut_with_the_rest(fs, tmp_path):
    index = waiting_index(fs, tmp_path, MAX_WAITING_ENTRIES + 5)
    index.truncate_to(MAX_WAITING_ENTRIES + 3)
    index.truncate_to(4)
    assert (index.file.count, index.last_offset) == (3, 3)
    index.append(9, 900)
    index.file.close()
    assert on_disk(index) == 4
    index.append(10, 1000)
    index.file.replace(b"\0\0\0\1\0\0\0\2")
    assert index.entry(0) == (1, 2)
