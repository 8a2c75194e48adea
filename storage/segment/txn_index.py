"""The `.txnindex`: aborted transactions of one segment in the order of their markers.

Entry: version i16 = 0, producer id i64, first offset i64, last offset i64 (of the abort marker), last stable offset i64
(right after the marker). The file appears with its first entry; absence means empty. Source: Kafka's TransactionIndex.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from storage.env.fs import File, FileSystem
from storage.errors import CorruptIndex
from storage.segment.names import CLEANED_SUFFIX

ENTRY = Struct(">hqqqq")
VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction; last_offset is inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(transactions: Iterable[AbortedTxn]) -> bytes:
    """Return the content of an index of these transactions."""
    return b"".join(ENTRY.pack(VERSION, *txn) for txn in transactions)


class TxnIndex:
    """Aborted transactions of a segment. Entries are few, so they are read whole and not kept."""

    __slots__ = ("_file", "_fs", "base_offset", "path", "size")

    def __init__(self, fs: FileSystem, path: str, base_offset: int) -> None:
        self._fs = fs
        self.path = path
        self.base_offset = base_offset
        self.size = 0  # bytes in use
        self._file: File | None = None

    def load(self, size_bytes: int) -> None:
        """Take over an existing file of that length."""
        self.size = size_bytes

    def check(self) -> None:
        """Verify every entry. Raises: CorruptIndex on a torn file, an unknown version or impossible offsets."""
        if self.size % ENTRY.size:
            raise CorruptIndex(self.path, f"length {self.size} is not a multiple of {ENTRY.size}")
        for txn in self.entries():
            if txn.last_offset < self.base_offset or txn.last_offset <= txn.first_offset:
                raise CorruptIndex(self.path, f"{txn} does not belong to a segment at {self.base_offset}")

    def append(self, txn: AbortedTxn) -> None:
        """Add an entry, creating the file with the first one."""
        self._open(create=True).write_at(ENTRY.pack(VERSION, *txn), self.size)
        self.size += ENTRY.size

    def entries(self) -> list[AbortedTxn]:
        """Return every entry. Raises: CorruptIndex on an unknown version."""
        if self.size == 0:
            return []
        data = self.content()
        whole = len(data) - len(data) % ENTRY.size
        transactions = []
        for version, *fields in ENTRY.iter_unpack(data[:whole]):
            if version != VERSION:
                raise CorruptIndex(self.path, f"entry version {version}")
            transactions.append(AbortedTxn(*fields))
        return transactions

    def content(self) -> bytes:
        """Return the bytes of the file."""
        return self._open(create=False).read_at(self.size, 0) if self.size else b""

    def collect(self, start_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """Return the entries that touch [start_offset, upper_bound) and whether later segments cannot add any."""
        found = []
        for txn in self.entries():
            if txn.last_offset >= start_offset and txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at or above `offset`."""
        kept = 0
        for txn in self.entries():
            if txn.last_offset >= offset:
                break
            kept += ENTRY.size
        if kept < self.size:
            self._open(create=False).truncate(kept)
            self.size = kept

    def replace(self, transactions: Iterable[AbortedTxn]) -> bool:
        """Make these the only entries, atomically and durably but for the name; tell whether a new file was needed.

        Written in place, an index that was found unusable would look usable, and be short, after a crash on the way.
        """
        data = encode(transactions)
        if self.content() == data:
            return False
        self.close()
        self._fs.write_file(self.path + CLEANED_SUFFIX, data)
        self._fs.rename(self.path + CLEANED_SUFFIX, self.path)
        self.size = len(data)
        return True

    def to_sync(self) -> File | None:
        """Return the open file for a flush that runs elsewhere; None when there is none."""
        return self._open(create=False) if self.size else self._file

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, path: str) -> None:
        """Follow a rename."""
        self.path = path

    def _open(self, *, create: bool) -> File:
        if self._file is None:
            self._file = self._fs.open(self.path, create=create)
        return self._file
