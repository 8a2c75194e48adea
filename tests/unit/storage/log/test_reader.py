import pytest

from config.views import LogConfig
from storage.errors import InvalidRecord, OffsetOutOfRange
from storage.log.legacy import iter_legacy_records
from storage.types import AppendOrigin
from tests.sim.logs import NOW, append, batch, batches_of, offsets_of, read_all

SIZE = len(batch())


def read(log, offset, max_bytes=1 << 20, bound=None, min_one_batch=True) -> list[int]:
    bound = log.high_watermark if bound is None else bound
    found = log.read(offset, max_bytes=max_bytes, bound=bound, min_one_batch=min_one_batch)
    if found.region is None:
        assert found.size == 0
        return []
    data = found.region.read()
    assert len(data) == found.size == len(found.region)
    found.region.release()
    return [header.base_offset for header in batches_of(data)]


def test_reads_end_on_batch_boundaries_within_the_limit(open_log):
    log = open_log(index_interval_bytes=300)
    for _ in range(100):
        append(log)
    for limit in (SIZE, 5 * SIZE + 3, 30 * SIZE + SIZE - 1):
        for offset in (0, 17, 99):
            offsets = read(log, offset, limit)
            assert offsets[0] == offset
            assert 1 <= len(offsets) <= limit // SIZE
    assert read(log, 5, SIZE - 1) == [5]
    assert read(log, 5, SIZE - 1, min_one_batch=False) == []
    assert read(log, 0) == list(range(100))


def test_the_first_batch_may_begin_below_the_offset(open_log):
    log = open_log()
    append(log, 10)
    append(log, 10)
    assert read(log, 15) == [10]
    assert read(log, 9) == [0, 10]


def test_the_bound_cuts_at_its_batch(open_log):
    log = open_log(segment_bytes=3 * SIZE)
    for _ in range(7):
        append(log)
    assert read(log, 0, bound=2) == [0, 1]
    assert read(log, 0, bound=3) == [0, 1, 2]
    assert read(log, 2, bound=2) == []
    assert read(log, 3, bound=5) == [3, 4]
    assert read(log, 1, bound=5) == [1, 2]


def test_outside_is_refused_and_the_end_is_empty(open_log):
    log = open_log()
    append(log, 3)
    with pytest.raises(OffsetOutOfRange):
        log.read(4, max_bytes=1, bound=3, min_one_batch=True)
    with pytest.raises(OffsetOutOfRange):
        log.read(-1, max_bytes=1, bound=3, min_one_batch=True)
    assert read(log, 3) == []
    log.increment_log_start_offset(2)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, max_bytes=1, bound=3, min_one_batch=True)


def test_a_waiting_consumer_sees_what_comes_also_after_a_roll(open_log):
    log = open_log()
    append(log)
    assert read(log, 1) == []
    append(log)
    assert read(log, 1) == [1]
    assert read(log, 2) == []
    log.roll()
    append(log)
    assert read(log, 2) == [2]
    assert read(log, 3) == []


def test_removed_offsets_lead_to_the_next_batch_there_is(open_log):
    log = open_log(segment_bytes=4 * SIZE)
    for base, count in ((0, 1), (5, 1), (6, 3), (20, 1), (30, 1), (50, 1)):
        log.append(
            bytes(batch(count, base_offset=base, leader_epoch=0)), leader_epoch=0, origin=AppendOrigin.REPLICATION
        )
    log.advance_high_watermark(log.log_end_offset)
    assert log.segment_count > 1
    for offset in range(51):
        first = read(log, offset, 1)
        expected = next(base for base, last in ((0, 0), (5, 5), (6, 8), (20, 20), (30, 30), (50, 50)) if last >= offset)
        assert first == [expected], offset
    assert offsets_of(log, max_bytes=1) == [0, 5, 6, 20, 30, 50]


def test_lookup_by_time(open_log):
    log = open_log(segment_bytes=20 * SIZE, index_interval_bytes=200)
    for n in range(50):
        append(log, 2, timestamp=NOW - 100_000 + 10 * n)
    end = log.high_watermark
    assert log.offset_for_timestamp(0, bound=end)[:2] == (NOW - 100_000, 0)
    assert log.offset_for_timestamp(NOW - 100_000 + 1, bound=end)[:2] == (NOW - 99_999, 1)
    assert log.offset_for_timestamp(NOW - 100_000 + 10 * 33, bound=end)[:2] == (NOW - 99_670, 66)
    assert log.offset_for_timestamp(NOW, bound=end) is None
    assert log.offset_for_timestamp(NOW - 100_000 + 10 * 33, bound=66) is None
    assert log.offset_of_max_timestamp(end)[:2] == (NOW - 100_000 + 491, 99)
    log.increment_log_start_offset(41)
    assert log.offset_for_timestamp(0, bound=end).offset == 41


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_lookup_by_time_finds_the_record_inside_a_batch(open_log, codec):
    log = open_log()
    append(log, 10, timestamp=NOW, codec=codec)
    assert log.offset_for_timestamp(NOW + 6, bound=10)[:2] == (NOW + 6, 6)


def test_no_records_have_no_largest_timestamp(open_log):
    log = open_log()
    assert log.offset_of_max_timestamp(0) is None
    assert log.offset_for_timestamp(0, bound=0) is None


def test_a_consumer_far_behind_reads_everything_in_order(open_log):
    log = open_log(segment_bytes=10 * SIZE, index_interval_bytes=100)
    for _ in range(105):
        append(log)
    for limit in (1, SIZE * 3, 1 << 20):
        assert offsets_of(log, max_bytes=limit) == list(range(105))
    assert len(read_all(log)) == log.size_bytes


def test_legacy_messages_are_read(open_log):
    plain = bytes.fromhex("000000000000000700000018000000000100000000000000002affffffff000000026869")
    assert [tuple(r)[:4] for r in iter_legacy_records(plain)] == [(7, 42, None, b"hi")]


def test_a_lookup_that_must_inflate_too_large_a_record_is_refused(open_log):
    log = open_log()
    append(log, 2, value=bytes(5000), codec=1)
    log.config = LogConfig(max_decompressed_message_bytes=1000)
    with pytest.raises(InvalidRecord):
        log.offset_for_timestamp(0, bound=2)
    log.config = LogConfig(max_decompressed_message_bytes=6000)
    assert log.offset_for_timestamp(0, bound=2).offset == 0
