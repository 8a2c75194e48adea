"""Which partition a record with a key goes to: the one that Java's producer chooses, so that both agree.

Source: org.apache.kafka.clients.producer.internals.BuiltInPartitioner, Utils.murmur2.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack_from

SEED = 0x9747B28C
FACTOR = 0x5BD1E995
MASK = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF
KEYS_REMEMBERED = 8192


@lru_cache(KEYS_REMEMBERED)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key among so many."""
    return (murmur2(key) & POSITIVE) % partitions if partitions > 1 else 0


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit MurmurHash2 of some bytes, with the seed that Kafka uses."""
    size = len(data)
    whole = size & ~3
    value = SEED ^ size
    for part in unpack_from(f"<{size >> 2}I", data):
        part = part * FACTOR & MASK
        value = value * FACTOR & MASK ^ (part ^ part >> 24) * FACTOR & MASK
    if size > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * FACTOR & MASK
    value = (value ^ value >> 13) * FACTOR & MASK
    return value ^ value >> 15
