"""The v2 batch: golden bytes both ways, CRC, patches, walking, control records."""

import pytest

from protocol.records.batch import (
    HEADER_SIZE,
    TimestampType,
    check_crc,
    iter_batches,
    pack_head,
    parse_header,
    parse_prefix,
    patch_head,
    patch_offset_and_epoch,
    patch_timestamps,
)
from protocol.records.builder import assemble, build_batch
from protocol.records.control import (
    ControlType,
    EndTxnMarker,
    build_control_batch,
    build_marker,
    control_key,
    control_type_of,
    parse_marker,
)
from protocol.records.errors import CorruptBatch, InvalidBatch
from protocol.records.record import Record, iter_records

TIME = 1700000000000
ONE_RECORD = bytes.fromhex(
    "00000000000000000000003a0000000002e99b8dd80000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000110000000026b027600"
)
TRANSACTIONAL = bytes.fromhex(
    "0000000000000005000000450000000302ca315c1c0010000000010000018bcfe568000000018bcfe56805"
    "000000000000000700017fffffff0000000210000000026b02760014000a0201010202680278"
)
COMMIT_MARKER = bytes.fromhex(
    "00000000000000070000004200000003028ef266740030000000000000018bcfe568000000018bcfe56800"
    "00000000000000070001ffffffff000000012000000008000000010c00000000000400"
)
EMPTIED = bytes.fromhex(
    "0000000000000005000000310000000302ba695c04001000000001ffffffffffffffff0000018bcfe56805"
    "000000000000000700017fffffff00000000"
)


def test_golden_one_record():
    assert build_batch([(b"k", b"v")], timestamp=TIME, leader_epoch=0) == ONE_RECORD
    assert list(iter_records(ONE_RECORD)) == [Record(0, TIME, b"k", b"v")]


def test_golden_transactional_batch_whose_sequence_wraps():
    built = build_batch(
        [(b"k", b"v", [], TIME), (None, None, [("h", b"x")], TIME + 5)],
        base_offset=5,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=2147483647,
        is_transactional=True,
    )
    assert built == TRANSACTIONAL
    header = parse_header(TRANSACTIONAL)
    assert header.last_sequence == 0 and header.last_offset == 6 and header.next_offset == 7
    assert header.is_transactional and not header.is_control and header.has_producer_id
    assert list(iter_records(TRANSACTIONAL)) == [
        Record(5, TIME, b"k", b"v"),
        Record(6, TIME + 5, None, None, (("h", b"x"),)),
    ]


def test_golden_commit_marker():
    built = build_marker(
        is_abort=False,
        producer_id=7,
        producer_epoch=1,
        coordinator_epoch=4,
        timestamp=TIME,
        base_offset=7,
        leader_epoch=3,
    )
    assert built == COMMIT_MARKER
    assert parse_marker(COMMIT_MARKER) == EndTxnMarker(ControlType.COMMIT, 4)
    assert parse_header(COMMIT_MARKER).last_sequence == -1


def test_golden_empty_batch_left_by_compaction():
    header = parse_header(EMPTIED)
    assert check_crc(EMPTIED, 0, header)
    assert (header.record_count, header.last_offset, header.base_timestamp) == (0, 6, -1)
    assert list(iter_records(EMPTIED)) == []
    assert parse_marker(EMPTIED) is None
    assert assemble(header, b"") == EMPTIED


@pytest.mark.parametrize("batch", [ONE_RECORD, TRANSACTIONAL, COMMIT_MARKER, EMPTIED])
def test_crc_notices_every_covered_byte(batch):
    header = parse_header(batch)
    assert check_crc(batch, 0, header)
    for position in range(21, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 1
        assert not check_crc(damaged, 0, header)
    assert not check_crc(batch[:-1], 0, header)


@pytest.mark.parametrize("size", [0, 11, 12, 60])
def test_a_cut_header_is_corrupt(size):
    with pytest.raises(CorruptBatch):
        parse_header(ONE_RECORD[:size])


def test_impossible_lengths_and_magics_are_corrupt():
    for position, value in ((11, 48), (8, 0xFF), (16, 1), (16, 3)):
        damaged = bytearray(ONE_RECORD)
        damaged[position] = value
        with pytest.raises(CorruptBatch):
            parse_header(damaged)


def test_a_prefix_tells_legacy_from_v2_and_refuses_zeros():
    assert parse_prefix(ONE_RECORD) == (0, 70, 2)
    legacy = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(17)
    assert parse_prefix(legacy) == (0, 34, 1)
    for damaged in (bytes(17), bytes(16), bytes(8) + (48).to_bytes(4, "big") + bytes(4) + b"\x02"):
        with pytest.raises(CorruptBatch):
            parse_prefix(damaged)


def test_walking_stops_before_an_incomplete_batch():
    data = ONE_RECORD + TRANSACTIONAL + COMMIT_MARKER
    for cut in range(len(COMMIT_MARKER) + 1):
        found = [(position, header.base_offset) for position, header in iter_batches(data[: len(data) - cut])]
        assert found == [(0, 0), (70, 5), (70 + len(TRANSACTIONAL), 7)][: 2 if cut else 3]


def test_offset_and_epoch_are_patched_outside_the_crc():
    batch = bytearray(ONE_RECORD + ONE_RECORD)
    patch_offset_and_epoch(batch, 70, 99, 12)
    header = parse_header(batch, 70)
    assert (header.base_offset, header.partition_leader_epoch) == (99, 12)
    assert check_crc(batch, 70, header)
    assert batch[:70] == ONE_RECORD
    patch_head(batch, 0, 99, 58, 12)
    assert batch[:70] == batch[70:] and batch[:16] == pack_head(99, 58, 12)


def test_timestamps_are_patched_with_a_new_crc():
    batch = bytearray(TRANSACTIONAL)
    header = patch_timestamps(memoryview(batch), 0, parse_header(batch), 0x18, 42)
    assert header == parse_header(batch) and check_crc(batch, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME and header.max_timestamp == 42
    assert [record.timestamp for record in iter_records(batch)] == [42, 42]


def test_control_types_are_read_and_unknown_ones_skipped():
    assert control_type_of(control_key(ControlType.KRAFT_VOTERS)) == 6
    assert control_type_of(control_key(77) + b"more") == 77
    for bad in (None, b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(InvalidBatch):
            control_type_of(bad)
    batch = build_control_batch(
        [(ControlType.LEADER_CHANGE, b"value"), (ControlType.SNAPSHOT_HEADER, b"")], timestamp=1
    )
    header = parse_header(batch)
    assert header.is_control and not header.is_transactional and header.record_count == 2
    assert parse_marker(batch) is None


def test_a_marker_with_a_short_value_is_invalid():
    batch = build_batch([(control_key(ControlType.ABORT), b"\0\0")], is_control=True, is_transactional=True)
    with pytest.raises(InvalidBatch):
        parse_marker(batch)


def test_the_header_is_as_long_as_its_fields():
    assert len(EMPTIED) == HEADER_SIZE
