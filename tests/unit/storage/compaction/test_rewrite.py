"""One pass over a real log: which records, batches and files come out."""

import os
from dataclasses import replace

import pytest

from config.views import CleanerConfig
from protocol.records.batch import DELETE_HORIZON_BIT, iter_batches
from protocol.records.builder import build_batch
from storage.compaction.offset_map import SLOT_BYTES
from storage.compaction.rewrite import remove_cleaned
from storage.errors import Uncleanable
from storage.types import AppendOrigin
from tests.sim.cleaning import SMALL, clean, run, stored_batches, stored_records, task_of
from tests.sim.logs import file_names, read_all
from tests.unit.storage.compaction.conftest import COMPACT

CODECS = range(5)


def pairs(log):
    return [(record.offset, record.key, record.value) for record in stored_records(read_all(log))]


def headers(log):
    return [header for header, _ in stored_batches(read_all(log))]


# --- keys and values ---


def test_the_newest_value_of_each_key_stays_at_its_offset(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), roll=True)
    put(log, (b"b", b"2"), (b"c", b"1"), roll=True)
    put(log, (b"a", b"3"))
    result = clean(log, fs, clock)
    assert result.end_offset == 5
    assert pairs(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1"), (5, b"a", b"3")]
    assert log.log_end_offset == 6


def test_small_segments_become_one(open_log, put, fs, clock):
    log = open_log()
    for n in range(5):
        put(log, (b"%d" % n, b"v"), roll=True)
    clean(log, fs, clock)
    assert [name for name in file_names(log) if name.endswith(".log")] == [f"{0:020d}.log", f"{5:020d}.log"]
    assert log.segment_count == 2


def test_batches_that_lose_nothing_keep_their_bytes(open_log, put, fs, clock):
    log = open_log()
    for n in range(40):
        put(log, (b"a%d" % n, b"v"), (b"b%d" % n, b"v" * n), codec=n % 5)
    log.roll()
    put(log, (b"z", b"z"))
    before = read_all(log)
    clean(log, fs, clock)
    assert read_all(log) == before


def test_records_without_a_key_are_dropped_and_counted(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    put(log, (b"a", b"1"), (None, b"x"), (b"", b"2"), roll=True)
    put(log, (None, b"y"), (b"c", b"1"))
    result = clean(log, fs, clock)
    assert pairs(log) == [(0, b"a", b"1"), (2, b"", b"2"), (3, None, b"y"), (4, b"c", b"1")]
    assert result.stats.invalid_records == 1


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_kept_with_headers_and_timestamps(open_log, put, fs, clock, codec):
    log = open_log()
    records = [(b"k%d" % (n % 3), b"v%d" % n * 50, [("h", b"%d" % n)], clock.now + n) for n in range(9)]
    put(log, *records, codec=codec, roll=True)
    put(log, (b"z", b"z"))
    before = [record for record in stored_records(read_all(log)) if record.offset >= 6]
    clean(log, fs, clock)
    assert stored_records(read_all(log)) == before
    assert headers(log)[0].codec == codec


def test_the_clean_part_is_cleaned_of_what_the_dirty_part_supersedes(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"1"), roll=True)
    put(log, (b"a", b"2"), roll=True)
    put(log, (b"z", b"z"))
    result = clean(log, fs, clock, checkpoint=2)
    assert result.end_offset == 3
    assert pairs(log)[:-1] == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_records_above_the_round_are_not_known_to_supersede(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), roll=True)
    put(log, (b"a", b"2"))
    clean(log, fs, clock)
    assert pairs(log) == [(0, b"a", b"1"), (1, b"a", b"2")]


# --- the map is too small ---


