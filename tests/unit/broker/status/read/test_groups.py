"""Groups as they are read: members, offsets, lag."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from broker.coordinator.group.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.commands import JoinRequest
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.member import ClassicMember
from broker.coordinator.group.records import CommittedOffset
from broker.coordinator.group.subscription import assignment_bytes
from broker.status.model import GroupRow, MemberRow, OffsetRow
from broker.status.read.groups import (
    MAX_ASSIGNMENT_BYTES,
    MAX_MEMBERS,
    MAX_SHOWN_PARTITIONS,
    MAX_SHOWN_TOPICS,
    lag_of,
    read_group,
    read_groups,
)
from config.views import LogConfig
from protocol.records.builder import build_batch
from tests.harness.groups import subscription
from tests.harness.hosted import NOW_MS, topic_id_of
from tests.harness.status import StatusBed


@pytest.fixture
def bed(tmp_path: Path) -> StatusBed:
    bed = StatusBed(tmp_path / "data")
    partition = bed.hosted.create("t", partitions=2)
    partition.append(build_batch([(None, b"x")] * 10, timestamp=NOW_MS))
    return bed


def classic_group(name: str, *, protocol_type: str = "consumer", assignment: bytes = b"") -> ClassicGroup:
    timer = cast(Any, None)
    group = ClassicGroup(name, now_ms=NOW_MS, join_timer=timer, sync_timer=timer)
    protocols = (("range", subscription("t")),)
    request = JoinRequest(name, "", "i-1", "app", "/10.0.0.1", 1000, 1000, protocol_type, protocols)
    member = ClassicMember("app-1", request, timer)
    member.assignment = assignment
    group.members["app-1"] = member
    group.protocol_type, group.protocol_name, group.state = protocol_type, "range", GroupState.STABLE
    return group


async def test_lag_is_what_all_partitions_of_a_group_are_behind(bed: StatusBed) -> None:
    bed.groups.add(classic_group("g"), {"t": {0: 4, 1: 0}, "gone": {0: 9}})
    bed.groups.add(ConsumerGroup("h"))
    assert await read_groups(bed.parts) == (
        [GroupRow("g", "classic", "Stable", 1, 3, 6), GroupRow("h", "consumer", "Empty", 0, 0, 0)],
        "",
    )


async def test_groups_that_cannot_be_told_have_a_reason(bed: StatusBed) -> None:
    bed.groups.add(classic_group("g"))
    bed.groups.partitions["loading"] = 1
    assert await read_groups(bed.parts) == ([], "they are still loading")


def test_lag_counts_to_the_high_watermark_and_is_negative_beyond_it(bed: StatusBed) -> None:
    partition = bed.hosted.manager.get("t", 0)
    committed = CommittedOffset(3, -1, "", 0)
    assert lag_of(partition, committed) == 7
    assert lag_of(partition, committed._replace(offset=11)) == -1
    assert lag_of(None, committed) is None


def test_lag_leaves_out_what_a_scheduled_topic_holds_back(bed: StatusBed) -> None:
    partition = bed.hosted.create("later", config=LogConfig(delivery_mode="scheduled"))
    for stamp in (NOW_MS - 1_000, NOW_MS + 5_000):
        partition.append(build_batch([(None, b"x")] * 4, timestamp=stamp))
    assert partition.log.high_watermark == 8
    assert lag_of(partition, CommittedOffset(1, -1, "", 0)) == 3


async def members_of(bed: StatusBed, group_id: str) -> tuple[MemberRow, ...]:
    detail = await read_group(bed.parts, group_id)
    assert detail is not None
    return detail.members


async def test_a_classic_group_has_its_protocol_members_and_offsets(bed: StatusBed) -> None:
    assigned = assignment_bytes({"t": [1, 0]}, like=subscription("t"))
    bed.groups.add(classic_group("g", assignment=assigned), {"t": {1: 0, 0: 4}})
    detail = await read_group(bed.parts, "g")
    assert detail is not None
    assert detail[1:] == (
        GroupRow("g", "classic", "Stable", 1, 2, 6),
        "range",
        (MemberRow("app-1", "i-1", "app", "/10.0.0.1", ("t: 0, 1",)),),
        (OffsetRow("t", 0, 4, 10, 6), OffsetRow("t", 1, 0, 0, 0)),
    )


@pytest.mark.parametrize(
    ("protocol_type", "assignment"),
    [("consumer", b""), ("consumer", b"\x00"), ("consumer", b"\xff" * 40), ("connect", b"\x00\x00\x01")],
)
async def test_an_assignment_that_cannot_be_read_is_not_shown(
    bed: StatusBed, protocol_type: str, assignment: bytes
) -> None:
    bed.groups.add(classic_group("g", protocol_type=protocol_type, assignment=assignment))
    assert (await members_of(bed, "g"))[0].assignment == ()


async def test_an_assignment_that_would_take_long_to_read_is_not_read(bed: StatusBed) -> None:
    assigned = assignment_bytes({"t": range(MAX_ASSIGNMENT_BYTES)}, like=subscription("t"))
    bed.groups.add(classic_group("g", assignment=assigned))
    assert (await members_of(bed, "g"))[0].assignment == ("too long to be shown",)


async def test_a_member_of_a_consumer_group_has_topics_by_name_and_not_too_many_partitions(bed: StatusBed) -> None:
    group = ConsumerGroup("h")
    many = dict.fromkeys(reversed(range(MAX_SHOWN_PARTITIONS + 5)), 1)
    assigned = {topic_id_of("t"): many, topic_id_of("gone"): {0: 1}}
    group.members["m"] = ConsumerMember("m", client_id="app", client_host="/10.0.0.2", assigned=assigned)
    bed.groups.add(group)
    [member] = await members_of(bed, "h")
    assert member.assignment == (f"t: {', '.join(map(str, range(MAX_SHOWN_PARTITIONS)))} and 5 more",)


async def test_of_many_topics_and_members_only_the_first_are_read(bed: StatusBed) -> None:
    for number in range(MAX_SHOWN_TOPICS + 2):
        bed.hosted.create(f"t{number}")
    assigned = {topic_id_of(f"t{number}"): {0: 1} for number in range(MAX_SHOWN_TOPICS + 2)}
    group = ConsumerGroup("h")
    for number in range(MAX_MEMBERS + 3):
        group.members[f"m{number}"] = ConsumerMember(f"m{number}", assigned=assigned)
    bed.groups.add(group)
    detail = await read_group(bed.parts, "h")
    assert detail is not None
    assert (len(detail.members), detail.group.member_count) == (MAX_MEMBERS, MAX_MEMBERS + 3)
    assert detail.members[0].assignment[-2:] == (f"t{MAX_SHOWN_TOPICS - 1}: 0", "and 2 more topics")


async def test_a_group_that_is_not_there_is_none(bed: StatusBed) -> None:
    assert await read_group(bed.parts, "nix") is None
    bed.coordinators = None
    assert await read_group(bed.parts, "nix") is None
