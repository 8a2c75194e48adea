"""Records against two independent implementations, and the fast scan against a plain reading."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from protocol.records.batch import HEADER_SIZE, LOG_APPEND_TIME_BIT, check_crc, parse_header
from protocol.records.builder import build_batch, encode_record
from protocol.records.compression import Codec
from protocol.records.errors import RecordsError
from protocol.records.record import find_by_timestamp, iter_records, iter_section
from protocol.records.scan import largest_body, scan_records
from protocol.records.varint import encode_varint, read_varint, read_varlong

TIME = 1700000000000

contents = (
    st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70) | st.binary(min_size=130, max_size=300)
)
names = st.text(max_size=6)
header_lists = st.lists(st.tuples(names, st.none() | st.binary(max_size=9)), max_size=3)
timestamps = st.integers(TIME, TIME + 20) | st.integers(0, 2**50)
rows = st.tuples(contents, contents, header_lists, timestamps)
row_lists = st.lists(rows, min_size=1, max_size=12)


@st.composite
def repeating_rows(draw):
    """Runs of records of one shape, as producers send them: what the scan's fast gear is made for."""
    out = []
    for _ in range(draw(st.integers(1, 4))):
        key, value, headers, _ = draw(rows)
        step = draw(st.sampled_from([0, 0, 1, 5, 70, -1]))
        start = TIME + draw(st.integers(0, 100))
        out += [(key, value, headers, start + step * index) for index in range(draw(st.integers(1, 90)))]
    return out


def parsed(batch) -> list:
    return [(r.offset, r.timestamp, r.key, r.value, [*r.headers]) for r in iter_records(batch)]


def expected(records, base_offset=0) -> list:
    return [
        (base_offset + index, timestamp, key, value, list(headers))
        for index, (key, value, headers, timestamp) in enumerate(records)
    ]


@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("codec", Codec)
@given(records=row_lists)
def test_clients_read_what_we_build(codec, records):
    batch = bytes(build_batch(records, codec=codec, base_offset=40))
    for reader in (PythonBatch, AioBatch):
        theirs = reader(batch)
        assert theirs.validate_crc()
        found = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
        assert found == expected(records, 40)
    assert parsed(batch) == expected(records, 40)


@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("builder_class", [PythonBuilder, AioBuilder])
@given(records=row_lists)
def test_we_read_what_clients_build(builder_class, codec, records):
    builder = builder_class(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for index, (key, value, headers, timestamp) in enumerate(records):
        builder.append(index, timestamp=timestamp, key=key, value=value, headers=headers)
    batch = bytes(builder.build())
    header = parse_header(batch)
    assert check_crc(batch, 0, header) and header.record_count == len(records)
    assert parsed(batch) == expected(records)


def scan_of(batch):
    header = parse_header(batch)
    return scan_records(memoryview(batch)[HEADER_SIZE:], header.record_count)


@settings(max_examples=100, deadline=None)
@given(records=repeating_rows() | row_lists)
def test_the_scan_finds_what_reading_finds(records):
    batch = build_batch(records)
    deltas = [timestamp - records[0][3] for *_, timestamp in records]
    keyless = [index for index, (key, *_) in enumerate(records) if key is None]
    assert scan_of(batch) == (min(deltas), max(deltas), keyless[0] if keyless else -1)
    section = memoryview(batch)[HEADER_SIZE:]
    bodies = [
        len(encode_record(i, deltas[i], key, value, headers)) for i, (key, value, headers, _) in enumerate(records)
    ]
    assert len(section) == sum(bodies)
    largest = largest_body(section, len(records))
    assert largest + len(encode_varint(largest)) == max(bodies)


@settings(max_examples=100, deadline=None)
@given(
    records=repeating_rows() | row_lists,
    pick=st.integers(0, 50),
    later=st.integers(-2, 2),
    skipped=st.integers(-1, 60),
    has_append_time=st.booleans(),
)
def test_a_lookup_by_time_finds_what_reading_finds(records, pick, later, skipped, has_append_time):
    batch = build_batch(records)
    header = parse_header(batch)._replace(base_offset=1000)
    if has_append_time:
        header = header._replace(attributes=header.attributes | LOG_APPEND_TIME_BIT)
    section = memoryview(batch)[HEADER_SIZE:]
    timestamp = records[pick % len(records)][3] + later
    start_offset = 1000 + skipped
    read = [(one.timestamp, one.offset) for one in iter_section(header, section)]
    expected = next((one for one in read if one[0] >= timestamp and one[1] >= start_offset), None)
    assert find_by_timestamp(header, section, timestamp, start_offset) == expected


@pytest.mark.parametrize("count", [64, 65, 8191, 8192, 8193, 16385, 20000])
@pytest.mark.parametrize("value_size", [0, 1, 70])
def test_the_scan_of_long_uniform_batches_at_every_width_of_the_offset_delta(count, value_size):
    batch = build_batch([(None, bytes(value_size), None, TIME + index // 9) for index in range(count)])
    assert scan_of(batch) == (0, (count - 1) // 9, 0)


@settings(max_examples=100, deadline=None)
@given(
    records=repeating_rows(),
    position=st.integers(0, 10_000),
    byte=st.integers(0, 255),
    cut=st.sampled_from([0, 0, 0, 1, 7]),
)
@example(records=[(None, None, [], 1_700_000_000_000)], position=0, byte=0, cut=7)
def test_a_damaged_section_is_refused_exactly_when_reading_refuses_it(records, position, byte, cut):
    batch = build_batch(records)
    header = parse_header(batch)
    section = bytearray(batch[HEADER_SIZE : len(batch) - cut])
    if section:  # the shortest record is as long as the longest cut
        section[position % len(section)] = byte
    assert outcome_of_scan(section, header) == outcome_of_reading(section, header)


@settings(max_examples=100, deadline=None)
@given(section=st.binary(max_size=200), count=st.integers(1, 12))
@example(section=bytes([12, 0, 0, 0, 1, 1, 0]), count=1)
def test_arbitrary_bytes_are_refused_or_read_alike(section, count):
    header = parse_header(build_batch([(None, None)], timestamp=TIME))._replace(record_count=count)
    assert outcome_of_scan(section, header) == outcome_of_reading(section, header)


def outcome_of_scan(section, header):
    try:
        return scan_records(section, header.record_count)
    except RecordsError:
        return "refused"


def outcome_of_reading(section, header):
    try:
        records = list(iter_section(header, section))
    except RecordsError:
        return "refused"
    if [record.offset - header.base_offset for record in records] != list(range(len(records))):
        return "refused"
    deltas = [record.timestamp - header.base_timestamp for record in records]
    keyless = [index for index, record in enumerate(records) if record.key is None]
    return min(deltas), max(deltas), keyless[0] if keyless else -1


@settings(max_examples=100, deadline=None)
@given(value=st.integers(-(2**63), 2**63 - 1))
@example(value=2**31 - 1)
@example(value=-(2**31))
def test_varints_round_trip(value):
    assert read_varlong(encode_varint(value), 0) == (value, len(encode_varint(value)))
    if -(2**31) <= value < 2**31:
        assert read_varint(b"\0" + encode_varint(value), 1) == (value, 1 + len(encode_varint(value)))
