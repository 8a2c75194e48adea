"""What a produced batch is refused for, with which error, and how accepted ones are stored."""

import itertools
import random

import cramjam
import lz4.frame
import pytest
import xxhash

from config.views import LogConfig
from protocol.records.batch import BatchHeader, TimestampType, check_crc, parse_header
from protocol.records.builder import assemble, build_batch, encode_record
from protocol.records.compression import Codec, compress
from protocol.records.control import build_marker
from protocol.records.record import iter_records
from storage.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    RecordTooLarge,
    UnsupportedCompression,
)
from storage.log.validator import validate
from storage.types import AppendOrigin

NOW = 1700000000000
HOUR = 3_600_000
PRODUCER = LogConfig()
CODEC_NAMES = {
    Codec.NONE: "uncompressed",
    Codec.GZIP: "gzip",
    Codec.SNAPPY: "snappy",
    Codec.LZ4: "lz4",
    Codec.ZSTD: "zstd",
}


def batch_of(*values, **options):
    return build_batch([(b"k", value) for value in values or (b"a", b"b", b"c")], **({"timestamp": NOW} | options))


def changed(batch: bytearray, payload: bytes | None = None, **fields) -> bytearray:
    header = parse_header(batch)._replace(**fields)
    return assemble(header, bytes(batch[61:]) if payload is None else payload)


def accept(batch, config=PRODUCER, **options):
    return validate(memoryview(batch), config=config, now_ms=NOW, **options)


def refuse(error, batch, config=PRODUCER, **options):
    before = bytes(batch)
    with pytest.raises(error) as caught:
        accept(batch, config, **options)
    assert bytes(batch) == before
    return caught.value


def stored(batch, result) -> bytes:
    return bytes(batch if result.buffer is None else result.buffer)


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_is_stored_as_sent(codec):
    batch = batch_of(codec=codec)
    before = bytes(batch)
    result = accept(batch)
    assert result.buffer is None and bytes(batch) == before
    assert result.header == parse_header(before)


def test_a_crc_off_by_one_bit_is_corrupt():
    batch = batch_of()
    batch[20] ^= 1
    refuse(CorruptRecord, batch)


def test_a_damaged_count_is_corrupt_before_it_is_invalid():
    batch = batch_of()
    batch[60] ^= 1
    refuse(CorruptRecord, batch)


@pytest.mark.parametrize("config", [PRODUCER, LogConfig(compression_type="gzip")])
@pytest.mark.parametrize(
    ("error", "batch"),
    [
        (InvalidRecord, batch_of() + batch_of()),
        (InvalidRecord, changed(batch_of(), record_count=5)),
        (InvalidRecord, changed(batch_of(), record_count=5, last_offset_delta=4)),
        (InvalidRecord, changed(batch_of(), record_count=2, last_offset_delta=1)),
        (InvalidRecord, changed(batch_of(), last_offset_delta=9)),
        (InvalidRecord, changed(batch_of(), record_count=0)),
        (InvalidRecord, changed(batch_of(), record_count=0, last_offset_delta=-1)),
        (InvalidRecord, changed(batch_of(), record_count=-1, last_offset_delta=-2)),
        (InvalidRecord, changed(batch_of(), record_count=2**31 - 1, last_offset_delta=2**31 - 2)),
        (InvalidRecord, batch_of(is_control=True)),
        (InvalidRecord, changed(batch_of(), producer_id=7, producer_epoch=0, base_sequence=-1)),
        (InvalidRecord, batch_of(base_offset=5)),
        (InvalidRecord, changed(batch_of(), attributes=5)),
        (InvalidRecord, b""),
        (InvalidRecord, bytes(8) + (22).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(17)),
        (InvalidRecord, bytes(8) + (92).to_bytes(4, "big") + bytes(4) + b"\x00" + bytes(87)),
        (InvalidRecord, changed(batch_of(), payload=b"\x7e" + bytes(batch_of()[62:]))),
        (CorruptRecord, changed(batch_of(), payload=bytes(range(40)), attributes=1)),
        (CorruptRecord, changed(batch_of(), magic=3)),
        (CorruptRecord, bytes(8) + (10).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(20)),
        (InvalidRecord, batch_of()[:-10]),
        (InvalidRecord, batch_of()[:40]),
        (InvalidRecord, batch_of()[:9]),
    ],
)
def test_malformed_batches_are_refused(config, error, batch):
    refuse(error, batch, config)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "payload",
    [
        encode_record(0, 0, None, b"a") + encode_record(2, 0, None, b"b"),
        encode_record(1, 0, None, b"a") + encode_record(1, 0, None, b"b"),
        encode_record(0, 0, None, b"a"),
        encode_record(0, 0, None, b"a") + encode_record(1, 0, None, b"b") + b"\0",
        encode_record(0, 0, None, b"a") + encode_record(1, 0, None, b"b")[:-1],
        encode_record(0, 0, None, b"a") + bytes((14, 0, 0, 2, 1, 1, 2, 1)),
        b"",
    ],
)
def test_record_faults_are_found_in_every_codec(codec, payload):
    batch = changed(batch_of(b"a", b"b"), payload=compress(codec, payload), attributes=int(codec))
    refuse(InvalidRecord, batch)


