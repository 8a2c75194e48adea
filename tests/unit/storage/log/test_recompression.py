"""What a topic's compression.type makes of batches in the log, read back by decoders that are not ours."""

import gzip
import random
from itertools import pairwise

import cramjam
import lz4.frame
import pytest
import zstandard

from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.errors import CorruptRecord, InvalidRecord, RecordTooLarge
from storage.log.append import AppendResult
from tests.harness import batches
from tests.harness.batches import CODECS, Record
from tests.sim.logs import NOW, read_all

NAMES = {number: name for name, number in CODECS.items()}
RECORDS = [
    Record(value, key, headers, NOW + at * 7 - 20)
    for at, (key, value, headers) in enumerate(
        [
            (b"k", b"text that repeats, " * 40, ()),
            (None, b"", ((b"h", None), (b"h", b"x"))),
            (b"", None, ((b"", b""),)),
            (b"k" * 200, random.Random(4).randbytes(70_000), ()),
            *((b"%d" % number, b'{"id":%d,"name":"somebody"}' % number, ()) for number in range(300)),
        ]
    )
]


def put(log, batch: bytes) -> tuple[AppendResult, batches.Batch]:
    """Append a client's batch; return what the log said and the batch as it lies in the file."""
    base = log.log_end_offset
    result = log.append(bytearray(batch), leader_epoch=3)
    log.advance_high_watermark(log.log_end_offset)
    (stored,) = batches.parse(read_all(log, start=base))
    assert stored.crc_is_right
    assert (stored.base_offset, stored.partition_leader_epoch) == (base, 3)
    return result, stored


def plain(records: list[Record], base: int, time: int | None = None) -> list[Record]:
    """Give the records as a reader must see them."""
    return [
        Record(one.value, one.key, tuple(one.headers), one.timestamp if time is None else time, base + at)
        for at, one in enumerate(records)
    ]


