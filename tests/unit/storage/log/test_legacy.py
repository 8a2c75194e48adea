"""Logs that brokers before 0.11 wrote: served as they are, found by offset and time, recovered, indexed."""

import os
import struct

import pytest
import xxhash

from config.views import LogConfig
from protocol.records.compression import Codec, _xxh32_of_few, compress, decompress, mend_lz4_checksum
from protocol.records.errors import CorruptBatch
from storage.errors import CorruptRecord
from storage.log.legacy import iter_legacy_records
from storage.log.partition_log import PartitionLog
from storage.segment.log_file import parse_any_header
from tests.harness.batches import old_message
from tests.harness.legacy_sets import APPENDED, BASE_OFFSET, GOLDEN, RECORDS, TIMES
from tests.sim.logs import NOW, TP, append, batches_of

ENTRIES = {key: len(data) for key, data in GOLDEN.items()}


def messages_of(data: bytes) -> list[bytes]:
    """Cut a set into its top-level messages."""
    found = []
    while data:
        end = 12 + int.from_bytes(data[8:12], "big")
        found.append(data[:end])
        data = data[end:]
    return found


def moved(data: bytes, offset: int) -> bytes:
    """Give the set other offsets: its last one becomes `offset`."""
    messages = messages_of(data)
    return b"".join(
        struct.pack(">q", offset - len(messages) + 1 + index) + message[8:] for index, message in enumerate(messages)
    )


def wrapper(nested: bytes, *, magic: int = 1, codec: int = 1, offset: int = 9, timestamp: int = NOW) -> bytes:
    packed = compress(codec, nested) if codec < 4 else nested
    return old_message(packed, magic=magic, attributes=codec, offset=offset, timestamp=timestamp)


@pytest.fixture
def open_old(fs, clock, rng, tmp_path):
    """Open a log whose segments were written by somebody else: base offset → content."""

    def opener(segments: dict[int, bytes] | None = None, *, clean: bool = False, **options) -> PartitionLog:
        path = tmp_path / "t-0"
        path.mkdir(exist_ok=True)
        for base, content in (segments or {}).items():
            (path / f"{base:020}.log").write_bytes(content)
        given = {name: options.pop(name) for name in ("recovery_point", "high_watermark") if name in options}
        log = PartitionLog.open(fs, clock, rng, str(path), TP, LogConfig(**options), clean=clean, **given)
        log.advance_high_watermark(log.log_end_offset)
        return log

    return opener


# --- messages ---


@pytest.mark.parametrize(("magic", "codec", "has_append_time"), GOLDEN)
def test_java_s_message_sets_are_read_record_by_record(magic, codec, has_append_time):
    messages = messages_of(GOLDEN[magic, codec, has_append_time])
    assert len(messages) == (3 if codec == "none" else 1)
    records = [record for message in messages for record in iter_legacy_records(message)]
    assert [record.offset for record in records] == [100, 101, 102]
    assert [(record.key, record.value) for record in records] == list(RECORDS)
    times = [-1] * 3 if not magic else [APPENDED] * 3 if has_append_time else list(TIMES)
    assert [record.timestamp for record in records] == times
    headers = [parse_any_header(message, 0) for message in messages]
    assert max(header.max_timestamp for header in headers) == max(times)
    assert [header.last_offset for header in headers] == ([100, 101, 102] if codec == "none" else [102])


@pytest.mark.parametrize("size", range(16))
def test_the_checksum_of_frame_headers(size):
    data = bytes(range(100, 100 + size))
    assert _xxh32_of_few(data) == xxhash.xxh32(data, seed=0).intdigest()


