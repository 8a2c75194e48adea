"""ListGroups, DescribeGroups, DeleteGroups and FindCoordinator over every version."""

import asyncio
from typing import Any

import pytest

from broker.coordinator.internal_topics import partition_for
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.sim.groups import NODE_ID, GroupRig, StorageDown, settle
from tests.sim.members import join_request, leave_request, sync_request

E = ErrorCode
METADATA = b"\x00\x01\xfe\xff"


async def live_group(rig: GroupRig, group_id: str, *, instance_id: str | None = None) -> str:
    """Make a stable group of one member."""
    request = rig.start(join_request(group_id, instance_id=instance_id, metadata=METADATA), 3 if not instance_id else 5)
    await rig.time.advance(0)
    member_id: str = (await request).member_id
    await rig.call(
        sync_request(1, member_id, {member_id: b"\x00assigned"}, group_id=group_id, instance_id=instance_id), 5
    )
    return member_id


async def describe(rig: GroupRig, version: int, *group_ids: str, operations: bool = False) -> list[Any]:
    request = DescribeGroupsRequest(groups=list(group_ids), include_authorized_operations=operations)
    groups: list[Any] = (await rig.call(request, version)).groups
    return groups


async def listed(rig: GroupRig, version: int = 5, **filters: list[str]) -> dict[str, Any]:
    response = await rig.call(ListGroupsRequest(**filters), version)
    assert response.error_code == E.NONE
    return {group.group_id: group for group in response.groups}


async def three_groups(rig: GroupRig) -> str:
    """Make g1 with offsets only, g2 with a live member, g3 that had one."""
    await rig.commit("g1", 1)
    member_id = await live_group(rig, "g2")
    gone = await live_group(rig, "g3")
    await rig.call(leave_request(gone, group_id="g3"), 5)
    return member_id


@pytest.mark.parametrize("version", range(7))
async def test_a_stable_group_is_described_with_what_its_members_sent(version: int) -> None:
    rig = GroupRig()
    member_id = await live_group(rig, "g", instance_id="inst")
    [group] = await describe(rig, version, "g")
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        E.NONE,
        "Stable",
        "consumer",
        "range",
    )
    [member] = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "cid", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (METADATA, b"\x00assigned")
    assert member.group_instance_id == ("inst" if version >= 4 else None)


async def test_a_rebalancing_group_loses_no_member_and_shows_no_metadata() -> None:
    rig = GroupRig()
    first = await live_group(rig, "g")
    parked = rig.start(join_request("g"), 3)
    await settle()
    [group] = await describe(rig, 6, "g")
    assert (group.group_state, group.protocol_data, len(group.members)) == ("PreparingRebalance", "", 2)
    assert {member.member_metadata for member in group.members} == {b""}
    # As in Kafka, the assignment of the last generation is still told.
    assert {member.member_assignment for member in group.members} == {b"\x00assigned", b""}
    rejoined = rig.start(join_request("g", first), 9)
    await settle()
    await asyncio.gather(parked, rejoined)
    [group] = await describe(rig, 6, "g")
    assert (group.group_state, len(group.members)) == ("CompletingRebalance", 2)


@pytest.mark.parametrize("version", range(7))
async def test_unknown_groups_are_dead_and_offsets_only_groups_empty(version: int) -> None:
    rig = GroupRig()
    await rig.commit("offsets", 1)
    unknown, offsets, empty_name = await describe(rig, version, "nope", "offsets", "")
    for group in (unknown, empty_name):
        assert group.group_state == "Dead"
        assert group.error_code == (E.GROUP_ID_NOT_FOUND if version == 6 else E.NONE)
        assert group.error_message == (f"Group {group.group_id} not found." if version == 6 else None)
    assert (offsets.error_code, offsets.group_state, offsets.protocol_type) == (E.NONE, "Empty", "")


async def test_authorized_operations_are_told_on_request() -> None:
    rig = GroupRig()
    await rig.commit("g", 1)
    assert [g.authorized_operations for g in await describe(rig, 5, "g", operations=True)] == [3400]
    assert [g.authorized_operations for g in await describe(rig, 5, "g")] == [-(2**31)]
    assert [g.authorized_operations for g in await describe(rig, 6, "nope", operations=True)] == [-(2**31)]


@pytest.mark.parametrize("version", range(6))
async def test_list_names_every_group(version: int) -> None:
    rig = GroupRig()
    await three_groups(rig)
    groups = await listed(rig, version)
    assert {group_id: group.protocol_type for group_id, group in groups.items()} == {
        "g1": "",
        "g2": "consumer",
        "g3": "consumer",
    }
    if version >= 4:
        assert {g: groups[g].group_state for g in groups} == {"g1": "Empty", "g2": "Stable", "g3": "Empty"}
    if version >= 5:
        assert {group.group_type for group in groups.values()} == {"classic"}


async def test_list_filters_ignore_case() -> None:
    rig = GroupRig()
    await three_groups(rig)
    assert set(await listed(rig, states_filter=["STABLE"])) == {"g2"}
    assert set(await listed(rig, states_filter=["empty", "Dead"])) == {"g1", "g3"}
    assert set(await listed(rig, types_filter=["Classic"])) == {"g1", "g2", "g3"}
    assert set(await listed(rig, types_filter=["consumer", "share"])) == set()
    assert set(await listed(rig, types_filter=["classic"], states_filter=["Empty"])) == {"g1", "g3"}


