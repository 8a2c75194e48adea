"""The controller: runs one command at a time on the cluster, commits it, tells the publishers, answers.

A command is planned on the newest image, its records are appended and replayed at once, and the next command already
sees them; none of that waits. Waiting is for the disk alone: one flush at a time makes everything appended so far
durable, so commands that arrive meanwhile share the next one. Only then, in log order, does each step become the
public image, the publishers learn of it, and its caller gets the answer. Whoever asks something that needs no records
waits as well when earlier commands are not durable yet: what it saw might still be lost.

A failed flush or append is final: nothing more is written, every waiting and later command fails.

Source: QuorumController, DeferredEventQueue.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller.brokers import Registration, broker_record, plan_liveness, register
from broker.metadata.controller.configs import AlterResult, ResourceChange, plan_alter_configs
from broker.metadata.controller.directories import (
    Whereabouts,
    plan_assign_directories,
    plan_cordon_directories,
    plan_dirs_offline,
    plan_elections_at_start,
)
from broker.metadata.controller.features import METADATA_VERSION, bootstrap_records, check_metadata_version
from broker.metadata.controller.partitions import (
    CreatePartitionsResult,
    NewPartitions,
    plan_create_partitions,
)
from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Charge, Plan, uncharged
from broker.metadata.controller.producer_ids import ProducerIdBlock, plan_allocate_block
from broker.metadata.controller.reassignments import Reassignment, plan_reassignments
from broker.metadata.controller.topics import (
    CreateTopicResult,
    DeleteTopicResult,
    NewTopic,
    TopicRules,
    TopicToDelete,
    internal_topic,
    plan_create_topics,
    plan_delete_topics,
)
from broker.metadata.errors import ControllerClosed, MetadataError, TopicDeletionDisabled
from broker.metadata.image import ClusterImage, Delta
from broker.metadata.log import ClusterLog, Voter
from broker.metadata.publishers import Preparer, Publisher, Publishers
from broker.metadata.retention import KEEP_EVERYTHING, MetadataRetention, reason_to_go
from broker.runtime.tasks import TaskOwner
from protocol.stored.cluster import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from protocol.uuids import random_uuid
from storage.env.clock import Clock, Rng
from storage.errors import StorageError, StorageFailure

logger = logging.getLogger(__name__)

R = TypeVar("R")

RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call that waits for the disk of the metadata log beside the loop."""

MIN_RECORDS_BETWEEN_SNAPSHOTS = 10_000
"""Replaying this many takes a fraction of a second; below it a snapshot is not worth its write."""

BOOTSTRAP_TRANSACTION = "Bootstrap records"


class _Step(NamedTuple):
    """A command that is applied but not yet durable."""

    end_offset: int
    image: ClusterImage
    delta: Delta | None
    answered: asyncio.Future[None]


class SnapshotRules(NamedTuple):
    """When a new snapshot is due, and when old ones go."""

    max_bytes: int
    """`metadata.log.max.record.bytes.between.snapshots`."""
    max_interval_ms: int = 0
    """`metadata.log.max.snapshot.interval.ms`; 0 = by size only."""
    min_records: int = MIN_RECORDS_BETWEEN_SNAPSHOTS
    retention: MetadataRetention = KEEP_EVERYTHING
    """How long snapshots and the log below them are kept."""


