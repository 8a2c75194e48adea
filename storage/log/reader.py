"""Reading a log: offset and bound → FetchSlice without touching the bytes; aborted transactions.

A small memo of (offset → segment, position) remembers where reads ended, so a consumer that follows the log never
searches. An entry states a fact that only truncation or removal of segments can end; those clear it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from storage.errors import LogClosed, OffsetOutOfRange
from storage.log.state import LogState
from storage.segment.region import Region
from storage.segment.segment import Segment

MEMO_ENTRIES: Final = 128  # consumers of one partition that can follow it without searching


class FetchSlice(NamedTuple):
    """What a read found: whole batches in one segment, or nothing (region None, size 0).

    Whoever takes the slice releases the region.
    """

    region: Region | None
    size: int
    segment_base_offset: int


EMPTY: Final = FetchSlice(None, 0, -1)


def locate(state: LogState, offset: int) -> tuple[Segment, int] | None:
    """Return the segment and position of the first batch that ends at or above `offset`. Blocking: index pages."""
    segments = state.segments
    segment: Segment | None = segments.floor(offset) or segments.first()
    while segment is not None:
        position = segment.locate(offset)
        if position is not None:
            return segment, position
        segment = segments.after(segment)
    return None


def remember(memo: dict[int, tuple[Segment, int]], offset: int, segment: Segment, position: int) -> None:
    """Note where the first batch begins that ends at or above `offset`; the oldest note makes room for it."""
    if len(memo) >= MEMO_ENTRIES and offset not in memo:
        del memo[next(iter(memo))]
    memo[offset] = (segment, position)


class LogReader:
    """All reads of one log."""

    __slots__ = ("_memo", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._memo = state.read_positions

    def forget_positions(self) -> None:
        """Drop remembered positions after a truncation or a removal of segments."""
        self._memo.clear()

    def read(self, start_offset: int, *, max_bytes: int, bound: int, min_one_batch: bool) -> FetchSlice:
        """Locate the whole batches from the one that holds start_offset, within max_bytes and below `bound`.

        Shape: the first batch may begin before start_offset; a removed offset leads to the next batch there is, in a
        later segment too. With min_one_batch the first batch comes even if it alone exceeds max_bytes.
        Raises: OffsetOutOfRange outside [log start, log end]; CorruptRecord. Blocking: index pages and headers only.
        """
        state = self._state
        if state.is_closed:
            raise LogClosed(str(state.tp))
        offsets = state.offsets
        end_offset = offsets.log_end_offset
        if not offsets.log_start_offset <= start_offset <= end_offset:
            raise OffsetOutOfRange(start_offset, offsets.log_start_offset, end_offset)
        if start_offset >= bound:
            if start_offset == end_offset:
                active = self._state.segments.active
                remember(self._memo, end_offset, active, active.log.size)
            return EMPTY
        found = self._memo.get(start_offset)
        if found is None or found[1] >= found[0].log.size:
            found = self._locate(start_offset)
            if found is None:
                return EMPTY
        segment, position = found
        end = segment.log.size if bound >= end_offset else self._bound_position(segment, bound)
        if end - position > max_bytes:
            end = self._fitting_end(segment, position, end, max_bytes, min_one_batch)
        if end <= position:
            return EMPTY
        self._remember_end(segment, end, end_offset)
        return FetchSlice(segment.log.region(position, end), end - position, segment.base_offset)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Return the segment and position of the first batch that ends at or above `offset`, and remember it."""
        found = locate(self._state, offset)
        if found is not None:
            self._state.segments.note_use(found[0])
            remember(self._memo, offset, found[0], found[1])
        return found

    def _bound_position(self, segment: Segment, bound: int) -> int:
        """Return where the batches of `segment` that lie wholly below `bound` end."""
        found = self._memo.get(bound)
        if found is None or found[1] >= found[0].log.size:
            found = self._locate(bound)
        if found is None or found[0] is not segment:
            return segment.log.size if found is None or found[0].base_offset > segment.base_offset else 0
        return found[1]

    def _fitting_end(self, segment: Segment, position: int, end: int, max_bytes: int, min_one_batch: bool) -> int:
        fitting = segment.locate_end(position, max_bytes)
        if fitting == position and min_one_batch:
            fitting = segment.log.end_of_batches(position, position)[0]
        return min(fitting, end)

    def _remember_end(self, segment: Segment, end: int, end_offset: int) -> None:
        if end < segment.log.size:
            remember(self._memo, segment.log.base_offset_at(end), segment, end)
        elif segment.is_active:
            remember(self._memo, end_offset, segment, end)

    # --- transactions ---

    def aborted_in(self, start_offset: int, found: FetchSlice) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that touch what a read has just found.

        Shape: exactly those, so where the batches end is looked up, but only if there are any.
        """
        segments = self._state.segments
        if found.region is None or not any(one.txn_index.size for one in segments.starting_with(start_offset)):
            return []
        segment = segments.floor(found.segment_base_offset)
        assert segment is not None, found
        end = found.region.position + found.size
        if end < segment.log.size:
            upper_bound = segment.log.base_offset_at(end)
        else:
            following = segments.after(segment)
            upper_bound = self._state.offsets.log_end_offset if following is None else following.base_offset
        return self.aborted_transactions(start_offset, upper_bound)

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that touch [start_offset, upper_bound)."""
        found = []
        for segment in self._state.segments.starting_with(start_offset):
            transactions, is_complete = segment.txn_index.collect(start_offset, upper_bound)
            found += [(txn.first_offset, txn.producer_id) for txn in transactions]
            if is_complete:
                break
        return [(producer_id, first_offset) for first_offset, producer_id in sorted(found)]
