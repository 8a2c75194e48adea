"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup over every version: checks in order, parking."""

import asyncio
from typing import Any

import pytest

from broker.coordinator.internal_topics import partition_for
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from tests.sim.groups import GroupRig, StorageDown, settle
from tests.sim.members import heartbeat_request, join_request, leave_request, sync_request

E = ErrorCode


async def joined(rig: GroupRig, version: int = 9, **fields: Any) -> Any:
    """Join with as many requests as it takes; the rebalance must be able to end at once."""
    response = await asyncio.wait_for(_join(rig, version, **fields), 5)
    assert response.error_code == E.NONE
    return response


async def _join(rig: GroupRig, version: int, **fields: Any) -> Any:
    request = rig.start(join_request(**fields), version)
    await rig.time.advance(0)
    response = await request
    if response.error_code == E.MEMBER_ID_REQUIRED:
        request = rig.start(join_request(**{**fields, "member_id": response.member_id}), version)
        await rig.time.advance(0)
        response = await request
    return response


async def stable(rig: GroupRig, **fields: Any) -> Any:
    """Bring a group of one member to Stable."""
    response = await joined(rig, **fields)
    synced = await rig.call(
        sync_request(
            response.generation_id,
            response.member_id,
            {response.member_id: b"assigned"},
            instance_id=fields.get("instance_id"),
            protocol_name=response.protocol_name,
        ),
        5,
    )
    assert (synced.error_code, synced.assignment) == (E.NONE, b"assigned")
    return response


# -- join: checks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
async def test_refusals_before_the_group_is_looked_at(version: int) -> None:
    rig = GroupRig()

    async def code(**fields: Any) -> int:
        return (await rig.call(join_request(**fields), version)).error_code

    assert await code(group_id="") == E.INVALID_GROUP_ID
    assert await code(group_id="", session_timeout_ms=1) == E.INVALID_GROUP_ID
    assert await code(session_timeout_ms=5999) == E.INVALID_SESSION_TIMEOUT
    assert await code(session_timeout_ms=1_800_001) == E.INVALID_SESSION_TIMEOUT
    assert await code(member_id="made-up") == E.UNKNOWN_MEMBER_ID
    assert await code(protocols=()) == E.INCONSISTENT_GROUP_PROTOCOL
    assert await code(protocol_type="") == E.INCONSISTENT_GROUP_PROTOCOL
    assert (await rig.call(ListGroupsRequest(), 5)).groups == [], "a refused join leaves no group behind"


@pytest.mark.parametrize("version", range(10))
async def test_a_dynamic_member_is_given_an_id_first_from_v4_on(version: int) -> None:
    rig = GroupRig()
    request = rig.start(join_request(), version)
    await rig.time.advance(0)
    response = await request
    if version < 4:
        assert response.error_code == E.NONE
    else:
        assert (response.error_code, response.member_id) == (E.MEMBER_ID_REQUIRED, "cid-uuid1")
        assert (response.generation_id, response.leader, response.members) == (-1, "", [])
        assert response.protocol_name == ("" if version < 7 else None)
        request = rig.start(join_request(member_id=response.member_id), version)
        await rig.time.advance(0)
        response = await request
    assert (response.error_code, response.member_id, response.generation_id) == (E.NONE, "cid-uuid1", 1)
    assert (response.leader, response.protocol_name) == ("cid-uuid1", "range")
    assert [(m.member_id, m.metadata) for m in response.members] == [("cid-uuid1", b"meta")]


async def test_protocols_are_checked_before_an_id_is_given() -> None:
    rig = GroupRig()
    await joined(rig)
    response = await rig.call(join_request(protocols=("zzz",)), 9)
    assert (response.error_code, response.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "")
    response = await rig.call(join_request(protocol_type="connect"), 9)
    assert response.error_code == E.INCONSISTENT_GROUP_PROTOCOL


