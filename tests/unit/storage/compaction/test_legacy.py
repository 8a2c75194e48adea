"""Cleaning logs that brokers before 0.11 wrote: single messages, wrappers, tombstones without a horizon."""

import os
from dataclasses import replace

import pytest

from protocol.records.record import Record
from storage.compaction.batches import UNCHANGED
from storage.compaction.legacy import filter_legacy
from storage.env.posix import PosixFileSystem
from storage.log.legacy import iter_legacy_records
from storage.segment.log_file import LogFile, has_valid_crc, parse_any_header
from tests.harness import batches
from tests.sim.cleaning import clean
from tests.unit.storage.compaction.conftest import COMPACT

T = 1_600_000_000_000


def single(offset: int, key: bytes | None, value: bytes | None, magic: int = 1) -> bytes:
    return batches.old_message(value, key=key, magic=magic, offset=offset, timestamp=T + offset)


def wrapper(
    first: int, *records: tuple[bytes | None, bytes | None], magic: int, codec: int, attributes: int = 0
) -> bytes:
    inner = b"".join(
        batches.old_message(value, key=key, magic=magic, offset=n if magic else first + n, timestamp=T + first + n)
        for n, (key, value) in enumerate(records)
    )
    last = first + len(records) - 1
    return batches.old_message(
        batches.compress(codec, inner), magic=magic, attributes=codec | attributes, offset=last, timestamp=T + last
    )


def keep(*offsets: int):
    return lambda key, offset: offset in offsets


def check(message: bytes) -> list[Record]:
    header = parse_any_header(message, 0)
    assert len(message) == header.size_bytes
    assert has_valid_crc(header, memoryview(message))
    return iter_legacy_records(message)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_single_message_stays_or_goes(magic):
    message = single(5, b"k", b"v", magic)
    assert filter_legacy(message, keep(5), keeps_tombstones=True, levels={}) is UNCHANGED
    assert filter_legacy(message, keep(), keeps_tombstones=True, levels={}) is None


@pytest.mark.parametrize("keeps", [True, False])
def test_a_tombstone_stays_as_long_as_its_segment_is_young(keeps):
    found = filter_legacy(single(5, b"k", None), keep(5), keeps_tombstones=keeps, levels={})
    assert found is (UNCHANGED if keeps else None)


@pytest.mark.parametrize("codec", [batches.GZIP, batches.SNAPPY, batches.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_is_packed_anew_with_its_magic_and_codec(magic, codec):
    message = wrapper(10, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4"), magic=magic, codec=codec)
    before = iter_legacy_records(message)
    new = filter_legacy(message, keep(11, 12), keeps_tombstones=True, levels={})
    assert check(new) == before[1:3]
    header = parse_any_header(new, 0)
    assert (header.magic, header.attributes & 7, header.base_offset) == (magic, codec, 12)
    assert header.max_timestamp == (T + 12 if magic else -1)
    assert filter_legacy(message, keep(10, 11, 12, 13), keeps_tombstones=True, levels={}) is UNCHANGED
    assert filter_legacy(message, keep(), keeps_tombstones=True, levels={}) is None


def test_the_wrong_header_checksum_of_v0_is_read_and_the_right_one_written():
    plain = b"".join(
        batches.old_message(b"v", key=key, magic=0, offset=10 + n) for n, key in enumerate((b"a", b"b", b"c"))
    )
    frame = batches.lz4_frame(plain, old_checksum=True)
    message = batches.old_message(frame, magic=0, attributes=batches.LZ4, offset=12)
    new = filter_legacy(message, keep(11), keeps_tombstones=True, levels={})
    assert [(record.offset, record.key) for record in check(new)] == [(11, b"b")]
    nested = batches.decompress(batches.LZ4, new[26:])
    assert nested == plain[len(plain) // 3 : 2 * len(plain) // 3]


def test_a_wrapper_under_log_append_time_keeps_its_time():
    message = wrapper(10, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), magic=1, codec=1, attributes=8)
    new = filter_legacy(message, keep(10), keeps_tombstones=True, levels={})
    assert [(record.offset, record.timestamp) for record in check(new)] == [(10, T + 12)]
    assert parse_any_header(new, 0).attributes == 9


@pytest.fixture
def legacy_log(open_log, put, fs, clock, tmp_path):
    """A log whose first segment holds the given legacy messages; a new segment follows."""

    def legacy_log_(*messages: bytes, config=COMPACT):
        directory = tmp_path / "t-0"
        directory.mkdir()
        (directory / f"{0:020d}.log").write_bytes(b"".join(messages))
        log = open_log(config)
        log.advance_high_watermark(log.log_end_offset)
        log.roll()
        put(log, (b"z", b"z"))
        return log

    return legacy_log_


def stored(log) -> list[Record]:
    """Return the legacy records of the first segment."""
    path = os.path.join(log.path, f"{0:020d}.log")
    found: list[Record] = []
    for _, header, batch in LogFile(PosixFileSystem(), path, os.path.getsize(path)).batches():
        assert has_valid_crc(header, batch)
        if header.magic < 2:
            found += iter_legacy_records(bytes(batch))
    return found


def test_a_legacy_segment_is_cleaned_like_any_other(legacy_log, fs, clock):
    log = legacy_log(
        single(0, b"a", b"1", 0),
        wrapper(1, (b"a", b"2"), (b"b", b"1"), (None, b"x"), magic=0, codec=1),
        single(4, b"b", b"2"),
        wrapper(5, (b"c", b"1"), (b"c", b"2"), (b"d", b"1"), magic=1, codec=2),
        single(8, b"d", None),
    )
    result = clean(log, fs, clock)
    assert [(record.offset, record.key, record.value) for record in stored(log)] == [
        (1, b"a", b"2"),
        (4, b"b", b"2"),
        (6, b"c", b"2"),
        (8, b"d", None),
    ]
    assert result.stats.invalid_records == 1


@pytest.mark.parametrize(("age_ms", "keys"), [(4999, [b"a", b"b"]), (5000, [b"b"])])
def test_a_legacy_tombstone_goes_once_the_last_clean_segment_is_younger_by_the_grace(
    legacy_log, put, fs, clock, age_ms, keys
):
    log = legacy_log(single(0, b"a", None), single(1, b"b", b"1"))
    for key in (b"x", b"y"):
        log.roll()
        put(log, (key, b"1"))
    log.config = replace(log.config, segment_bytes=1)  # the segments stay apart
    fs.set_mtime_ms(os.path.join(log.path, f"{0:020d}.log"), 100_000)
    fs.set_mtime_ms(os.path.join(log.path, f"{2:020d}.log"), 100_000 + age_ms)
    clean(log, fs, clock, checkpoint=3)
    assert [record.key for record in stored(log)] == keys


def test_without_a_clean_segment_legacy_tombstones_stay(legacy_log, fs, clock):
    log = legacy_log(single(0, b"a", None))
    log.config = replace(log.config, segment_bytes=1)
    fs.set_mtime_ms(os.path.join(log.path, f"{0:020d}.log"), 1)
    clean(log, fs, clock)
    assert [record.key for record in stored(log)] == [b"a"]
