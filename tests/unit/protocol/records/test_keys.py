"""The walk of compaction agrees with the full reader on every shape of record."""

import pytest

from protocol.records.batch import HEADER_SIZE, parse_header
from protocol.records.builder import build_batch, encode_record
from protocol.records.errors import InvalidBatch
from protocol.records.keys import keyed_records
from protocol.records.record import iter_records

SHAPES = [
    (b"k", b"v"),
    (None, b"v"),
    (b"", b""),
    (b"k", None),
    (b"k" * 70, b"v" * 300, [("h", b"x"), ("g", None)]),
    (b"k" * 9000, None, [("h", b"x" * 200)]),
    (b"k", b"v" * 20000),
]


def test_the_walk_finds_what_the_reader_reads():
    records = [(*shape, *[()] * (3 - len(shape)), 1000 + 97 * n) for n, shape in enumerate(SHAPES * 20)]
    batch = bytes(build_batch(records, base_offset=5))
    header = parse_header(batch)
    rows = keyed_records(batch, header.record_count, HEADER_SIZE, len(batch))
    expected = list(iter_records(batch))
    assert [(5 + row[4], row[5], row[6]) for row in rows] == [(r.offset, r.key, r.value is not None) for r in expected]
    assert [header.base_timestamp + row[3] for row in rows] == [r.timestamp for r in expected]
    assert rows[0][0] == HEADER_SIZE and rows[-1][2] == len(batch)
    for row, record in zip(rows, records, strict=True):
        whole = encode_record(row[4], row[3], record[0], record[1], record[2])
        assert batch[row[0] : row[2]] == whole
        assert whole.endswith(batch[row[1] : row[2]])


def test_deltas_of_every_length_are_read():
    deltas = [0, 63, 64, 8191, 8192, 1 << 20, 1 << 31, 1 << 40]
    section = b"".join(
        encode_record(min(n, (1 << 31) - 1), sign * n, b"k", b"v", ()) for n in deltas for sign in (1, -1)
    )
    rows = keyed_records(section, 2 * len(deltas), 0, len(section))
    assert [row[3] for row in rows] == [sign * n for n in deltas for sign in (1, -1)]
    assert [row[4] for row in rows[::2]] == [min(n, (1 << 31) - 1) for n in deltas]


def test_a_window_around_the_records_does_not_matter():
    batch = bytes(build_batch([(b"a", b"1"), (b"b", b"2")]))
    window = b"x" * 10 + batch + b"y" * 10
    rows = keyed_records(window, 2, 10 + HEADER_SIZE, 10 + len(batch))
    assert [row[5] for row in rows] == [b"a", b"b"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_count_is_refused(count):
    batch = bytes(build_batch([(b"a", b"1"), (b"b", b"2")]))
    with pytest.raises(InvalidBatch):
        keyed_records(batch, count, HEADER_SIZE, len(batch))


@pytest.mark.parametrize("section", [b"", b"\x01", b"\x0c\0\0\0\x7e", b"\x0c\0\0\0\x0e\x01\0", b"\x80", b"\x06\0\0\0"])
def test_a_record_that_does_not_hold_together_is_refused(section):
    with pytest.raises(InvalidBatch):
        keyed_records(section, 1, 0, len(section))