async def test_the_protocol_common_to_all_is_chosen_and_strangers_are_refused() -> None:
    rig = GroupRig()
    first = await stable(rig, protocols=("range", "rr"))
    second = rig.start(join_request(protocols=("rr",)), 3)
    await settle()
    assert not second.done()
    assert (await rig.call(heartbeat_request(1, first.member_id), 4)).error_code == E.REBALANCE_IN_PROGRESS
    again = await joined(rig, member_id=first.member_id, protocols=("range", "rr"))
    assert (again.protocol_name, again.generation_id, len(again.members)) == ("rr", 2, 2)
    assert (await second).protocol_name == "rr"
    for protocols, protocol_type in ((("range",), "consumer"), (("rr",), "connect")):
        refused = await rig.call(join_request(protocols=protocols, protocol_type=protocol_type), 9)
        assert refused.error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert (await rig.call(heartbeat_request(2, first.member_id), 4)).error_code == E.NONE


async def test_votes_decide_between_common_protocols() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=1000)
    orders = [("a", "b"), ("b", "a"), ("b", "a")]
    requests = [rig.start(join_request(protocols=order), 3) for order in orders]
    await rig.time.advance(5000)
    assert {(await request).protocol_name for request in requests} == {"b"}


async def test_an_id_that_is_not_used_is_taken_back_with_its_group() -> None:
    rig = GroupRig()
    response = await rig.call(join_request(), 9)
    assert len((await rig.call(ListGroupsRequest(), 5)).groups) == 1
    await rig.time.advance(10_001)
    late = await rig.call(join_request(member_id=response.member_id), 9)
    assert late.error_code == E.UNKNOWN_MEMBER_ID
    assert (await rig.call(ListGroupsRequest(), 5)).groups == []
    assert rig.log.batch_count() == 0


async def test_a_rebalance_waits_for_an_id_that_was_given_out() -> None:
    rig = GroupRig()
    first = await stable(rig)
    promised = await rig.call(join_request(), 9)
    rejoined = rig.start(join_request(member_id=first.member_id), 9)
    await settle()
    assert not rejoined.done()
    second = rig.start(join_request(member_id=promised.member_id), 9)
    await settle()
    assert ((await rejoined).generation_id, (await second).generation_id) == (2, 2)


async def test_a_full_group_takes_nobody_in() -> None:
    rig = GroupRig(max_size=1)
    first = await stable(rig)
    refused = await rig.call(join_request(), 9)
    assert (refused.error_code, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert (await rig.call(heartbeat_request(1, first.member_id), 4)).error_code == E.NONE


# -- join: rebalances ------------------------------------------------------------------------------------------------


async def test_in_stable_a_follower_gets_the_round_again_and_the_leader_starts_a_new_one() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=100)
    requests = [rig.start(join_request(), 3), rig.start(join_request(), 3)]
    await rig.time.advance(1000)
    leader, follower = [await request for request in requests]
    assert leader.leader == follower.leader == leader.member_id
    assert (len(leader.members), follower.members) == (2, [])
    parked = rig.start(sync_request(1, follower.member_id), 5)
    await settle()
    assert not parked.done()
    again = await rig.call(join_request(member_id=follower.member_id), 9)
    assert (again.error_code, again.generation_id, again.members) == (E.NONE, 1, [])
    again = await rig.call(join_request(member_id=leader.member_id), 9)
    assert (again.generation_id, len(again.members)) == (1, 2), "a lost answer is given again"
    synced = await rig.call(sync_request(1, leader.member_id, {follower.member_id: b"F"}), 5)
    assert (synced.error_code, synced.assignment) == (E.NONE, b"")
    assert (await parked).assignment == b"F"
    again = await rig.call(join_request(member_id=follower.member_id), 9)
    assert (again.generation_id, again.skip_assignment) == (1, False)
    rejoined = rig.start(join_request(member_id=leader.member_id), 9)
    await settle()
    assert not rejoined.done()
    assert (await rig.call(heartbeat_request(1, follower.member_id), 4)).error_code == E.REBALANCE_IN_PROGRESS
    assert (await rig.call(sync_request(1, follower.member_id), 5)).error_code == E.REBALANCE_IN_PROGRESS


async def test_changed_metadata_forces_a_rebalance() -> None:
    rig = GroupRig()
    first = await stable(rig)
    again = await joined(rig, member_id=first.member_id, metadata=b"other")
    assert (again.generation_id, again.members[0].metadata) == (2, b"other")