@pytest.mark.parametrize("keys", [2, 3, 5, 8])
def test_a_full_map_cleans_less_and_the_next_pass_goes_on(open_log, put, fs, clock, keys):
    """The map is full in the middle of a batch; a pass may end anywhere, and the passes together clean everything."""
    log = open_log()
    for n in range(12):
        put(log, *((b"%d" % (k % 7), b"%d" % n) for k in range(n, n + 5)), roll=n % 2 == 1)
    log.roll()
    put(log, (b"z", b"z"))
    cleaner = SMALL._replace(dedupe_buffer_size=keys * SLOT_BYTES, io_buffer_load_factor=0.9)
    expected = {record.key: record.offset for record in stored_records(read_all(log))}
    checkpoint, passes = 0, 0
    while checkpoint < 60:
        result = clean(log, fs, clock, checkpoint, cleaner)
        assert result.end_offset > checkpoint
        checkpoint, passes = result.end_offset, passes + 1
    assert passes > 1
    left = stored_records(read_all(log))
    assert {record.key: record.offset for record in left} == expected
    if keys >= 8:
        return
    # What is left of superseded records goes once the whole log is dirty again and the map is large enough.
    clean(log, fs, clock)
    assert sorted(record.offset for record in stored_records(read_all(log))) == sorted(expected.values())


def test_nothing_above_the_end_of_the_map_is_lost(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), (b"d", None), roll=True)
    put(log, (b"z", b"z"))
    cleaner = SMALL._replace(dedupe_buffer_size=3 * SLOT_BYTES, io_buffer_load_factor=0.9)
    result = clean(log, fs, clock, cleaner=cleaner)
    assert result.end_offset == 2
    assert [offset for offset, *_ in pairs(log)] == [0, 1, 2, 3, 4, 5]


def test_a_map_without_room_for_one_key_is_an_error(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), roll=True)
    task = task_of(log, clock.now, cleaner=SMALL._replace(dedupe_buffer_size=SLOT_BYTES))
    with pytest.raises(Uncleanable):
        run(task, fs, clock)


# --- tombstones ---


def test_a_tombstone_waits_for_its_horizon(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"k", b"v"), roll=True)
    put(log, (b"k", None), (b"x", b"1"), timestamp=clock.now - 77, roll=True)
    put(log, (b"y", b"1"))
    clean(log, fs, clock)
    first = stored_batches(read_all(log))[0]
    assert first[0].attributes & DELETE_HORIZON_BIT
    assert first[0].base_timestamp == clock.now + 5000
    assert [(record.key, record.value, record.timestamp) for record in first[1]] == [
        (b"k", None, clock.now - 77),
        (b"x", b"1", clock.now - 77),
    ]
    log.roll()
    put(log, (b"z", b"1"))
    clock.now += 4999
    clean(log, fs, clock)
    assert (1, b"k", None) in pairs(log)
    assert headers(log)[0].base_timestamp == first[0].base_timestamp
    clock.now += 1
    clean(log, fs, clock)
    assert [key for _, key, _ in pairs(log)] == [b"x", b"y", b"z"]


def test_a_tombstone_that_a_later_value_supersedes_goes_at_once(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"k", None), (b"k", b"v"), roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    assert pairs(log)[:-1] == [(1, b"k", b"v")]
    assert not headers(log)[0].attributes & DELETE_HORIZON_BIT


def test_without_a_grace_the_next_pass_removes_tombstones(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, delete_retention_ms=0))
    put(log, (b"k", None), (b"l", b"1"), roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    assert (0, b"k", None) in pairs(log)
    clean(log, fs, clock)
    assert (0, b"k", None) not in pairs(log)


def test_tombstones_above_the_end_of_the_map_get_their_horizon_too(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), roll=False)
    put(log, (b"d", None), roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock, cleaner=SMALL._replace(dedupe_buffer_size=2 * SLOT_BYTES))
    assert [header.attributes & DELETE_HORIZON_BIT for header in headers(log)] == [0, DELETE_HORIZON_BIT, 0]


# --- batches without records ---


def test_the_end_of_the_round_stays_as_a_header(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, delete_retention_ms=0))
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"b", None), roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    clean(log, fs, clock)
    first, last, _ = headers(log)
    assert (first.base_offset, last.base_offset, last.record_count, last.base_timestamp) == (0, 2, 0, -1)


