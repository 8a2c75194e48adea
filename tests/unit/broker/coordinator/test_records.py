"""Stored records byte for byte: keys, versions written, versions read, types passed over."""

import pytest

from broker.coordinator.group import records
from broker.coordinator.group.records import (
    CommittedOffset,
    OffsetKey,
    offset_record,
    offset_tombstone,
    parse_group_value,
    parse_offset_key,
    parse_offset_value,
    record_type,
)
from broker.coordinator.internal_topics import LONGEST_REMEMBERED_KEY
from broker.coordinator.shard import CoordinatorRecord
from protocol.errors import ProtocolError
from tests.sim.groups import START_MS, GroupRig
from tests.sim.members import join_request, sync_request

KEY = OffsetKey("g", "t", 2)
STAMP = (1234).to_bytes(8, "big")


def test_an_offset_key_is_type_group_topic_partition() -> None:
    record = offset_tombstone(KEY)
    assert record == CoordinatorRecord(b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x02", None)
    assert parse_offset_key(record.key) == KEY


def test_what_is_written_of_a_long_name_is_not_remembered() -> None:
    records._remembered_prefix.cache_clear()
    for length in (LONGEST_REMEMBERED_KEY, LONGEST_REMEMBERED_KEY + 1):
        key = OffsetKey("g" * length, "t", 2)
        assert parse_offset_key(offset_tombstone(key).key) == key
    assert records._remembered_prefix.cache_info().currsize == 1


def test_a_commit_is_written_in_version_4_with_its_topic_id() -> None:
    topic_id = bytes(range(16))
    record = offset_record(KEY, CommittedOffset(7, 3, "m", 1234, topic_id=topic_id))
    fixed = (7).to_bytes(8, "big") + (3).to_bytes(4, "big") + b"\x02m" + STAMP
    assert record.value == b"\x00\x04" + fixed + b"\x01\x00\x10" + topic_id
    assert parse_offset_value(record.value, record_offset=5) == CommittedOffset(
        7, 3, "m", 1234, topic_id=topic_id, record_offset=5
    )
    without_id = offset_record(KEY, CommittedOffset(7, 3, "m", 1234))
    assert without_id.value == b"\x00\x04" + fixed + b"\x00"


def test_a_commit_with_its_own_expiry_is_written_in_version_1() -> None:
    record = offset_record(KEY, CommittedOffset(7, 3, "m", 1234, expire_timestamp_ms=9999))
    expected = b"\x00\x01" + (7).to_bytes(8, "big") + b"\x00\x01m" + STAMP + (9999).to_bytes(8, "big")
    assert record.value == expected
    read = parse_offset_value(expected, record_offset=0)
    assert (read.leader_epoch, read.expire_timestamp_ms) == (-1, 9999)


@pytest.mark.parametrize("version", [0, 2, 3])
def test_older_commits_are_read(version: int) -> None:
    epoch = b"\x00\x00\x00\x05" if version == 3 else b""
    value = version.to_bytes(2, "big") + (7).to_bytes(8, "big") + epoch + b"\x00\x01m" + STAMP
    read = parse_offset_value(value, record_offset=0)
    assert (read.offset, read.leader_epoch, read.metadata) == (7, 5 if version == 3 else -1, "m")


async def test_a_stable_group_is_written_in_version_3() -> None:
    rig = GroupRig()
    request = rig.start(join_request(instance_id="i", metadata=b"SUB"), 9)
    await rig.time.advance(0)
    member_id = (await request).member_id
    await rig.call(sync_request(1, member_id, {member_id: b"ASG"}, instance_id="i"), 5)
    [record] = rig.log.records()
    assert record.key == b"\x00\x02\x00\x01g"
    assert record.value is not None

    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    member = (
        text(member_id)
        + text("i")
        + text("cid")
        + text("/127.0.0.1")
        + (60_000).to_bytes(4, "big")
        + (10_000).to_bytes(4, "big")
        + b"\x00\x00\x00\x03SUB"
        + b"\x00\x00\x00\x03ASG"
    )
    assert record.value == (
        b"\x00\x03"
        + text("consumer")
        + b"\x00\x00\x00\x01"
        + text("range")
        + text(member_id)
        + START_MS.to_bytes(8, "big")
        + b"\x00\x00\x00\x01"
        + member
    )
    assert parse_group_value(record.value).members[0].assignment == b"ASG"


async def test_records_of_other_group_kinds_are_passed_over_on_load() -> None:
    rig = GroupRig(partition_count=1)
    shard = rig.coordinator._runtime.read(0)
    for kind in (9, 10, 17):
        shard.replay(CoordinatorRecord(kind.to_bytes(2, "big") + b"\x00\x01g", b"\x00\x00"), offset=0, producer_id=-1)
    assert list(shard.all_groups()) == []
    shard.replay(CoordinatorRecord(b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x00", None), offset=0, producer_id=-1)


def test_a_key_without_a_type_is_malformed() -> None:
    with pytest.raises(ProtocolError):
        record_type(b"\x00")
