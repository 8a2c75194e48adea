"""The sparse indexes of a segment against its batches, while these go by once.

Every entry of a `.index` must name the start of a batch and a last offset found there, every entry of a `.timeindex`
the newest timestamp up to a batch. Zeros behind the entries are the room that the active segment of a running broker
has.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from broker.offline.verify.findings import Findings
from protocol.records.batch import NO_TIMESTAMP, BatchHeader
from storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from storage.segment.time_index import ENTRY as TIME_ENTRY


class IndexSource(NamedTuple):
    """An index file, and how strictly it is judged."""

    path: str
    base_offset: int
    data: bytes
    findings: Findings
    may_have_room: bool
    """It belongs to the active segment of a broker that did not close it."""
    is_excused: bool
    """Recovery rebuilds it anyway."""


def read_entries(source: IndexSource, entry: Struct, kind: str) -> list[tuple[int, ...]]:
    """Return the entries of an index; its length, and zeros at its end, are judged here."""
    data = source.data
    surplus = len(data) % entry.size
    if surplus:
        what = f"{len(data)} bytes are no multiple of {entry.size}"
        source.findings.fault(f"{kind}-size", source.path, what, len(data) - surplus, is_excused=source.is_excused)
    whole = len(data) - surplus
    used = len(data[:whole].rstrip(b"\0"))
    used += -used % entry.size
    if whole > used:
        if not source.may_have_room:
            what = f"{whole - used} bytes of zeros are no entries"
            source.findings.fault(f"{kind}-size", source.path, what, used, is_excused=source.is_excused)
        whole = used
    return list(entry.iter_unpack(data[:whole]))


class OffsetIndexCheck:
    """A `.index`."""

    def __init__(self, source: IndexSource) -> None:
        self._source = source
        entries = read_entries(source, OFFSET_ENTRY, "index")
        self._entries = [(source.base_offset + relative, position) for relative, position in entries]
        self._next = 0
        # The entry whose last offset has not come yet: older versions made one entry for an append of several batches.
        self._open: tuple[int, int] | None = None
        self._is_ordered = self._check_order()

    def _check_order(self) -> bool:
        for slot in range(1, len(self._entries)):
            offset, position = self._entries[slot]
            before, position_before = self._entries[slot - 1]
            if offset <= before or position <= position_before:
                self._fault("index-order", slot, f"offset {offset} at {position} follows {before} at {position_before}")
                return False
        return True

    def take(self, position: int, header: BatchHeader) -> None:
        """Take the next batch of the segment."""
        if not self._is_ordered:
            return
        entries = self._entries
        while self._next < len(entries) and entries[self._next][1] < position:
            offset, indexed = entries[self._next]
            self._fault("index-position", self._next, f"position {indexed} of offset {offset} is no start of a batch")
            self._next += 1
        if self._next < len(entries) and entries[self._next][1] == position:
            self._close_open()
            self._open = entries[self._next]
            self._next += 1
        if self._open is not None and header.last_offset >= self._open[0]:
            if header.last_offset != self._open[0]:
                self._fault_open(f"the batch there ends at {header.last_offset}")
            self._open = None

    def finish(self, end: int) -> None:
        """Tell of entries that no batch has answered; `end` is where the last batch ends."""
        if self._is_ordered:
            self._close_open()
            for slot in range(self._next, len(self._entries)):
                offset, position = self._entries[slot]
                self._fault("index-position", slot, f"position {position} of offset {offset}: batches end at {end}")

    def _close_open(self) -> None:
        if self._open is not None:
            self._fault_open("no batch ends there")
            self._open = None

    def _fault_open(self, found: str) -> None:
        assert self._open is not None
        offset, position = self._open
        self._fault("index-offset", self._next - 1, f"offset {offset} at position {position}: {found}")

    def _fault(self, kind: str, slot: int, what: str) -> None:
        source = self._source
        source.findings.fault(kind, source.path, what, slot * OFFSET_ENTRY.size, is_excused=source.is_excused)


class TimeIndexCheck:
    """A `.timeindex`."""

    def __init__(self, source: IndexSource) -> None:
        self._source = source
        entries = read_entries(source, TIME_ENTRY, "timeindex")
        self._entries = [(timestamp, source.base_offset + relative) for timestamp, relative in entries]
        self._next = 0
        self._newest = NO_TIMESTAMP
        self._is_ordered = self._check_order()

    def _check_order(self) -> bool:
        for slot in range(1, len(self._entries)):
            timestamp, offset = self._entries[slot]
            time_before, before = self._entries[slot - 1]
            if timestamp <= time_before or offset < before:
                self._fault("timeindex-order", slot, f"{timestamp} at {offset} follows {time_before} at {before}")
                return False
        return True

    def take(self, header: BatchHeader) -> None:
        """Take the next batch of the segment."""
        entries, newest = self._entries, max(self._newest, header.max_timestamp)
        while self._is_ordered and self._next < len(entries) and entries[self._next][1] <= header.last_offset:
            timestamp, offset = entries[self._next]
            if header.max_timestamp != timestamp or newest > timestamp:
                what = f"{timestamp} at offset {offset}: the newest timestamp up to there is {newest}"
                self._fault("timeindex-entry", self._next, what)
            self._next += 1
        self._newest = newest

    def finish(self) -> None:
        """Tell of entries behind the last batch, and of a last one that is missing."""
        if not self._is_ordered:
            return
        for slot in range(self._next, len(self._entries)):
            timestamp, offset = self._entries[slot]
            self._fault("timeindex-entry", slot, f"{timestamp} at offset {offset}: no batch is there")
        last = self._entries[-1][0] if self._entries else NO_TIMESTAMP
        if last < self._newest and not self._source.may_have_room:
            what = f"ends at {last}, the newest record of the segment is of {self._newest}"
            self._fault("timeindex-incomplete", len(self._entries), what)

    def _fault(self, kind: str, slot: int, what: str) -> None:
        source = self._source
        source.findings.fault(kind, source.path, what, slot * TIME_ENTRY.size, is_excused=source.is_excused)
