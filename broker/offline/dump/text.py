"""The lines that Kafka's DumpLogSegments prints, to the letter: scripts look for words in them."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any, TextIO

from broker.offline.batches import StoredBatch
from broker.offline.dump.messages import json_text
from broker.offline.dump.printer import OptionalLong, ShownRecord
from protocol.records.batch import (
    DELETE_HORIZON_BIT,
    MAGIC_V2,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    BatchHeader,
    TimestampType,
)
from protocol.records.compression import Codec

_CODEC_NAMES = {int(codec): codec.name.lower() for codec in Codec}
_JAVA_ERRORS = "odradek.java"
_SURROGATE_LEAD = 0xED
_HEADINGS = {"log": "Log starting offset: {start}", "snapshot": "Snapshot end offset: {end}, epoch: {epoch}"}


def codec_name(header: BatchHeader) -> str:
    """Name the codec of a batch."""
    return _CODEC_NAMES.get(header.codec, str(header.codec))


def timestamp_name(header: BatchHeader) -> str:
    """Name what the timestamps of a batch mean."""
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime"


def delete_horizon(header: BatchHeader) -> OptionalLong:
    """Tell from when on the tombstones and markers of a batch may go, if the cleaner has written it."""
    return OptionalLong(header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None)


def sequence_of(header: BatchHeader, offset: int) -> int:
    """Tell the sequence number of a record."""
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (header.base_sequence + offset - header.base_offset) & MAX_SEQUENCE


def java_text(data: bytes) -> str:
    """Decode UTF-8 as Java's strings do: what is malformed is replaced, a surrogate by one character."""
    # Only where a surrogate may be do Python's own replacements, which are far faster, differ from Java's.
    return data.decode("utf-8", _JAVA_ERRORS if _SURROGATE_LEAD in data else "replace")


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    start, data = error.start, error.object
    if data[start] != _SURROGATE_LEAD or not 0xA0 <= _byte_at(data, start + 1) <= 0xBF:
        return "\ufffd", error.end
    return "\ufffd", start + (3 if 0x80 <= _byte_at(data, start + 2) <= 0xBF else 2)


def _byte_at(data: bytes, place: int) -> int:
    return data[place] if place < len(data) else -1


codecs.register_error(_JAVA_ERRORS, _replace)


class TextPrinter:
    """Prints lines."""

    def __init__(self, out: TextIO, errors: TextIO, *, hides_metadata: bool = False) -> None:
        self._write = out.write
        self._errors = errors
        self._hides_metadata = hides_metadata
        self._timestamp_name = ""  # of the batch shown last

    def begin(self, path: str, kind: str, fields: Mapping[str, Any]) -> None:
        """Begin a file."""
        self._write(f"Dumping {path}\n")
        if kind == "bootstrap snapshot":
            self._write("KRaft bootstrap snapshot\n")
        elif kind in _HEADINGS and fields:
            self._write(_HEADINGS[kind].format(**fields) + "\n")

    def batch(self, batch: StoredBatch) -> None:
        """Show a batch."""
        header = batch.header
        self._timestamp_name = timestamp_name(header)
        if header.magic >= MAGIC_V2:
            head = (
                f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
                f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
                f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
                f"partitionLeaderEpoch: {header.partition_leader_epoch} "
                f"isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)} "
                f"deleteHorizonMs: {delete_horizon(header)}"
            )
        else:
            head = f"offset: {header.base_offset}"
        self._write(
            f"{head} position: {batch.position} {self._timestamp_name}: {header.max_timestamp} "
            f"size: {header.size_bytes} magic: {header.magic} compresscodec: {codec_name(header)} crc: {header.crc} "
            f"isvalid: {_java(batch.is_valid)}\n"
        )

    def record(self, shown: ShownRecord) -> None:
        """Show a record."""
        header, record = shown.header, shown.record
        words = []
        if not self._hides_metadata:
            offset, timestamp, key, value, headers = record
            key_size = -1 if key is None else len(key)
            value_size = -1 if value is None else len(value)
            words.append(
                f"offset: {offset} {self._timestamp_name}: {timestamp} keySize: {key_size} valueSize: {value_size}"
            )
            if header.magic >= MAGIC_V2:
                names = ",".join([name for name, _ in headers]) if headers else ""
                words.append(f"sequence: {sequence_of(header, record.offset)} headerKeys: [{names}]")
            elif shown.crc is not None:
                words.append(f"isValid: {_java(shown.is_valid)} crc: {shown.crc}")
            if shown.control is not None:
                words.append(f"{shown.control.words}{_text(shown.control.value)}")
        if shown.key is not None:
            words.append(f"key: {_text(shown.key)}")
        if shown.payload is not None:
            words.append(f"payload: {_text(shown.payload)}")
        self._write(f"| {' '.join(words)}\n" if words else "\n")

    def entry(self, fields: Mapping[str, Any]) -> None:
        """Show an entry."""
        self._write(" ".join(f"{name}: {value}" for name, value in fields.items()) + "\n")

    def note(self, text: str, fields: Mapping[str, Any]) -> None:
        """Say something of the file."""
        self._write(f"{text}\n")

    def complain(self, text: str) -> None:
        """Say what is wrong."""
        self._errors.write(f"{text}\n")


def _java(value: bool) -> str:
    return "true" if value else "false"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return java_text(value)
    return value if isinstance(value, str) else json_text(value)