@pytest.mark.parametrize("epoch", [0, 7, -1])
@pytest.mark.parametrize("producer_id", [-1, -5])
def test_fields_the_broker_overwrites_or_tolerates(epoch, producer_id):
    batch = batch_of(leader_epoch=epoch, producer_id=producer_id)
    assert accept(batch).buffer is None


def test_zstd_needs_produce_version_7():
    batch = batch_of(codec=Codec.ZSTD)
    refuse(UnsupportedCompression, batch, request_version=6)
    assert accept(batch, request_version=7).buffer is None


def test_the_size_limit_counts_the_whole_batch_as_sent():
    batch = batch_of(bytes(50_000))
    size = len(batch)
    assert accept(batch, LogConfig(max_message_bytes=size)).buffer is None
    error = refuse(RecordTooLarge, batch, LogConfig(max_message_bytes=size - 1))
    assert (error.size_bytes, error.limit_bytes) == (size, size - 1)
    assert accept(batch_of(bytes(200_000), codec=Codec.GZIP), LogConfig(max_message_bytes=50_000)).buffer is None
    refuse(RecordTooLarge, batch_of(b""), LogConfig(max_message_bytes=0))


def test_recoding_may_make_a_batch_too_large():
    batch = batch_of(bytes(200_000), codec=Codec.GZIP)
    refuse(RecordTooLarge, batch, LogConfig(max_message_bytes=50_000, compression_type="uncompressed"))
    noise = random.Random(7).randbytes(4000)
    plain = batch_of(noise)
    refuse(RecordTooLarge, plain, LogConfig(max_message_bytes=len(plain), compression_type="gzip"))


def test_replicas_and_the_metadata_log_are_checked_for_damage_only():
    marker = build_marker(
        is_abort=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW, base_offset=9
    )
    for origin in (AppendOrigin.REPLICATION, AppendOrigin.RAFT):
        assert accept(marker, LogConfig(max_message_bytes=1), origin=origin).header.base_offset == 9
        damaged = bytearray(marker)
        damaged[-1] ^= 1
        refuse(CorruptRecord, damaged, origin=origin)


