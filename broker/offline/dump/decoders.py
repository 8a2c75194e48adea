"""What keys and values of records mean, topic by topic: what is printed of them where somebody asks for it.

A decoder gives two things to show, each None, bytes, text, or what JSON can say. Damage is told in their place, as
Kafka's tool does. Source: DumpLogSegments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from broker.offline.dump.messages import to_json
from protocol.codec import decode
from protocol.errors import ProtocolError
from protocol.records.record import Record
from protocol.stored import consumer_group, group, transaction
from protocol.stored.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.stored.framing import UnknownRecord, decode_key, decode_metadata_record, decode_versioned
from protocol.stored.group import GroupMetadataValue

Shown = tuple[Any, Any]
Decoder = Callable[[Record], Shown]

DELETED = "<DELETE>"
_EMBEDDED_PROTOCOL = "consumer"
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


def as_bytes(record: Record) -> Shown:
    """Give key and value as they are."""
    return record.key, record.value


def _pairs(*modules: Any) -> dict[int, tuple[type, type]]:
    """Find the key and value classes of coordinator records by their types."""
    found: dict[int, tuple[type, type]] = {}
    for module in modules:
        for name, key_type in vars(module).items():
            if name.endswith("Key") and hasattr(key_type, "RECORD_TYPE"):
                found[key_type.RECORD_TYPE] = (key_type, getattr(module, f"{name.removesuffix('Key')}Value"))
    return found


@cache
def group_types() -> dict[int, tuple[type, type]]:
    """The records of `__consumer_offsets`."""
    return _pairs(group, consumer_group)


@cache
def transaction_types() -> dict[int, tuple[type, type]]:
    """The records of `__transaction_state`."""
    return _pairs(transaction)


def decode_coordinator_record(record: Record, types: dict[int, tuple[type, type]]) -> tuple[Any, Any, int]:
    """Decode a record of a coordinator: (key, value or None for a tombstone, version of the value).

    Raises: UnknownRecord, ProtocolError.
    """
    if record.key is None:
        raise ProtocolError("the record has no key")
    key = decode_key(record.key, (key_type for key_type, _ in types.values()))
    if record.value is None:
        return key, None, 0
    value_type: Any = types[key.RECORD_TYPE][1]
    value, version = decode_versioned(value_type, record.value)
    return key, value, version


def group_record(record: Record) -> Shown:
    """Show a record of `__consumer_offsets`."""
    return _coordinator_record(record, group_types())


def transaction_record(record: Record) -> Shown:
    """Show a record of `__transaction_state`."""
    return _coordinator_record(record, transaction_types())


def _coordinator_record(record: Record, types: dict[int, tuple[type, type]]) -> Shown:
    try:
        key, value, version = decode_coordinator_record(record, types)
    except UnknownRecord:
        number = int.from_bytes((record.key or b"")[:2], "big", signed=True)
        return f"Unknown record type {number} at offset {record.offset}, skipping.", None
    except (ProtocolError, ValueError) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    shown_key = {"type": str(key.RECORD_TYPE), "data": to_json(key, 0)}
    if value is None:
        return shown_key, DELETED
    data = to_json(value, version)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == _EMBEDDED_PROTOCOL:
        for member, shown in zip(value.members, data["members"], strict=True):
            _unpack(shown, "subscription", ConsumerProtocolSubscription, member.subscription)
            _unpack(shown, "assignment", ConsumerProtocolAssignment, member.assignment)
    return shown_key, {"version": str(version), "data": data}


def _unpack(shown: dict[str, Any], name: str, message_type: Any, data: bytes) -> None:
    """Show what a client stored, if it is what consumers store; else it stays base64."""
    try:
        message, version = decode_versioned(message_type, data)
    except (ProtocolError, ValueError):
        return
    shown[name] = to_json(message, version)


def metadata_record(record: Record) -> Shown:
    """Show a record of `__cluster_metadata`; such have no keys."""
    try:
        message, version = decode_metadata_record(record.value or b"")
    except (ProtocolError, ValueError) as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    name = _WORD_START.sub("_", type(message).__name__).upper()
    return None, {"type": name, "version": version, "data": to_json(message, version)}


def decode_control(message_type: Any, data: bytes) -> dict[str, Any]:
    """Show the value of a quorum's control record, whose first field is its version. Raises: ProtocolError."""
    version = int.from_bytes(data[:2], "big", signed=True)
    versions: Iterable[int] = range(message_type.MIN_VERSION, message_type.MAX_VERSION + 1)
    known = version if version in versions else max(versions)
    return to_json(decode(message_type, known, data), known)