def test_the_last_sequence_of_an_active_producer_survives_a_restart(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, delete_retention_ms=0))
    put(log, (b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=0)
    put(log, (b"a", b"2"), (b"a", b"3"), producer_id=7, producer_epoch=1, base_sequence=1, roll=True)
    put(log, (b"a", b"4"), roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    assert [(header.base_offset, header.record_count) for header in headers(log)] == [(1, 0), (3, 1), (4, 1)]
    log.fail()
    for name in file_names(log):
        if name.endswith(".snapshot"):
            os.unlink(os.path.join(log.path, name))
    again = open_log(high_watermark=5)
    batch = build_batch([(b"a", b"5")], producer_id=7, producer_epoch=1, base_sequence=3, timestamp=clock.now)
    assert again.append(batch, leader_epoch=0).base_offset == 5
    retried = build_batch([(b"a", b"2"), (b"a", b"3")], producer_id=7, producer_epoch=1, base_sequence=1)
    assert again.append(retried, leader_epoch=0).is_duplicate


# --- sizes and limits ---


def test_a_batch_larger_than_every_buffer_is_cleaned(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, max_message_bytes=1 << 20))
    put(log, (b"big", b"x" * 300_000), (b"a", b"1"))
    put(log, (b"big2", os.urandom(200_000)), (b"a", b"2"), codec=1, roll=True)
    put(log, (b"z", b"z"))
    log.config = replace(log.config, max_message_bytes=1000)
    clean(log, fs, clock, cleaner=CleanerConfig(io_buffer_size=100))
    assert [(key, len(value)) for _, key, value in pairs(log)] == [
        (b"big", 300_000),
        (b"big2", 200_000),
        (b"a", 1),
        (b"z", 1),
    ]


def test_a_segment_larger_than_segment_bytes_stays_one(open_log, put, fs, clock):
    log = open_log()
    for n in range(20):
        put(log, (b"%d" % n, b"v" * 1000), roll=n == 9)
    log.roll()
    put(log, (b"z", b"z"))
    log.config = replace(log.config, segment_bytes=5000)
    clean(log, fs, clock)
    assert [segment for segment in file_names(log) if segment.endswith(".log")] == [
        f"{base:020d}.log" for base in (0, 10, 20)
    ]
    assert len(pairs(log)) == 21


@pytest.mark.parametrize("where", ["map", "rewrite"])
def test_a_compressed_record_above_the_limit_makes_the_log_uncleanable(open_log, put, fs, clock, where):
    log = open_log()
    put(log, (b"a", b"v" * 2000), codec=1, roll=True)
    put(log, (b"b", b"1"), roll=True)
    put(log, (b"z", b"z"))
    log.config = replace(log.config, max_decompressed_message_bytes=1999)
    before = read_all(log)
    task = task_of(log, clock.now, checkpoint=None if where == "map" else 1)
    with pytest.raises(Uncleanable):
        run(task, fs, clock)
    assert not [name for name in file_names(log) if "cleaned" in name]
    assert read_all(log) == before
    log.config = replace(log.config, max_decompressed_message_bytes=2010)
    clean(log, fs, clock)


def test_uncompressed_records_have_no_such_limit(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, max_decompressed_message_bytes=10))
    put(log, (b"a", b"v" * 2000), roll=True)
    assert clean(log, fs, clock) is not None


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("position", [0, 7, 9, 11, 16, 23, 40, 65])
def test_damage_makes_the_log_uncleanable_instead_of_being_signed(open_log, put, fs, clock, number, position):
    """The checksum does not cover the offset, the length and the magic."""
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    second = log.size_bytes
    put(log, (b"a", b"2"), roll=True)
    put(log, (b"z", b"z"))
    path = os.path.join(log.path, f"{0:020d}.log")
    with open(path, "r+b") as file:
        file.seek(second * number + position)
        file.write(b"\x55")
    task = task_of(log, clock.now)
    with pytest.raises(Uncleanable):
        run(task, fs, clock)
    assert not [name for name in file_names(log) if "cleaned" in name]