@pytest.mark.parametrize("has_content_size", [False, True])
def test_only_v0_forgives_the_checksum_of_an_lz4_frame(has_content_size):
    import lz4.frame

    frame = bytearray(lz4.frame.compress(b"text" * 9, block_linked=False, store_size=has_content_size))
    at = 14 if has_content_size else 6
    frame[at] ^= 0x55
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, bytes(frame))
    assert decompress(Codec.LZ4, mend_lz4_checksum(bytes(frame))) == b"text" * 9
    nested = old_message(b"v", magic=0, offset=9)
    for magic in (0, 1):
        packed = bytearray(compress(Codec.LZ4, nested if not magic else old_message(b"v", magic=1)))
        packed[6] ^= 0x55
        message = old_message(bytes(packed), magic=magic, attributes=3, offset=9)
        if magic:
            with pytest.raises(CorruptBatch):
                iter_legacy_records(message)
        else:
            assert [record.offset for record in iter_legacy_records(message)] == [9]


@pytest.mark.parametrize("short", [b"", b"\x04\x22\x4d\x18", bytes(20), b"\x04\x22\x4d\x18\x68\x40\x00"])
def test_what_is_no_lz4_frame_is_not_mended(short):
    assert mend_lz4_checksum(short) == short


INNER = old_message(b"v", magic=1, offset=0) + old_message(b"v", magic=1, offset=1)


@pytest.mark.parametrize(
    "message",
    [
        wrapper(wrapper(INNER, offset=1)),
        wrapper(b""),
        wrapper(INNER, codec=4),
        wrapper(INNER[:-1]),
        wrapper(old_message(b"v", magic=1, offset=7), offset=6),
        old_message(None, magic=1, attributes=1, offset=3),
        old_message(b"no gzip", magic=1, attributes=1, offset=3),
        old_message(b"v", magic=1)[:-1],
    ],
)
def test_malformed_wrappers_are_corrupt(message):
    with pytest.raises(CorruptBatch):
        iter_legacy_records(message)


def test_the_offset_0_of_old_producers_counts_from_there():
    assert [record.offset for record in iter_legacy_records(wrapper(INNER, offset=0))] == [0, 1]
    assert [record.offset for record in iter_legacy_records(wrapper(INNER, offset=9))] == [8, 9]


def test_bits_without_a_meaning_make_no_transaction_and_no_control_batch():
    header = parse_any_header(old_message(b"v", magic=1, attributes=0x70, offset=3), 0)
    assert not header.is_control and not header.is_transactional and not header.codec


# --- logs ---


@pytest.mark.parametrize(("magic", "codec", "has_append_time"), GOLDEN)
@pytest.mark.parametrize("clean", [False, True])
def test_a_golden_segment_is_recovered_served_and_searched(open_old, magic, codec, has_append_time, clean):
    golden = GOLDEN[magic, codec, has_append_time]
    log = open_old({BASE_OFFSET: golden}, clean=clean)
    assert (log.log_start_offset, log.log_end_offset) == (100, 103)
    assert log.size_bytes == len(golden)
    assert log.latest_epoch == -1
    served = read_of(log, 100)
    assert served == golden
    expected = [-1] * 3 if not magic else [APPENDED] * 3 if has_append_time else list(TIMES)
    for timestamp in (0, *TIMES, TIMES[0] + 1, APPENDED, APPENDED + 1):
        found = log.offset_for_timestamp(timestamp, bound=103)
        hits = [(time, 100 + at, -1) for at, time in enumerate(expected) if time >= timestamp]
        assert found == (hits[0] if hits else None), timestamp
    largest = log.offset_of_max_timestamp(103)
    assert largest == ((max(expected), 100 + expected.index(max(expected)), -1) if magic else None)


def read_of(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, **options) -> bytes:
    found = log.read(offset, max_bytes=max_bytes, bound=options.get("bound", log.high_watermark), min_one_batch=True)
    if found.region is None:
        return b""
    data: bytes = found.region.read()
    found.region.release()
    return data


