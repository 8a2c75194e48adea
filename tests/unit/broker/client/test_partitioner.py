"""Partitions of keys."""

from __future__ import annotations

import pytest

from broker.client.partitioner import murmur2, partition_of


# Values that Java's Utils.murmur2 gives, as signed integers.
@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_java(data, signed):
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_a_key_has_one_partition_among_so_many():
    assert [partition_of(b"foobar", count) for count in (1, 2, 7)] == [0, 0, (-790332482 & 0x7FFFFFFF) % 7]