def test_offsets_that_are_missing_at_the_end_of_the_dirty_part_count_as_cleaned(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"))
    late = build_batch([(b"b", b"1")], base_offset=100, timestamp=clock.now)
    log.config = replace(log.config, segment_bytes=len(late))
    log.append(late, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.advance_high_watermark(log.log_end_offset)
    assert log.first_segment_base_offset == 0 and log.segment_count == 2
    assert clean(log, fs, clock).end_offset == 100


@pytest.mark.pure  # what is replaced here is bound when it is compiled
def test_a_segment_whose_offsets_its_indexes_cannot_express_is_divided(open_log, put, fs, clock, monkeypatch):
    monkeypatch.setattr("storage.compaction.output.MAX_RELATIVE_OFFSET", 3)
    log = open_log()
    for n in range(8):
        put(log, (b"%d" % n, b"v"), (b"x", b"v"))
    log.roll()
    put(log, (b"z", b"z"))
    before = [record for record in stored_records(read_all(log)) if record.key != b"x" or record.offset == 15]
    clean(log, fs, clock)
    assert stored_records(read_all(log)) == before
    assert [name for name in file_names(log) if name.endswith(".log")] == [
        f"{base:020d}.log" for base in (0, 4, 8, 12, 16)
    ]


@pytest.mark.parametrize("content", [None, b"", b"\0" * 5, b"\0\0\0\1\0\1\0\0"])
def test_a_useless_index_of_the_first_dirty_segment_does_not_matter(open_log, put, fs, clock, content):
    log = open_log(replace(COMPACT, index_interval_bytes=0))
    for n in range(4):
        put(log, (b"a", b"%d" % n))
    log.roll()
    put(log, (b"z", b"z"))
    task = task_of(log, clock.now, checkpoint=2)
    path = os.path.join(log.path, f"{0:020d}.index")
    if content is None:
        os.unlink(path)
    else:
        fs.write_file(path, content)
    assert log.cleaning.install(run(task, fs, clock))
    assert pairs(log) == [(3, b"a", b"3"), (4, b"z", b"z")]


# --- the files ---


def test_the_output_is_as_old_as_the_last_source(open_log, put, fs, clock):
    log = open_log()
    for n in range(3):
        put(log, (b"%d" % n, b"v"), roll=True)
        fs.set_mtime_ms(os.path.join(log.path, f"{n:020d}.log"), 1000 * (n + 1))
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    for kind in ("log", "index", "timeindex"):
        assert fs.mtime_ms(os.path.join(log.path, f"{0:020d}.{kind}")) == 3000


def test_the_indexes_find_everything_after_cleaning_and_after_a_restart(open_log, put, fs, clock):
    log = open_log()
    for n in range(60):
        put(log, (b"%d" % (n % 40), b"v" * 50), (b"u%d" % n, b"w"), timestamp=clock.now + n, roll=n % 10 == 9)
    put(log, (b"z", b"z"), timestamp=clock.now + 100)
    clean(log, fs, clock)

    def check(log):
        left = stored_records(read_all(log))
        assert len({record.key for record in left}) == len(left) == 101
        for offset in range(log.log_end_offset):
            found = log.read(offset, max_bytes=1, bound=log.log_end_offset, min_one_batch=True)
            header = next(header for _, header in iter_batches(found.region.read()))
            found.region.release()
            assert header.last_offset >= offset
            assert header.base_offset <= next(record.offset for record in left if record.offset >= offset)
        for timestamp in range(clock.now, clock.now + 101):
            expected = next(record for record in left if record.timestamp >= timestamp)
            found = log.offset_for_timestamp(timestamp, bound=log.log_end_offset)
            assert (found.timestamp, found.offset) == (expected.timestamp, expected.offset)
        assert log.offset_of_max_timestamp(log.log_end_offset).offset == 120

    check(log)
    log.close()
    check(open_log(clean=True, high_watermark=121))


def test_output_indexes_have_an_entry_each_interval_and_the_final_time(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, index_interval_bytes=100))
    for n in range(10):
        put(log, (b"%d" % n, b"v" * 20), timestamp=clock.now + n)
    log.roll()
    put(log, (b"z", b"z"))
    paths = [os.path.join(log.path, f"{0:020d}.{kind}") for kind in ("log", "index", "timeindex")]
    before = [fs.read_file(path) for path in paths]
    clean(log, fs, clock)
    assert [fs.read_file(path) for path in paths] == before


def test_a_full_index_leaves_the_rest_to_the_scan(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, index_interval_bytes=0, segment_index_bytes=1000))
    for n in range(20):
        put(log, (b"%d" % n, b"v" * 20), timestamp=clock.now + n)
    log.roll()
    put(log, (b"z", b"z"))
    log.config = replace(log.config, segment_index_bytes=36)
    clean(log, fs, clock)
    assert os.path.getsize(os.path.join(log.path, f"{0:020d}.index")) == 32
    assert os.path.getsize(os.path.join(log.path, f"{0:020d}.timeindex")) == 36
    assert len(pairs(log)) == 21


