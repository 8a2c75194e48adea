"""Consumer groups over simulated time: joins, reconciliation, deadlines, restarts, and what others see of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from broker.coordinator.errors import CoordinatorError
from broker.coordinator.group.consumer import assigning
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.runtime import RunAside
from config.views import ConsumerGroupConfig, GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.sim.consumer_members import SimConsumer, check_one_owner
from tests.sim.groups import GroupRig

NO_INTERVAL = GroupSettings(45_000, 5_000, 0)


def make_rig(settings: GroupSettings = NO_INTERVAL, **config: Any) -> GroupRig:
    return GroupRig(consumer=ConsumerGroupConfig(defaults=settings, lowest=GroupSettings(1, 1, 0), **config))


def group_of(rig: GroupRig, group_id: str = "g") -> ConsumerGroup:
    group = rig.coordinator.group(group_id)
    assert isinstance(group, ConsumerGroup)
    return group


def stored_state(rig: GroupRig) -> dict[str, Any]:
    """Give all that a restart must bring back."""
    group = group_of(rig)
    state = {k: v for k, v in vars(group).items() if k not in ("refreshed_epoch", "_topic_ids")}
    return {k: dict(v) if isinstance(v, dict) else v for k, v in state.items()}


async def settle(*members: SimConsumer, rounds: int = 6) -> None:
    for _ in range(rounds):
        for member in members:
            await member.step()
            check_one_owner(list(members))


def after(rig: GroupRig, delay_ms: int) -> RunAside:
    """Run calls beside the loop, each for so long."""

    async def run(call: Callable[[], Any]) -> Any:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        rig.time.call_later(delay_ms, lambda: over.set_result(None))
        result = call()
        await over
        return result

    return run


async def test_a_second_member_gets_its_share_only_when_the_first_has_given_it_back() -> None:
    rig = make_rig()
    one, two = SimConsumer(rig, "m1"), SimConsumer(rig, "m2")
    await one.step()
    await one.step()
    assert one.numbers() == [0, 1, 2]
    await two.step()
    assert (two.epoch, two.wanted) == (3, {}), "nothing is free yet"
    one.gives_back = False
    await one.step()
    await two.step()
    assert (one.epoch, one.numbers()) == (2, [0, 1, 2]), "it stays in its epoch until it has given back"
    assert two.owned == {} and group_of(rig).state.value == "Reconciling"
    one.gives_back = True
    await settle(one, two)
    assert sorted((*one.numbers(), *two.numbers())) == [0, 1, 2]
    assert one.epoch == two.epoch == 3 and group_of(rig).state.value == "Stable"


@pytest.mark.parametrize("aside_ms", [None, 0, 1_300])
@pytest.mark.parametrize("seed", range(8))
async def test_random_histories_have_one_owner_at_any_time_and_settle(
    seed: int, aside_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(some: list[SimConsumer]) -> list[SimConsumer]:
        """Leave out who was silent for too long and does not know yet that it is out."""
        try:
            inside = group_of(rig).members
        except CoordinatorError:
            return []
        return [member for member in some if member.member_id in inside]

    def made(rig: GroupRig) -> GroupRig:
        if aside_ms is not None:
            rig.coordinator._world.run_aside = after(rig, aside_ms)
        return rig

    if aside_ms is not None:
        monkeypatch.setattr(assigning, "MAX_COST_ON_LOOP", -1)
    rng = random.Random(seed)
    rig = made(make_rig(GroupSettings(8_000, 1_000, rng.choice([0, 500, 3_000]))))
    rig.add_topic("v", 7)
    members: list[SimConsumer] = []
    for number in range(60):
        action = rng.random()
        if action < 0.2 and len(members) < 6:
            topics = rng.choice([("t",), ("t", "v"), ("v",), ("t", "u", "v")])
            regex = rng.choice([None, None, "[tv]"])
            assignor = rng.choice([None, "range", "uniform"])
            members.append(SimConsumer(rig, f"m{number}", topics=topics, regex=regex, assignor=assignor))
        elif action < 0.28 and members:
            await members.pop(rng.randrange(len(members))).leave()
        elif action < 0.32 and members:
            members.pop(rng.randrange(len(members)))  # it dies; what it owned is its own until its session ends
        elif action < 0.36:
            rig = made(rig.restarted(consumer=rig.config.consumer))
            for member in members:
                member.rig = rig
        elif members:
            member = rng.choice(members)
            member.gives_back = rng.random() < 0.8
            await member.step()
        await rig.time.advance(rng.choice([0, 100, 1_500]))
        check_one_owner(known(members))
    for _ in range(40):
        for member in members:
            member.gives_back = True
            await member.step()
            check_one_owner(known(members))
        await rig.time.advance(1_000)
    if members:
        assert group_of(rig).state.value == "Stable"
        subscribed = set().union(*(set(m.topics or ()) | ({"t", "v"} if m.regex else set()) for m in members))
        owned = sum(len(ps) for m in members for ps in m.owned.values())
        assert owned == sum(len(rig.topics[name].partitions) for name in subscribed)


async def test_a_silent_member_is_removed_when_its_session_has_run_out() -> None:
    rig = make_rig()
    one, two = SimConsumer(rig, "m1"), SimConsumer(rig, "m2")
    await settle(one, two)
    for _ in range(9):
        await rig.time.advance(5_000)
        await one.step()
    assert list(group_of(rig).members) == ["m1"]
    await settle(one)
    assert one.numbers() == [0, 1, 2]
    assert (await two.step()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_that_does_not_give_back_is_removed_after_its_rebalance_timeout() -> None:
    rig = make_rig()
    one, two = SimConsumer(rig, "m1", rebalance_timeout_ms=7_000), SimConsumer(rig, "m2")
    await settle(one)
    one.gives_back = False
    await two.step()
    for _ in range(7):
        await one.step()
        await two.step()
        await rig.time.advance(1_000)
    assert list(group_of(rig).members) == ["m2"]
    assert (await one.step()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await settle(two)
    assert two.numbers() == [0, 1, 2]


async def test_deadlines_start_anew_after_a_restart() -> None:
    rig = make_rig()
    one, two = SimConsumer(rig, "m1", rebalance_timeout_ms=60_000), SimConsumer(rig, "m2")
    await settle(one)
    one.gives_back = False
    await two.step()
    await one.step()
    again = rig.restarted(consumer=rig.config.consumer)
    one.rig = two.rig = again
    for _ in range(12):
        await again.time.advance(5_000)
        if "m1" in group_of(again).members:
            await one.step()
        await two.step()
    assert list(group_of(again).members) == ["m2"]


async def test_everything_stored_comes_back_after_a_restart() -> None:
    rig = make_rig()
    one = SimConsumer(rig, "m1", instance_id="a", assignor="range")
    two = SimConsumer(rig, "m2", topics=None, regex="u|t")
    await settle(one, two)
    await rig.time.advance(11_000)
    await settle(one, two)
    await one.leave(-2)
    assert stored_state(rig.restarted()) == stored_state(rig)


async def test_a_lost_answer_is_repeated_to_a_member_in_its_previous_epoch() -> None:
    rig = make_rig()
    one = SimConsumer(rig, "m1")
    await settle(one)
    rig.add_topic("w", 1)
    await one.send(subscribed_topic_names=["t", "w"])
    answer = await one.step()
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    one.epoch, one.owned = 2, {rig.topics["u"].topic_id: frozenset({0})}
    one.wanted = None
    assert (await one.step()).error_code == ErrorCode.FENCED_MEMBER_EPOCH, "it owns what it was never given"


async def test_a_failed_write_changes_nothing() -> None:
    rig = make_rig()
    one = SimConsumer(rig, "m1")
    await settle(one)
    before = stored_state(rig)
    rig.log.failure = RuntimeError("disk")
    assert (await one.send(subscribed_topic_names=["u"])).error_code != 0
    assert stored_state(rig) == before
    rig.log.failure = None
    one.topics = ("u",)
    await one.join()
    await settle(one)
    assert one.numbers("u") == [0]


async def test_members_that_come_in_a_burst_are_assigned_at_once() -> None:
    rig = make_rig(GroupSettings(45_000, 5_000, 1_000))
    rig.add_topic("v", 40)
    members = [SimConsumer(rig, f"m{number}", topics=("v",)) for number in range(20)]
    for member in members:
        await member.step()
    assert (group_of(rig).epoch, group_of(rig).assignment_epoch) == (21, 2)
    await rig.time.advance(1_000)
    await settle(*members)
    assert group_of(rig).assignment_epoch == 21
    assert {len(member.numbers("v")) for member in members} == {2}


async def test_the_interval_between_assignments_changes_while_groups_are_served() -> None:
    rig = make_rig(GroupSettings(45_000, 5_000, 15_000))
    rig.add_topic("v", 40)
    members = [SimConsumer(rig, f"m{number}", topics=("v",)) for number in range(3)]
    await settle(*members)
    assert (group_of(rig).epoch, group_of(rig).assignment_epoch) == (4, 2)
    rig.config = rig.config._replace(consumer=rig.config.consumer._replace(defaults=NO_INTERVAL))
    await settle(*members)
    assert group_of(rig).assignment_epoch == 4


async def test_a_group_has_settings_of_its_own_within_the_brokers_bounds() -> None:
    rig = make_rig()
    rig.configs[32, "g"] = {"consumer.heartbeat.interval.ms": "700", "consumer.session.timeout.ms": "4000"}
    one = SimConsumer(rig, "m1")
    assert (await one.step()).heartbeat_interval_ms == 700
    await rig.time.advance(3_999)
    assert group_of(rig).members
    await rig.time.advance(1)
    assert not group_of(rig).members
    rig.configs[32, "g"] = {"consumer.heartbeat.interval.ms": "99999"}
    assert (await one.join()).heartbeat_interval_ms == 15_000


async def test_an_empty_group_is_listed_deleted_and_expired() -> None:
    rig = make_rig()
    one = SimConsumer(rig, "m1")
    await settle(one)
    rows = (await rig.call(ListGroupsRequest(types_filter=["Consumer"]), 5)).groups
    assert [(row.group_id, row.group_state, row.group_type, row.protocol_type) for row in rows] == [
        ("g", "Stable", "consumer", "consumer")
    ]
    delete = DeleteGroupsRequest(groups_names=["g"])
    assert (await rig.call(delete, 2)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    await rig.commit("g", 5, generation_id=one.epoch, member_id="m1")
    await one.leave()
    assert (await rig.call(ListGroupsRequest(states_filter=["EMPTY"]), 5)).groups[0].group_id == "g"
    assert (await rig.call(delete, 2)).results[0].error_code == ErrorCode.NONE
    for seen in (rig, rig.restarted()):
        assert (await seen.call(ListGroupsRequest(), 5)).groups == []
        assert await seen.committed("g") == {}
    await settle(one)
    await one.leave()
    await rig.coordinator.expire_offsets()
    await rig.time.advance(0)
    assert (await rig.call(ListGroupsRequest(), 5)).groups == []


async def test_offsets_of_topics_nobody_reads_expire_by_their_commit() -> None:
    rig = make_rig()
    one = SimConsumer(rig, "m1")
    await settle(one)
    await rig.commit("g", 1, generation_id=one.epoch, member_id="m1")
    await rig.commit("g", 2, topic="u", generation_id=one.epoch, member_id="m1")
    for _ in range(10_081 * 60 // 40):
        await rig.time.advance(40_000)
        await one.step()
    await rig.coordinator.expire_offsets()
    await rig.time.advance(0)
    assert await rig.committed("g") == {("t", 0): 1}


async def test_descriptions_show_what_is_still_to_be_given_back() -> None:
    rig = make_rig()
    one, two = SimConsumer(rig, "m1"), SimConsumer(rig, "m2")
    await settle(one)
    one.gives_back = False
    await two.step()
    await one.step()
    [group] = (await rig.call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)).groups
    shown = {
        m.member_id: (
            [p for t in m.assignment.topic_partitions for p in t.partitions],
            len([p for t in m.target_assignment.topic_partitions for p in t.partitions]),
        )
        for m in group.members
    }
    assert shown == {"m1": ([0, 1, 2], 2), "m2": ([], 1)}
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)


async def test_the_protocol_is_off_without_its_feature_or_its_configuration() -> None:
    rig = make_rig()
    rig.features.clear()
    assert (await SimConsumer(rig, "m1").step()).error_code == ErrorCode.UNSUPPORTED_VERSION
    off = GroupRig(rebalance_protocols=("classic",))
    assert (await SimConsumer(off, "m1").step()).error_code == ErrorCode.UNSUPPORTED_VERSION
