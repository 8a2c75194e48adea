"""What is dirty, what may be cleaned, and which segments become one."""

from dataclasses import replace

import pytest

from config.views import CleanerConfig
from protocol.records.control import build_marker
from storage.compaction.plan import Dirtiness, SegmentSizes, group_segments, is_cleanable
from storage.compaction.task import LastRecord, SourceSegment
from storage.types import AppendOrigin
from tests.unit.storage.compaction.conftest import COMPACT

DAY = 86_400_000


@pytest.fixture
def filled(open_log, put):
    """Five segments with one batch each: bases 0, 2, 4, 6 and the active 8."""

    def filled_(config=COMPACT):
        log = open_log(config)
        for n in range(5):
            put(log, (b"a", b"1"), (b"b", b"1"), roll=n < 4)
        return log

    return filled_


def size_of(log) -> int:
    return log.size_bytes // log.segment_count


def test_everything_below_the_active_segment_is_dirty_at_first(filled, clock):
    log = filled()
    size = size_of(log)
    assert log.cleaning.dirtiness(None, clock.now) == Dirtiness(0, 8, 0, 4 * size, False, 0, False)


def test_the_checkpoint_divides_clean_from_dirty(filled, clock):
    log = filled()
    found = log.cleaning.dirtiness(4, clock.now)
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (
        4,
        2 * size_of(log),
        2 * size_of(log),
    )
    assert found.ratio == 0.5


def test_a_checkpoint_inside_a_segment_counts_it_twice_as_the_reference_does(filled, clock):
    log = filled()
    found = log.cleaning.dirtiness(5, clock.now)
    assert (found.clean_bytes, found.cleanable_bytes) == (3 * size_of(log), 2 * size_of(log))


def test_a_clean_log_has_nothing_to_clean(filled, clock):
    log = filled()
    found = log.cleaning.dirtiness(8, clock.now)
    assert (found.cleanable_bytes, found.ratio) == (0, 0.0)
    assert log.cleaning.task(found, now_ms=clock.now, cleaner=CleanerConfig()) is None


def test_a_checkpoint_in_the_active_segment_leaves_nothing_to_clean(filled, clock):
    found = filled().cleaning.dirtiness(9, clock.now)
    assert (found.first_dirty_offset, found.first_uncleanable_offset, found.cleanable_bytes) == (9, 8, 0)


@pytest.mark.parametrize("checkpoint", [11, 1 << 60])
def test_a_checkpoint_above_the_end_is_reset(filled, clock, checkpoint):
    found = filled().cleaning.dirtiness(checkpoint, clock.now)
    assert (found.first_dirty_offset, found.checkpoint_is_reset) == (0, True)


def test_a_checkpoint_below_the_start_is_reset(filled, clock):
    log = filled()
    log.increment_log_start_offset(3)
    found = log.cleaning.dirtiness(1, clock.now)
    assert (found.first_dirty_offset, found.checkpoint_is_reset) == (3, True)
    assert not log.cleaning.dirtiness(3, clock.now).checkpoint_is_reset