def test_coordinators_write_markers_and_sequence_less_batches_that_are_never_compressed():
    config = LogConfig(compression_type="gzip", cleanup_policy=frozenset({"compact"}))
    marker = build_marker(is_abort=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    assert accept(marker, config, origin=AppendOrigin.COORDINATOR).buffer is None
    offsets = batch_of(producer_id=1, producer_epoch=0, is_transactional=True)
    assert accept(offsets, origin=AppendOrigin.COORDINATOR).buffer is None


@pytest.mark.parametrize("codec", Codec)
def test_keys_are_required_on_compacted_topics(codec):
    config = LogConfig(cleanup_policy=frozenset({"compact", "delete"}))
    batch = build_batch([(b"k", b"v"), (None, b"v"), (b"", None), (None, None)], timestamp=NOW, codec=codec)
    error = refuse(InvalidRecord, batch, config)
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert error.message.startswith("One or more records have been rejected due to 2 record errors in total")
    assert accept(batch).buffer is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("second", [NOW - 2 * HOUR, NOW + 2 * HOUR, 1_700_000_000, NOW - HOUR - 1, NOW + HOUR + 1])
def test_timestamps_outside_the_window_name_their_records(codec, second):
    config = LogConfig(message_timestamp_before_max_ms=HOUR, message_timestamp_after_max_ms=HOUR)
    rows = [(None, b"v", (), NOW), (None, b"v", (), second), (None, b"v", (), NOW + 1)]
    batch = build_batch(rows, codec=codec)
    error = refuse(InvalidTimestamp, batch, config)
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    assert [index for index, _ in error.record_errors] == [1]
    stamped = accept(bytes(batch), LogConfig(message_timestamp_type="LogAppendTime"))
    assert stamped.header.max_timestamp == NOW


def test_the_edges_of_the_window_and_no_timestamp_are_accepted():
    config = LogConfig(message_timestamp_before_max_ms=HOUR, message_timestamp_after_max_ms=HOUR)
    rows = [(None, b"v", (), NOW - HOUR), (None, b"v", (), NOW + HOUR), (None, b"v", (), -1)]
    assert accept(build_batch(rows), config).header.max_timestamp == NOW + HOUR
    assert accept(build_batch([(None, b"v")]), config).header.max_timestamp == -1


def test_timestamp_errors_win_over_missing_keys():
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    error = refuse(InvalidTimestamp, build_batch([(None, b"v", (), NOW), (b"k", b"v", (), NOW + 2 * HOUR)]), config)
    assert [index for index, _ in error.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("is_writable", [True, False])
def test_log_append_time_stamps_the_header_only(codec, is_writable):
    rows = [(b"k", b"v", (), 5), (b"k", b"v", (), 6), (b"k", b"v", (), 7)]
    batch = build_batch(rows, codec=codec)
    sent = bytes(batch)
    given = batch if is_writable else sent
    result = accept(given, LogConfig(message_timestamp_type="LogAppendTime"))
    assert (result.buffer is None) is is_writable
    final = stored(given, result)
    assert final[61:] == sent[61:] and parse_header(final) == result.header
    assert check_crc(final, 0, result.header)
    assert result.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert result.header.base_timestamp == 5 and result.header.max_timestamp == NOW
    assert [record.timestamp for record in iter_records(final)] == [NOW] * 3


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("claimed", [-1, 0, NOW + 99 * HOUR])
def test_a_wrong_maximum_timestamp_is_corrected(codec, claimed):
    rows = [(b"k", b"v", (), NOW), (b"k", b"v", (), NOW + 8), (b"k", b"v", (), NOW - 3)]
    batch = changed(build_batch(rows, codec=codec), max_timestamp=claimed)
    result = accept(batch)
    final = stored(batch, result)
    assert result.header.max_timestamp == NOW + 8 and result.buffer is None
    assert check_crc(final, 0, parse_header(final))


def test_producers_must_not_set_the_append_time_bit():
    batch = batch_of(timestamp_type=TimestampType.LOG_APPEND_TIME)
    error = refuse(InvalidTimestamp, batch, LogConfig(message_timestamp_type="LogAppendTime"))
    assert [index for index, _ in error.record_errors] == [0, 1, 2]
    refuse(InvalidTimestamp, batch_of(timestamp_type=TimestampType.LOG_APPEND_TIME, timestamp=-1))
    late = batch_of(timestamp_type=TimestampType.LOG_APPEND_TIME, timestamp=NOW + 2 * HOUR)
    refuse(InvalidTimestamp, late)
    assert accept(batch).header.timestamp_type is TimestampType.CREATE_TIME
    assert check_crc(batch, 0, parse_header(batch))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(Codec, Codec)))