async def test_members_that_do_not_rejoin_in_time_are_dropped_and_a_new_leader_is_found() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=100)
    timeouts = {"session_timeout_ms": 600_000, "rebalance_timeout_ms": 30_000}
    requests = [rig.start(join_request(**timeouts), 3), rig.start(join_request(**timeouts), 3)]
    await rig.time.advance(1000)
    leader, follower = [await request for request in requests]
    await rig.call(sync_request(1, leader.member_id), 5)
    await rig.call(sync_request(1, follower.member_id), 5)
    rejoined = rig.start(join_request(member_id=follower.member_id, metadata=b"new", **timeouts), 9)
    await rig.time.advance(29_999)
    assert not rejoined.done()
    await rig.time.advance(1)
    response = await rejoined
    assert (response.generation_id, response.leader) == (2, follower.member_id)
    assert [member.member_id for member in response.members] == [follower.member_id]
    assert (await rig.call(heartbeat_request(1, leader.member_id), 4)).error_code == E.UNKNOWN_MEMBER_ID


async def test_v0_takes_the_session_timeout_for_the_rebalance_timeout() -> None:
    rig = GroupRig()
    request = rig.start(join_request(session_timeout_ms=20_000, rebalance_timeout_ms=-1), 0)
    await rig.time.advance(0)
    await request
    assert rig.coordinator.group("g").rebalance_timeout_ms == 20_000


async def test_a_new_member_that_never_finishes_its_join_is_dropped_after_five_minutes() -> None:
    rig = GroupRig()
    timeouts = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 1_000_000}
    await stable(rig, **timeouts)
    parked = rig.start(join_request(**timeouts), 3)
    await rig.time.advance(299_999)
    assert not parked.done()
    await rig.time.advance(2)
    assert (await parked).error_code == E.UNKNOWN_MEMBER_ID


async def test_a_join_whose_connection_ends_stays_a_member() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=1000)
    request = rig.start(join_request(), 3)
    await settle()
    request.cancel()
    await rig.time.advance(2000)
    group = rig.coordinator.group("g")
    assert (len(group.members), group.generation_id) == (1, 1)
    await rig.time.advance(60_000)
    assert group.members == {}


# -- sync ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
async def test_sync_checks(version: int) -> None:
    rig = GroupRig()
    assert (await rig.call(sync_request(1, "x", group_id=""), version)).error_code == E.INVALID_GROUP_ID
    assert (await rig.call(sync_request(1, "x"), version)).error_code == E.UNKNOWN_MEMBER_ID
    first = await joined(rig)
    assert (await rig.call(sync_request(1, "x"), version)).error_code == E.UNKNOWN_MEMBER_ID
    assert (await rig.call(sync_request(0, first.member_id), version)).error_code == E.ILLEGAL_GENERATION
    if version == 5:
        for fields in (
            {"protocol_name": None},
            {"protocol_type": None},
            {"protocol_name": "x"},
            {"protocol_type": "x"},
        ):
            refused = await rig.call(sync_request(1, first.member_id, **fields), version)
            assert refused.error_code == E.INCONSISTENT_GROUP_PROTOCOL
    synced = await rig.call(sync_request(1, first.member_id, {first.member_id: b"\x00\x01\xff"}), version)
    assert (synced.error_code, synced.assignment) == (E.NONE, b"\x00\x01\xff")
    again = await rig.call(sync_request(1, first.member_id), version)
    assert again.assignment == b"\x00\x01\xff"


async def test_members_that_do_not_sync_in_time_are_removed_and_the_others_rebalance() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=100)
    timeouts = {"session_timeout_ms": 600_000, "rebalance_timeout_ms": 30_000}
    requests = [rig.start(join_request(**timeouts), 3), rig.start(join_request(**timeouts), 3)]
    await rig.time.advance(1000)
    leader, follower = [await request for request in requests]
    parked = rig.start(sync_request(1, follower.member_id), 5)
    await rig.time.advance(30_000)
    assert (await parked).error_code == E.REBALANCE_IN_PROGRESS
    assert set(rig.coordinator.group("g").members) == {follower.member_id}
    again = await joined(rig, member_id=follower.member_id, **timeouts)
    assert (again.generation_id, again.leader) == (2, follower.member_id)
    assert (await rig.call(heartbeat_request(1, leader.member_id), 4)).error_code == E.UNKNOWN_MEMBER_ID


