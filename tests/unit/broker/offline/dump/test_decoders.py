"""What records of the broker's own topics are shown as."""

from __future__ import annotations

from broker.offline.dump.decoders import DELETED, group_record, metadata_record, transaction_record
from protocol.records.record import Record
from protocol.stored.cluster import TopicRecord
from protocol.stored.framing import encode_key, encode_metadata_record, encode_versioned
from protocol.stored.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
)
from tests.harness.groups import subscription


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(9, 0, key, value)


def test_a_tombstone_is_told() -> None:
    shown, payload = group_record(record(encode_key(OffsetCommitKey(group="g", topic="t", partition=1)), None))
    assert shown == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 1}}
    assert payload == DELETED


def test_offsets_of_the_oldest_form_are_shown() -> None:
    value = encode_versioned(LegacyOffsetCommitValue(offset=3), 0)
    shown, payload = group_record(record(encode_key(LegacyOffsetCommitKey(group="g")), value))
    assert (shown["type"], payload["data"]["offset"]) == ("0", 3)


def test_what_members_store_is_unpacked_if_consumers_did() -> None:
    member = MemberMetadata(member_id="m", subscription=subscription("t"), assignment=b"?")
    value = GroupMetadataValue(protocol_type="consumer", members=[member])
    _, payload = group_record(record(encode_key(GroupMetadataKey(group="g")), encode_versioned(value, 3)))
    [shown] = payload["data"]["members"]
    assert shown["subscription"] == {"topics": ["t"], "userData": None}
    assert shown["assignment"] == "Pw=="
    value.protocol_type = "connect"
    _, payload = group_record(record(encode_key(GroupMetadataKey(group="g")), encode_versioned(value, 3)))
    assert isinstance(payload["data"]["members"][0]["subscription"], str)


def test_damage_and_what_is_not_known_is_told_in_place_of_the_key() -> None:
    assert group_record(record(b"\0\x63rest", b"")) == ("Unknown record type 99 at offset 9, skipping.", None)
    for key, value in ((None, b""), (b"\0", b""), (b"\0\1\0\xff", b"\0\3"), (b"\0\2\0\1g", b"\0")):
        shown, payload = group_record(record(key, value))
        assert shown.startswith("Error at offset 9, skipping. ")
        assert payload is None
    assert transaction_record(record(b"\0\0\0\1t", b"\0\x63"))[0] == "Unknown record type 0 at offset 9, skipping."


def test_metadata_has_no_keys() -> None:
    topic = TopicRecord(name="t", topic_id=bytes(16))
    assert metadata_record(record(None, encode_metadata_record(topic))) == (
        None,
        {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}},
    )
    for value in (None, b"", b"\1\2", b"\2\2\0", b"\1\x7f\0"):
        assert metadata_record(record(None, value))[1].startswith("Error at 9, skipping. ")