@pytest.mark.parametrize("time_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("target", ["producer", *CODECS])
@pytest.mark.parametrize("source", CODECS)
def test_every_codec_becomes_every_other_and_keeps_its_records(open_log, source, target, time_type):
    log = open_log(compression_type=target, message_timestamp_type=time_type)
    for number in range(2):
        sent = batches.build(
            RECORDS, codec=CODECS[source], producer_id=9, producer_epoch=1, base_sequence=number * len(RECORDS)
        )
        result, stored = put(log, sent)
        kept = target in ("producer", source)
        assert NAMES[stored.codec] == (source if kept else target)
        time = NOW if time_type == "LogAppendTime" else None
        assert stored.records() == plain(RECORDS, result.base_offset, time)
        assert (stored.producer_id, stored.producer_epoch) == (9, 1)
        assert (stored.base_sequence, stored.count) == (number * len(RECORDS), len(RECORDS))
        assert stored.max_timestamp == (time or max(record.timestamp for record in RECORDS))
        assert stored.base_timestamp == RECORDS[0].timestamp
        assert result.log_append_time_ms == (NOW if time else -1)
        if kept:
            assert stored.section == batches.parse(sent)[0].section
            if time is None:
                assert stored.raw[21:] == sent[21:]


def test_a_codec_that_is_there_already_is_kept_whatever_its_level(open_log):
    section = b"".join(batches.encode_record(one, at, RECORDS[0].timestamp) for at, one in enumerate(RECORDS))
    log = open_log(compression_type="gzip", compression_gzip_level=9)
    sent = batches.build(RECORDS, codec=batches.GZIP, section=gzip.compress(section, 1))
    assert put(log, sent)[1].raw[21:] == sent[21:]


@pytest.mark.parametrize("target", ["gzip", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("chunk", [None, 1, 1000, 32768, 65536])
def test_snappy_in_every_framing_is_encoded_anew(open_log, target, chunk):
    records = RECORDS[4:60] if chunk == 1 else RECORDS
    section = b"".join(batches.encode_record(one, at, records[0].timestamp) for at, one in enumerate(records))
    packed = batches.raw_snappy(section) if chunk is None else batches.xerial_snappy(section, chunk)
    _, stored = put(open_log(compression_type=target), batches.build(records, codec=batches.SNAPPY, section=packed))
    assert NAMES[stored.codec] == target
    assert stored.records() == plain(records, 0)


@pytest.mark.parametrize("target", ["gzip", "uncompressed"])
@pytest.mark.parametrize(
    "options",
    [
        {"block_size": lz4.frame.BLOCKSIZE_MAX4MB},
        {"block_size": lz4.frame.BLOCKSIZE_MAX256KB, "store_size": True},
        {"content_checksum": True, "block_checksum": True},
        {"compression_level": 12},
    ],
)
def test_every_lz4_frame_a_java_client_reads_is_read(open_log, target, options):
    section = b"".join(batches.encode_record(one, at, RECORDS[0].timestamp) for at, one in enumerate(RECORDS))
    frame = lz4.frame.compress(section, block_linked=False, **({"store_size": False} | options))
    _, stored = put(open_log(compression_type=target), batches.build(RECORDS, codec=batches.LZ4, section=frame))
    assert stored.records() == plain(RECORDS, 0)


@pytest.mark.parametrize("compression", ["producer", "gzip"])
@pytest.mark.parametrize("fault", ["linked blocks", "a dictionary", "a wrong header checksum", "another version"])
def test_lz4_frames_that_no_java_client_reads_are_refused(open_log, fault, compression):
    section = b"".join(batches.encode_record(one, at, RECORDS[0].timestamp) for at, one in enumerate(RECORDS))
    frame = bytearray(lz4.frame.compress(section, block_linked=fault == "linked blocks", store_size=False))
    if fault == "a dictionary":
        frame[4] |= 0x01
    elif fault == "a wrong header checksum":
        frame[6] ^= 0xFF
    elif fault == "another version":
        frame[4] ^= 0xC0
    log = open_log(compression_type=compression)
    with pytest.raises(CorruptRecord):
        log.append(bytearray(batches.build(RECORDS, codec=batches.LZ4, section=bytes(frame))), leader_epoch=0)
    assert log.log_end_offset == 0


def test_what_we_write_in_lz4_has_independent_blocks_of_64_kib(open_log):
    _, stored = put(open_log(compression_type="lz4"), batches.build(RECORDS))
    info = lz4.frame.get_frame_info(stored.section)
    assert (info["block_linked"], info["block_size"], info["content_checksum"]) == (False, 64 * 1024, False)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        ("gzip", [*range(1, 10), -1]),
        ("lz4", range(1, 18)),
        ("zstd", [-131072, -7, -1, *range(1, 23)]),
    ],
)
def test_every_level_is_read_by_other_implementations(open_log, codec, levels):
    decoders = {"gzip": cramjam.gzip.decompress, "lz4": cramjam.lz4.decompress, "zstd": cramjam.zstd.decompress}
    records = RECORDS[4:100]
    sent = batches.build(records)
    for level in levels:
        log = open_log(compression_type=codec, **{f"compression_{codec}_level": level})
        _, stored = put(log, sent)
        assert stored.codec == CODECS[codec]
        assert bytes(decoders[codec](stored.section)) == batches.parse(sent)[0].section, level
        log.truncate_to(0)
        log.close()


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 9, 17), ("zstd", 1, 22)])
def test_higher_levels_compress_better(open_log, codec, low, high):
    words = b" ".join(b"word%d" % (number * number % 9973) for number in range(9_000))
    sizes = []
    log = open_log(compression_type=codec)
    for level in (low, high):
        log.config = LogConfig(compression_type=codec, **{f"compression_{codec}_level": level})
        sizes.append(len(put(log, batches.build([Record(words, timestamp=NOW)]))[1].raw))
    assert sizes[1] < sizes[0]