def mixed_log() -> tuple[bytes, list[tuple[int, int, int]]]:
    """Build a segment of all golden sets in turn; and (first, last offset, position) of each top-level message."""
    content, places = b"", []
    offset = -1
    for _ in range(9):
        for key, golden in GOLDEN.items():
            for message in messages_of(moved(golden, offset + 3)):
                count = 1 if key[1] == "none" else 3
                if not key[0] and key[1] != "none":
                    continue  # the inner offsets of v0 are absolute: they cannot be moved
                offset += count
                message = struct.pack(">q", offset) + message[8:]
                places.append((offset - count + 1, offset, len(content)))
                content += message
    return content, places


def test_every_offset_and_limit_gives_whole_messages(open_old):
    content, places = mixed_log()
    assert len(content) > 8192
    log = open_old({0: content}, index_interval_bytes=300)
    assert log.log_end_offset == places[-1][1] + 1
    ends = [position for _, _, position in places[1:]] + [len(content)]
    for first, last, position in places:
        for offset in range(first, last + 1):
            for max_bytes in (1, 500, 1 << 20):
                data = read_of(log, offset, max_bytes)
                assert content[position : position + len(data)] == data
                assert position + len(data) in ends
                assert len(data) <= max_bytes or position + len(data) == min(end for end in ends if end > position)
    assert read_of(log, 0, bound=places[40][0] + 1) == content[: places[40][2]]


def test_a_restart_trusts_indexes_and_finds_the_same(open_old):
    content, _ = mixed_log()
    log = open_old({0: content}, index_interval_bytes=300)
    end = log.log_end_offset
    times = [log.offset_for_timestamp(time, bound=end) for time in (0, *TIMES, APPENDED)]
    log.roll()
    append(log)
    log.close()
    names = {
        name: os.stat(os.path.join(log.path, name)).st_mtime_ns for name in os.listdir(log.path) if "index" in name
    }
    again = open_old(clean=True)
    assert again.log_end_offset == end + 1
    assert [again.offset_for_timestamp(time, bound=end) for time in (0, *TIMES, APPENDED)] == times
    assert read_all_bytes(again)[: len(content)] == content
    again.fail()
    sealed = [name for name in names if name.startswith("0" * 20)]
    assert sealed and all(os.stat(os.path.join(log.path, name)).st_mtime_ns == names[name] for name in sealed)


def read_all_bytes(log: PartitionLog) -> bytes:
    offset, data = log.log_start_offset, b""
    while offset < log.high_watermark:
        piece = read_of(log, offset)
        data += piece
        last = piece
        while last:
            header = parse_any_header(last, 0)
            offset = header.next_offset
            last = last[header.size_bytes :]
    return data


@pytest.mark.parametrize("clean", [False, True])
def test_a_segment_without_timestamps_is_not_indexed_anew_at_every_start(open_old, caplog, clean):
    content = b"".join(old_message(bytes(100), magic=0, offset=offset) for offset in range(300))
    log = open_old({0: content}, index_interval_bytes=1000)
    log.roll()
    append(log)
    log.close()
    caplog.clear()
    again = open_old(clean=clean, recovery_point=301, high_watermark=301)
    assert (again.log_end_offset, again.segment_count) == (301, 2)
    assert again.offset_for_timestamp(0, bound=301).offset == 300
    assert again.offset_of_max_timestamp(301).offset == 300
    assert read_of(again, 250)[:8] == struct.pack(">q", 250)
    assert "rebuilding" not in caplog.text
    os.unlink(os.path.join(again.path, "00000000000000000000.timeindex"))
    again.close()
    assert open_old(clean=True).offset_for_timestamp(0, bound=301).offset == 300


def test_an_empty_time_index_of_records_with_timestamps_is_not_believed(open_log):
    log = open_log()
    append(log, 3)
    log.roll()
    append(log)
    log.close()
    with open(os.path.join(log.path, "00000000000000000000.timeindex"), "wb"):
        pass
    again = open_log(clean=True, high_watermark=4)
    assert again.offset_for_timestamp(NOW, bound=4).offset == 0
    assert os.path.getsize(os.path.join(log.path, "00000000000000000000.timeindex")) == 12


