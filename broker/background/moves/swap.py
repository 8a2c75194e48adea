"""Swap: the copy of a log takes its place. The order, and what each step guards (ADR 9):

1. the copy is flushed while appends still go on, again while much has come meanwhile, so that little is left for the
   time that they are held;
2. appends are held, those that wait for the disk are let go, the rest is copied and flushed: the copy is whole and
   stays so, whichever of both logs survives what follows;
3. the metadata name the directory of the copy: a start that finds the copy alone knows by that that it is the log;
4. nothing that was planned of the log runs any more: renames would pull files from under it;
5. the log's directory becomes `-delete`, durably: two logs under one name would be refused at the next start;
6. the copy gets the partition's name and is served, appends go on;
7. within a second the new name is made durable, and both directories' checkpoint files are written.

A crash before 5 leaves both, and the move goes on; after that the copy alone, which is promoted. Where the directory of
the copy fails, step 5 and step 3 are taken back. Where that of the log fails the partition goes offline with it, and
the metadata go on to name the other one: the next start finds the copy alone, or both, and each is whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from broker.background.checkpoints import Checkpoints
from broker.background.cleaner.run import Cleaner
from broker.background.disk_work import DiskWork
from broker.background.moves.copy_steps import CopySteps
from broker.background.moves.dir_syncs import DirSyncs
from broker.background.moves.move import Move
from broker.partition.manager import PartitionManager
from broker.runtime.gathered import Gathered
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.dirs.moving import Retired
from storage.errors import LogClosed, StorageFailure
from storage.types import TopicPartition

Assign = Callable[[Mapping[TopicPartition, bytes]], Awaitable[None]]
"""Lets the metadata name the directories, by id, of partitions; returns once that is durable."""

MAX_FLUSHES_AHEAD = 3
LITTLE_BYTES = 128 * 1024
"""So much is copied and synced about as fast as nothing."""


class Swaps:
    """Carries out swaps."""

    def __init__(
        self,
        logs: LogManager,
        partitions: PartitionManager,
        cleaner: Cleaner,
        disk_work: DiskWork,
        checkpoints: Checkpoints,
        dir_syncs: DirSyncs,
        steps: CopySteps,
        assign: Assign,
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._logs = logs
        self._partitions = partitions
        self._cleaner = cleaner
        self._disk_work = disk_work
        self._checkpoints = checkpoints
        self._dir_syncs = dir_syncs
        self._steps = steps
        self._assign = assign
        self._assignments: Gathered[tuple[TopicPartition, LogDir], None] = Gathered("assignments", self._assign_all)
        self._monotonic_ns = monotonic_ns

    async def run(self, move: Move, chunk_bytes: int) -> int | None:
        """Let the copy of a move take over; return how long appends were held, in nanoseconds.

        None when somebody has stopped the move before the metadata were told. Raises: storage.errors, partition and
        metadata errors; the log is served as before then, unless its own directory has failed.
        """
        await self._flush_ahead(move, chunk_bytes)
        noted_start = await self._note_log_start(move)
        partition = move.partition
        held_since_ns = self._monotonic_ns()
        partition.hold()
        try:
            await self._complete(move, chunk_bytes)
            await self._note_log_start(move, noted_start)
            if move.is_stopped:
                return None
            move.is_swapping = True
            try:
                await self._replace(move)
            finally:
                move.is_swapping = False
        finally:
            partition.release()
        held_ns = self._monotonic_ns() - held_since_ns
        self._logs.deleted_logs.note_renamed(move.destination)
        self._checkpoints.note_moved()
        if self._logs.cleaner_checkpoint(move.tp) is not None:
            await self._cleaner.write_checkpoints()
        return held_ns

    async def _flush_ahead(self, move: Move, chunk_bytes: int) -> None:
        """Copy and flush until little is left, a few times at most: what comes meanwhile is less each time."""
        for _ in range(MAX_FLUSHES_AHEAD):
            await self._steps.run(move, chunk_bytes, is_flushed=True)
            if move.is_stopped or move.left_bytes <= LITTLE_BYTES:
                return

    async def _complete(self, move: Move, chunk_bytes: int) -> None:
        """Copy what is left, durably, while nobody appends."""
        await move.partition.durable(move.log.log_end_offset)
        while not move.is_stopped and not move.copy.is_complete:
            await self._steps.run(move, chunk_bytes, is_flushed=True)
            if move.copy.is_caught_up:
                break

    async def _note_log_start(self, move: Move, noted: int | None = None) -> int | None:
        """Make a log start durable that the names of the copy's segments do not tell, unless it is noted already.

        Nothing else tells it to a start that finds the copy alone.
        """
        log_start = move.future.log.log_start_to_checkpoint
        if log_start not in (None, noted) and not move.is_stopped:
            await self._checkpoints.save_log_starts()
        return log_start

    async def _replace(self, move: Move) -> None:
        await self._assignments((move.tp, move.destination))
        try:
            await self._disk_work.quiet(move.partition)
            self._ensure_possible(move)
            await self._promote(move, self._logs.retire(move.tp))
        except (StorageFailure, LogClosed) as failure:
            if isinstance(failure, StorageFailure):
                self._partitions.fail_dir_of(failure)
            if not move.log.is_closed:
                await self._assignments((move.tp, move.source))
            raise

    async def _assign_all(self, places: Sequence[tuple[TopicPartition, LogDir]]) -> Sequence[None]:
        await self._assign({tp: log_dir.directory_id for tp, log_dir in places})
        return [None] * len(places)

    async def _promote(self, move: Move, retired: Retired) -> None:
        try:
            await self._dir_syncs.sync(move.source)
            self._ensure_possible(move)
            log = self._logs.promote(move.tp, retired)
        except (StorageFailure, LogClosed) as failure:
            if isinstance(failure, StorageFailure):
                self._partitions.fail_dir_of(failure)
            if not move.log.is_closed:
                self._logs.restore(move.tp, retired)
                await self._dir_syncs.sync(move.source)
            raise
        if move.was_begun and log.config.is_compact:
            # The log may have been cleaned while the copy was away: what was copied before would pass for clean.
            self._logs.set_cleaner_checkpoint(move.tp, log.log_start_offset)
        move.partition.serve(log)

    def _ensure_possible(self, move: Move) -> None:
        """Make sure that both logs are still there. Raises: LogClosed."""
        if move.is_gone or self._partitions.find(move.tp) is not move.partition:
            raise LogClosed(f"{move.tp} or the copy of its log is gone")
