"""Runs a coordinator's shards: load, one command at a time, write, answer, unload.

One shard a partition of the internal topic. An idle shard runs a command at once, in the caller's own step, and writes
its records there too, unless the log has to wait for a disk. Meanwhile everything else for that shard queues, so no
command ever sees half of another. Commands that say they combine (offset commits) share batches: those that queue
behind a write, and those that follow one of their kind in the same turn of the loop, which are written at its end.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from broker.coordinator.errors import CoordinatorError, CoordinatorLoading, NotCoordinator
from broker.coordinator.loader import ShardLoader
from broker.coordinator.log import CoordinatorLog
from broker.coordinator.operations import InTransaction, Lifecycle, Operation, ShardContext, no_records
from broker.coordinator.shard import Outcome, Shard
from broker.coordinator.stats import RuntimeStats
from broker.coordinator.writer import ShardWriter
from broker.partition.partition import Marker
from broker.runtime.tasks import start_inline
from protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

WRITES_ALONE = 32
"""One client that sends several commits at once gathers nothing: its next one comes when the last one is answered."""

S = TypeVar("S", bound=Shard)
R = TypeVar("R")


class TaskSpawner(Protocol):
    """Starts tasks; the broker's TaskOwner is one."""

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> Any:
        """Start `work` as a task."""


