"""Index entries of several batches that are appended with one write: found in one pass, written in one go.

The rule is that of a single append: a batch gets its entries when more than index.interval.bytes lie between it and the
last one that has some. An index that is full takes no more, which makes lookups longer, not wrong.
"""

from collections.abc import Sequence
from typing import NamedTuple

Placed = tuple[int, int, int]
"""Position in the bytes that are appended, last offset, largest timestamp."""


class SparseEntries(NamedTuple):
    """What the indexes get, and what a segment knows afterwards."""

    offsets: list[tuple[int, int]]
    """(last offset, position)"""
    times: list[tuple[int, int]]
    """(timestamp, offset)"""
    bytes_since_index: int
    largest_timestamp: int
    offset_of_largest: int


def sparse_entries(
    batches: Sequence[Placed],
    start: int,
    size: int,
    *,
    interval_bytes: int,
    bytes_since_index: int,
    largest: tuple[int, int],
    last_indexed_timestamp: int,
    room: tuple[int, int],
) -> SparseEntries:
    """Walk batches that begin at position `start` of a `.log` and fill `size` bytes.

    largest: timestamp and offset so far. room: how many more entries the offset and the time index can take.
    """
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest_timestamp, offset_of_largest = largest
    offset_room, time_room = room
    indexed_at = -bytes_since_index
    for at, last_offset, timestamp in batches:
        if timestamp > largest_timestamp:
            largest_timestamp, offset_of_largest = timestamp, last_offset
        if at - indexed_at > interval_bytes and len(offsets) < offset_room and len(times) < time_room:
            indexed_at = at
            offsets.append((last_offset, start + at))
            if largest_timestamp > last_indexed_timestamp:
                last_indexed_timestamp = largest_timestamp
                times.append((largest_timestamp, offset_of_largest))
    return SparseEntries(offsets, times, size - indexed_at, largest_timestamp, offset_of_largest)
