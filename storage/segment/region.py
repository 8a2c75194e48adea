"""FileRegion: a Blob that stands for bytes of an open file and rides through the codec to sendfile.

MemoryRegion is its twin for bytes that are in memory already: the newest ones of a segment written past the page cache.
A file region pins its file: roll, unlink, truncation of the name or closing of the segment leave the descriptor usable
until release(). Whoever takes a region releases it exactly once.
"""

from __future__ import annotations

from typing import Final

from storage.env.fs import File, read_growing

FIRST_BUFFER_BYTES: Final = 4 * 1024 * 1024


class FileRegion:
    """Bytes [position, position + size) of a file, pinned until released."""

    __slots__ = ("_file", "fd", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        file.pin()
        self._file: File | None = file
        self.fd = file.fd
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    @property
    def path(self) -> str:
        """Name of the file, or what it was called when it was opened."""
        assert self._file is not None, "region was released"
        return self._file.path

    def read(self, first_bytes: int = FIRST_BUFFER_BYTES) -> bytes:
        """Return the bytes. Blocking: disk. For slow paths; the hot one sends the descriptor.

        `first_bytes` bounds what is allocated before bytes have arrived (odradek.log.read.buffer.cap.bytes).
        """
        assert self._file is not None, "region was released"
        return read_growing(self._file, self.size, self.position, first_bytes=first_bytes)

    def share(self) -> FileRegion:
        """Return the same bytes under a pin of their own."""
        assert self._file is not None, "region was released"
        return FileRegion(self._file, self.position, self.size)

    def release(self) -> None:
        """Give back the pin. Idempotent."""
        file, self._file = self._file, None
        if file is not None:
            file.unpin()

    def __repr__(self) -> str:
        return f"FileRegion(fd={self.fd}, position={self.position}, size={self.size})"


class MemoryRegion:
    """Bytes that were at [position, position + size) of a file when they were read; there is nothing to release."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def __len__(self) -> int:
        return len(self.data)

    def read(self, first_bytes: int = FIRST_BUFFER_BYTES) -> bytes:
        """Return the bytes; they are there already."""
        return self.data

    def release(self) -> None:
        """Do nothing; it is there for whoever holds either kind."""

    def __repr__(self) -> str:
        return f"MemoryRegion(position={self.position}, size={len(self.data)})"


Region = FileRegion | MemoryRegion
