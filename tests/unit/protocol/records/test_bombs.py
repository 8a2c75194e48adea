"""Payloads that inflate enormously, measured: the memory of a process that refuses them stays near the bound."""

import gzip
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard

from protocol.records.compression import XERIAL_MAGIC, Codec, decompress
from protocol.records.errors import CorruptBatch, DecompressedTooLarge

MIB = 1 << 20
BOUND = 8 * MIB
ROOT = Path(__file__).resolve().parents[4]
XERIAL = XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))

MEASURED = """
import resource, sys
from protocol.records.compression import compress, decompress
from protocol.records.errors import CorruptBatch, DecompressedTooLarge
codec, bound, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
decompress(codec, compress(codec, b"loads the module" * 5000))
payload = open(path, "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, payload, max_size=bound)
    outcome = "accepted"
except (CorruptBatch, DecompressedTooLarge) as refusal:
    outcome = type(refusal).__name__
print(outcome, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def zeros_in(encoder, mebibytes: int) -> bytes:
    piece = bytes(MIB)
    return b"".join(encoder.compress(piece) for _ in range(mebibytes)) + encoder.flush()


def lz4_zeros(mebibytes: int) -> bytes:
    encoder = lz4.frame.LZ4FrameCompressor(block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    piece = bytes(4 * MIB)
    return encoder.begin() + b"".join(encoder.compress(piece) for _ in range(mebibytes // 4)) + encoder.flush()


def xerial(*blocks: bytes) -> bytes:
    return XERIAL + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def zstd_with_window(log: int, content: bytes, mebibytes: int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=log, enable_ldm=log > 27)
    encoder = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return b"".join(encoder.compress(content) for _ in range(mebibytes)) + encoder.flush()


SNAPPY_ZEROS = bytes(cramjam.snappy.compress_raw(bytes(4 * MIB)))
BOMBS = {
    "gzip": (Codec.GZIP, lambda: zeros_in(zlib.compressobj(9, zlib.DEFLATED, 31), 400)),
    "gzip members": (Codec.GZIP, lambda: gzip.compress(bytes(MIB)) * 400),
    "snappy": (Codec.SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(100 * MIB)))),
    "snappy stream": (Codec.SNAPPY, lambda: xerial(*[SNAPPY_ZEROS] * 25)),
    "snappy claim": (Codec.SNAPPY, lambda: b"\xff\xff\xff\x03" + bytes(50)),
    "snappy claims": (Codec.SNAPPY, lambda: xerial(*[b"\xff\xff\xff\x03" + bytes(50)] * 1000)),
    "lz4": (Codec.LZ4, lambda: lz4_zeros(400)),
    "zstd": (Codec.ZSTD, lambda: zeros_in(zstandard.ZstdCompressor().compressobj(), 400)),
    "zstd frames": (Codec.ZSTD, lambda: zeros_in(zstandard.ZstdCompressor().compressobj(), 1) * 400),
    "zstd with sizes": (Codec.ZSTD, lambda: zstandard.ZstdCompressor().compress(bytes(MIB)) * 400),
    "zstd of a wide window": (Codec.ZSTD, lambda: zstd_with_window(27, bytes(MIB), 400)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_memory_of_a_refusal_is_bounded(bomb, tmp_path):
    codec, build = BOMBS[bomb]
    path = tmp_path / "payload"
    path.write_bytes(build())
    arguments = [sys.executable, "-c", MEASURED, str(int(codec)), str(BOUND), str(path)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    outcome, grown_bytes = done.stdout.split()
    assert outcome in ("DecompressedTooLarge", "CorruptBatch")
    assert outcome == "DecompressedTooLarge" or "claim" in bomb
    # What is kept may be copied once more as it grows; a piece and the decoder's own buffers come on top.
    assert int(grown_bytes) < 2 * BOUND + 6 * MIB, f"{int(grown_bytes) / MIB:.0f} MiB"


@pytest.mark.parametrize("bomb", BOMBS)
def test_python_s_own_memory_is_bounded_and_given_back(bomb):
    codec, build = BOMBS[bomb]
    payload = build()
    tracemalloc.start()
    try:
        with pytest.raises((DecompressedTooLarge, CorruptBatch)):
            decompress(codec, payload, max_size=MIB)
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * MIB
    assert left < MIB // 4


@pytest.mark.parametrize("log", [28, 31])
def test_zstd_windows_above_those_of_the_reference_are_refused(log):
    header = bytearray(b"\x28\xb5\x2f\xfd\x00") + bytes(((log - 10) << 3,))
    with pytest.raises(CorruptBatch, match="zstd"):
        decompress(Codec.ZSTD, bytes(header) + b"\x01\x00\x00")
    accepted = bytearray(header)
    accepted[5] = (27 - 10) << 3
    assert decompress(Codec.ZSTD, bytes(accepted) + b"\x01\x00\x00") == b""


def test_a_wide_window_within_the_bound_is_read():
    content = bytes(range(256)) * 4096
    assert decompress(Codec.ZSTD, zstd_with_window(27, content, 12)) == content * 12


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (Codec.GZIP, gzip.compress(b"") * 50_000),
        (Codec.ZSTD, zstandard.ZstdCompressor().compress(b"") * 100_000),
        (Codec.SNAPPY, xerial(*[b"\0"] * 200_000)),
    ],
)
def test_a_mebibyte_of_empty_members_is_read_in_time(codec, payload):
    started = time.thread_time()
    assert decompress(codec, payload) == b""
    assert time.thread_time() - started < 3


def test_a_snappy_block_is_believed_up_to_what_the_format_can_give():
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    assert decompress(Codec.SNAPPY, block) == bytes(MIB)
    assert MIB / len(block) > 21