@pytest.mark.parametrize("damage", ["crc", "torn", "zeros", "length"])
@pytest.mark.parametrize("magic", [0, 1])
def test_recovery_cuts_old_messages_at_the_first_bad_byte(open_old, magic, damage):
    good = b"".join(old_message(b"v" * 30, magic=magic, offset=offset, timestamp=NOW) for offset in range(5))
    bad = bytearray(old_message(b"v" * 30, magic=magic, offset=5, timestamp=NOW))
    if damage == "crc":
        bad[-1] ^= 1
    elif damage == "torn":
        del bad[-1]
    elif damage == "zeros":
        bad = bytearray(100)
    else:
        bad[8:12] = struct.pack(">i", 13)
    log = open_old({0: good + bytes(bad) + old_message(b"later", magic=magic, offset=6)})
    assert log.log_end_offset == 5
    assert log.size_bytes == len(good)


def test_offsets_that_go_back_end_the_log(open_old):
    messages = [old_message(b"v", magic=1, offset=offset) for offset in (3, 4, 4)]
    assert open_old({3: b"".join(messages)}).log_end_offset == 5


def test_new_batches_follow_old_messages_in_one_segment(open_old):
    old = b"".join(old_message(b"v%d" % offset, magic=1, offset=offset, timestamp=NOW + offset) for offset in range(5))
    log = open_old({0: old}, index_interval_bytes=10)
    append(log, 2, epoch=4, timestamp=NOW + 50)
    assert (log.segment_count, log.log_end_offset, log.latest_epoch) == (1, 7, 4)
    assert log.offset_for_timestamp(NOW + 3, bound=7) == (NOW + 3, 3, -1)
    assert log.offset_for_timestamp(NOW + 50, bound=7) == (NOW + 50, 5, 4)
    data = read_of(log, 0)
    assert data[: len(old)] == old
    assert [header.base_offset for header in batches_of(data[len(old) :])] == [5]
    assert log.end_offset_for_epoch(3) == (3, 5)
    log.close()
    again = open_old(clean=False)
    assert (again.log_end_offset, again.latest_epoch) == (7, 4)
    assert again.truncate_to(3)
    assert (again.log_end_offset, again.offset_of_max_timestamp(3)) == (3, (NOW + 2, 2, -1))


def test_truncation_into_a_wrapper_takes_it_whole(open_old):
    golden = GOLDEN[1, "gzip", False]
    log = open_old({90: old_message(b"v", magic=1, offset=90, timestamp=NOW) + golden})
    assert log.truncate_to(101)
    assert log.size_bytes == len(old_message(b"v", magic=1, offset=90))
    assert log.log_end_offset == 101


def test_a_damaged_wrapper_is_served_but_not_searched(open_old):
    message = old_message(b"no gzip", magic=1, attributes=1, offset=2, timestamp=NOW)
    log = open_old({0: message})
    assert read_of(log, 0) == message
    with pytest.raises(CorruptRecord):
        log.offset_for_timestamp(NOW, bound=3)


def test_old_segments_age_by_their_own_time_or_that_of_their_file(open_old, clock, tmp_path):
    content = {0: old_message(b"v", magic=1, offset=0, timestamp=NOW - 10_000), 1: old_message(b"v", magic=0, offset=1)}
    log = open_old(content, retention_ms=11_000)
    for base, age_ms in ((0, 99_000), (1, 0)):
        stamp_ns = (clock.now - age_ms) * 1_000_000
        os.utime(os.path.join(log.path, f"{base:020}.log"), ns=(stamp_ns, stamp_ns))
    assert log.retain(clock.now) is None
    clock.now += 1001
    assert log.retain(clock.now) is not None
    assert (log.log_start_offset, log.segment_count) == (1, 1)
    assert log.retain(clock.now) is None
    clock.now += 10_000
    assert log.retain(clock.now) is not None
    assert log.log_start_offset == 2
