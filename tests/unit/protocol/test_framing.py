"""Keys and values of coordinator logs, and the frame of metadata records."""

import pytest

from protocol.errors import ProtocolError
from protocol.stored.cluster import FeatureLevelRecord, NoOpRecord
from protocol.stored.framing import (
    UnknownRecord,
    decode_key,
    decode_metadata_record,
    decode_versioned,
    encode_key,
    encode_metadata_record,
    encode_versioned,
)
from protocol.stored.group import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue

KEYS = (OffsetCommitKey, GroupMetadataKey)


def test_an_offset_key_begins_with_its_type() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=5)
    data = encode_key(key)
    assert data == bytes.fromhex("0001 0001 67 0001 74 00000005")
    assert decode_key(data, KEYS) == key


def test_a_value_begins_with_its_version() -> None:
    value = OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=3)
    data = encode_versioned(value, 3)
    assert data == bytes.fromhex("0003 0000000000000009 00000002 0001 6d 0000000000000003")
    assert decode_versioned(OffsetCommitValue, data) == (value, 3)


def test_unknown_types_and_versions_are_told_from_damage() -> None:
    with pytest.raises(UnknownRecord):
        decode_key(b"\0\x63", KEYS)
    with pytest.raises(UnknownRecord):
        decode_versioned(OffsetCommitValue, b"\0\x09")
    for damaged in (b"", b"\0", b"\0\x03\0\0"):
        with pytest.raises(ProtocolError) as raised:
            decode_versioned(OffsetCommitValue, damaged)
        assert raised.type is ProtocolError


def test_a_metadata_record_has_frame_type_and_version_before_it() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=27)
    data = encode_metadata_record(record)
    assert data == b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x1b" + b"\x00"
    assert decode_metadata_record(data) == (record, 0)
    assert decode_metadata_record(encode_metadata_record(NoOpRecord())) == (NoOpRecord(), 0)


def test_metadata_records_of_later_releases_are_unknown() -> None:
    for data in (b"\x02\x0c\x00", b"\x01\x7f\x00", b"\x01\x0c\x09"):
        with pytest.raises(UnknownRecord):
            decode_metadata_record(data)
    with pytest.raises(ProtocolError):
        decode_metadata_record(b"\x01\x0c")