class Controller:
    """The one writer of the cluster's state."""

    def __init__(
        self,
        log: ClusterLog,
        rules: TopicRules,
        snapshots: SnapshotRules,
        clock: Clock,
        rng: Rng,
        run_blocking: RunBlocking,
        tasks: TaskOwner,
    ) -> None:
        self._log = log
        self._rules = rules
        self._snapshots = snapshots
        self._clock = clock
        self._rng = rng
        self._run_blocking = run_blocking
        self._tasks = tasks
        self._node_id = rules.broker.node_id
        self._publishers = Publishers()
        # The committed image: what everybody else sees. Replaced after each flush.
        self.image = ClusterImage("")
        # The image that the next command is planned on. Replaced by every command.
        self._pending_image = self.image
        # Whether the log ends inside a transaction. Set by load.
        self._has_unfinished = False
        # Steps between both images, in log order. Appended by commands, taken by the flusher.
        self._steps: deque[_Step] = deque()
        self._flusher: asyncio.Task[None] | None = None
        # Set while a snapshot is written; stays set after a failed one, which is not tried again.
        self._snapshot_task: asyncio.Task[None] | None = None
        self._last_snapshot_ns = clock.monotonic_ns()
        # Set while old snapshots are let go of.
        self._cleaning: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._started = False

    @property
    def epoch(self) -> int:
        """Return the quorum's epoch."""
        return self._log.epoch

    @property
    def voter(self) -> Voter:
        """Return the quorum's only member, this node."""
        return self._log.voter

    def subscribe(self, publisher: Publisher, prepare: Preparer | None = None) -> None:
        """Add a publisher; before `start`, since the first thing it is told is the whole image."""
        assert not self._started, "subscribe before start"
        self._publishers.subscribe(publisher, prepare)

    def load(self) -> ClusterImage:
        """Replay the log and return what it says; nothing is written, and nobody is told before the start.

        Raises: MetadataError when the log cannot be used, StorageError. Blocking: disk.
        """
        self._pending_image, self._has_unfinished = self._log.load()
        check_metadata_version(self._pending_image.features)
        self.image = self._pending_image
        return self.image

    async def start(self, registration: Registration, where: Whereabouts) -> ClusterImage:
        """Begin an epoch, register this broker and lead what it has in a new leader epoch; after `load`.

        Raises: StorageError. Blocking: disk, before anything is served.
        """
        self._log.begin_epoch()
        self._pending_image = replace(self._pending_image, kraft_version=self._log.kraft_version)
        if self._has_unfinished:
            self._apply([AbortTransactionRecord(reason="Controller failover")])
        if METADATA_VERSION not in self._pending_image.features:
            self._apply(
                [BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION), *bootstrap_records(), EndTransactionRecord()]
            )
        self._apply([broker_record(register(registration, self._log.end_offset))])
        changes = [
            *plan_liveness(self._pending_image, self._node_id),
            *plan_elections_at_start(self._pending_image, self._node_id, where),
        ]
        for first in range(0, len(changes), MAX_RECORDS_PER_COMMAND):
            self._apply(changes[first : first + MAX_RECORDS_PER_COMMAND])
        await self._commit()
        self.image = self._pending_image
        self._started = True
        self._publishers.publish_all(self.image)
        self._maybe_snapshot()
        return self.image

    def fail(self, failure: StorageFailure) -> None:
        """Write nothing more: the directory of the log has failed. Whoever waits for a command is told."""
        self._fail(failure)

    async def close(self) -> None:
        """Wait for the commands under way and close the log.

        Raises: StorageFailure, also of what has failed before: a second sync could pretend that the first one had gone
        well, so the log is let go as it is.
        """
        under_way = [task for task in (self._flusher, self._snapshot_task, self._cleaning) if task is not None]
        if under_way:
            await asyncio.wait(under_way)
        self._fail(ControllerClosed("the controller is closed"))
        if isinstance(self._failure, StorageFailure):
            self._log.fail()
            raise self._failure
        self._log.close()

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Charge = uncharged
    ) -> list[CreateTopicResult]:
        """Create topics; one result a name, in request order. Visible to everybody when this returns."""
        plan = plan_create_topics(self._pending_image, topics, self._rules, self._new_topic_id, charge)
        return await self._execute(Plan([], plan.result) if validate_only else plan)

    async def delete_topics(
        self, topics: Sequence[TopicToDelete], *, charge: Charge = uncharged
    ) -> list[DeleteTopicResult]:
        """Delete topics by name or id; one result an entry. Raises TopicDeletionDisabled."""
        if not self._rules.broker.delete_topic_enable:
            raise TopicDeletionDisabled("Topic deletion is disabled.")
        return await self._execute(plan_delete_topics(self._pending_image, topics, charge))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, charge: Charge = uncharged
    ) -> list[CreatePartitionsResult]:
        """Extend topics; one result a name, in request order."""
        image = self._pending_image
        plan = plan_create_partitions(image, topics, self._rules.full_brokers(image), charge)
        return await self._execute(Plan([], plan.result) if validate_only else plan)

    async def reassign(self, targets: Sequence[Reassignment], *, may_change_factor: bool) -> list[MetadataError | None]:
        """Change the replicas of partitions; one result an entry, in request order. Done when this returns."""
        return await self._execute(
            plan_reassignments(self._pending_image, targets, may_change_factor=may_change_factor)
        )

    async def alter_configs(
        self, entries: Sequence[ResourceChange], *, validate_only: bool = False
    ) -> list[AlterResult]:
        """Change configs of topics and brokers; one result an entry, in request order. In force when this returns."""
        image = self._pending_image
        plan = plan_alter_configs(image, entries, self._rules.resolver(image), self._node_id)
        return await self._execute(Plan([], plan.result) if validate_only else plan)

    async def auto_create(self, names: Iterable[str], charge: Charge = uncharged) -> list[CreateTopicResult]:
        """Create the topics among `names` that are missing, with the broker's defaults or as an internal topic is made.

        Any number of callers may ask for one name at once: the first creates it, all return when it is there.
        """
        missing = [
            internal_topic(name, self._rules) or NewTopic(name)
            for name in dict.fromkeys(names)
            if name not in self._pending_image.topics_by_name
        ]
        return await self.create_topics(missing, charge=charge)

    async def assign_directories(self, directories: Whereabouts) -> None:
        """Record in which log directories this broker's replicas landed."""
        await self._execute(plan_assign_directories(self._pending_image, self._node_id, directories))

    async def directories_offline(self, offline: Collection[bytes], where: Whereabouts) -> None:
        """Record that log directories have failed; `where` tells which partitions were there, and where others are."""
        records = plan_dirs_offline(self._pending_image, self._node_id, offline, where).records
        pieces = range(0, len(records), MAX_RECORDS_PER_COMMAND)
        steps = [self._begin(records[first : first + MAX_RECORDS_PER_COMMAND]) for first in pieces]
        await asyncio.gather(*(answered for answered in steps if answered is not None))

    async def cordon_directories(self, cordoned: Collection[bytes]) -> None:
        """Record which log directories take no new replicas, where the log's level has a place for it."""
        await self._execute(plan_cordon_directories(self._pending_image, self._node_id, cordoned))

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Return a block of producer ids that nobody ever had."""
        return await self._execute(plan_allocate_block(self._pending_image, self._node_id))

    async def execute(self, plan_on: Callable[[ClusterImage], Plan[R]], *, validate_only: bool = False) -> R:
        """Plan a command on the newest image, commit what it changes, and return its result."""
        plan = plan_on(self._pending_image)
        return await self._execute(Plan([], plan.result) if validate_only else plan)

    def housekeep(self) -> None:
        """Start what is due by time: a snapshot, and letting go of old ones and of the log below them."""
        if self._failure is None:
            self._maybe_snapshot()
            if self._cleaning is None:
                self._cleaning = self._tasks.spawn("clean", self._clean())

    async def _execute(self, plan: Plan[R]) -> R:
        """Append, replay, and wait until everything up to here is durable."""
        answered = self._begin(plan.records)
        if answered is not None:
            await answered
        return plan.result

    def _begin(self, records: Sequence[object]) -> asyncio.Future[None] | None:
        """Append and replay; return what is told once everything up to here is durable, None when it is already."""
        if self._failure is not None:
            raise ControllerClosed(f"the controller stopped: {self._failure}") from self._failure
        delta = self._apply(records) if records else None
        if delta is None and not self._steps:
            return None
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._steps.append(_Step(self._log.end_offset, self._pending_image, delta, answered))
        if self._flusher is None:
            self._flusher = self._tasks.spawn("flush", self._flush_steps())
        return answered

    def _apply(self, records: Sequence[object]) -> Delta:
        """Append records as one batch and replay them on the pending image.

        Raises: PolicyViolation; ControllerClosed when they could not be written, after which nothing ever is.
        """
        try:
            base_offset = self._log.append(records)
        except StorageError as failure:
            self._fail(failure)
            self._tasks.report("append", failure)
            raise ControllerClosed(f"the controller stopped: {failure}") from failure
        draft = MetadataDraft(self._pending_image)
        for offset, record in enumerate(records, base_offset):
            draft.replay(record, offset)
        self._pending_image, delta = draft.finish(
            end_offset=base_offset + len(records), epoch=self._log.epoch, timestamp_ms=self._clock.now_ms()
        )
        return delta

    async def _flush_steps(self) -> None:
        """Make steps durable until there are none. Runs as one task at a time, born with the first waiting step."""
        try:
            while self._steps:
                await self._flush_once()
        except BaseException as failure:
            self._fail(failure)
            raise
        finally:
            self._flusher = None
        self._maybe_snapshot()

    async def _flush_once(self) -> None:
        end_offset = await self._commit()
        while self._steps and self._steps[0].end_offset <= end_offset:
            step = self._steps[0]
            if step.delta is not None:
                await self._publishers.prepare(step.delta, step.image)
                if self._failure is not None:
                    return  # an append has failed meanwhile, and everybody was told
            self._steps.popleft()
            self.image = step.image
            if step.delta is not None:
                self._publishers.publish(step.delta, step.image)
            if not step.answered.done():
                step.answered.set_result(None)

    async def _commit(self) -> int:
        """Make what was appended so far durable; return where that ends."""
        end_offset = self._log.end_offset
        plan = self._log.flush_plan()
        if plan is not None:
            try:
                await self._run_blocking(plan.run)
            except BaseException:
                self._log.commit_failed(plan)
                raise
        self._log.committed(plan, end_offset)
        return end_offset

    def _maybe_snapshot(self) -> None:
        if self._snapshot_task is None and self._is_snapshot_due():
            self._snapshot_task = self._tasks.spawn("snapshot", self._write_snapshot())

    def _is_snapshot_due(self) -> bool:
        rules, since_ns = self._snapshots, self._clock.monotonic_ns() - self._last_snapshot_ns
        if self._log.bytes_since_snapshot >= rules.max_bytes:
            return True
        if 0 < rules.max_interval_ms * 1_000_000 <= since_ns and self._log.records_since_snapshot:
            return True
        return self._log.records_since_snapshot >= max(rules.min_records, 2 * _size(self.image))

    async def _write_snapshot(self) -> None:
        image = self.image
        await self._run_blocking(lambda: self._log.snapshot(image))
        self._log.snapshot_written(image)
        self._last_snapshot_ns = self._clock.monotonic_ns()
        self._snapshot_task = None

    async def _clean(self) -> None:
        """Let go of snapshots that are too old or too much, then of the segments below the oldest that stays."""
        log = self._log
        unlink = log.take_due_deletions()
        if unlink is not None:
            await self._run_blocking(unlink)
        snapshots = await self._run_blocking(log.snapshot_files)
        while reason := reason_to_go(
            snapshots, self._snapshots.retention, log_size_bytes=log.size_bytes, now_ms=self._clock.now_ms()
        ):
            going = snapshots.pop(0).id
            logger.info("letting a snapshot go snapshot=%s reason=%s", going.file_name, reason)
            # The snapshot first: one that ends below the log's start would be of no use when a newer one is damaged.
            await self._run_blocking(partial(log.remove_snapshot, going))
            log.start_at(snapshots[0].id)
            while (removal := log.let_go()) is not None:
                await self._run_blocking(removal.rename)
                log.removed(removal)
        self._cleaning = None

    def _fail(self, failure: BaseException) -> None:
        """Stop for good: whoever waits learns why, and the committed image stays as it is."""
        if self._failure is None:
            self._failure = failure
        while self._steps:
            answered = self._steps.popleft().answered
            if not answered.done():
                answered.set_exception(ControllerClosed(f"the controller stopped: {self._failure}"))
                answered.exception()  # looked at here: whoever asked for several steps has been told by one of them

    def _new_topic_id(self) -> bytes:
        return random_uuid(self._rng.random_bytes)


def _size(image: ClusterImage) -> int:
    """Return how many records a snapshot of the image would hold, about."""
    return len(image.topics_by_id) + sum(len(topic.partitions) for topic in image.topics_by_id.values())
