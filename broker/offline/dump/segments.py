"""A `.log`, or a snapshot of the metadata, shown batch by batch and, where wanted, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from broker.offline.batches import MAX_HELD_BYTES, BatchFile, StoredBatch
from broker.offline.dump.decoders import Decoder, decode_control
from broker.offline.dump.printer import Control, Printer, ShownRecord
from protocol.errors import ProtocolError
from protocol.records.batch import MAGIC_V2
from protocol.records.control import ControlType, control_type_of
from protocol.records.errors import RecordsError
from protocol.records.record import Record, iter_records
from protocol.stored.raft import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from storage.env.fs import FileSystem
from storage.log.legacy import iter_legacy_messages

QUORUM: dict[int, tuple[str, str, type]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange: ", "leaderChange", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader ", "snapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter ", "snapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion ", "kRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters ", "kRaftVoters", VotersRecord),
}
"""Control type → (words of the text, name in JSON, message)."""
_MARKERS = (ControlType.ABORT, ControlType.COMMIT)


class SegmentDump:
    """Shows files of batches; `decoder` None leaves keys and values out, `is_deep` False the records too."""

    def __init__(
        self,
        fs: FileSystem,
        printer: Printer,
        advance: Callable[[int], None],
        *,
        is_deep: bool,
        decoder: Decoder | None,
        max_bytes: int | None,
    ) -> None:
        self._fs = fs
        self._advance = advance
        self._printer = printer
        self._is_deep = is_deep
        self._decoder = decoder
        self._max_bytes = max_bytes
        # Pairs of record offsets that do not follow each other, by file.
        self.gaps: dict[str, list[tuple[int, int]]] = {}

    def show(self, path: str, name: str) -> bool:
        """Show a file; False when not all of it could be read. Raises: OSError."""
        file = BatchFile(self._fs, path, end=self._max_bytes)
        last_offset: int | None = None
        is_readable = True
        for batch in file:
            self._printer.batch(batch)
            if self._is_deep:
                try:
                    for shown in self._records(batch):
                        offset = shown.record.offset
                        if last_offset is not None and offset != last_offset + 1:
                            self.gaps.setdefault(path, []).append((last_offset, offset))
                        last_offset = offset
                        self._printer.record(shown)
                except (RecordsError, ProtocolError) as error:
                    is_readable = False
                    self._printer.complain(f"{path}: the batch at position {batch.position} cannot be read: {error}")
            self._advance(batch.header.size_bytes)
        trailing = file.size - file.end
        if trailing and self._max_bytes is None:
            fields = {"invalidBytes": trailing, "validBytes": file.end, "reason": file.damage}
            self._printer.note(f"Found {trailing} invalid bytes at the end of {name}", fields)
            if not file.is_torn:
                is_readable = False
                self._printer.complain(f"{path}: no batch at position {file.end}: {file.damage}")
        return is_readable

    def _records(self, batch: StoredBatch) -> Iterator[ShownRecord]:
        header = batch.header
        if batch.data is None:
            raise RecordsError(f"{header.size_bytes} bytes are more than are held in memory")
        if header.magic < MAGIC_V2:
            for message in iter_legacy_messages(bytes(batch.data)):
                yield self._shown(batch, message.record, None, crc=message.crc, is_valid=message.is_valid)
            return
        for record in iter_records(batch.data, 0, header, max_size=MAX_HELD_BYTES):
            yield self._shown(batch, record, _control(record) if header.is_control else None)

    def _shown(
        self,
        batch: StoredBatch,
        record: Record,
        control: Control | None,
        *,
        crc: int | None = None,
        is_valid: bool = True,
    ) -> ShownRecord:
        if self._decoder is None or batch.header.is_control:
            return ShownRecord(batch.header, record, crc, is_valid, control)
        key, payload = self._decoder(record)
        return ShownRecord(batch.header, record, crc, is_valid, control, True, key, payload)


def _control(record: Record) -> Control:
    number = control_type_of(record.key)
    value = record.value or b""
    if number in _MARKERS:
        name, epoch = ControlType(number).name, int.from_bytes(value[2:6], "big", signed=True)
        words = f"endTxnMarker: {name} coordinatorEpoch: {epoch}"
        return Control(words, "", {"endTxnMarker": name, "coordinatorEpoch": epoch})
    if number not in QUORUM:
        return Control(f"controlType: UNKNOWN({number})", "", {"controlType": number})
    words, name, message_type = QUORUM[number]
    shown = decode_control(message_type, value)
    return Control(words, shown, {name: shown})


def gap_lines(gaps: dict[str, list[tuple[int, int]]]) -> Sequence[str]:
    """Tell of record offsets that are missing, which is usual after compaction."""
    lines = []
    for path, pairs in gaps.items():
        lines.append(f"Non-consecutive offsets in {path}")
        lines += [f"  {first} is followed by {second}" for first, second in pairs]
    return lines