@pytest.mark.parametrize("version", range(3))
async def test_deletion_lasts_and_takes_the_offsets_along(version: int) -> None:
    rig = GroupRig()
    member_id = await three_groups(rig)
    request = DeleteGroupsRequest(groups_names=["g1", "g2", "g3", "nope", "", "g1"])
    response = await rig.call(request, version)
    assert [(result.group_id, result.error_code) for result in response.results] == [
        ("g1", E.NONE),
        ("g2", E.NON_EMPTY_GROUP),
        ("g3", E.NONE),
        ("nope", E.GROUP_ID_NOT_FOUND),
        ("", E.GROUP_ID_NOT_FOUND),
    ]
    for current in (rig, rig.restarted(), rig.restarted().restarted()):
        assert set(await listed(current)) == {"g2"}
        assert {g.group_state for g in await describe(current, 5, "g1", "g3", "nope")} == {"Dead"}
        assert set(current.coordinator.group("g2").members) == {member_id}
        assert await current.committed("g1") == {}


async def test_a_commit_that_is_being_written_is_deleted_with_its_group() -> None:
    rig = GroupRig()
    await rig.commit("g", 1)
    commit = asyncio.ensure_future(rig.commit("g", 2, partition=1))
    await asyncio.sleep(0)
    deleted = await rig.coordinator.delete_groups(["g"])
    assert (await commit, deleted) == ([E.NONE], {"g": E.NONE})
    assert await rig.committed("g") == {}
    assert await rig.restarted().committed("g") == {}


async def test_a_deletion_that_cannot_be_written_leaves_the_group() -> None:
    rig = GroupRig()
    await rig.commit("g", 1)
    rig.log.failure = StorageDown()
    response = await rig.call(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert response.results[0].error_code == E.NOT_COORDINATOR
    assert await rig.committed("g") == {("t", 0): 1}


async def test_while_loading_and_without_a_topic() -> None:
    rig = GroupRig(partition_count=1)
    for n in range(2500):
        await rig.commit("filler", n, partition=n % 3)
    again = rig.restarted()
    loading = E.COORDINATOR_LOAD_IN_PROGRESS
    assert (await again.call(ListGroupsRequest(), 5)).error_code == loading
    assert [group.error_code for group in await describe(again, 6, "filler")] == [loading]
    deleted = await again.call(DeleteGroupsRequest(groups_names=["filler"]), 2)
    assert deleted.results[0].error_code == loading
    fresh = GroupRig(is_started=False)
    assert await listed(fresh) == {}
    assert [group.group_state for group in await describe(fresh, 5, "g")] == ["Dead"]
    deleted = await fresh.call(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert deleted.results[0].error_code == E.GROUP_ID_NOT_FOUND
    assert fresh.created == []


@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_of_every_group_is_this_broker(version: int) -> None:
    rig = GroupRig(is_started=False)
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g", ""])
    response = await rig.call(request, version)
    answers = [response] if version < 4 else response.coordinators
    assert [(a.error_code, a.node_id, a.host, a.port) for a in answers] == [
        (E.NONE, NODE_ID, "broker.example", 19092)
    ] * len(answers)
    if version >= 4:
        assert [answer.key for answer in answers] == ["g", ""]
    assert rig.created == ["__consumer_offsets"]


@pytest.mark.parametrize("version", range(7))
async def test_an_offsets_topic_that_cannot_be_created_is_no_coordinator_yet(version: int) -> None:
    rig = GroupRig(is_started=False)
    rig.creation_failure = RuntimeError("no directory")
    response = await rig.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
    answer = response if version < 4 else response.coordinators[0]
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (E.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


@pytest.mark.parametrize("version", range(7))
async def test_a_group_whose_partition_nobody_leads_has_no_coordinator(version: int) -> None:
    rig = GroupRig()
    rig.created.append("__consumer_offsets")
    lost = partition_for("g", rig.partition_count)
    rig.coordinator.serve(rig.partition_count, [number for number in range(rig.partition_count) if number != lost])
    response = await rig.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
    answer = response if version < 4 else response.coordinators[0]
    assert (answer.error_code, answer.node_id) == (E.COORDINATOR_NOT_AVAILABLE, -1)
    rig.coordinator.close()
    response = await rig.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
    assert (response if version < 4 else response.coordinators[0]).error_code == E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", range(1, 7))
async def test_key_types(version: int) -> None:
    rig = GroupRig(is_started=False)
    for key_type, code in ((1, E.NONE), (2, E.INVALID_REQUEST), (9, E.INVALID_REQUEST)):
        request = FindCoordinatorRequest(key="k", key_type=key_type, coordinator_keys=["k"])
        response = await rig.call(request, version)
        answer = response if version < 4 else response.coordinators[0]
        assert answer.error_code == code
        assert (answer.error_message is None) == (code == E.NONE)
    assert rig.created == []
