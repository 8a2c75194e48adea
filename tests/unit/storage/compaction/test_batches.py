"""Rewriting one batch: what every field of the header says afterwards, and what the records report."""

from pathlib import Path

import pytest

from protocol.records.batch import HEADER_SIZE, TimestampType, check_crc, parse_header
from protocol.records.builder import build_batch
from protocol.records.compression import decompress
from protocol.records.keys import keyed_records
from protocol.records.record import iter_records
from storage.compaction.batches import empty_batch, rebuilt_batch

T = 1_700_000_000_000
HORIZON = T + 123_456_789
RECORDS = [
    (b"a", b"1", [("h", b"x")], T + 5),
    (b"b", None, [], T + 3),
    (b"c", b"3", [], T + 900),
    (b"d", b"4", [], T + 3),
]


def build(codec=0, **fields):
    fields = {"base_offset": 40, "producer_id": 7, "producer_epoch": 2, "base_sequence": 9, "leader_epoch": 6} | fields
    return bytes(build_batch(RECORDS, codec=codec, **fields))


def rebuild(batch: bytes, *indexes: int, horizon: int | None = None, level: int | None = None) -> bytes:
    header = parse_header(batch)
    section = bytes(decompress(header.codec, batch[HEADER_SIZE:]))
    rows = keyed_records(section, header.record_count, 0, len(section))
    return bytes(rebuilt_batch(header, section, [rows[n] for n in indexes], new_horizon_ms=horizon, level=level))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("kept", [(0,), (1, 2), (0, 1, 2, 3), (3,), (0, 3)])
@pytest.mark.parametrize("horizon", [None, HORIZON])
def test_the_kept_records_read_as_before(codec, kept, horizon):
    batch = build(codec)
    new = rebuild(batch, *kept, horizon=horizon)
    before = list(iter_records(batch))
    assert list(iter_records(new)) == [before[n] for n in kept]
    assert check_crc(new, 0, parse_header(new))


@pytest.mark.parametrize("codec", range(5))
def test_the_header_keeps_what_producers_and_followers_know_the_batch_by(codec):
    old, new = (
        parse_header(build(codec, is_transactional=True)),
        parse_header(rebuild(build(codec, is_transactional=True), 1, 3)),
    )
    for field in ("base_offset", "last_offset_delta", "partition_leader_epoch", "producer_id", "producer_epoch"):
        assert getattr(new, field) == getattr(old, field)
    assert (new.base_sequence, new.attributes, new.record_count) == (9, old.attributes, 2)


def test_without_a_horizon_the_base_is_the_first_record_and_the_maximum_that_of_the_kept():
    new = parse_header(rebuild(build(), 1, 3))
    assert (new.base_timestamp, new.max_timestamp) == (T + 3, T + 3)


def test_a_horizon_is_the_base_timestamp_and_marks_the_batch():
    new = parse_header(rebuild(build(), 1, 2, horizon=HORIZON))
    assert (new.base_timestamp, new.max_timestamp, new.attributes & 0x40) == (HORIZON, T + 900, 0x40)


def test_a_horizon_once_set_stays_when_more_records_go():
    first = rebuild(build(), 1, 2, horizon=HORIZON)
    second = rebuild(first, 0)
    header = parse_header(second)
    assert (header.base_timestamp, header.attributes & 0x40) == (HORIZON, 0x40)
    assert [(record.key, record.timestamp) for record in iter_records(second)] == [(b"b", T + 3)]


@pytest.mark.parametrize("horizon", [None, HORIZON])
def test_under_log_append_time_every_record_goes_on_reporting_the_maximum(horizon):
    batch = build(timestamp_type=TimestampType.LOG_APPEND_TIME)
    new = rebuild(batch, 0, 1, horizon=horizon)
    header = parse_header(new)
    assert [record.timestamp for record in iter_records(new)] == [T + 900] * 2
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.base_timestamp == (T + 900 if horizon is None else HORIZON)


def test_records_without_timestamps_stay_without():
    batch = bytes(build_batch([(b"a", b"1"), (b"b", b"2")]))
    header = parse_header(rebuild(batch, 1))
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)


def test_the_topics_level_is_used():
    records = [(b"%d" % n, b"some text " * 50 + b"%d" % (n * 7919)) for n in range(200)]
    batch = bytes(build_batch(records, codec=4))
    assert len(rebuild(batch, *range(199), level=19)) < len(rebuild(batch, *range(199), level=-50))


def test_an_empty_batch_is_the_golden_one():
    """Vector 4 of the format's documentation: vector 2 with both of its records gone."""
    batch = bytes.fromhex(
        "0000000000000005000000450000000302ca315c1c0010000000010000018bcfe568000000018bcfe56805"
        "000000000000000700017fffffff0000000210000000026b02760014000a0201010202680278"
    )
    assert empty_batch(parse_header(batch)).hex() == (
        "0000000000000005000000310000000302ba695c04001000000001ffffffffffffffff0000018bcfe56805"
        "000000000000000700017fffffff00000000"
    )


def test_every_byte_is_as_the_reference_writes_it():
    lines = Path(__file__).with_name("filtered_by_kafka.txt").read_text().splitlines()
    vectors = [line.split() for line in lines if not line.startswith("#")]
    assert len(vectors) > 20
    for text, offsets, is_idle_marker, stays_empty, now_ms, retention_ms, expected in vectors:
        batch = bytes.fromhex(text)
        header = parse_header(batch)
        kept = {int(offset) for offset in offsets.split(",") if offset != "-"}
        rows = keyed_records(batch, header.record_count, HEADER_SIZE, len(batch))
        left = [row for row in rows if header.base_offset + row[4] in kept]
        needs_horizon = is_idle_marker == "1" or not all(row[6] for row in left)
        if not left:
            new = empty_batch(header) if stays_empty == "1" else b""
        elif len(left) == len(rows) and not needs_horizon:
            new = batch
        else:
            horizon = int(now_ms) + int(retention_ms) if needs_horizon else None
            new = rebuilt_batch(header, batch, left, new_horizon_ms=horizon, level=None)
        assert (bytes(new).hex() or "-") == expected


def test_an_empty_batch_is_neither_compressed_nor_waits_for_a_horizon():
    header = parse_header(rebuild(build(3), 1, horizon=HORIZON))
    empty = parse_header(empty_batch(header))
    assert (empty.attributes, empty.record_count, empty.last_offset) == (0, 0, 43)
