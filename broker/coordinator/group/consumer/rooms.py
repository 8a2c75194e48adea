"""The rooms of consumer groups in one shard, put together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.consumer.assigning import Assigning
from broker.coordinator.group.consumer.classic_members import ClassicMembers
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.heartbeat import ConsumerGroups
from broker.coordinator.group.consumer.migration import Migration
from broker.coordinator.group.consumer.regexes import Regexes
from broker.coordinator.group.consumer.timers import MemberTimers, Submit
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.group.rebalance import Rebalancer
from broker.coordinator.timers import Timers

Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class ConsumerRooms:
    """What a shard asks of its consumer groups."""

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        classic_groups: dict[str, ClassicGroup],
        world: ConsumerWorld,
        timers: Timers,
        submit: Submit,
        spawn: Spawn,
        rebalancer: Rebalancer,
    ) -> None:
        self.timers = MemberTimers(timers, submit, lambda *expired: self.members.fence_by_id(*expired))
        regexes = Regexes(groups, world, spawn, submit)
        assigning = Assigning(groups, world, spawn, submit)
        migration = Migration(groups, classic_groups, world, self.timers, rebalancer)
        self.members = ConsumerGroups(groups, classic_groups, world, self.timers, regexes, migration, assigning)
        self.classic_members = ClassicMembers(self.members, world, regexes, migration)