async def test_an_assignment_that_cannot_be_stored_is_not_handed_out() -> None:
    rig = GroupRig()
    first = await joined(rig)
    rig.log.failure = StorageDown()
    refused = await rig.call(sync_request(1, first.member_id, {first.member_id: b"A"}), 5)
    assert refused.error_code == E.NOT_COORDINATOR
    rig.log.failure = None
    again = await stable(rig, member_id=first.member_id)
    assert again.generation_id == 2


# -- heartbeat -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_heartbeat_checks(version: int) -> None:
    rig = GroupRig()
    assert (await rig.call(heartbeat_request(1, "x", group_id=""), version)).error_code == E.INVALID_GROUP_ID
    assert (await rig.call(heartbeat_request(1, "x"), version)).error_code == E.UNKNOWN_MEMBER_ID
    first = await joined(rig)
    assert (await rig.call(heartbeat_request(1, first.member_id), version)).error_code == E.NONE, "CompletingRebalance"
    assert (await rig.call(heartbeat_request(2, first.member_id), version)).error_code == E.ILLEGAL_GENERATION
    assert (await rig.call(heartbeat_request(1, "x"), version)).error_code == E.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_of_an_idle_shard_does_not_suspend() -> None:
    rig = GroupRig()
    first = await stable(rig)
    beat = rig.coordinator.heartbeat("g", first.member_id, None, 1)
    with pytest.raises(StopIteration) as ended:
        beat.send(None)
    assert ended.value.value is E.NONE


async def test_heartbeats_and_commits_refresh_the_session_also_during_a_rebalance() -> None:
    rig = GroupRig()
    first = await stable(rig, rebalance_timeout_ms=600_000)
    joining = rig.start(join_request(rebalance_timeout_ms=600_000), 3)
    for _ in range(5):
        await rig.time.advance(9_000)
        beat = await rig.call(heartbeat_request(1, first.member_id), 4)
        assert beat.error_code == E.REBALANCE_IN_PROGRESS
    for offset in range(5):
        await rig.time.advance(9_000)
        assert await rig.commit("g", offset, generation_id=1, member_id=first.member_id) == [E.NONE]
    assert not joining.done()
    await rig.time.advance(10_000)
    assert (await joining).leader != first.member_id


async def test_a_silent_member_is_removed_after_its_session_and_not_before() -> None:
    rig = GroupRig()
    first = await stable(rig)
    await rig.time.advance(9_999)
    assert first.member_id in rig.coordinator.group("g").members
    await rig.time.advance(1)
    group = rig.coordinator.group("g")
    assert (group.members, group.state.value, group.generation_id) == ({}, "Empty", 2)
    assert (await rig.call(heartbeat_request(2, first.member_id), 4)).error_code == E.UNKNOWN_MEMBER_ID


# -- leave -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
async def test_leave(version: int) -> None:
    rig = GroupRig()

    def request(member_id: str, group_id: str = "g") -> LeaveGroupRequest:
        return LeaveGroupRequest(
            group_id=group_id, member_id=member_id, members=[MemberIdentity(member_id=member_id, reason="done")]
        )

    def code(response: Any) -> int:
        if version < 3:
            return int(response.error_code)
        assert response.error_code == E.NONE
        return int(response.members[0].error_code)

    assert (await rig.call(request("x", ""), version)).error_code == E.INVALID_GROUP_ID
    assert code(await rig.call(request("x"), version)) == E.UNKNOWN_MEMBER_ID
    first = await stable(rig)
    assert code(await rig.call(request("x"), version)) == E.UNKNOWN_MEMBER_ID
    assert code(await rig.call(request(first.member_id), version)) == E.NONE
    assert rig.coordinator.group("g").state.value == "Empty"


