"""New targets for whole groups: a small group is assigned at once, a large one beside the loop.

What is computed aside comes back as a command and is stored as the target of the epoch it was made for. Members that
have come meanwhile have no part in it; the group's epoch is newer than the target's then, so the next heartbeat asks
for another one. Until a target is stored members keep to the one before.
Source: TargetAssignmentBuilder; where group.consumer.assignor.offload.enable is to lead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from broker.coordinator.group.consumer.assign_range import assign_range
from broker.coordinator.group.consumer.assign_uniform import assign_uniform
from broker.coordinator.group.consumer.assignor import AssigneeSpec, Assignor
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import NO_TARGET, Target
from broker.coordinator.group.consumer.records import target_epoch_record, target_record
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.shard import CoordinatorRecord, Outcome

logger = logging.getLogger(__name__)

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}

MAX_COST_ON_LOOP = 4_000
"""Some microseconds: what costs more is computed aside."""
TOPIC_COST = 20
"""A topic costs as much as so many partitions or members."""


class Computed(NamedTuple):
    """What an assignment has come to."""

    targets: Mapping[str, Target]
    records: Mapping[str, CoordinatorRecord]
    """Of the members whose target is another one than before."""


class Job(NamedTuple):
    """An assignment to be made: a pure function of what is in here."""

    group_id: str
    epoch: int
    assignor: str
    members: Sequence[AssigneeSpec]
    counts: Mapping[bytes, int]

    @property
    def cost(self) -> int:
        """Estimate the time it takes."""
        return sum(self.counts.values()) + TOPIC_COST * len(self.counts) + len(self.members)

    def compute(self) -> Computed:
        """Assign, and encode what has changed. Blocking: cpu."""
        assigned = ASSIGNORS[self.assignor](self.members, self.counts)
        targets = {member.member_id: assigned.get(member.member_id, NO_TARGET) for member in self.members}
        records = {
            member.member_id: target_record(self.group_id, member.member_id, targets[member.member_id])
            for member in self.members
            if not member.has_target or targets[member.member_id] != member.previous
        }
        return Computed(targets, records)


class Assigning:
    """The assignments of one shard."""

    def __init__(
        self,
        groups: Mapping[str, ConsumerGroup],
        world: ConsumerWorld,
        spawn: Callable[[str, Coroutine[Any, Any, None]], object],
        submit: Callable[[Callable[[], Outcome[None]]], None],
    ) -> None:
        self._groups = groups
        self._world = world
        self._spawn = spawn
        self._submit = submit
        self._running: set[str] = set()

    def is_running(self, group_id: str) -> bool:
        """Tell whether a group is being assigned aside."""
        return group_id in self._running

    def now(self, job: Job, records: list[CoordinatorRecord]) -> Mapping[str, Target] | None:
        """Assign at once and write it down; None when the group is too large for that: it is assigned aside."""
        if job.cost > MAX_COST_ON_LOOP:
            self._running.add(job.group_id)
            self._spawn(f"assign-{job.group_id}", self._compute(job))
            return None
        computed = job.compute()
        records.extend(computed.records.values())
        records.append(self._epoch_record(job, len(computed.records)))
        return computed.targets

    async def _compute(self, job: Job) -> None:
        try:
            computed: Computed = await self._world.run_aside(job.compute)
        except Exception:  # a background job's border: the next heartbeat tries again
            logger.exception("consumer group not assigned group=%s epoch=%d", job.group_id, job.epoch)
            self._running.discard(job.group_id)
            return
        self._submit(lambda: self.store(job, computed))

    def store(self, job: Job, computed: Computed) -> Outcome[None]:
        """Store the targets of those who are still there; one that was overtaken is dropped."""
        self._running.discard(job.group_id)
        group = self._groups.get(job.group_id)
        if group is None or not group.assignment_epoch < job.epoch <= group.epoch:
            return Outcome(None)
        instances = {member.instance_id: member.member_id for member in job.members if member.instance_id is not None}
        records: list[CoordinatorRecord] = []
        has_anybody = False
        for member in group.members.values():
            assigned_as = member.member_id
            if assigned_as not in computed.targets and member.instance_id is not None:
                assigned_as = instances.get(member.instance_id, assigned_as)
            target = computed.targets.get(assigned_as)
            has_anybody |= target is not None
            record = computed.records.get(member.member_id)
            if record is not None:
                records.append(record)
            elif assigned_as != member.member_id and target != group.targets.get(member.member_id):
                # It has taken the place of one who was to have this.
                records.append(target_record(group.group_id, member.member_id, target or NO_TARGET))
        if not has_anybody:
            return Outcome(None)
        records.append(self._epoch_record(job, len(records)))
        return Outcome(None, records)

    def _epoch_record(self, job: Job, changed: int) -> CoordinatorRecord:
        logger.info(
            "consumer group assigned group=%s epoch=%d assignor=%s members=%d changed=%d",
            job.group_id, job.epoch, job.assignor, len(job.members), changed,
        )  # fmt: skip
        return target_epoch_record(job.group_id, job.epoch, self._world.now_ms())
