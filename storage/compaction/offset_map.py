"""The offset map: hash of a key → the last offset that has it, in a fixed amount of memory.

A slot is 24 bytes, MD5 of the key and offset; equal hashes count as equal keys. Collisions probe: first at the other
four-byte words of the hash, so that a full table still answers in about ten probes, then at one slot after the other.
The table is anonymous memory, so pages that no key hashes to cost nothing. Source: Kafka's SkimpyOffsetMap.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from struct import Struct
from typing import Final

try:
    from _md5 import md5  # type: ignore[import-not-found,unused-ignore]  # a half to a quarter of OpenSSL's start-up
except ImportError:  # an interpreter built without its own
    from hashlib import md5

SLOT_BYTES: Final = 24
NOT_FOUND: Final = -1

_SLOT: Final = Struct("16sq")
_FIRST_PROBE: Final = Struct(">I")
_EMPTY: Final = bytes(16)
_HASH_PROBES: Final = 13  # four-byte words of a sixteen-byte hash

_read_slot: Final = _SLOT.unpack_from
_write_slot: Final = _SLOT.pack_into
_first_probe: Final = _FIRST_PROBE.unpack_from


class OffsetMap:
    """Put and get by key. `latest_offset` is the last offset the map speaks for; -1 in the beginning."""

    __slots__ = ("_table", "entries", "latest_offset", "slots")

    def __init__(self, memory_bytes: int) -> None:
        self.slots = memory_bytes // SLOT_BYTES
        assert self.slots > 0, memory_bytes
        self._table = mmap.mmap(-1, self.slots * SLOT_BYTES)
        self.entries = 0  # written by put_all
        self.latest_offset = NOT_FOUND  # written by put_all, and by whoever knows that no key follows for a while

    def put_all(self, keys: Sequence[tuple[int, bytes]], max_entries: int) -> bool:
        """Note the last offsets of keys, in their order; tell whether max_entries left no room for another record.

        The caller asks for no more entries than there are slots.
        """
        table, slots = self._table, self.slots
        entries, latest = self.entries, self.latest_offset
        try:
            for offset, key in keys:
                if entries >= max_entries:
                    return True
                digest = md5(key, usedforsecurity=False).digest()
                first: int = _first_probe(digest)[0]
                position = first % slots * SLOT_BYTES
                known = _read_slot(table, position)[0]
                if known != digest:
                    if known != _EMPTY:
                        position, known = self._probe(digest)
                    if known != digest:
                        assert known == _EMPTY, "the offset map is full"
                        entries += 1
                _write_slot(table, position, digest, offset)
                latest = offset
        finally:
            self.entries, self.latest_offset = entries, latest
        return False

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, -1 when it is unknown."""
        digest = md5(key, usedforsecurity=False).digest()
        first: int = _first_probe(digest)[0]
        known, offset = _read_slot(self._table, first % self.slots * SLOT_BYTES)
        if known == digest:
            found: int = offset
            return found
        if known == _EMPTY:
            return NOT_FOUND
        position, known = self._probe(digest)
        return _read_slot(self._table, position)[1] if known == digest else NOT_FOUND

    def _probe(self, digest: bytes) -> tuple[int, bytes]:
        """Return (position, its hash) of the slot that holds the hash or may take it.

        When every slot holds another hash, the last one probed.
        """
        slot, known = 0, _EMPTY
        for attempt in range(_HASH_PROBES + self.slots):
            slot = _first_probe(digest, attempt)[0] if attempt < _HASH_PROBES else slot + 1
            slot %= self.slots
            known = _read_slot(self._table, slot * SLOT_BYTES)[0]
            if known in (digest, _EMPTY):
                break
        return slot * SLOT_BYTES, known

    def close(self) -> None:
        """Give the memory back."""
        self._table.close()