def test_left_over_output_of_an_earlier_pass_is_removed_first(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), roll=True)
    put(log, (b"z", b"z"))
    for kind in ("log", "index", "timeindex", "txnindex"):
        fs.write_file(os.path.join(log.path, f"{0:020d}.{kind}.cleaned"), b"old")
        fs.write_file(os.path.join(log.path, f"{5:020d}.{kind}.cleaned"), b"old")
    clean(log, fs, clock)
    assert not [name for name in file_names(log) if "cleaned" in name]
    assert log.transactions.aborted(0, 10) == []


def test_remove_cleaned_touches_nothing_else(open_log, put, fs):
    log = open_log()
    put(log, (b"a", b"1"), roll=True)
    before = file_names(log)
    fs.write_file(os.path.join(log.path, f"{0:020d}.log.cleaned"), b"x")
    fs.write_file(os.path.join(log.path, "notes.cleaned"), b"x")
    remove_cleaned(fs, log.path)
    assert file_names(log) == sorted([*before, "notes.cleaned"])


def test_progress_is_told_and_finished_groups_with_it(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, segment_bytes=2000))
    for n in range(30):
        put(log, (b"%d" % n, b"v" * 100))
    told = []
    result = run(task_of(log, clock.now), fs, clock, told.append)
    assert tuple(one.finished for one in told if one.finished) == result.groups
    assert len(result.groups) > 1
    assert [one.bytes_read for one in told] == sorted(one.bytes_read for one in told)
    assert {one.bytes_to_read for one in told} == {2 * result.stats.bytes_read}
    assert told[-1].bytes_read == told[-1].bytes_to_read
    assert told[-1].bytes_written == result.stats.bytes_written
    assert result.stats.records_read == result.stats.records_written == result.end_offset


def test_the_clean_part_is_to_be_read_too_and_known_from_the_start(open_log, put, fs, clock):
    log = open_log()
    for n in range(3):
        put(log, (b"%d" % n, b"v" * 100), roll=True)
    told = []
    result = run(task_of(log, clock.now, 2), fs, clock, told.append)
    assert 0 < result.stats.map_bytes_read < result.stats.bytes_read
    assert {one.bytes_to_read for one in told} == {result.stats.map_bytes_read + result.stats.bytes_read}


def test_what_the_index_skips_is_not_to_be_read(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, index_interval_bytes=100))
    for n in range(30):
        put(log, (b"%d" % n, b"v" * 100), roll=n == 29)
    told = []
    result = run(task_of(log, clock.now, 20), fs, clock, told.append)
    assert 0 < result.stats.map_bytes_read < result.stats.bytes_read
    assert {one.bytes_to_read for one in told} == {result.stats.map_bytes_read + result.stats.bytes_read}
