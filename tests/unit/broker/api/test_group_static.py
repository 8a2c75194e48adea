"""Static members of classic groups: JoinGroup, SyncGroup, Heartbeat with an instance id, takeovers and fencing."""

import pytest

from protocol.errors import ErrorCode
from tests.sim.groups import GroupRig, StorageDown, settle
from tests.sim.members import heartbeat_request, join_request, sync_request
from tests.unit.broker.api.test_group_classic import joined, stable

E = ErrorCode


async def test_a_static_member_is_admitted_at_once() -> None:
    rig = GroupRig()
    response = await joined(rig, version=5, instance_id="inst")
    assert response.member_id == "inst-uuid1"
    assert response.members[0].group_instance_id == "inst"


@pytest.mark.parametrize("instance_id", ["i" * 0x7FFF, "\u20ac" * 10922])
async def test_the_id_of_a_member_with_a_very_long_instance_id_fits_into_a_string(instance_id: str) -> None:
    rig = GroupRig()
    response = await joined(rig, version=5, instance_id=instance_id)
    assert response.member_id.endswith("-uuid1")
    assert 0x7FFF - 2 <= len(response.member_id.encode()) <= 0x7FFF
    again = await rig.call(join_request(instance_id=instance_id), 5)
    assert (again.error_code, again.member_id[-6:]) == (E.NONE, "-uuid2")


@pytest.mark.parametrize("version", [5, 8, 9])
async def test_a_takeover_in_stable_keeps_the_generation_and_fences_the_old_id(version: int) -> None:
    rig = GroupRig()
    first = await stable(rig, instance_id="inst")
    again = await rig.call(join_request(instance_id="inst"), version)
    assert (again.error_code, again.generation_id) == (E.NONE, 1)
    assert again.member_id == "inst-uuid2"
    if version == 9:
        assert (again.leader, again.skip_assignment, len(again.members)) == (again.member_id, True, 1)
    else:
        assert (again.leader, again.members) == (first.member_id, [])
    synced = await rig.call(sync_request(1, again.member_id, instance_id="inst"), 5)
    assert synced.assignment == b"assigned"
    beat = await rig.call(heartbeat_request(1, first.member_id, instance_id="inst"), 4)
    assert beat.error_code == E.FENCED_INSTANCE_ID
    assert (await rig.call(sync_request(1, first.member_id, instance_id="inst"), 5)).error_code == E.FENCED_INSTANCE_ID
    rejoin = await rig.call(join_request(member_id=first.member_id, instance_id="inst"), 9)
    assert rejoin.error_code == E.FENCED_INSTANCE_ID
    restarted = rig.restarted()
    assert set(restarted.coordinator.group("g").members) == {again.member_id}, "the takeover is stored"


async def test_a_takeover_that_cannot_be_stored_is_undone() -> None:
    rig = GroupRig()
    first = await stable(rig, instance_id="inst")
    rig.log.failure = StorageDown()
    refused = await rig.call(join_request(instance_id="inst"), 9)
    assert (refused.error_code, refused.member_id) == (E.NOT_COORDINATOR, "")
    rig.log.failure = None
    assert (await rig.call(heartbeat_request(1, first.member_id, instance_id="inst"), 4)).error_code == E.NONE
    group = rig.coordinator.group("g")
    assert (group.leader_id, set(group.members), group.awaiting_join_count) == (first.member_id, {first.member_id}, 0)
    await rig.time.advance(10_000)
    assert group.members == {}, "its session is watched again"


async def test_a_takeover_that_changes_the_chosen_protocol_rebalances() -> None:
    rig = GroupRig()
    await stable(rig, instance_id="inst", protocols=("range", "rr"))
    again = await joined(rig, instance_id="inst", protocols=("rr",))
    assert (again.generation_id, again.protocol_name, again.skip_assignment) == (2, "rr", False)


async def test_a_takeover_before_the_assignment_rebalances_and_ends_the_parked_request() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=100)
    requests = [rig.start(join_request(instance_id=name), 5) for name in ("a", "b")]
    await rig.time.advance(1000)
    responses = [await request for request in requests]
    follower = next(r for r in responses if r.leader != r.member_id)
    name = follower.member_id.split("-")[0]
    parked = rig.start(sync_request(1, follower.member_id, instance_id=name), 5)
    await settle()
    rejoining = rig.start(join_request(instance_id=name), 9)
    await settle()
    assert (await parked).error_code == E.FENCED_INSTANCE_ID
    assert not rejoining.done()
    assert rig.coordinator.group("g").state.value == "PreparingRebalance"


async def test_a_takeover_while_joining_answers_the_older_request_with_82() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=1000)
    older = rig.start(join_request(instance_id="a"), 9)
    await settle()
    newer = rig.start(join_request(instance_id="a"), 9)
    await rig.time.advance(5000)
    assert (await older).error_code == E.FENCED_INSTANCE_ID
    assert (await newer).error_code == E.NONE


async def test_static_members_that_do_not_rejoin_stay_until_their_session_ends() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=100)
    timeouts = {"session_timeout_ms": 120_000, "rebalance_timeout_ms": 30_000}
    requests = [rig.start(join_request(instance_id=name, **timeouts), 5) for name in ("a", "b")]
    await rig.time.advance(1000)
    a, b = [await request for request in requests]
    for member, name in ((a, "a"), (b, "b")):
        await rig.call(sync_request(1, member.member_id, {}, instance_id=name), 5)
    rejoining = rig.start(join_request(member_id=b.member_id, instance_id="b", metadata=b"new", **timeouts), 9)
    await rig.time.advance(30_000)
    response = await rejoining
    assert (response.generation_id, response.leader) == (2, b.member_id)
    assert {member.group_instance_id for member in response.members} == {"a", "b"}