async def test_each_leaving_member_has_its_own_result() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=100)
    requests = [rig.start(join_request(instance_id=name), 5) for name in ("a", "b")]
    await rig.time.advance(1000)
    a, _ = [await request for request in requests]
    promised = await rig.call(join_request(), 9)
    entries = [("wrong", "a"), (a.member_id, "a"), ("", "nobody"), ("x", None), (promised.member_id, None)]
    response = await rig.call(
        LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=m, group_instance_id=i) for m, i in entries]),
        5,
    )
    assert [member.error_code for member in response.members] == [
        E.FENCED_INSTANCE_ID,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
    ]
    assert [(member.member_id, member.group_instance_id) for member in response.members] == entries


async def test_a_parked_join_of_a_member_that_is_removed_is_told_so() -> None:
    rig = GroupRig()
    first = await stable(rig, instance_id="a")
    await stable(rig, member_id=first.member_id, instance_id="a")
    parked = rig.start(join_request(instance_id="b"), 9)
    await settle()
    await rig.call(leave_request("", instance_id="b"), 5)
    assert (await parked).error_code == E.UNKNOWN_MEMBER_ID


# -- the coordinator as a whole --------------------------------------------------------------------------------------


async def test_without_an_offsets_topic_a_join_creates_it_and_other_members_are_unknown() -> None:
    rig = GroupRig(is_started=False)
    assert (await rig.call(heartbeat_request(1, "x"), 4)).error_code == E.UNKNOWN_MEMBER_ID
    assert (await rig.call(sync_request(1, "x"), 5)).error_code == E.UNKNOWN_MEMBER_ID
    left = await rig.call(leave_request("x"), 5)
    assert left.members[0].error_code == E.UNKNOWN_MEMBER_ID
    assert rig.created == []
    await joined(rig)
    assert rig.created == ["__consumer_offsets"]


async def test_a_coordinator_that_closes_sends_the_parked_away() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=100)
    parked = rig.start(join_request(), 3)
    await settle()
    rig.coordinator.close()
    assert (await parked).error_code == E.NOT_COORDINATOR
    assert (await rig.call(join_request(), 3)).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert (await rig.call(heartbeat_request(1, "x"), 4)).error_code == E.COORDINATOR_NOT_AVAILABLE


async def test_while_loading_everything_is_14_but_heartbeats_are_fine() -> None:
    rig = GroupRig(partition_count=1)
    for n in range(2500):
        await rig.commit("filler", n, partition=n % 3)
    again = rig.restarted()
    assert (await again.call(join_request(), 9)).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert (await again.call(sync_request(1, "x"), 5)).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert (await again.call(leave_request("x"), 5)).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert (await again.call(heartbeat_request(1, "x"), 4)).error_code == E.NONE
    await settle()
    assert (await again.call(heartbeat_request(1, "x"), 4)).error_code == E.UNKNOWN_MEMBER_ID


# -- the partition is lost -------------------------------------------------------------------------------------------


async def test_who_is_parked_is_sent_away_when_the_partition_is_led_no_longer_and_others_go_on() -> None:
    rig = GroupRig()
    lost, kept = "g", next(name for name in "abcdefgh" if partition_for(name, 4) != partition_for("g", 4))
    await stable(rig, group_id=lost)
    await joined(rig, group_id=kept)
    parked = rig.start(join_request(group_id=lost, member_id=""), 3)  # a second member: the first has to come again
    await settle()
    assert not parked.done()
    rig.coordinator.serve(4, [number for number in range(4) if number != partition_for(lost, 4)])
    assert (await parked).error_code == E.NOT_COORDINATOR
    assert (await rig.call(join_request(group_id=lost), 9)).error_code == E.NOT_COORDINATOR
    assert (await rig.call(heartbeat_request(1, "m", group_id=lost), 4)).error_code == E.NOT_COORDINATOR
    assert (await rig.call(join_request(group_id=kept), 9)).error_code == E.MEMBER_ID_REQUIRED
    listed = await rig.call(ListGroupsRequest(), 4)
    assert [group.group_id for group in listed.groups] == [kept]
