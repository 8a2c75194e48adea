"""Many members over simulated time: generations only grow, and every partition ends with exactly one owner."""

import random

import pytest

from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from tests.sim.groups import GroupRig
from tests.sim.members import PARTITIONS, SimMember, owners

ALL = list(range(PARTITIONS))


def check(members: list[SimMember]) -> None:
    """Assert what holds at every moment."""
    by_generation: dict[int, list[int]] = {}
    for member in members:
        assert member.generations == sorted(set(member.generations)), "generations only grow"
        by_generation.setdefault(member.generation_id, []).extend(member.owned or ())
    for generation, owned in by_generation.items():
        assert len(owned) == len(set(owned)), f"two owners in generation {generation}"


async def test_members_joining_leaving_and_dying_always_settle_with_one_owner_each() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=3000)
    members = [SimMember(rig, session_timeout_ms=6000) for _ in range(5)]
    for member in members[:4]:
        member.start()
        await rig.time.advance(1000)
        check(members)
    await rig.time.advance(6000)
    assert owners(members) == ALL
    assert [member.generations for member in members[:4]] == [[1]] * 4, "each late-comer extends the initial delay"
    await members[0].leave()
    await rig.time.advance(4000)
    check(members)
    assert owners(members) == ALL
    await members[1].kill()
    await rig.time.advance(3000)
    assert owners(members) != ALL, "a dead member keeps its partitions until its session ends"
    members[4].start()
    await rig.time.advance(20_000)
    check(members)
    assert owners(members) == ALL
    live = [member for member in members if member.owned]
    assert len(live) == 3
    assert len({member.generation_id for member in live}) == 1


@pytest.mark.parametrize("seed", range(8))
async def test_random_histories_settle(seed: int) -> None:
    rng = random.Random(seed)
    rig = GroupRig(initial_rebalance_delay_ms=rng.choice([0, 500, 3000]))
    members: list[SimMember] = []
    live: list[SimMember] = []
    for _ in range(25):
        action = rng.random()
        if action < 0.5 or not live:
            member = SimMember(rig, session_timeout_ms=rng.choice([6000, 10_000]))
            member.start()
            members.append(member)
            live.append(member)
        elif action < 0.75:
            await live.pop(rng.randrange(len(live))).leave()
        else:
            await live.pop(rng.randrange(len(live))).kill()
        await rig.time.advance(rng.choice([0, 50, 1000, 4000]))
        check(members)
    if not live:
        members.append(SimMember(rig))
        members[-1].start()
        live.append(members[-1])
    await rig.time.advance(90_000)
    check(members)
    assert owners(live) == ALL
    assert len({member.generation_id for member in live}) == 1


async def test_two_consumers_within_the_initial_delay_make_one_generation() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=3000)
    members = [SimMember(rig), SimMember(rig)]
    members[0].start()
    await rig.time.advance(2000)
    members[1].start()
    await rig.time.advance(10_000)
    assert [member.generations for member in members] == [[1], [1]]
    assert owners(members) == ALL


async def test_a_group_that_had_become_empty_batches_its_next_members_too() -> None:
    rig = GroupRig(initial_rebalance_delay_ms=2000)
    first = SimMember(rig)
    first.start()
    await rig.time.advance(5000)
    await first.leave()
    await rig.time.advance(5000)
    members = [SimMember(rig), SimMember(rig)]
    for member in members:
        member.start()
        await rig.time.advance(500)
    await rig.time.advance(10_000)
    assert [member.generations for member in members] == [[3], [3]]


async def test_a_static_member_that_restarts_disturbs_nobody() -> None:
    rig = GroupRig()
    a, b = SimMember(rig, instance_id="a", session_timeout_ms=20_000), SimMember(rig, instance_id="b")
    a.start()
    b.start()
    await rig.time.advance(10_000)
    generation, owned_by_b = b.generation_id, b.owned
    old_id, owned_by_a = a.member_id, a.owned
    await a.leave()
    await rig.time.advance(5000)
    again = SimMember(rig, instance_id="a", session_timeout_ms=20_000)
    again.start()
    await rig.time.advance(30_000)
    assert again.owned == owned_by_a
    assert again.member_id not in ("", old_id)
    assert (b.generation_id, b.owned) == (generation, owned_by_b)
    assert (again.generation_id, b.errors) == (generation, b.errors)
    assert owners([again, b]) == ALL


async def test_of_two_live_members_with_one_instance_the_older_is_fenced() -> None:
    rig = GroupRig()
    older, newer = SimMember(rig, instance_id="a"), SimMember(rig, instance_id="a")
    older.start()
    await rig.time.advance(5000)
    newer.start()
    await rig.time.advance(5000)
    assert older.is_fenced
    assert not newer.is_fenced
    assert owners([older, newer]) == ALL


async def test_membership_survives_a_crash_of_the_broker() -> None:
    rig = GroupRig()
    members = [SimMember(rig, instance_id="a", session_timeout_ms=20_000), SimMember(rig, session_timeout_ms=20_000)]
    for member in members:
        member.start()
    await rig.time.advance(10_000)
    before = [(member.generation_id, member.owned) for member in members]
    again = rig.restarted()
    for member in members:
        member.rig = again
    await rig.time.advance(60_000)
    assert [(member.generation_id, member.owned) for member in members] == before
    assert {member.instance_id: m for member, m in zip(members, before, strict=True)}["a"][1]


async def test_members_that_do_not_come_back_after_a_crash_are_expired() -> None:
    rig = GroupRig()
    members = [SimMember(rig, session_timeout_ms=10_000), SimMember(rig, session_timeout_ms=10_000)]
    for member in members:
        member.start()
    await rig.time.advance(10_000)
    await members[1].kill()
    again = rig.restarted()
    members[0].rig = again
    await rig.time.advance(30_000)
    assert owners(members) == ALL
    assert members[0].owned == frozenset(ALL)


async def test_an_administrator_can_remove_a_static_member() -> None:
    rig = GroupRig()
    a, b = SimMember(rig, instance_id="a", session_timeout_ms=20_000), SimMember(rig, instance_id="b")
    a.start()
    b.start()
    await rig.time.advance(10_000)
    await a.kill()
    removal = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="", group_instance_id="a")])
    response = await rig.call(removal, 5)
    assert [member.error_code for member in response.members] == [0]
    await rig.time.advance(10_000)
    assert b.owned == frozenset(ALL)
    again = SimMember(rig, instance_id="a")
    again.start()
    await rig.time.advance(10_000)
    assert owners([again, b]) == ALL


async def test_a_wall_clock_step_expels_nobody() -> None:
    rig = GroupRig()
    members = [SimMember(rig, session_timeout_ms=6000) for _ in range(2)]
    for member in members:
        member.start()
    await rig.time.advance(10_000)
    before = [member.generations[-1] for member in members]
    for step_ms in (-3_600_000, 2 * 3_600_000):
        rig.time.wall_offset_ms += step_ms
        await rig.time.advance(20_000)
        assert [member.generations[-1] for member in members] == before


async def test_sessions_of_many_members_cost_one_heap_entry_each() -> None:
    rig = GroupRig()
    members = [SimMember(rig) for _ in range(60)]
    for member in members:
        member.start()
    await rig.time.advance(30_000)
    live_entries = len(rig.coordinator._timers._heap)
    await rig.time.advance(60_000)
    assert len(rig.coordinator._timers._heap) <= live_entries
    listed = await rig.call(ListGroupsRequest(), 5)
    assert [group.group_state for group in listed.groups] == ["Stable"]
