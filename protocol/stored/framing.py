"""How stored messages are wrapped in the keys and values of records.

Coordinator logs (`__consumer_offsets`, `__transaction_state`): a key is the int16 record type and the key message in
version 0, a value is its int16 version and the value message. `__cluster_metadata`: a value is the frame version
(uvarint 1), the record type and its version (uvarints) and the message. Source: CoordinatorRecordSerde,
MetadataRecordSerde.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, TypeVar

from protocol.codec import decode, encode_bytes
from protocol.compile_decode import read_uvarint
from protocol.errors import ProtocolError
from protocol.primitives import encode_uvarint
from protocol.stored.cluster import RECORDS

M = TypeVar("M")

METADATA_FRAME_VERSION = 1
_INT16 = Struct(">h")


class UnknownRecord(ProtocolError):
    """A well-formed frame around a type or version that this release does not know."""


def encode_key(key: Any) -> bytes:
    """Return a coordinator record's key: int16 record type, message in version 0."""
    return _INT16.pack(key.RECORD_TYPE) + encode_bytes(key, 0)


def decode_key(data: bytes | memoryview, key_types: Iterable[Any]) -> Any:
    """Decode a coordinator record's key. Raises UnknownRecord when its type is none of `key_types`."""
    record_type = _read_int16(data)
    for key_type in key_types:
        if record_type == key_type.RECORD_TYPE:
            return decode(key_type, 0, data, _INT16.size)
    raise UnknownRecord(f"key of type {record_type}")


def encode_versioned(value: Any, version: int) -> bytes:
    """Return int16 version and the message: a coordinator record's value, or a consumer's subscription."""
    return _INT16.pack(version) + encode_bytes(value, version)


def decode_versioned(value_type: type[M], data: bytes | memoryview) -> tuple[M, int]:
    """Decode int16 version and message; return both. Raises UnknownRecord for a version the schema lacks."""
    version = _read_int16(data)
    _check_version(value_type, version)
    return decode(value_type, version, data, _INT16.size), version


def encode_metadata_record(record: Any, version: int | None = None) -> bytes:
    """Return the value of a `__cluster_metadata` record, in its highest version unless told otherwise."""
    version = record.MAX_VERSION if version is None else version
    head = bytes([METADATA_FRAME_VERSION]) + encode_uvarint(record.RECORD_TYPE) + encode_uvarint(version)
    return head + encode_bytes(record, version)


def decode_metadata_record(data: bytes | memoryview, records: Mapping[int, Any] = RECORDS) -> tuple[Any, int]:
    """Decode the value of a `__cluster_metadata` record; return it with its version.

    Raises: UnknownRecord for a frame, type or version of a later release, ProtocolError on malformed bytes.
    """
    try:
        frame_version, position = read_uvarint(data, 0)
        record_type, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except IndexError as error:
        raise ProtocolError("metadata record shorter than its frame") from error
    if frame_version != METADATA_FRAME_VERSION or record_type not in records:
        raise UnknownRecord(f"metadata record of frame version {frame_version}, type {record_type}")
    _check_version(records[record_type], version)
    return decode(records[record_type], version, data, position), version


def _read_int16(data: bytes | memoryview) -> int:
    if len(data) < _INT16.size:
        raise ProtocolError("record shorter than its int16 version")
    return int(_INT16.unpack_from(data)[0])


def _check_version(message_type: Any, version: int) -> None:
    if not message_type.MIN_VERSION <= version <= message_type.MAX_VERSION:
        raise UnknownRecord(f"{message_type.__name__} version {version}")
