"""OffsetDelete: which offsets go, and which a group keeps to itself."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.sim.groups import GroupRig, settle
from tests.sim.members import join_request, subscription, sync_request

E = ErrorCode


async def delete(rig: GroupRig, topics: dict[str, list[int]], group_id: str = "g") -> Any:
    """Return the error of the whole, and topic, partition, error of each row."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in numbers]
            )
            for name, numbers in topics.items()
        ],
    )
    response = await rig.call(request, 0)
    rows = [(topic.name, p.partition_index, p.error_code) for topic in response.topics for p in topic.partitions]
    return response.error_code, rows


async def start_member(rig: GroupRig, *, protocol_type: str = "consumer", metadata: bytes = b"?") -> None:
    """Bring a group with one member to Stable."""
    request = rig.start(join_request(protocol_type=protocol_type, metadata=metadata), 3)
    await rig.time.advance(0)
    member_id = (await request).member_id
    synced = await rig.call(sync_request(1, member_id, {member_id: b"a"}, protocol_type=protocol_type), 5)
    assert synced.error_code == 0


async def test_offsets_of_an_empty_group_are_deleted_for_good() -> None:
    rig = GroupRig()
    for partition in (0, 1, 2):
        await rig.commit("g", 5, partition=partition)
    answer = await delete(rig, {"t": [2, 0, 9], "ghost": [0], "u": [0], "empty": []})
    assert answer == (
        0,
        [("t", 2, 0), ("t", 0, 0), ("t", 9, E.UNKNOWN_TOPIC_OR_PARTITION), ("ghost", 0, 3), ("u", 0, 0)],
    )
    assert await rig.committed("g") == {("t", 1): 5}
    again = rig.restarted()
    await settle()
    assert await again.committed("g") == {("t", 1): 5}
    assert await delete(again, {"t": [1, 1]}) == (0, [("t", 1, 0), ("t", 1, 0)])
    assert await again.committed("g") == {}


async def test_what_a_member_subscribes_to_is_kept() -> None:
    rig = GroupRig()
    await rig.commit("g", 5)
    await rig.commit("g", 6, topic="u")
    await start_member(rig, metadata=subscription("t"))
    assert await delete(rig, {"t": [0], "u": [0]}) == (0, [("t", 0, E.GROUP_SUBSCRIBED_TO_TOPIC), ("u", 0, 0)])
    assert await rig.committed("g") == {("t", 0): 5}


async def test_members_whose_subscription_nobody_can_read_might_read_anything() -> None:
    rig = GroupRig()
    await rig.commit("g", 5)
    await start_member(rig)
    assert await delete(rig, {"t": [0]}) == (0, [("t", 0, E.GROUP_SUBSCRIBED_TO_TOPIC)])


async def test_a_group_of_another_protocol_must_be_empty() -> None:
    rig = GroupRig()
    await rig.commit("g", 5)
    await start_member(rig, protocol_type="connect")
    assert await delete(rig, {"t": [0]}) == (E.NON_EMPTY_GROUP, [])


@pytest.mark.parametrize("is_started", [True, False])
async def test_groups_that_are_not(is_started: bool) -> None:
    rig = GroupRig(is_started=is_started)
    assert await delete(rig, {"t": [0]}) == (E.GROUP_ID_NOT_FOUND, [])
    assert await delete(rig, {"t": [0]}, "") == (E.INVALID_GROUP_ID, [])
