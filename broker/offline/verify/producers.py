"""Idempotence and transactions as the batches tell them, against producer snapshots and transaction indexes.

The state is the broker's own `ProducerStateManager`, fed with every batch. It begins with the snapshot at the first
segment, which tells what retention has removed; where there is none, what began before the log is unknown.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.offline.verify.context import LogContext
from broker.offline.verify.findings import Findings
from protocol.records.batch import MAX_SEQUENCE, BatchHeader
from protocol.records.control import EndTxnMarker
from storage.env.fs import FileSystem
from storage.errors import CorruptSnapshot
from storage.producers.entry import ProducerEntry
from storage.producers.snapshot import decode_snapshot, snapshot_path
from storage.producers.state import ProducerStateManager
from storage.segment.txn_index import ENTRY, VERSION

_NOBODY = 0


class _Ended(NamedTuple):
    """An abort marker: whose, and where its transaction began, None where that is not known."""

    producer_id: int
    first_offset: int | None


class ProducersCheck:
    """The producers of one log, batch by batch."""

    def __init__(self, fs: FileSystem, context: LogContext, findings: Findings, snapshots: list[int]) -> None:
        self._fs = fs
        self._context = context
        self._findings = findings
        self._state = ProducerStateManager(context.tp)
        self._snapshots = {offset: self._read(offset) for offset in snapshots}
        self._start_offset = 0
        self._kept_from = 0
        # Abort markers of the segment that is being read, by their offsets.
        self._aborted: dict[int, _Ended] = {}
        # False once something is damaged: what follows would only be its echo.
        self.is_trusted = True

    def _read(self, offset: int) -> list[ProducerEntry] | None:
        path = snapshot_path(self._context.directory, offset)
        try:
            return decode_snapshot(self._fs.read_file(path))
        except CorruptSnapshot as error:
            # None is synced: a damaged one only costs a replay.
            self._findings.fault("snapshot", path, str(error), is_excused=not self._context.is_clean)
            return None

    def begin(self, start_offset: int) -> None:
        """Begin the log: with what a snapshot says, if there is one where the log begins."""
        self._start_offset = start_offset
        self._kept_from = max(start_offset, self._context.log_start)
        self._state.load(self._snapshots.get(start_offset) or (), offset=start_offset, now_ms=_NOBODY)

    def take(self, path: str, position: int, header: BatchHeader, marker: EndTxnMarker | None) -> None:
        """Take the next batch; marker is that of a control batch."""
        if header.producer_id < 0:
            return
        entry = self._state.producers.get(header.producer_id)
        if entry is not None and self.is_trusted:
            self._check_order(path, position, header, entry)
        if marker is not None and marker.is_abort:
            first = entry.current_txn_first_offset if entry is not None else -1
            self._aborted[header.base_offset] = _Ended(header.producer_id, first if first >= 0 else None)
        self._state.append(header, marker)

    def _check_order(self, path: str, position: int, header: BatchHeader, entry: ProducerEntry) -> None:
        producer = f"producer {header.producer_id}"
        if header.producer_epoch < entry.producer_epoch:
            what = f"{producer} goes back to epoch {header.producer_epoch} from {entry.producer_epoch}"
            self._findings.fault("producer-epoch", path, what, position)
            return
        is_counted = entry.batches and header.producer_epoch == entry.producer_epoch and header.base_sequence > 0
        if header.is_control or not is_counted:
            return  # a sequence that begins again at 0 is what old clients do when their state was lost
        expected = (entry.last_sequence + 1) & MAX_SEQUENCE
        if header.base_sequence < expected:
            what = f"{producer} repeats sequence {header.base_sequence} after {entry.last_sequence}"
            self._findings.fault("producer-sequence", path, what, position)
        elif header.base_sequence > expected and not self._context.may_have_gaps:
            what = f"{producer} goes on with sequence {header.base_sequence} after {entry.last_sequence}"
            self._findings.note("producer-sequence", path, what, position)

    # --- snapshots

    def at(self, offset: int) -> None:
        """Compare with the snapshot at an offset that the log has come to, if there is one."""
        entries = self._snapshots.pop(offset, None)
        if entries is None or offset == self._start_offset or not self.is_trusted:
            return
        path = snapshot_path(self._context.directory, offset)
        found = {entry.producer_id: entry for entry in entries}
        for entry in entries:
            self._compare(path, offset, entry)
        if self._context.may_have_gaps:
            return  # a marker may have been removed that ended a transaction
        for producer_id, known in self._state.producers.items():
            if known.current_txn_first_offset >= self._kept_from and producer_id not in found:
                what = (
                    f"producer {producer_id} is missing, its transaction is open since {known.current_txn_first_offset}"
                )
                self._report(path, offset, what)

    def _compare(self, path: str, offset: int, entry: ProducerEntry) -> None:
        producer = f"producer {entry.producer_id}"
        if entry.last_offset >= offset or entry.current_txn_first_offset >= offset:
            self._report(
                path, offset, f"{producer} has offset {max(entry.last_offset, entry.current_txn_first_offset)}"
            )
            return
        if entry.last_offset < self._start_offset or self._context.may_have_gaps:
            return  # what it is about was removed
        known = self._state.producers.get(entry.producer_id)
        said = _state_of(entry)
        shown = None if known is None else _state_of(known)
        if known is not None and min(said[-1], known.current_txn_first_offset) < self._kept_from:
            said, shown = said[:-1], _state_of(known)[:-1]  # where its transaction began may have been removed
        if shown != said:
            names = "(epoch, last sequence, last offset, begin of its transaction)"
            self._report(path, offset, f"{producer} is {said}, the log says {shown} {names}")

    def _report(self, path: str, offset: int, what: str) -> None:
        self._findings.fault("snapshot-state", path, what, is_excused=not self._context.is_clean)

    def finish(self, end_offset: int) -> None:
        """Tell of snapshots beside the log."""
        for offset in self._snapshots:
            if offset > end_offset and self.is_trusted:
                path = snapshot_path(self._context.directory, offset)
                what = f"is of offset {offset}, the log ends at {end_offset}"
                self._findings.fault("snapshot", path, what, is_excused=not self._context.is_clean)

    # --- aborted transactions

    def end_segment(
        self, path: str, base_offset: int, end_offset: int, data: bytes | None, *, is_excused: bool
    ) -> None:
        """Compare a segment's `.txnindex`, None where there is none, with the markers that were seen in it."""
        aborted, self._aborted = self._aborted, {}
        surplus = len(data or b"") % ENTRY.size
        if surplus:
            what = f"{len(data or b'')} bytes are no multiple of {ENTRY.size}"
            is_excused = not self._context.is_clean  # whatever it is of, recovery makes it anew
            self._findings.fault("txnindex", path, what, len(data or b"") - surplus, is_excused=is_excused)
            return
        before = base_offset - 1
        for slot, (version, producer_id, first, last, stable) in enumerate(ENTRY.iter_unpack(data or b"")):
            wrong = ""
            if version != VERSION:
                wrong = f"has version {version}"
            elif not (first < last and before < last < end_offset and 0 <= stable <= last + 1):
                wrong = "is out of order or outside of its segment"
            elif self.is_trusted and not self._context.may_have_gaps:
                wrong = self._compare_aborted(aborted.pop(last, None), producer_id, first)
            before = last
            if wrong:
                what = f"transaction {first} to {last} of producer {producer_id} {wrong}"
                self._findings.fault("txnindex", path, what, slot * ENTRY.size, is_excused=is_excused)
                return
        if self.is_trusted and not self._context.may_have_gaps:
            for offset, ended in aborted.items():
                if ended.first_offset is not None and ended.first_offset >= self._kept_from:
                    what = f"lacks transaction {ended.first_offset} to {offset} of producer {ended.producer_id}"
                    self._findings.fault("txnindex", path, what, is_excused=is_excused)

    def _compare_aborted(self, ended: _Ended | None, producer_id: int, first_offset: int) -> str:
        if ended is None or ended.producer_id != producer_id:
            return "has no abort marker there"
        began = ended.first_offset
        if began is not None and began != first_offset and min(began, first_offset) >= self._kept_from:
            return f"began at {began}"
        return ""


def _state_of(entry: ProducerEntry) -> tuple[int, ...]:
    return entry.producer_epoch, entry.last_sequence, entry.last_offset, entry.current_txn_first_offset
