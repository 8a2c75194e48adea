"""A member of a consumer group as a client library behaves: it heartbeats, gives back when told to, and takes."""

from __future__ import annotations

from typing import Any

from broker.coordinator.group.consumer.member import Target
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)
from tests.sim.groups import GroupRig


class SimConsumer:
    """One member; `step` is one heartbeat with what follows from its answer."""

    def __init__(
        self,
        rig: GroupRig,
        member_id: str,
        *,
        group: str = "g",
        topics: tuple[str, ...] | None = ("t",),
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = 10_000,
    ) -> None:
        self.rig = rig
        self.group = group
        self.member_id = member_id
        self.topics = topics
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.epoch = 0
        self.owned: Target = {}
        # What the coordinator wants it to have; None until it said so.
        self.wanted: Target | None = None
        self.gives_back = True

    async def send(self, **fields: Any) -> Any:
        """Send a heartbeat with only these fields said."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            **fields,
        )
        return await self.rig.call(request, 1)

    async def join(self) -> Any:
        """Join, or join anew with nothing."""
        self.epoch, self.owned = 0, {}
        return self._take(
            await self.send(
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                subscribed_topic_names=None if self.topics is None else list(self.topics),
                subscribed_topic_regex=self.regex,
                server_assignor=self.assignor,
                topic_partitions=[],
            )
        )

    async def step(self) -> Any:
        """Take what is wanted over and report."""
        if self.epoch == 0:
            return await self.join()
        if self.wanted is not None and (self.gives_back or not self._has_to_give()):
            self.owned, self.wanted = self.wanted, None
        return self._take(
            await self.send(
                topic_partitions=[
                    RequestTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in self.owned.items()
                ]
            )
        )

    async def leave(self, epoch: int = -1) -> Any:
        """Leave for good, or for a while."""
        self.epoch = epoch
        answer = await self.send()
        self.owned = {}
        return answer

    def numbers(self, topic: str = "t") -> list[int]:
        """Give the partitions it owns of a topic."""
        return sorted(self.owned.get(self.rig.topics[topic].topic_id, ()))

    def _has_to_give(self) -> bool:
        wanted = self.wanted or {}
        return any(partitions - wanted.get(topic_id, frozenset()) for topic_id, partitions in self.owned.items())

    def _take(self, answer: Any) -> Any:
        if answer.error_code:
            if answer.error_code in (25, 110):
                self.epoch, self.owned, self.wanted = 0, {}, None
            return answer
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        if answer.assignment is not None:
            self.wanted = {part.topic_id: frozenset(part.partitions) for part in answer.assignment.topic_partitions}
        return answer


def check_one_owner(members: list[SimConsumer]) -> None:
    """Assert that no partition is owned twice."""
    owned = [(t, p) for member in members for t, ps in member.owned.items() for p in ps]
    assert len(owned) == len(set(owned)), sorted(owned)
