"""JSON lines: one object a batch, record or entry, with the file it is of, and everything in it that can be said.

Keys and values are text where they are UTF-8, else base64; `keyEncoding` and `valueEncoding` tell which.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from json import JSONEncoder
from typing import Any, TextIO

from broker.offline.batches import StoredBatch
from broker.offline.dump.printer import OptionalLong, ShownRecord
from broker.offline.dump.text import codec_name, delete_horizon, sequence_of, timestamp_name
from protocol.records.batch import MAGIC_V2

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class JsonPrinter:
    """Prints objects."""

    def __init__(self, out: TextIO, errors: TextIO) -> None:
        self._write = out.write
        self._errors = errors
        self._path = ""

    def begin(self, path: str, kind: str, fields: Mapping[str, Any]) -> None:
        """Begin a file."""
        self._path = path
        self._print("file", {"kind": kind, **fields})

    def batch(self, batch: StoredBatch) -> None:
        """Show a batch."""
        header = batch.header
        fields: dict[str, Any] = {"position": batch.position}
        if header.magic >= MAGIC_V2:
            fields |= {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "count": header.record_count,
                "baseSequence": header.base_sequence,
                "lastSequence": header.last_sequence,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "partitionLeaderEpoch": header.partition_leader_epoch,
                "isTransactional": header.is_transactional,
                "isControl": header.is_control,
                "deleteHorizonMs": delete_horizon(header),
                "baseTimestamp": header.base_timestamp,
            }
        else:
            fields["offset"] = header.base_offset
        fields |= {
            "timestampType": timestamp_name(header),
            "maxTimestamp": header.max_timestamp,
            "size": header.size_bytes,
            "magic": header.magic,
            "compression": codec_name(header),
            "crc": header.crc,
            "isValid": batch.is_valid,
        }
        self._print("batch", fields)

    def record(self, shown: ShownRecord) -> None:
        """Show a record."""
        header, record = shown.header, shown.record
        fields: dict[str, Any] = {
            "offset": record.offset,
            "timestampType": timestamp_name(header),
            "timestamp": record.timestamp,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
        }
        if header.magic >= MAGIC_V2:
            fields["sequence"] = sequence_of(header, record.offset)
            fields["headers"] = [{"key": name, **_content("value", value)} for name, value in record.headers]
        elif shown.crc is not None:
            fields |= {"isValid": shown.is_valid, "crc": shown.crc}
        if shown.control is not None:
            fields |= shown.control.fields
        if shown.has_content:
            fields |= {**_content("key", shown.key), **_content("value", shown.payload)}
        self._print("record", fields)

    def entry(self, fields: Mapping[str, Any]) -> None:
        """Show an entry."""
        self._print("entry", fields)

    def note(self, text: str, fields: Mapping[str, Any]) -> None:
        """Say something of the file."""
        self._print("note", fields)

    def complain(self, text: str) -> None:
        """Say what is wrong."""
        self._errors.write(f"{text}\n")

    def _print(self, kind: str, fields: Mapping[str, Any]) -> None:
        shown = {name: value.value if isinstance(value, OptionalLong) else value for name, value in fields.items()}
        self._write(_encode({"file": self._path, "type": kind, **shown}) + "\n")


def _content(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, bytes):
        return {name: value}
    try:
        return {name: value.decode("utf-8"), f"{name}Encoding": "utf-8"}
    except UnicodeDecodeError:
        return {name: b64encode(value).decode("ascii"), f"{name}Encoding": "base64"}