def test_the_segment_that_holds_the_last_stable_offset_is_uncleanable(open_log, put, clock):
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"1"), roll=True)
    put(log, (b"c", b"1"))
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    put(log, (b"a", b"2"), **fields, roll=True)
    put(log, (b"a", b"3"))
    assert log.last_stable_offset == 3
    assert log.cleaning.dirtiness(None, clock.now).first_uncleanable_offset == 2
    marker = build_marker(is_abort=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=clock.now)
    log.append(marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    assert log.cleaning.dirtiness(None, clock.now).first_uncleanable_offset == 4


def test_a_young_record_blocks_its_segment_and_all_later_ones(filled, open_log, put, clock):
    log = open_log(replace(COMPACT, min_compaction_lag_ms=1000))
    for age in (5000, 1000, 999, 5000):
        put(log, (b"a", b"1"), timestamp=clock.now - age, roll=True)
    assert log.cleaning.dirtiness(None, clock.now).first_uncleanable_offset == 2
    assert log.cleaning.dirtiness(None, clock.now + 1).first_uncleanable_offset == 4


def test_a_segment_without_timestamps_is_as_young_as_its_file(open_log, put, clock, fs):
    log = open_log(replace(COMPACT, min_compaction_lag_ms=1000))
    put(log, (b"a", b"1"), timestamp=-1, roll=True)
    put(log, (b"a", b"1"))
    path = f"{log.path}/{0:020d}.log"
    fs.set_mtime_ms(path, clock.now - 999)
    assert log.cleaning.dirtiness(None, clock.now).first_uncleanable_offset == 0
    fs.set_mtime_ms(path, clock.now - 1000)
    assert log.cleaning.dirtiness(None, clock.now).first_uncleanable_offset == 1


def test_the_oldest_first_batch_decides_whether_cleaning_is_overdue(open_log, put, clock):
    log = open_log(replace(COMPACT, max_compaction_lag_ms=DAY, min_cleanable_dirty_ratio=1.0))
    put(log, (b"a", b"1"), timestamp=clock.now, roll=True)
    put(log, (b"a", b"1"), timestamp=clock.now - DAY, roll=True)
    put(log, (b"a", b"1"))
    assert not log.cleaning.dirtiness(None, clock.now).is_forced
    late = log.cleaning.dirtiness(None, clock.now + 1)
    assert (late.is_forced, late.overdue_ms) == (True, 1)
    assert is_cleanable(late, log.config)
    assert not log.cleaning.dirtiness(2, clock.now + 1).is_forced


def test_the_ratio_must_be_exceeded(filled, clock):
    log = filled()
    half = log.cleaning.dirtiness(4, clock.now)
    assert not is_cleanable(half, replace(COMPACT, min_cleanable_dirty_ratio=0.5))
    assert is_cleanable(half, replace(COMPACT, min_cleanable_dirty_ratio=0.49))
    assert not is_cleanable(log.cleaning.dirtiness(None, clock.now), replace(COMPACT, min_cleanable_dirty_ratio=1.0))
    assert not is_cleanable(log.cleaning.dirtiness(8, clock.now), replace(COMPACT, min_cleanable_dirty_ratio=0.0))


def test_what_is_overdue_but_not_cleanable_stays(filled):
    assert not is_cleanable(Dirtiness(0, 0, 10, 0, True, 5, False), COMPACT)


def test_the_task_names_sources_producers_and_settings(filled, put, clock):
    log = filled(replace(COMPACT, compression_gzip_level=9))
    put(log, (b"a", b"1"), producer_id=9, producer_epoch=1, base_sequence=0)
    cleaner = CleanerConfig(threads=2, dedupe_buffer_size=8 << 20, io_buffer_size=1 << 20)
    task = log.cleaning.task(log.cleaning.dirtiness(4, clock.now), now_ms=clock.now, cleaner=cleaner)
    size = task.sources[0].log_bytes
    assert task.sources == tuple(SourceSegment(base, size) for base in (0, 2, 4, 6))
    assert (task.first_dirty_offset, task.first_uncleanable_offset) == (4, 8)
    assert (task.dedupe_buffer_bytes, task.io_buffer_bytes) == (4 << 20, 1 << 18)
    assert task.compression_levels == ((1, 9), (3, 9), (4, 3))
    assert task.active_producers == ()


def test_only_producers_whose_last_batch_may_be_cleaned_are_named(open_log, put, clock):
    log = open_log()
    put(log, (b"a", b"1"), producer_id=9, producer_epoch=1, base_sequence=0, roll=True)
    put(log, (b"a", b"1"), producer_id=8, producer_epoch=0, base_sequence=0)
    task = log.cleaning.task(log.cleaning.dirtiness(None, clock.now), now_ms=clock.now, cleaner=CleanerConfig())
    assert task.active_producers == (LastRecord(9, 1, 0),)


def sizes(*rows):
    return [SegmentSizes(SourceSegment(base, log), index, time) for base, log, index, time in rows]


def bases(groups):
    return [[source.base_offset for source in group] for group in groups]


def group(segments, *, log=100, index=100, end=1000):
    return bases(group_segments(segments, segment_bytes=log, segment_index_bytes=index, end_offset=end))


def test_neighbours_are_joined_up_to_the_size_of_a_segment():
    segments = sizes((0, 40, 0, 0), (10, 60, 0, 0), (20, 1, 0, 0), (30, 100, 0, 0), (40, 200, 0, 0), (50, 1, 0, 0))
    assert group(segments) == [[0, 10], [20], [30], [40], [50]]


@pytest.mark.parametrize("column", [2, 3])
def test_both_indexes_must_fit(column):
    rows = [[0, 1, 0, 0], [10, 1, 0, 0], [20, 1, 0, 0]]
    for row in rows:
        row[column] = 50
    assert group(sizes(*rows)) == [[0, 10], [20]]


def test_the_span_of_offsets_must_fit_into_31_bits():
    most = (1 << 31) - 1
    segments = sizes((0, 1, 0, 0), (10, 1, 0, 0))
    assert group(segments, end=most + 1) == [[0, 10]]
    assert group(segments, end=most + 2) == [[0], [10]]
    assert group(sizes((0, 1, 0, 0), (10, 1, 0, 0), (most + 1, 1, 0, 0)), end=1 << 40) == [[0, 10], [most + 1]]


def test_an_empty_segment_joins_whatever_its_offsets():
    assert group(sizes((0, 1, 0, 0), (1 << 40, 0, 0, 0)), end=1 << 41) == [[0, 1 << 40]]


def test_there_may_be_nothing_to_group():
    assert group([]) == []
