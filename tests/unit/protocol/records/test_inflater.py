"""What is inflated in one step: the same as elsewhere, or nothing, and never more than a little work."""

import gzip
import time
import tracemalloc

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.compression import Codec, compress, decompress
from protocol.records.inflater import Inflater
from tests.unit.protocol.records.test_bombs import BOMBS, xerial

KIB = 1024
BOUND = 256 * KIB
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@given(
    st.sampled_from(CODECS),
    st.binary(max_size=300),
    st.integers(0, 400),
    st.sampled_from([0, 100, 4 * KIB, BOUND]),
)
@settings(max_examples=150, deadline=None)
def test_it_gives_what_the_decoder_gives_or_nothing(codec: Codec, piece: bytes, count: int, max_size: int) -> None:
    data = piece * count
    payload = compress(codec, data)
    section = Inflater().inflate(codec, memoryview(payload), max_size)
    assert section == (data if max(len(data), len(payload)) <= max_size else None)


@given(st.sampled_from(CODECS), st.binary(min_size=1, max_size=300), st.data())
@settings(max_examples=200, deadline=None)
def test_of_a_damaged_payload_it_gives_nothing_that_the_decoder_does_not(
    codec: Codec, data: bytes, draw: st.DataObject
) -> None:
    payload = bytearray(compress(codec, data * 9))
    change = draw.draw(st.sampled_from(["byte", "cut", "append"]))
    at = draw.draw(st.integers(0, len(payload) - 1))
    if change == "byte":
        payload[at] = draw.draw(st.integers(0, 255))
    elif change == "cut":
        del payload[at:]
    else:
        payload += draw.draw(st.one_of(st.binary(min_size=1, max_size=9), st.just(bytes(payload))))
    inflater = Inflater()
    section = inflater.inflate(codec, memoryview(payload), BOUND)
    if section is not None:
        assert section == decompress(codec, payload)
    whole = compress(codec, b"after")
    assert inflater.inflate(codec, memoryview(whole), BOUND) == b"after", "the fault has spoilt the next payload"


@pytest.mark.parametrize("codec", CODECS)
def test_an_unbroken_payload_is_taken_up_to_the_bound(codec: Codec) -> None:
    data = bytes(range(256)) * 1024
    payload = memoryview(compress(codec, data))
    assert Inflater().inflate(codec, payload, len(data)) == data
    assert Inflater().inflate(codec, payload, len(data) - 1) is None


def test_an_unknown_codec_is_left_to_the_decoder() -> None:
    assert Inflater().inflate(7, memoryview(b"whatever"), BOUND) is None


MANY_STEPS = {
    "gzip members": (Codec.GZIP, gzip.compress(b"") * 5000),
    "snappy blocks": (Codec.SNAPPY, xerial(*[b"\x01\x00a"] * 30_000)),
    "zstd frames": (Codec.ZSTD, zstandard.ZstdCompressor().compress(b"") * 10_000),
    "zstd blocks": (Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\x58" + b"\x00\x00\x00" * 60_000 + b"\x01\x00\x00"),
    "lz4 blocks of 4 MiB": (
        Codec.LZ4,
        lz4.frame.compress(bytes(4 << 20), block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
    ),
}


@pytest.mark.parametrize("bomb", MANY_STEPS)
def test_what_takes_many_steps_is_not_begun(bomb: str) -> None:
    codec, payload = MANY_STEPS[bomb]
    assert Inflater().inflate(codec, memoryview(payload), BOUND) is None


@pytest.mark.parametrize("bomb", [*BOMBS, *MANY_STEPS])
def test_a_bomb_holds_nobody_up_and_takes_no_memory(bomb: str) -> None:
    codec, payload = MANY_STEPS[bomb] if bomb in MANY_STEPS else (BOMBS[bomb][0], BOMBS[bomb][1]())
    payload = payload[: 1024 * KIB]
    inflater = Inflater()
    inflater.inflate(codec, memoryview(compress(codec, b"loads the module")), BOUND)
    tracemalloc.start()
    try:
        assert inflater.inflate(codec, memoryview(payload), BOUND) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * BOUND
    spent = []
    for _ in range(3):
        began = time.thread_time()
        inflater.inflate(codec, memoryview(payload), BOUND)
        spent.append(time.thread_time() - began)
    # The decoder takes a tenth of a second or more for each of these within the bound it has.
    assert min(spent) < 0.02