def test_levels_are_those_of_the_codec():
    config = LogConfig(compression_gzip_level=4, compression_lz4_level=5, compression_zstd_level=6)
    assert [config.compression_level(name) for name in ("gzip", "lz4", "zstd", "snappy", "uncompressed")] == [
        *(4, 5, 6, None, None)
    ]


def test_a_change_is_for_later_appends_only(open_log):
    log = open_log()
    sent = batches.build(RECORDS, codec=batches.ZSTD)
    before = put(log, sent)[1].raw
    log.config = LogConfig(compression_type="snappy", message_timestamp_type="LogAppendTime")
    after = put(log, sent)[1]
    assert (after.codec, after.max_timestamp) == (batches.SNAPPY, NOW)
    assert batches.parse(read_all(log, start=0))[0].raw == before


@pytest.mark.parametrize("codec", CODECS)
def test_the_size_limit_holds_before_and_after_recompression(open_log, codec):
    sent = batches.build(RECORDS, codec=CODECS[codec])
    log = open_log()
    for target in CODECS:
        log.config = LogConfig(compression_type=target)
        size = max(len(sent), len(put(log, sent)[1].raw))
        log.config = LogConfig(compression_type=target, max_message_bytes=size)
        put(log, sent)
        end = log.log_end_offset
        log.config = LogConfig(compression_type=target, max_message_bytes=size - 1)
        with pytest.raises(RecordTooLarge):
            log.append(bytearray(sent), leader_epoch=3)
        assert log.log_end_offset == end


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("target", ["producer", "uncompressed"])
def test_the_limit_of_one_inflated_record_is_exact_and_for_compressed_batches_only(open_log, codec, target):
    record = Record(b"v" * 107, None, (), NOW)
    body = len(batches.encode_record(record, 0, NOW)) - 2  # less the length, a varint of two bytes
    assert body == 114
    sent = batches.build([Record(b"small", None, (), NOW), record], codec=CODECS[codec])
    log = open_log(compression_type=target, max_decompressed_message_bytes=body)
    put(log, sent)
    log.config = LogConfig(compression_type=target, max_decompressed_message_bytes=body - 1)
    with pytest.raises(InvalidRecord) as refused:
        log.append(bytearray(sent), leader_epoch=3)
    assert not refused.value.record_errors
    assert log.log_end_offset == 2
    put(log, batches.build([record]))


def test_control_batches_are_never_compressed_and_clients_cannot_write_them(open_log):
    log = open_log(compression_type="zstd")
    with pytest.raises(InvalidRecord):
        log.append(bytearray(batches.build(RECORDS, attributes=batches.CONTROL)), leader_epoch=3)
    assert log.log_end_offset == 0


def test_streams_of_several_members_are_read_and_encoded_anew(open_log):
    section = b"".join(batches.encode_record(one, at, RECORDS[0].timestamp) for at, one in enumerate(RECORDS))
    cuts = (0, 1, 1, 5000, 70_000, len(section))
    parts = [section[start:end] for start, end in pairwise(cuts)]
    members = {
        batches.GZIP: b"".join(gzip.compress(part) for part in parts),
        batches.ZSTD: b"".join(zstandard.ZstdCompressor().compress(part) for part in parts),
    }
    log = open_log(compression_type="lz4")
    for codec, stream in members.items():
        base = log.log_end_offset
        _, stored = put(log, batches.build(RECORDS, codec=codec, section=stream))
        assert stored.codec == batches.LZ4
        assert stored.records() == plain(RECORDS, base)


def test_batches_of_the_broker_s_own_are_like_those_of_clients(open_log):
    """What our builder makes and what the harness makes is stored in the same form."""
    log = open_log(compression_type="gzip")
    ours = build_batch([(one.key, one.value, (), one.timestamp) for one in RECORDS[4:9]])
    theirs = batches.build([Record(one.value, one.key, (), one.timestamp) for one in RECORDS[4:9]])
    assert put(log, bytes(ours))[1].raw[21:] == put(log, theirs)[1].raw[21:]
