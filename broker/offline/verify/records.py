"""What is in a batch: payload, records, markers; and what the records of the broker's own topics mean."""

from __future__ import annotations

from broker.offline.batches import MAX_HELD_BYTES, StoredBatch
from broker.offline.dump.decoders import (
    decode_control,
    decode_coordinator_record,
    group_types,
    transaction_types,
)
from broker.offline.dump.segments import QUORUM
from broker.offline.verify.context import Content
from broker.offline.verify.findings import Findings
from protocol.errors import ProtocolError
from protocol.records.batch import MAGIC_V2, BatchHeader, TimestampType
from protocol.records.control import ControlType, EndTxnMarker, control_type_of
from protocol.records.errors import RecordsError
from protocol.records.record import Record, iter_section, record_section
from protocol.records.scan import scan_records
from protocol.stored.framing import UnknownRecord, decode_metadata_record
from storage.log.legacy import iter_legacy_records

_MARKERS = (ControlType.ABORT, ControlType.COMMIT)
_MARKER_VALUE_BYTES = 6


class RecordsCheck:
    """Looks into the batches of one file."""

    def __init__(self, path: str, content: Content, findings: Findings) -> None:
        self._path = path
        self._content = content
        self._findings = findings
        # Of the batch that was checked last: the marker in it, and what it says where it is of the metadata.
        self.marker: EndTxnMarker | None = None
        self.messages: list[tuple[int, object]] = []

    def check(self, batch: StoredBatch) -> int | None:
        """Check a batch whose CRC holds; return how many records it has, None when they cannot be read."""
        self.marker = None
        self.messages = []
        if batch.data is None:
            self._findings.note("records", self._path, "too many bytes to be looked into", batch.position)
            return batch.header.record_count
        try:
            if batch.header.magic < MAGIC_V2:
                return len(iter_legacy_records(bytes(batch.data)))
            return self._check(batch, batch.data)
        except RecordsError as error:
            self._findings.fault("records", self._path, str(error), batch.position)
        return None

    def _check(self, batch: StoredBatch, data: memoryview) -> int | None:
        header = batch.header
        if not 0 <= header.record_count <= header.last_offset_delta + 1:
            what = f"{header.record_count} records in {header.last_offset_delta + 1} offsets"
            self._findings.fault("records-count", self._path, what, batch.position)
            return None
        section = record_section(data, 0, header, max_size=MAX_HELD_BYTES)
        is_whole = header.record_count == header.last_offset_delta + 1
        if is_whole and not header.is_control and self._content is Content.CLIENTS:
            _, highest, _ = scan_records(section, header.record_count)
            self._check_time(batch, header.base_timestamp + highest)
            return header.record_count
        records = list(iter_section(header, section))
        before = header.base_offset - 1
        for record in records:
            if not before < record.offset <= header.last_offset:
                what = f"a record has offset {record.offset} after {before}, in a batch up to {header.last_offset}"
                self._findings.fault("records", self._path, what, batch.position)
                return None
            before = record.offset
        if records:
            self._check_time(batch, max(record.timestamp for record in records))
        if header.is_control:
            if not self._check_control(batch.position, header, records):
                return None
        elif self._content is not Content.CLIENTS:
            self._decode(batch.position, records)
        return len(records)

    def _check_time(self, batch: StoredBatch, newest: int) -> None:
        header = batch.header
        if header.timestamp_type is TimestampType.CREATE_TIME and newest > header.max_timestamp:
            what = f"a record of {newest} in a batch whose newest is said to be {header.max_timestamp}"
            self._findings.fault("record-times", self._path, what, batch.position)

    def _check_control(self, position: int, header: BatchHeader, records: list[Record]) -> bool:
        """Check control records; False when it cannot be said what they mean for transactions."""
        is_clear = True
        if header.is_transactional and len(records) > 1:
            is_clear = False
            self._findings.fault("control", self._path, f"{len(records)} markers in one batch", position)
        for record in records:
            kind = control_type_of(record.key)
            if kind in _MARKERS:
                is_clear &= self._check_marker(position, header, ControlType(kind), record.value or b"")
            elif kind in QUORUM and self._content is Content.METADATA:
                try:
                    decode_control(QUORUM[kind][2], record.value or b"")
                    self.messages.append((record.offset, ControlType(kind)))
                except (ProtocolError, ValueError) as error:
                    self._findings.fault("record-decode", self._path, f"offset {record.offset}: {error}", position)
            elif kind in QUORUM:
                is_clear = False
                what = f"offset {record.offset}: control type {kind} belongs to the metadata log"
                self._findings.fault("control", self._path, what, position)
        return is_clear

    def _check_marker(self, position: int, header: BatchHeader, kind: ControlType, value: bytes) -> bool:
        if len(value) < _MARKER_VALUE_BYTES:
            self._findings.fault("control", self._path, f"a marker of {len(value)} bytes", position)
        elif not header.is_transactional or not header.has_producer_id:
            self._findings.fault("control", self._path, "a marker of no producer or no transaction", position)
        else:
            self.marker = EndTxnMarker(kind, int.from_bytes(value[2:6], "big", signed=True))
            return True
        return False

    def _decode(self, position: int, records: list[Record]) -> None:
        for record in records:
            try:
                if self._content is Content.METADATA:
                    self.messages.append((record.offset, decode_metadata_record(record.value or b"")[0]))
                else:
                    types = group_types() if self._content is Content.GROUPS else transaction_types()
                    decode_coordinator_record(record, types)
            except UnknownRecord:
                continue  # of a later release, or of a kind of group that only others know
            except (ProtocolError, ValueError) as error:
                self._findings.fault("record-decode", self._path, f"offset {record.offset}: {error}", position)
