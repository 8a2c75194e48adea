"""Groups and offsets as `__consumer_offsets` stores them.

Key: int16 record type (0 and 1 an offset, 2 a group), then the key's fields. Value: int16 version, then the value's
fields; a null value is a tombstone. Versions written are those of Kafka 4.2: offsets 4 (1 with an explicit expiry),
groups 3. Every older version is read. Types of other group kinds are kept in the log and otherwise ignored.
Source: GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.internal_topics import LONGEST_REMEMBERED_KEY
from broker.coordinator.shard import CoordinatorRecord
from protocol.codec import decode, encode_bytes
from protocol.errors import ProtocolError
from protocol.primitives import encode_uvarint
from protocol.stored.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.uuids import ZERO_UUID

LEGACY_OFFSET_TYPE = 0
OFFSET_TYPE = 1
GROUP_TYPE = 2

OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
NOT_IN_LOG = -1

_VERSION_SIZE = 2
_new_tuple = tuple.__new__  # commits make several of each; a class of its own arguments costs three times as much

_OFFSET_HEAD = Struct(">hqi")
_OFFSET_WITHOUT_METADATA = Struct(">hqibq")
_LONG = Struct(">q")
_INT = Struct(">i")
_NO_TAGS = b"\x00"
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""One tag, number 0, of 16 bytes."""


class OffsetKey(NamedTuple):
    """Whose offset of which partition."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """One committed offset as it is kept; `record_offset` is where it stands in the log, -1 before it is written."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID
    record_offset: int = NOT_IN_LOG


class ParsedOffset(NamedTuple):
    """A commit as a record of it says, but for where it stands."""

    key: OffsetKey
    committed: CommittedOffset


def offset_record(key: OffsetKey, committed: CommittedOffset) -> CoordinatorRecord:
    """Write one commit."""
    if committed.expire_timestamp_ms == NO_TIMESTAMP:
        parsed = _new_tuple(ParsedOffset, (key, committed))
        return _new_tuple(CoordinatorRecord, (_offset_key(key), _offset_value(committed), parsed))
    value = OffsetCommitValue(
        offset=committed.offset,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
    )
    version = OFFSET_VALUE_VERSION_WITH_EXPIRY
    return CoordinatorRecord(_offset_key(key), _framed(version, encode_bytes(value, version)))


def _offset_value(committed: CommittedOffset) -> bytes:
    """Write what the codec would of an OffsetCommitValue of OFFSET_VALUE_VERSION, in a tenth of its time."""
    offset, leader_epoch, metadata, commit_timestamp_ms, _, topic_id, _ = committed
    tags = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id
    if not metadata:
        return _OFFSET_WITHOUT_METADATA.pack(OFFSET_VALUE_VERSION, offset, leader_epoch, 1, commit_timestamp_ms) + tags
    text = metadata.encode()
    head = _OFFSET_HEAD.pack(OFFSET_VALUE_VERSION, offset, leader_epoch)
    return b"".join((head, encode_uvarint(len(text) + 1), text, _LONG.pack(commit_timestamp_ms), tags))


def offset_tombstone(key: OffsetKey) -> CoordinatorRecord:
    """Delete one commit."""
    return CoordinatorRecord(_offset_key(key), None)


def group_metadata_record(group: ClassicGroup, assignments: dict[str, bytes] | None = None) -> CoordinatorRecord:
    """Write a group with its members, their assignments replaced by `assignments` where given."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    timestamp_ms = group.state_timestamp_ms
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=NO_TIMESTAMP if timestamp_ms is None else timestamp_ms,
        members=members,
    )
    return CoordinatorRecord(
        _group_key(group.group_id), _framed(GROUP_VALUE_VERSION, encode_bytes(value, GROUP_VALUE_VERSION))
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Delete a group."""
    return CoordinatorRecord(_group_key(group_id), None)


def record_type(key: bytes) -> int:
    """Give the type a stored key begins with. Raises: ProtocolError."""
    if len(key) < _VERSION_SIZE:
        raise ProtocolError(f"a stored key of {len(key)} bytes has no type")
    return int.from_bytes(key[:_VERSION_SIZE], "big", signed=True)


def parse_offset_key(key: bytes) -> OffsetKey:
    """Read the key of a commit. Raises: ProtocolError."""
    parsed = decode(OffsetCommitKey, 0, key, _VERSION_SIZE)
    return OffsetKey(parsed.group, parsed.topic, parsed.partition)


def parse_offset_value(value: bytes, *, record_offset: int) -> CommittedOffset:
    """Read a commit. Raises: ProtocolError."""
    parsed = decode(OffsetCommitValue, record_type(value), value, _VERSION_SIZE)
    return CommittedOffset(
        offset=parsed.offset,
        leader_epoch=parsed.leader_epoch,
        metadata=parsed.metadata,
        commit_timestamp_ms=parsed.commit_timestamp,
        expire_timestamp_ms=parsed.expire_timestamp,
        topic_id=parsed.topic_id,
        record_offset=record_offset,
    )


def parse_group_key(key: bytes) -> str:
    """Read the key of a group. Raises: ProtocolError."""
    return decode(GroupMetadataKey, 0, key, _VERSION_SIZE).group


def parse_group_value(value: bytes) -> GroupMetadataValue:
    """Read a group. Raises: ProtocolError."""
    return decode(GroupMetadataValue, record_type(value), value, _VERSION_SIZE)


def _offset_key(key: OffsetKey) -> bytes:
    group_id, topic, partition = key
    prefix = _remembered_prefix if len(group_id) <= LONGEST_REMEMBERED_KEY else _offset_key_prefix
    return prefix(group_id, topic) + _INT.pack(partition)


def _offset_key_prefix(group_id: str, topic: str) -> bytes:
    """Write a key up to its partition, which stands at its end."""
    body = encode_bytes(OffsetCommitKey(group=group_id, topic=topic, partition=0), 0)
    return _framed(OFFSET_TYPE, body[: -_INT.size])


_remembered_prefix = lru_cache(maxsize=8192)(_offset_key_prefix)


def _group_key(group_id: str) -> bytes:
    return _framed(GROUP_TYPE, encode_bytes(GroupMetadataKey(group=group_id), 0))


def _framed(version: int, body: bytes) -> bytes:
    return version.to_bytes(_VERSION_SIZE, "big", signed=True) + body
