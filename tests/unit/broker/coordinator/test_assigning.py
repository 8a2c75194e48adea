"""Assignments that are computed beside the loop: what becomes of them while the group goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.coordinator.group.consumer import assigning
from broker.coordinator.group.consumer.group import ConsumerGroup
from config.views import ConsumerGroupConfig, GroupSettings
from tests.sim.consumer_members import SimConsumer
from tests.sim.groups import GroupRig, settle


class Aside:
    """Computes at once and gives the result back when told to."""

    def __init__(self) -> None:
        self.count = 0
        self.failure: Exception | None = None
        self.gate = asyncio.Event()

    async def run(self, call: Callable[[], Any]) -> Any:
        self.count += 1
        result = call()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return result

    async def let_go(self) -> None:
        """Give back what was computed."""
        self.gate.set()
        await settle()
        self.gate.clear()


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> GroupRig:
    monkeypatch.setattr(assigning, "MAX_COST_ON_LOOP", -1)
    settings = GroupSettings(45_000, 5_000, 0)
    return GroupRig(consumer=ConsumerGroupConfig(defaults=settings, lowest=GroupSettings(1, 1, 0)))


@pytest.fixture
def aside(rig: GroupRig) -> Aside:
    aside = Aside()
    rig.coordinator._world.run_aside = aside.run
    return aside


def group_of(rig: GroupRig) -> ConsumerGroup:
    group = rig.coordinator.group("g")
    assert isinstance(group, ConsumerGroup)
    return group


async def test_a_member_is_answered_before_its_assignment_is_known_and_gets_it_with_a_later_heartbeat(
    rig: GroupRig, aside: Aside
) -> None:
    member = SimConsumer(rig, "m1")
    await member.step()
    assert (member.epoch, member.wanted) == (1, {})
    assert group_of(rig).state.value == "Assigning"
    await settle()
    await member.step()
    assert aside.count == 1, "one at a time"
    await aside.let_go()
    await member.step()
    await member.step()
    assert (member.epoch, member.numbers()) == (2, [0, 1, 2])
    assert group_of(rig).state.value == "Stable"


async def test_who_comes_meanwhile_waits_for_the_next_assignment(rig: GroupRig, aside: Aside) -> None:
    one, two = SimConsumer(rig, "m1"), SimConsumer(rig, "m2")
    await one.step()
    await settle()
    await two.step()
    await aside.let_go()
    group = group_of(rig)
    assert (group.epoch, group.assignment_epoch) == (3, 2)
    assert "m2" not in group.targets
    await one.step()
    await settle()
    await aside.let_go()
    assert group.assignment_epoch == 3
    assert sorted(len(part) for target in group.targets.values() for part in target.values()) == [1, 2]


async def test_who_has_left_meanwhile_is_passed_over_and_an_empty_group_keeps_its_epoch(
    rig: GroupRig, aside: Aside
) -> None:
    member = SimConsumer(rig, "m1")
    await member.step()
    await settle()
    await member.leave()
    await aside.let_go()
    group = group_of(rig)
    assert (group.targets, group.assignment_epoch) == ({}, 1)


async def test_a_static_member_that_restarts_meanwhile_gets_what_its_predecessor_was_to_have(
    rig: GroupRig, aside: Aside
) -> None:
    member = SimConsumer(rig, "m1", instance_id="a")
    await member.step()
    await settle()
    await member.leave(-2)
    successor = SimConsumer(rig, "m2", instance_id="a")
    await successor.step()
    await aside.let_go()
    target = group_of(rig).targets["m2"]
    assert [sorted(part) for part in target.values()] == [[0, 1, 2]]


async def test_a_failed_computation_is_tried_again_by_the_next_heartbeat(rig: GroupRig, aside: Aside) -> None:
    member = SimConsumer(rig, "m1")
    aside.failure = MemoryError()
    await member.step()
    await settle()
    await aside.let_go()
    assert group_of(rig).assignment_epoch == 1
    aside.failure = None
    await member.step()
    await settle()
    await aside.let_go()
    assert group_of(rig).assignment_epoch == 2


async def test_a_target_that_could_not_be_written_is_made_anew(rig: GroupRig, aside: Aside) -> None:
    member = SimConsumer(rig, "m1")
    await member.step()
    await settle()
    rig.log.failure = OSError()
    await aside.let_go()
    assert group_of(rig).assignment_epoch == 1
    rig.log.failure = None
    await member.step()
    await settle()
    await aside.let_go()
    assert group_of(rig).assignment_epoch == 2


async def test_an_assignment_of_a_group_that_is_gone_is_dropped(rig: GroupRig, aside: Aside) -> None:
    member = SimConsumer(rig, "m1")
    await member.step()
    await settle()
    await member.leave()
    await rig.coordinator.delete_groups(["g"])
    before = rig.log.batch_count()
    await aside.let_go()
    assert rig.log.batch_count() == before
