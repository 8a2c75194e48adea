"""What a connection still has to send: bytes and file regions, in order. The only place that calls sendfile.

A region is a Blob with an open file behind it (see storage.segment.region): it leaves through `os.sendfile` straight
from the page cache; one of memory counts as its bytes, and a small one that is cached is read and goes with its
neighbours. A file that turns out shorter than promised ends the connection, since the frame's length is already on the
wire. Regions are released once sent, or when the outbox is dropped.

A region that is not in the page cache is loaded beside the loop, and the kernel told to prefetch what comes after it.
For each file this was done with we remember how far that reaches: a consumer that reads on finds its next region warm,
and the hint moves on with it. Who reads what was just written has nothing remembered and pays one look for that.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from broker.net.pages import Pages
from storage.env.page_cache import HINT_PIECE_BYTES, is_resident, read_ahead_end, read_resident
from storage.segment.region import FileRegion, MemoryRegion

JOIN_BELOW_BYTES: Final = 16 * 1024
"""Pieces up to this size are copied together: one short copy costs less than one more iovec."""

MAX_COPIED_BYTES: Final = 64 * 1024
"""So much of one answer's small regions is copied too; those of many partitions together are no small copy."""

MAX_IOVECS: Final = 256

WARM_STEP_BYTES: Final = 1024 * 1024
"""How much of a region is checked, loaded and sent at a time; bounds a turn and the memory of a cold read."""


MAX_FILES_AHEAD: Final = 64
"""So many files are remembered to be prefetched; a consumer reads a few partitions at a time."""


class Flushed(Enum):
    """How far a flush came."""

    DRAINED = 0
    SOCKET_FULL = 1
    COLD = 2
    """The next region is not in the page cache: load it in the directory's I/O pool, then flush again."""


class ShortFile(Exception):
    """A segment ended before the promised region did."""


class Outbox:
    """Ordered output of one socket."""

    __slots__ = ("_ahead", "_items", "_pages", "_region_sent", "_socket", "_warm_until", "size_bytes")

    def __init__(self, sock: socket.socket, pages: Pages) -> None:
        self._socket = sock
        self._pages = pages
        self._ahead: dict[int, int] | None = None  # descriptor → up to where the kernel was told to prefetch
        self._items: deque[Any] = deque()
        self._region_sent = 0
        self._warm_until = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, pieces: Iterable[Any]) -> None:
        """Queue bytes-like pieces and regions."""
        room = MAX_COPIED_BYTES
        for piece in pieces:
            size = len(piece)
            if not size:
                continue
            self.size_bytes += size
            if type(piece) is MemoryRegion:
                self._items.append(piece.data)
            elif type(piece) is FileRegion and size <= JOIN_BELOW_BYTES and size <= room and not self._ahead:
                room -= size
                self._items.append(_copied(piece))
            else:
                self._items.append(piece)

    def flush(self) -> Flushed:
        """Send what the socket takes now. Raises: OSError of the socket, ShortFile."""
        items = self._items
        try:
            while items:
                if isinstance(items[0], (bytes, bytearray, memoryview)):
                    self._send_bytes()
                    continue
                state = self._send_region(items[0])
                if state is not Flushed.DRAINED:
                    return state
        except (BlockingIOError, InterruptedError):
            return Flushed.SOCKET_FULL
        return Flushed.DRAINED

    def _send_bytes(self) -> None:
        items = self._items
        if len(items) == 1:
            self._sent(self._socket.send(items[0]))
            return
        vector: list[Any] = []
        small: list[Any] = []
        region_follows = False
        for piece in items:
            if not isinstance(piece, (bytes, bytearray, memoryview)):
                region_follows = True
                break
            if len(piece) <= JOIN_BELOW_BYTES:
                small.append(piece)
                continue
            if small:
                vector.append(b"".join(small))
                small = []
            vector.append(piece)
            if len(vector) >= MAX_IOVECS:
                break
        if small:
            vector.append(b"".join(small))
        flags = socket.MSG_MORE if region_follows else 0
        if len(vector) == 1:
            self._sent(self._socket.send(vector[0], flags))
        else:
            self._sent(self._socket.sendmsg(vector, (), flags))

    def _sent(self, count: int) -> None:
        """Drop `count` sent bytes from the front."""
        items = self._items
        self.size_bytes -= count
        while count:
            piece = items[0]
            size = len(piece)
            if count < size:
                items[0] = memoryview(piece)[count:]
                return
            items.popleft()
            count -= size

    def _send_region(self, region: Any) -> Flushed:
        sent_before = self._region_sent
        step = min(len(region) - sent_before, WARM_STEP_BYTES)
        if sent_before >= self._warm_until:
            if not is_resident(region.fd, region.position + sent_before, step):
                return Flushed.COLD
            if self._ahead and not sent_before:
                self._read_on(region, self._ahead)
            self._warm_until = sent_before + step
        step = min(step, self._warm_until - sent_before)
        sent = os.sendfile(self._socket.fileno(), region.fd, region.position + sent_before, step)
        if not sent:
            raise ShortFile("a segment is shorter than the region promised to a client")
        self.size_bytes -= sent
        self._region_sent = sent_before + sent
        if self._region_sent == len(region):
            self._items.popleft()
            self._region_sent = self._warm_until = 0
            region.release()
        return Flushed.DRAINED

    def cold_range(self) -> tuple[Any, int, int]:
        """Name the region that made the last flush stop as COLD, with the position and size to load."""
        region = self._items[0]
        size = min(len(region) - self._region_sent, WARM_STEP_BYTES)
        return region, region.position + self._region_sent, size

    def ahead_of_cold(self) -> int:
        """Tell up to where the kernel should prefetch from the cold range on, 0 when it was told already."""
        region, position, _ = self.cold_range()
        ahead = self._ahead
        if ahead is None:
            ahead = self._ahead = {}
        if self._region_sent and position < ahead.get(region.fd, 0):
            return 0
        if len(ahead) >= MAX_FILES_AHEAD and region.fd not in ahead:
            del ahead[next(iter(ahead))]
        left = region.position + len(region) - position
        ahead[region.fd] = end = read_ahead_end(position, left, self._pages.max_ahead_bytes)
        return end

    def _read_on(self, region: Any, ahead: dict[int, int]) -> None:
        """Move the prefetching on with a consumer that reads on; one that has come to its end needs none any more.

        The end of the file counts, and a hint must be worth a thread: else whoever came from far behind and now follows
        the newest records would pay for each of its reads.
        """
        hinted = ahead.get(region.fd)
        if hinted is None:
            return
        if region.position >= hinted:
            del ahead[region.fd]
            return
        end = read_ahead_end(region.position, len(region), self._pages.max_ahead_bytes)
        if min(end, os.fstat(region.fd).st_size) - hinted >= HINT_PIECE_BYTES:
            ahead[region.fd] = end
            self._pages.read_ahead(region, hinted, end)

    def loaded(self) -> None:
        """Note that the cold range was loaded: it is sent without being checked again, also if memory is tight."""
        region, _, size = self.cold_range()
        self._warm_until = min(len(region), self._region_sent + size)

    def drop(self) -> None:
        """Forget everything and release the regions."""
        for piece in self._items:
            release_region(piece)
        self._items.clear()
        self.size_bytes = 0


def _copied(region: FileRegion) -> bytes | FileRegion:
    """Give a small region as bytes, if they are there without waiting: it then leaves with what is around it."""
    data = read_resident(region.fd, region.position, region.size)
    if data is None:
        return region
    region.release()
    return data


def release_region(piece: Any) -> None:
    """Release a piece if it is a region; bytes need nothing."""
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        piece.release()