def test_recoding_keeps_records_and_every_header_field(source, target):
    rows = [
        (key, value, headers, NOW + index)
        for index, (key, value, headers) in enumerate(
            itertools.product(
                (None, b"", b"k"), (None, b"", b"v"), ([], [("h", None), ("h", b""), ("", b"x"), ("h", b"2")])
            )
        )
    ]
    rows.append((b"many", b"v", [(f"h{number}", b"x") for number in range(1000)], NOW))
    batch = build_batch(rows, codec=source, producer_id=9, producer_epoch=2, base_sequence=40, is_transactional=True)
    sent = bytes(batch)
    result = accept(batch, LogConfig(compression_type=CODEC_NAMES[target]))
    final = stored(batch, result)
    header = parse_header(final)
    assert check_crc(final, 0, header) and header == result.header and header.codec == target
    assert list(iter_records(final)) == list(iter_records(sent))
    same = ("producer_id", "producer_epoch", "base_sequence", "last_offset_delta", "record_count", "max_timestamp")
    assert [getattr(header, name) for name in same] == [getattr(parse_header(sent), name) for name in same]
    assert header.is_transactional
    if source == target:
        assert final == sent


def test_recoding_under_log_append_time():
    config = LogConfig(compression_type="zstd", message_timestamp_type="LogAppendTime")
    batch = batch_of(timestamp=5)
    result = accept(batch, config)
    assert result.header.codec == Codec.ZSTD and result.header.max_timestamp == NOW
    assert [record.timestamp for record in iter_records(stored(batch, result))] == [NOW] * 3


@pytest.mark.parametrize("chunk", [None, 1, 65536])
@pytest.mark.parametrize("target", ["producer", "gzip", "snappy"])
def test_snappy_in_both_framings(chunk, target):
    plain = batch_of(*(bytes((number,)) * 2000 for number in range(5 if chunk == 1 else 50)))
    section = bytes(plain[61:])
    if chunk is None:
        payload = bytes(cramjam.snappy.compress_raw(section))
    else:
        payload = bytes.fromhex("82534e41505059000000000100000001")
        for start in range(0, len(section), chunk):
            block = bytes(cramjam.snappy.compress_raw(section[start : start + chunk]))
            payload += len(block).to_bytes(4, "big") + block
    batch = changed(plain, payload=payload, attributes=int(Codec.SNAPPY))
    sent = bytes(batch)
    final = stored(batch, accept(batch, LogConfig(compression_type=target)))
    assert list(iter_records(final)) == list(iter_records(plain))
    if target != "gzip":
        assert final == sent


def test_lz4_with_the_old_frame_checksum_is_refused():
    plain = batch_of()
    frame = bytearray(
        lz4.frame.compress(plain[61:], store_size=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
    )
    assert accept(changed(plain, payload=bytes(frame), attributes=3)).buffer is None
    frame[6] = (xxhash.xxh32(bytes(frame[:6]), seed=0).intdigest() >> 8) & 0xFF
    refuse(CorruptRecord, changed(plain, payload=bytes(frame), attributes=3))


def test_a_batch_that_inflates_enormously_is_refused_within_bounds(monkeypatch):
    monkeypatch.setattr("storage.log.validator.MAX_DECOMPRESSED_BYTES", 1 << 20)
    config = LogConfig(max_message_bytes=200_000)
    for codec in (Codec.GZIP, Codec.ZSTD):
        batch = batch_of(bytes(3 << 20), codec=codec)
        refuse(InvalidRecord, batch, config)
        refuse(RecordTooLarge, batch, LogConfig(max_message_bytes=200_000, compression_type="uncompressed"))


def test_the_limit_on_single_records_counts_the_body_and_only_when_compressed():
    body = len(encode_record(0, 0, b"k", bytes(100))) - 2
    exact, below = (LogConfig(max_decompressed_message_bytes=limit) for limit in (body, body - 1))
    batch = batch_of(bytes(100), b"small", codec=Codec.GZIP)
    assert accept(batch, exact).buffer is None
    assert not refuse(InvalidRecord, batch, below).record_errors
    assert accept(batch_of(bytes(100), b"small"), below).buffer is None


def test_a_timestamp_beyond_64_bits_is_invalid():
    config = LogConfig(message_timestamp_after_max_ms=2**63 - 1)
    batch = changed(build_batch([(None, b"v", (), NOW), (None, b"v", (), NOW + 99)]), base_timestamp=2**63 - 10)
    refuse(InvalidRecord, batch, config)


def test_the_result_carries_the_header_type_the_log_expects():
    assert isinstance(accept(batch_of()).header, BatchHeader)
