"""The indexes of a segment, each entry held against its `.log` as far as Kafka's tool does."""

from __future__ import annotations

import os.path
from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct

from broker.offline.batches import LOOK_BYTES, BatchFile, StoredBatch
from broker.offline.dump.printer import Printer
from protocol.records.batch import NO_TIMESTAMP
from protocol.records.errors import RecordsError
from protocol.records.record import iter_records
from storage.env.fs import FileSystem
from storage.segment.names import INDEX_SUFFIX, LOG_SUFFIX, segment_file
from storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from storage.segment.time_index import ENTRY as TIME_ENTRY
from storage.segment.txn_index import ENTRY as TXN_ENTRY


class IndexDump:
    """Shows indexes; what does not match the log is gathered, and told at the end."""

    def __init__(self, fs: FileSystem, printer: Printer, *, sanity_only: bool, verify_only: bool) -> None:
        self._fs = fs
        self._printer = printer
        self._sanity_only = sanity_only
        self._verify_only = verify_only
        self._mismatches: dict[str, list[tuple[int, int]]] = {}
        self._wrong_times: dict[str, list[tuple[int, int]]] = {}
        self._unordered_times: dict[str, list[tuple[int, int]]] = {}
        self._missing: dict[str, list[tuple[int, int]]] = {}

    def show_offsets(self, path: str, base_offset: int) -> bool:
        """Show a `.index`; False if it fails the check of a broker's start. Raises: OSError."""
        entries, is_torn = self._entries(path, OFFSET_ENTRY)
        if not entries:
            self._printer.note(f"{path} is empty.", {"entries": 0})
            return not is_torn
        if self._sanity_only:
            return self._judge(path, is_torn, entries[-1][0] < 0, "the last offset is below the base offset")
        log = self._log_path(path, base_offset)
        is_readable = True
        for slot, (relative, position) in enumerate(entries):
            if not relative and slot:
                break  # zeros that a crash has left
            offset = base_offset + relative
            batch = self._first_batch(log, position)
            if batch is None:
                is_readable = False
                self._printer.complain(f"{path}: offset {offset}: no batch at position {position}")
            elif batch.header.last_offset != offset:
                self._mismatches.setdefault(path, []).append((offset, batch.header.last_offset))
            if not self._verify_only:
                self._printer.entry({"offset": offset, "position": position})
        return is_readable

    def show_times(self, path: str, base_offset: int) -> bool:
        """Show a `.timeindex`; False if it fails the check of a broker's start. Raises: OSError."""
        entries, is_torn = self._entries(path, TIME_ENTRY)
        if self._sanity_only:
            is_wrong = bool(entries) and (entries[-1][0] < entries[0][0] or entries[-1][1] < 0)
            return self._judge(path, is_torn, is_wrong, "the last entry is below the first one or the base offset")
        log = self._log_path(path, base_offset)
        index_path = os.path.join(os.path.dirname(path), segment_file(base_offset, INDEX_SUFFIX))
        offsets = self._entries(index_path, OFFSET_ENTRY)[0] if self._fs.exists(index_path) else []
        previous = NO_TIMESTAMP
        for slot, (timestamp, relative) in enumerate(entries):
            if not relative and slot:
                break
            self._check_time(path, log, offsets, (timestamp, base_offset + relative, relative), previous)
            if not self._verify_only:
                self._printer.entry({"timestamp": timestamp, "offset": base_offset + relative})
            previous = timestamp
        return True

    def show_aborted(self, path: str) -> bool:
        """Show a `.txnindex`; False if it has a torn end. Raises: OSError."""
        entries, is_torn = self._entries(path, TXN_ENTRY)
        names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
        for entry in entries:
            self._printer.entry(dict(zip(names, entry, strict=True)))
        if is_torn:
            self._printer.complain(f"{path}: the last entry is cut short")
        return not is_torn

    def complaints(self) -> Sequence[str]:
        """Tell what did not match."""
        lines: list[str] = []
        for path, pairs in self._mismatches.items():
            lines.append(f"Mismatches in :{path}")
            lines += [f"  Index offset: {index}, log offset: {log}" for index, log in sorted(pairs, reverse=True)]
        for path, pairs in self._wrong_times.items():
            lines.append(f"Found timestamp mismatch in :{path}")
            lines += [f"  Index timestamp: {index}, log timestamp: {log}" for index, log in pairs]
        for path, pairs in self._unordered_times.items():
            lines.append(f"Found out of order timestamp in :{path}")
            lines += [f"  Index timestamp: {time}, Previously indexed timestamp: {before}" for time, before in pairs]
        for path, pairs in self._missing.items():
            lines.append(f"The following indexed offsets are not found in :{path}")
            lines += [f"Indexed offset: {index}, found log offset: {log}" for index, log in pairs]
        return lines

    def _judge(self, path: str, is_torn: bool, is_wrong: bool, reason: str) -> bool:
        if is_torn or is_wrong:
            self._printer.complain(f"{path}: {'its length is no multiple of its entries' if is_torn else reason}")
            return False
        self._printer.note(f"{path} passed sanity check.", {"passed": True})
        return True

    def _entries(self, path: str, entry: Struct) -> tuple[list[tuple[int, ...]], bool]:
        """Return the whole entries of an index, and whether bytes are left over; an index has a few MiB at most."""
        data = self._fs.read_file(path)
        whole = len(data) - len(data) % entry.size
        return list(entry.iter_unpack(data[:whole])), whole != len(data)

    def _log_path(self, path: str, base_offset: int) -> str | None:
        log = os.path.join(os.path.dirname(path), segment_file(base_offset, LOG_SUFFIX))
        if self._fs.exists(log):
            return log
        self._printer.complain(f"{path}: there is no {os.path.basename(log)} to compare with")
        return None

    def _first_batch(self, log: str | None, position: int) -> StoredBatch | None:
        if log is None or position < 0:
            return None
        return next(iter(BatchFile(self._fs, log, start=position, window_bytes=LOOK_BYTES)), None)

    def _check_time(
        self,
        path: str,
        log: str | None,
        offsets: Sequence[tuple[int, ...]],
        entry: tuple[int, int, int],
        previous: int,
    ) -> None:
        if log is None:
            return
        timestamp, offset, relative = entry
        slot = bisect_right(offsets, relative, key=lambda pair: pair[0]) - 1
        start = max(offsets[slot][1], 0) if slot >= 0 else 0
        for batch in BatchFile(self._fs, log, start=start, window_bytes=LOOK_BYTES):
            if batch.header.last_offset >= offset:
                break
        else:
            self._missing.setdefault(path, []).append((offset, -1))
            return
        if batch.header.last_offset != offset:
            self._missing.setdefault(path, []).append((offset, batch.header.last_offset))
            return
        newest = _newest(batch)
        if newest != timestamp:
            self._wrong_times.setdefault(path, []).append((timestamp, newest))
        if previous >= timestamp:
            self._unordered_times.setdefault(path, []).append((timestamp, previous))


def _newest(batch: StoredBatch) -> int:
    """Return the newest timestamp among the records, or what the header says where they cannot be read."""
    if batch.data is None or batch.header.magic < 2:
        return batch.header.max_timestamp
    try:
        return max((record.timestamp for record in iter_records(batch.data, 0, batch.header)), default=NO_TIMESTAMP)
    except RecordsError:
        return batch.header.max_timestamp
