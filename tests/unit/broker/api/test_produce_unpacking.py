"""How much of a request's compressed batches the loop unpacks: what is cheap for sure, and no more than its budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.produce_unpacking import BUDGET_NS, Unpacking
from protocol.records.batch import HEADER_SIZE
from protocol.records.builder import build_batch
from protocol.records.compression import Codec
from protocol.records.inflater import Inflater

AS_SENT: Any = SimpleNamespace(may_compress=False)
RECODED: Any = SimpleNamespace(may_compress=True)
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def batch_of(size: int, *, count: int = 1, codec: int = Codec.LZ4) -> memoryview:
    """Build records of so many bytes in all."""
    return memoryview(build_batch([(None, bytes(size // count))] * count, codec=codec))


def new() -> Unpacking:
    return Unpacking(Inflater())


@pytest.mark.parametrize("codec", CODECS)
def test_a_usual_batch_is_unpacked(codec: Codec) -> None:
    plain = batch_of(64_000, count=64, codec=Codec.NONE)
    is_ready, inflated = new().look(batch_of(64_000, count=64, codec=codec), AS_SENT)
    assert (is_ready, inflated) == (True, plain[HEADER_SIZE:])


def test_plain_batches_and_what_is_none_need_nothing() -> None:
    for records in (batch_of(600_000, codec=Codec.NONE), memoryview(b"fragment"), None):
        assert new().look(records, AS_SENT) == (True, None)


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_is_left_to_a_thread(codec: Codec) -> None:
    assert new().look(batch_of(2 << 20, codec=codec), AS_SENT) == (False, None)


def test_a_codec_that_does_not_exist_is_left_to_the_long_check() -> None:
    batch = bytearray(batch_of(100))
    batch[22] |= 7
    assert new().look(memoryview(batch), AS_SENT) == (False, None)


@pytest.mark.parametrize("codec", CODECS)
def test_the_batches_of_a_request_share_a_budget(codec: Codec) -> None:
    unpacking = new()
    batch = batch_of(100_000, codec=codec)
    taken = 0
    while unpacking.look(batch, AS_SENT)[0]:
        taken += 1
    assert 1 <= taken * 100_000 <= BUDGET_NS
    assert new().look(batch, AS_SENT)[0], "the next request has its own"


def test_records_count_in_the_budget_although_their_bytes_are_few() -> None:
    assert not new().look(batch_of(30_000, count=30_000), AS_SENT)[0]


def test_a_count_below_zero_buys_nothing() -> None:
    batch = bytearray(batch_of(100))
    batch[57:61] = (-(2**31)).to_bytes(4, "big", signed=True)
    assert new().look(memoryview(batch), AS_SENT) == (False, None)


def test_what_the_log_stores_with_another_codec_is_left_to_a_thread_unless_it_is_small() -> None:
    assert new().look(batch_of(100, codec=Codec.NONE), RECODED) == (True, None)
    assert new().look(batch_of(2000, codec=Codec.NONE), RECODED) == (False, None)
    assert new().look(batch_of(100), RECODED) == (False, None)
