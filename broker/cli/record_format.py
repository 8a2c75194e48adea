"""Records as `odradek consume` writes them: as Kafka's DefaultMessageFormatter does, or as lines of JSON."""

from __future__ import annotations

import base64
import json
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from broker.cli.errors import CommandError
from broker.client.fetching import Consumed
from protocol.records.batch import TimestampType

Reader = Callable[[bytes], bytes]

NO_TIMESTAMP = -1
NOT_PRESENT = b"NOT_PRESENT"
"""Of records that are not delivered to a share group; of an epoch that is not known."""
TYPES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
SWITCHES = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
TEXTS = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")


class UnreadableRecord(Exception):
    """A key, value or header is not what its deserializer reads."""


def _number(layout: str) -> Reader:
    packed = struct.Struct(layout)

    def read(data: bytes) -> bytes:
        try:
            (number,) = packed.unpack(data)
        except struct.error:
            raise UnreadableRecord(f"Size of data received is not {packed.size}") from None
        return str(number).encode()

    return read


def _as_is(data: bytes) -> bytes:
    return data


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError:
        raise UnreadableRecord("Error parsing data into UUID") from None


def _boolean(data: bytes) -> bytes:
    if data not in (b"\x00", b"\x01"):
        raise UnreadableRecord("Unexpected byte received by BooleanDeserializer")
    return b"true" if data == b"\x01" else b"false"


READERS: Mapping[str, Reader] = {
    "StringDeserializer": _as_is,
    "ByteArrayDeserializer": _as_is,
    "BytesDeserializer": _as_is,
    "ShortDeserializer": _number(">h"),
    "IntegerDeserializer": _number(">i"),
    "LongDeserializer": _number(">q"),
    "FloatDeserializer": _number(">f"),
    "DoubleDeserializer": _number(">d"),
    "UUIDDeserializer": _uuid,
    "BooleanDeserializer": _boolean,
}
"""Kafka's own, by the last part of their names. What a ByteArrayDeserializer's result prints in Java is of no use."""


class TextFormat:
    """Writes the columns that are asked for, between separators."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Take the formatter's properties; unknown ones mean nothing, as in Kafka. Raises: CommandError."""
        shown = {name: properties.get(f"print.{name}") for name in SWITCHES}
        self._columns = [
            getattr(self, f"_{name}")
            for name in SWITCHES
            if (name == "value" if shown[name] is None else str(shown[name]).strip().lower() == "true")
        ]
        texts = {name: properties.get(name, text).encode() for name, text in TEXTS.items()}
        self._separator, self._end = texts["key.separator"], texts["line.separator"]
        self._header_separator, self._null = texts["headers.separator"], texts["null.literal"]
        self._readers = {name: reader_of(properties[name]) for name in DESERIALIZERS if name in properties}

    def __call__(self, consumed: Consumed) -> bytes:
        """Give the line of a record. Raises: UnreadableRecord."""
        return self._separator.join(column(consumed) for column in self._columns) + self._end if self._columns else b""

    def _timestamp(self, consumed: Consumed) -> bytes:
        if consumed.record.timestamp == NO_TIMESTAMP:
            return b"NO_TIMESTAMP"
        return f"{TYPES[consumed.timestamp_type]}:{consumed.record.timestamp}".encode()

    def _partition(self, consumed: Consumed) -> bytes:
        return b"Partition:%d" % consumed.partition.partition

    def _offset(self, consumed: Consumed) -> bytes:
        return b"Offset:%d" % consumed.record.offset

    def _delivery(self, consumed: Consumed) -> bytes:
        return b"Delivery:" + NOT_PRESENT

    def _epoch(self, consumed: Consumed) -> bytes:
        epoch = consumed.leader_epoch
        return b"Epoch:" + (NOT_PRESENT if epoch < 0 else b"%d" % epoch)

    def _headers(self, consumed: Consumed) -> bytes:
        headers = consumed.record.headers
        if not headers:
            return b"NO_HEADERS"
        return self._header_separator.join(
            name.encode() + b":" + self._read("headers.deserializer", value) for name, value in headers
        )

    def _key(self, consumed: Consumed) -> bytes:
        return self._read("key.deserializer", consumed.record.key)

    def _value(self, consumed: Consumed) -> bytes:
        return self._read("value.deserializer", consumed.record.value)

    def _read(self, deserializer: str, data: bytes | None) -> bytes:
        if data is None:
            return self._null
        return self._readers.get(deserializer, _as_is)(data)


def json_format(consumed: Consumed) -> bytes:
    """Give a record as a line of JSON; bytes that are no text are in Base64."""
    record = consumed.record
    facts = {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": TYPES[consumed.timestamp_type],
        "leaderEpoch": consumed.leader_epoch,
        "key": _json_of(record.key),
        "value": _json_of(record.value),
        "headers": [[name, _json_of(value)] for name, value in record.headers],
    }
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def no_format(consumed: Consumed) -> bytes:
    """Give nothing, as NoOpMessageFormatter does."""
    return b""


def reader_of(name: str) -> Reader:
    """Find a deserializer by the name of its class. Raises: CommandError."""
    reader = READERS.get(name.rpartition(".")[2])
    if reader is None:
        raise CommandError(f"Unknown deserializer {name[:120]}: there are {', '.join(READERS)}")
    return reader


def _json_of(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