RunAside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call beside the loop."""


class CoordinatorRuntime(Generic[S]):
    """Owns the shards of one coordinator kind."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        tasks: TaskSpawner,
        wall_clock_ms: Callable[[], int],
        monotonic_ms: Callable[[], float],
        error_code: Callable[[BaseException], ErrorCode],
        shard_factory: Callable[[int], S],
        *,
        max_batch_bytes: int,
    ) -> None:
        self._name = name
        self._tasks = tasks
        self._shard_factory = shard_factory
        self.stats = RuntimeStats()
        self._monotonic_ms = monotonic_ms
        self._writer: ShardWriter[S] = ShardWriter(
            name, log, wall_clock_ms, monotonic_ms, error_code, max_batch_bytes, self.stats
        )
        self._loader: ShardLoader[S] = ShardLoader(name, log, monotonic_ms, self.stats)
        # Written when partitions come and go.
        self._contexts: dict[int, ShardContext[S]] = {}
        # Those that have taken a combinable write in this turn of the loop.
        self._gathering: list[ShardContext[S]] = []

    # -- partitions -------------------------------------------------------------------------------------------------

    def partitions(self) -> set[int]:
        """Give the partitions that were loaded and not unloaded since."""
        return set(self._contexts)

    def serve(self, partitions: Collection[int]) -> None:
        """Serve these partitions and no others: load what is new, let go of the rest."""
        for partition in self.partitions() - set(partitions):
            self.unload(partition)
        self.load(sorted(partitions))

    def load(self, partitions: Sequence[int]) -> None:
        """Start to serve partitions, but those that are: loading until their records are replayed."""
        fresh = [ShardContext(p, self._shard_factory(p)) for p in partitions if p not in self._contexts]
        for context in fresh:
            self._contexts[context.partition] = context
        # Inline as far as it goes, so that small partitions are served when this returns.
        is_done, rest = start_inline(self._loader.load_all(fresh))
        if not is_done:
            self._tasks.spawn(f"{self._name}-load", rest)

    def unload(self, partition: int) -> None:
        """Stop to serve a partition: what is parked is answered, what is queued is refused."""
        context = self._contexts.pop(partition, None)
        if context is None:
            return
        was_active = context.state is Lifecycle.ACTIVE
        context.state = Lifecycle.CLOSED
        if was_active:
            context.shard.on_unloaded()
        context.refuse_queued(NotCoordinator)

    def unload_all(self) -> None:
        """Stop to serve everything."""
        for partition in list(self._contexts):
            self.unload(partition)

    def count_by_state(self) -> Counter[str]:
        """Count the partitions in each state, for metrics."""
        return Counter(context.state.value for context in self._contexts.values())

    @property
    def is_loading(self) -> bool:
        """Tell whether some partition still replays its log."""
        return any(context.state is Lifecycle.LOADING for context in self._contexts.values())

    def active_partitions(self) -> list[int]:
        """Give the partitions that run commands now, ascending."""
        return sorted(p for p, context in self._contexts.items() if context.state is Lifecycle.ACTIVE)

    def read(self, partition: int) -> S:
        """Give the shard for reading what is committed.

        Raises: CoordinatorLoading, NotCoordinator.
        """
        return self._active(partition).shard

    def _active(self, partition: int) -> ShardContext[S]:
        context = self._contexts.get(partition)
        if context is None:
            raise NotCoordinator
        if context.state is not Lifecycle.ACTIVE:
            raise CoordinatorLoading if context.state is Lifecycle.LOADING else NotCoordinator
        return context

    # -- commands ---------------------------------------------------------------------------------------------------

    def execute_now(
        self, partition: int, command: Callable[[S], Outcome[R]], *, is_combinable: bool = False
    ) -> R | asyncio.Future[R]:
        """Run a command, or queue it; a finished response when nothing has to be waited for.

        A combinable one may share its batch with its neighbours: they must not depend on records of one another.

        Raises: CoordinatorLoading, NotCoordinator, WriteFailed, and what the command raises.
        """
        context = self._active(partition)
        operation: Operation[S] = Operation(command, is_combinable=is_combinable)
        if not context.is_busy and not (is_combinable and context.has_combined):
            outcome = command(context.shard)
            if not outcome.records:
                if outcome.on_written is not None:
                    outcome.on_written(ErrorCode.NONE)
                return outcome.response
            operation.outcome = outcome
        return self._run(context, operation)  # type: ignore[no-any-return]

    async def execute(self, partition: int, command: Callable[[S], Outcome[R]], *, is_combinable: bool = False) -> R:
        """Run one command and give its response once its records are committed.

        Raises: CoordinatorLoading, NotCoordinator, WriteFailed, and what the command raises. Suspends only behind
        others, or for a disk.
        """
        result = self.execute_now(partition, command, is_combinable=is_combinable)
        if isinstance(result, asyncio.Future):
            return await result
        return result

    async def execute_in_transaction(
        self, partition: int, command: Callable[[S], Outcome[R]], transaction: InTransaction
    ) -> R:
        """Run a command whose records belong to a producer's transaction. Raises: as execute."""
        result = self._run(self._active(partition), Operation(command, transaction=transaction))
        return await result if isinstance(result, asyncio.Future) else result  # type: ignore[no-any-return]

    async def end_transaction(self, partition: int, marker: Marker) -> None:
        """Write a marker, and let the shard know of it.

        Raises: CoordinatorLoading, NotCoordinator; what the partition refuses the marker with.
        """
        result = self._run(self._active(partition), Operation(no_records, marker=marker))
        if isinstance(result, asyncio.Future):
            await result

    def submit(self, partition: int, command: Callable[[S], Outcome[None]]) -> None:
        """Run a command nobody waits for (timers, clean-up); its failure is logged."""
        context = self._contexts.get(partition)
        if context is None or context.state is not Lifecycle.ACTIVE:
            return
        try:
            result = self.execute_now(partition, command)
        except CoordinatorError as failure:
            self._warn(failure)
            return
        except Exception:
            logger.exception("coordinator command failed coordinator=%s partition=%d", self._name, partition)
            return
        if isinstance(result, asyncio.Future):
            result.add_done_callback(self._log_failure)

    def _log_failure(self, done: asyncio.Future[Any]) -> None:
        failure = None if done.cancelled() else done.exception()
        if failure is not None:
            self._warn(failure)

    def _warn(self, failure: BaseException) -> None:
        logger.warning("coordinator command failed coordinator=%s error=%r", self._name, failure)

    # -- running ----------------------------------------------------------------------------------------------------

    def _run(self, context: ShardContext[S], operation: Operation[S]) -> Any:
        """Write an operation, or queue it; gives its response when it is over, else a future of that."""
        context.queue.append(operation)
        if context.is_busy:
            operation.queued_ms = self._monotonic_ms()
            return operation.future()
        context.is_busy = True
        if operation.is_combinable:
            if context.has_combined:
                operation.queued_ms = self._monotonic_ms()
                return operation.future()
            if context.alone:
                context.alone -= 1
            else:
                self._gather(context)
        self._drain(context)
        return operation.response() if operation.is_over else operation.future()

    def _gather(self, context: ShardContext[S]) -> None:
        """From here to the end of the loop's turn, combinable operations of the shard wait for each other."""
        if not self._gathering:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._gathering.append(context)
        context.has_combined = True

    def _end_turn(self) -> None:
        gathered, self._gathering = self._gathering, []
        for context in gathered:
            context.has_combined = False
            # What another operation's write has not taken along already.
            if context.queue and not context.is_writing:
                if len(context.queue) == 1:
                    context.alone = WRITES_ALONE
                self._drain(context)

    def _drain(self, context: ShardContext[S]) -> None:
        # Without a task of its own as long as the log need not wait.
        is_done, rest = start_inline(self._writer.drain(context))
        if not is_done:
            self._tasks.spawn(f"{self._name}-write-{context.partition}", rest)
