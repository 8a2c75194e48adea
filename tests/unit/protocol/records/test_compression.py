"""Codecs against independent implementations, damage, and bombs."""

import gzip
import zlib

import cramjam
import lz4.frame
import pytest
import xxhash
import zstandard

from protocol.records.compression import XERIAL_MAGIC, Codec, compress, decompress
from protocol.records.errors import CorruptBatch, DecompressedTooLarge

TEXT = b"".join(b'{"id":%d,"name":"a name that repeats"}' % number for number in range(4000))
NOISE = bytes((number * number * 31 + (number >> 3)) & 0xFF for number in range(70_000))
PAYLOADS = [b"x", TEXT, NOISE, bytes(200_000)]
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def xerial(data: bytes, block: int = 32 * 1024) -> bytes:
    out = XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
    for start in range(0, len(data), block):
        chunk = bytes(cramjam.snappy.compress_raw(data[start : start + block]))
        out += len(chunk).to_bytes(4, "big") + chunk
    return out


def lz4_frame(data: bytes, **options) -> bytes:
    options = {"block_linked": False, "block_size": lz4.frame.BLOCKSIZE_MAX64KB, "store_size": False} | options
    return lz4.frame.compress(data, **options)


def zstd_stream(data: bytes) -> bytes:
    encoder = zstandard.ZstdCompressor().compressobj()
    return encoder.compress(data) + encoder.flush()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", PAYLOADS)
def test_round_trip_of_bytes_and_views(codec, data):
    packed = compress(codec, memoryview(data))
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytearray(packed))) == data


def test_our_output_is_read_by_other_implementations():
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, TEXT))) == TEXT
    assert bytes(cramjam.zstd.decompress(compress(Codec.ZSTD, TEXT))) == TEXT
    assert compress(Codec.SNAPPY, NOISE) == xerial(NOISE)


def test_lz4_output_has_the_frame_that_java_requires():
    frame = compress(Codec.LZ4, TEXT)
    assert frame[:6] == bytes.fromhex("04224d186040")


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (Codec.GZIP, gzip.compress(TEXT[:7]) + gzip.compress(b"") + gzip.compress(TEXT[7:])),
        (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))),
        (Codec.SNAPPY, xerial(TEXT, 1000)),
        (Codec.SNAPPY, xerial(TEXT, 64 * 1024)),
        (Codec.LZ4, lz4_frame(TEXT, store_size=True, content_checksum=True, block_checksum=True)),
        (Codec.LZ4, lz4_frame(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
        (Codec.ZSTD, zstd_stream(TEXT)),
        (Codec.ZSTD, zstd_stream(TEXT[:9]) + zstandard.compress(TEXT[9:500]) + zstd_stream(TEXT[500:])),
        (Codec.ZSTD, zstandard.compress(TEXT[:500]) + zstandard.compress(TEXT[500:])),
    ],
)
def test_every_framing_a_client_may_use(codec, packed):
    assert decompress(codec, packed) == TEXT


def test_snappy_in_one_byte_chunks():
    assert decompress(Codec.SNAPPY, xerial(TEXT[:500], 1)) == TEXT[:500]


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_payloads_are_corrupt(codec):
    packed = compress(codec, NOISE)
    for size in (0, 1, 3, 10, 17, len(packed) // 2, len(packed) - 5, len(packed) - 1):
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:size])


def test_a_truncated_zstd_stream_without_size_is_corrupt():
    packed = zstd_stream(NOISE)
    for size in (5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptBatch):
            decompress(Codec.ZSTD, packed[:size])


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_payload_are_corrupt(codec):
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, NOISE) + b"\x00\x07")


@pytest.mark.parametrize("codec", CODECS)
def test_arbitrary_bytes_are_corrupt(codec):
    with pytest.raises((CorruptBatch, DecompressedTooLarge)):
        decompress(codec, b"\xf0" + NOISE[:400])


def test_unknown_codecs_are_corrupt():
    with pytest.raises(CorruptBatch):
        decompress(5, b"anything")


def test_lz4_with_linked_blocks_or_the_old_header_checksum_is_refused():
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, lz4.frame.compress(TEXT))
    old = bytearray(lz4_frame(TEXT))
    old[6] = (xxhash.xxh32(bytes(old[:6]), seed=0).intdigest() >> 8) & 0xFF
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, bytes(old))


@pytest.mark.parametrize("codec", Codec)
def test_the_bound_is_exact(codec):
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, max_size=len(TEXT)) == TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, max_size=len(TEXT) - 1)


def bomb(codec: Codec, mebibytes: int) -> bytes:
    piece = bytes(1 << 20)
    if codec is Codec.GZIP:
        encoder = zlib.compressobj(9, zlib.DEFLATED, 31)
    else:
        encoder = zstandard.ZstdCompressor().compressobj()
    return b"".join(encoder.compress(piece) for _ in range(mebibytes)) + encoder.flush()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_bomb_is_stopped_at_the_bound(codec):
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, bomb(codec, 64), max_size=1 << 20)


def test_a_lying_size_allocates_nothing():
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(50))
    frame = zstandard.ZstdCompressor().compress(bytes(100_000_000))
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.ZSTD, frame)


def test_zstd_frames_with_checksums_are_read_and_checked():
    encoder = zstandard.ZstdCompressor(write_checksum=True)
    packed = encoder.compress(TEXT) + encoder.compress(NOISE)
    assert decompress(Codec.ZSTD, packed) == TEXT + NOISE
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, packed[:-1] + bytes((packed[-1] ^ 1,)))


def test_a_large_zstd_frame_is_read_piece_by_piece():
    data = NOISE * 200
    assert decompress(Codec.ZSTD, zstd_stream(data)) == data


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 9, -1)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-5, 1, 22))]
)
def test_levels_are_legal_and_readable(codec, levels):
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT


def test_a_high_zstd_level_compresses_better():
    words = b" ".join(b"word%d" % (number * number % 9973) for number in range(20_000))
    assert len(compress(Codec.ZSTD, words, 22)) < len(compress(Codec.ZSTD, words, 1))
