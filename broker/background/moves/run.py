"""Moves between log directories while everything is served: begun on demand, cancelled, redirected, resumed at a start.

The copying is storage.log.copying, the end of a move `swap`. A log that is being moved is not cleaned, from the
beginning of the move to its end. Source: KIP-113; Kafka's ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from weakref import WeakValueDictionary

from broker.background.checkpoints import Checkpoints
from broker.background.cleaner.run import Cleaner
from broker.background.disk_work import DiskWork
from broker.background.moves.copy_steps import CopySteps
from broker.background.moves.creations import Creations
from broker.background.moves.dir_syncs import DirSyncs
from broker.background.moves.move import Move
from broker.background.moves.swap import Assign, Swaps
from broker.background.moves.throttle import Throttle
from broker.background.moves.workers import MoveWorker, worker_of
from broker.metadata.errors import MetadataError
from broker.metadata.image import ClusterImage, Delta
from broker.partition.errors import (
    FutureNameTooLong,
    LogDirCordoned,
    LogDirNotFound,
    LogDirOffline,
    NoReplicaHere,
    NotLeader,
    PartitionError,
    UnknownPartition,
)
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from config.views import MoveConfig
from storage.dirs.futures import FutureLog
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.errors import LogClosed, StorageError, StorageFailure
from storage.segment.names import FUTURE_DIR_SUFFIX, MAX_NAME_LENGTH, suffixed_dir
from storage.types import TopicPartition

MAX_SWAPS = 8
"""So many swaps at once share the syncs of the metadata log and of the directories; more would hold appends longer."""
SAME_FAILURE_EVERY_NS = 60_000_000_000
"""How often a failure is told of that goes on."""

logger = logging.getLogger(__name__)


class Moves:
    """All moves of a broker; everything here happens on the loop."""

    def __init__(
        self,
        logs: LogManager,
        partitions: PartitionManager,
        cleaner: Cleaner,
        disk_work: DiskWork,
        checkpoints: Checkpoints,
        pools: Pools,
        monotonic_ns: Callable[[], int],
        config: MoveConfig,
        assign: Assign,
    ) -> None:
        self._logs = logs
        self._partitions = partitions
        self._cleaner = cleaner
        self._checkpoints = checkpoints
        self._creations = Creations(logs, pools)
        self._steps = CopySteps(pools)
        self._swaps = Swaps(
            logs,
            partitions,
            cleaner,
            disk_work,
            checkpoints,
            DirSyncs(pools),
            self._steps,
            assign,
            monotonic_ns,
        )
        self._swap_slots = asyncio.Semaphore(MAX_SWAPS)
        self.now_ns = monotonic_ns
        self._config = config  # replaced by reconfigure
        self._image: ClusterImage | None = None  # replaced by publish
        self._tasks = TaskOwner("moves")
        # One request after the other for each partition.
        self._turns: WeakValueDictionary[TopicPartition, asyncio.Lock] = WeakValueDictionary()
        self._moves: dict[TopicPartition, Move] = {}
        self.throttle = Throttle(config.max_bytes_per_second)
        self._workers = [MoveWorker(self.throttle, monotonic_ns, self._advance) for _ in range(config.threads)]
        self.copied_bytes = 0
        self.completed_count = 0

    # --- what others see and say ---

    def running(self) -> Collection[Move]:
        """Return the moves that are under way."""
        return self._moves.values()

    @property
    def failing_count(self) -> int:
        """Moves whose last attempt has failed."""
        return sum(bool(move.failure) for move in self._moves.values())

    def reconfigure(self, config: MoveConfig) -> None:
        """Let other settings hold, for moves that run too."""
        self._config = config
        self.throttle.set_limit(config.max_bytes_per_second, self.now_ns())
        for worker in self._workers:
            worker.wake()

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Follow the metadata, behind the partition manager: give up what has nothing to move any more."""
        self._image = image
        if delta.deleted_topics or delta.brokers_changed:
            self.look()

    def look(self) -> None:
        """Give up the moves whose partition or directory has gone."""
        for move in tuple(self._moves.values()):
            if move.is_gone and not move.is_busy:
                self._end(move, move.why_gone)

    # --- requests ---

    async def alter(self, tp: TopicPartition, path: str) -> None:
        """Let a partition lie in another directory, now or when it comes to be here; returns when that is accepted.

        Raises: FutureNameTooLong, LogDirNotFound, LogDirOffline, LogDirCordoned, PartitionOffline, UnknownPartition,
        NoReplicaHere, StorageFailure.
        """
        async with self._turns.setdefault(tp, asyncio.Lock()):
            log_dir = self._destination(tp, path)
            self._partition(tp)
            await self._cancel_unless(tp, log_dir)
            partition = self._partition(tp)  # it may have gone meanwhile
            future, current_dir = self._logs.futures.get(tp), self._logs.dir_of(tp)
            if current_dir is not log_dir and future is None:
                self._logs.prefer(tp, path)
            if partition is None:
                if self._image is None or self._image.partition(tp) is None:
                    raise UnknownPartition(str(tp))
                raise NoReplicaHere(f"{tp} has no replica here")
            if current_dir is log_dir or (future is not None and tp in self._moves):
                return
            if future is None:
                future = await self._create(partition, log_dir)
            await self._begin(partition, future)

    def _destination(self, tp: TopicPartition, path: str) -> LogDir:
        """Find a directory that takes new logs."""
        if len(suffixed_dir(tp, "0" * 32, FUTURE_DIR_SUFFIX)) > MAX_NAME_LENGTH:
            raise FutureNameTooLong(f"the name of the folder of a copy of {tp} would be too long")
        log_dir = next((log_dir for log_dir in self._logs.dirs if log_dir.path == path), None)
        if log_dir is None:
            raise LogDirNotFound(f"{path} is none of log.dirs")
        if not log_dir.is_online:
            raise LogDirOffline(f"log directory {path} is offline")
        if path in self._logs.cordoned:
            raise LogDirCordoned(f"log directory {path} is cordoned")
        return log_dir

    def _partition(self, tp: TopicPartition) -> Partition | None:
        """Find the partition, None where it is not here, or was not when we started. Raises: PartitionOffline."""
        try:
            return self._partitions.get(*tp)
        except (UnknownPartition, NotLeader):
            return None

    async def _cancel_unless(self, tp: TopicPartition, log_dir: LogDir) -> None:
        """Give up a copy that lies in another directory; a swap that has begun comes to its end first.

        Of a move that does not go on nothing runs when this returns, whatever ended it: it shares the pause of the
        cleaner and its place among the moves with the next one of the partition.
        """
        move = self._moves.get(tp)
        if move is not None and (move.is_gone or move.destination is not log_dir):
            if not move.is_swapping:
                self._stop(move, "cancelled" if log_dir is move.source else f"{log_dir.path} is the destination now")
            await move.ended.wait()
        future = self._logs.futures.get(tp)
        if future is not None and future.log_dir is not log_dir:
            try:
                self._logs.drop_future(tp)
            except StorageFailure as failure:
                self._partitions.fail_dir_of(failure)

    async def _create(self, partition: Partition, log_dir: LogDir) -> FutureLog:
        away = [one.path for one in self._logs.dirs if not one.is_online]
        if away:
            raise LogDirOffline(f"{', '.join(away)} is offline and may have a copy of {partition.tp} already")
        if log_dir.may_vouch_for(partition.tp):  # after a crash the copy would pass for as durable as one before it was
            await self._checkpoints.rewrite()
        try:
            return await self._creations.create(partition.tp, log_dir, partition.log.config)
        except LogClosed as closed:
            raise self._why_gone(partition, log_dir) from closed
        except StorageFailure as failure:
            self._partitions.fail_dir_of(failure)
            raise

    async def _begin(self, partition: Partition, future: FutureLog) -> None:
        """Begin a move, or go on with one. Raises: PartitionOffline, UnknownPartition when there is nothing to move."""
        tp = partition.tp
        await self._cleaner.pause(tp)
        source = self._logs.dir_of(tp)
        if self._partitions.find(tp) is not partition or source is None or future.is_gone:
            self._cleaner.resume(tp)
            if self._logs.futures.get(tp) is future and not future.is_gone:
                self._logs.drop_future(tp)
            raise self._why_gone(partition, future.log_dir)
        move = self._moves[tp] = Move(partition, source, future, self.now_ns())
        move.say_started()
        self._worker_of(move).add(move)

    def _why_gone(self, partition: Partition, log_dir: LogDir) -> PartitionError:
        """Say what has become of a partition or of its destination. Raises: PartitionOffline, UnknownPartition."""
        if self._partitions.get(*partition.tp) is not partition:
            return UnknownPartition(f"{partition.tp} was deleted and created anew")
        return LogDirOffline(f"log directory {log_dir.path} is offline")

    def _worker_of(self, move: Move) -> MoveWorker:
        return self._workers[worker_of(move.tp, len(self._workers))]

    def _stop(self, move: Move, reason: str) -> None:
        """Let a move end: now, or when the step that runs has ended."""
        if move.is_busy:
            move.end_reason = reason
        else:
            self._end(move, reason)

    def _end(self, move: Move, reason: str) -> None:
        move.end_reason = move.end_reason or reason
        if self._moves.get(move.tp) is not move:
            return
        del self._moves[move.tp]
        self._worker_of(move).remove(move)
        move.copy.close()
        self._cleaner.resume(move.tp)
        if not move.is_done:
            move.say_given_up()
        move.ended.set()

    # --- life ---

    async def start(self) -> None:
        """Go on with what the last run has left, before anything is cleaned."""
        for tp, future in tuple(self._logs.futures.items()):
            partition = self._partitions.find(tp)
            if partition is not None and tp not in self._moves:
                await self._begin(partition, future)
        for number, worker in enumerate(self._workers):
            self._tasks.spawn(f"worker {number}", worker.run())

    async def close(self) -> None:
        """End what runs with the next step; copies stay, and the next start goes on with them."""
        for worker in self._workers:
            worker.close()
        await self._tasks.join()
        for move in tuple(self._moves.values()):
            self._end(move, "the broker stops")

    # --- one step after the other ---

    async def _advance(self, move: Move) -> None:
        """Copy some more, or begin to swap; what goes wrong delays the move."""
        piece_bytes = self.throttle.piece_bytes(self._config.chunk_bytes)
        move.is_busy = True
        if move.copy.is_nearly_caught_up(piece_bytes):
            await self._swap_slots.acquire()
            self._tasks.spawn(f"swap {move.tp}", self._in_slot(move, piece_bytes))
        else:
            await self._guarded(move, partial(self._steps.run, move, piece_bytes))

    async def _in_slot(self, move: Move, piece_bytes: int) -> None:
        try:
            await self._guarded(move, partial(self._swap, move, piece_bytes))
        finally:
            self._swap_slots.release()

    async def _swap(self, move: Move, piece_bytes: int) -> None:
        held_ns = await self._swaps.run(move, piece_bytes)
        if held_ns is not None:
            self.completed_count += 1
            move.say_done(held_ns, self.now_ns())

    async def _guarded(self, move: Move, work: Callable[[], Awaitable[object]]) -> None:
        """Do some work of a move unless it was stopped, and what follows from that."""
        copied_before, durable_before = move.copy.copied_bytes, move.future.log.recovery_point
        try:
            if not move.is_stopped:
                await work()
            move.failure = ""
        except StorageFailure as failure:
            self._partitions.fail_dir_of(failure)
            self._delay(move, failure)
        except (StorageError, PartitionError, MetadataError) as failure:
            self._delay(move, failure)
        except Exception as failure:  # a background job's border
            logger.exception("a step of a move failed topic=%s partition=%d", *move.tp)
            self._delay(move, failure)
        finally:
            move.is_busy = False
            now_ns = self.now_ns()
            copied = move.copy.copied_bytes - copied_before
            self.copied_bytes += copied
            self.throttle.note(copied, now_ns)
            move.note_progress(now_ns)
            if move.future.log.recovery_point != durable_before:
                self._checkpoints.note_flushed()  # a start after a crash copies anew what was not noted
        if move.is_done or move.is_stopped:
            self._end(move, move.why_gone)

    def _delay(self, move: Move, failure: Exception) -> None:
        """Leave a move alone for a while, and say why unless that was said already."""
        now_ns = self.now_ns()
        move.retry_at_ns = now_ns + self._config.backoff_ms * 1_000_000
        text = str(failure)
        if text != move.failure or now_ns - move.failure_said_ns >= SAME_FAILURE_EVERY_NS:
            move.failure_said_ns = now_ns
            logger.warning("a move is held up topic=%s partition=%d reason=%s", *move.tp, text)
        move.failure = text or type(failure).__name__
        if self._moves.get(move.tp) is move:
            self._worker_of(move).delay(move)
