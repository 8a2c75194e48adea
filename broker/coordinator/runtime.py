"""Runs a coordinator's shards: load, one command at a time, append, replay, reply, unload.

One shard a partition of the internal topic. An idle shard runs a command at once, in the caller's own step. While
records wait for their append everything else for that shard queues behind them, so no command ever sees half of
another; neighbouring commands that say they combine (offset commits) share one batch, which is how many commits of one
loop turn cost one write. Order for every batch, and what each step guards:

1. append, and wait until the high watermark has passed it: an answer must survive a crash;
2. replay: state is what the log says, so a failed append has changed nothing;
3. answer.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from broker.coordinator.errors import CoordinatorLoading, NotCoordinator, WriteFailed, write_error_code
from broker.coordinator.shard import CoordinatorRecord, Outcome, Shard
from broker.partition.partition import Marker
from broker.runtime.failures import unexplained
from broker.runtime.tasks import start_inline
from protocol.errors import ErrorCode
from protocol.records.batch import NO_PRODUCER_ID, parse_header
from protocol.records.builder import build_batch
from protocol.records.record import iter_records
from storage.producers.verification import Verification

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

RECORD_OVERHEAD_BYTES = 32
"""Upper bound of what a record adds to its key and value: varints, attributes, timestamp delta."""

COMBINED_BATCH_BYTES = 256 * 1024
"""Commands stop sharing a batch here: a larger one would save nothing and delay its first answer."""

LOAD_RECORDS_PER_TURN = 2_000
"""Records replayed before the loop gets its turn while a partition loads: some ten milliseconds."""


class CoordinatorLog(Protocol):
    """The internal topic's partitions, as coordinators need them."""

    async def append(self, partition: int, batch: bytearray, verification: Verification | None = None) -> int:
        """Append one batch; return the next offset once the high watermark has passed it."""

    async def append_marker(self, partition: int, marker: Marker) -> int:
        """Append a marker likewise."""

    def scan(self, partition: int) -> AsyncIterator[memoryview]:
        """Iterate over the stored batches, one at a time, from the log start."""

    def leader_epoch(self, partition: int) -> int:
        """Give the epoch of our leadership."""


class TaskSpawner(Protocol):
    """Starts tasks; the broker's TaskOwner is one."""

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> Any:
        """Start `work` as a task."""


class Lifecycle(Enum):
    """Where a shard is between its partition's arrival and its end."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class InTransaction(NamedTuple):
    """In whose transaction records are written, and the verification that lets it begin here, if it has not yet."""

    producer_id: int
    producer_epoch: int
    verification: Verification | None


class _Operation(Generic[S]):
    """A queued command, or a marker, with whoever waits for it."""

    __slots__ = ("command", "done", "is_combinable", "marker", "outcome", "transaction")

    def __init__(
        self,
        command: Callable[[S], Outcome[Any]],
        *,
        is_combinable: bool = False,
        transaction: InTransaction | None = None,
        marker: Marker | None = None,
    ) -> None:
        self.command = command
        self.is_combinable = is_combinable
        self.transaction = transaction
        self.marker = marker
        self.outcome: Outcome[Any] | None = None
        self.done: asyncio.Future[Any] | None = None


class _Context(Generic[S]):
    """One shard and what waits for it."""

    __slots__ = ("is_draining", "partition", "queue", "shard", "state")

    def __init__(self, partition: int, shard: S) -> None:
        self.partition = partition
        self.shard = shard
        self.state = Lifecycle.LOADING
        self.queue: deque[_Operation[S]] = deque()
        # Set from the first queued operation until the queue has run dry.
        self.is_draining = False


class CoordinatorRuntime(Generic[S]):
    """Owns the shards of one coordinator kind."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        tasks: TaskSpawner,
        wall_clock_ms: Callable[[], int],
        append_error_code: Callable[[BaseException], ErrorCode],
        shard_factory: Callable[[int], S],
        *,
        max_batch_bytes: int,
    ) -> None:
        self._name = name
        self._log = log
        self._tasks = tasks
        self._wall_clock_ms = wall_clock_ms
        self._append_error_code = append_error_code
        self._shard_factory = shard_factory
        self._max_batch_bytes = max_batch_bytes
        # Written when partitions come and go.
        self._contexts: dict[int, _Context[S]] = {}

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
        fresh = [_Context(p, self._shard_factory(p)) for p in partitions if p not in self._contexts]
        for context in fresh:
            self._contexts[context.partition] = context
        # Inline as far as it goes, so that small partitions are served when this returns.
        is_done, rest = start_inline(self._load_all(fresh))
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
        while context.queue:
            _fail(context.queue.popleft(), NotCoordinator())

    def unload_all(self) -> None:
        """Stop to serve everything."""
        for partition in list(self._contexts):
            self.unload(partition)

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

    def execute_now(
        self, partition: int, command: Callable[[S], Outcome[R]], *, is_combinable: bool = False
    ) -> R | asyncio.Future[R]:
        """Run a command, or queue it; a finished response when nothing has to be waited for.

        A combinable one may share its batch with its neighbours: they must not depend on records of one another.

        Raises: CoordinatorLoading, NotCoordinator, and what the command raises.
        """
        context = self._active(partition)
        operation: _Operation[S] = _Operation(command, is_combinable=is_combinable)
        if not context.is_draining:
            outcome = command(context.shard)
            if not outcome.records:
                _conclude(outcome, ErrorCode.NONE)
                return outcome.response
            operation.outcome = outcome
        return self._enqueue(context, operation)

    async def execute(self, partition: int, command: Callable[[S], Outcome[R]], *, is_combinable: bool = False) -> R:
        """Run one command and give its response once its records are committed.

        Raises: CoordinatorLoading, NotCoordinator, WriteFailed, and what the command raises. Does not suspend when
        the shard is idle and the command writes nothing.
        """
        result = self.execute_now(partition, command, is_combinable=is_combinable)
        if isinstance(result, asyncio.Future):
            return await result
        return result

    async def execute_combined(self, partition: int, command: Callable[[S], Outcome[R]]) -> R:
        """Run a command that may share its batch with its neighbours of the same kind.

        Such commands must not depend on records of one another. Raises: as execute.
        """
        context = self._active(partition)
        return await self._enqueue(context, _Operation(command, is_combinable=True))  # type: ignore[no-any-return]

    async def execute_in_transaction(
        self, partition: int, command: Callable[[S], Outcome[R]], transaction: InTransaction
    ) -> R:
        """Run a command whose records belong to a producer's transaction. Raises: as execute."""
        context = self._active(partition)
        return await self._enqueue(context, _Operation(command, transaction=transaction))  # type: ignore[no-any-return]

    async def end_transaction(self, partition: int, marker: Marker) -> None:
        """Write a marker, and let the shard know of it.

        Raises: CoordinatorLoading, NotCoordinator; what the partition refuses the marker with.
        """
        await self._enqueue(self._active(partition), _Operation(_no_records, marker=marker))

    def submit(self, partition: int, command: Callable[[S], Outcome[None]]) -> None:
        """Run a command nobody waits for (timers, clean-up); its failure is logged."""
        context = self._contexts.get(partition)
        if context is None or context.state is not Lifecycle.ACTIVE:
            return
        try:
            result = self.execute_now(partition, command)
        except Exception as failure:
            logger.error(
                "coordinator command failed coordinator=%s partition=%d reason=%s",
                self._name, partition, failure, exc_info=unexplained(failure),
            )  # fmt: skip
            return
        if isinstance(result, asyncio.Future):
            result.add_done_callback(self._log_failure)

    # -- running ----------------------------------------------------------------------------------------------------

    def _active(self, partition: int) -> _Context[S]:
        context = self._contexts.get(partition)
        if context is None:
            raise NotCoordinator
        if context.state is Lifecycle.LOADING:
            raise CoordinatorLoading
        if context.state is not Lifecycle.ACTIVE:
            raise NotCoordinator
        return context

    def _enqueue(self, context: _Context[S], operation: _Operation[S]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        operation.done = done
        context.queue.append(operation)
        if not context.is_draining:
            context.is_draining = True
            self._tasks.spawn(f"{self._name}-write-{context.partition}", self._drain(context))
        return done

    async def _drain(self, context: _Context[S]) -> None:
        try:
            while context.queue:
                if context.queue[0].marker is not None:
                    await self._write_marker(context, context.queue.popleft())
                elif group := self._next_group(context):
                    await self._write_group(context, group)
        except Exception:  # a background job's border: state may be half changed, so this shard serves nobody any more
            logger.exception("coordinator shard failed coordinator=%s partition=%d", self._name, context.partition)
            context.state = Lifecycle.FAILED
        finally:
            context.is_draining = False
            while context.queue:
                _fail(context.queue.popleft(), NotCoordinator())

    def _next_group(self, context: _Context[S]) -> list[_Operation[S]]:
        """Run queued commands until one has records to write, with the combinable ones that follow it."""
        group: list[_Operation[S]] = []
        size_bytes = 0
        while context.queue:
            operation = context.queue[0]
            if operation.marker is not None or (group and not (operation.is_combinable and group[0].is_combinable)):
                break
            if operation.outcome is None and not _run(context.shard, operation):
                context.queue.popleft()
                continue
            outcome = operation.outcome
            assert outcome is not None
            operation_bytes = _size_of(outcome.records)
            if group and size_bytes + operation_bytes > min(COMBINED_BATCH_BYTES, self._max_batch_bytes):
                break
            context.queue.popleft()
            if not outcome.records:
                _answer(operation, ErrorCode.NONE)
                continue
            group.append(operation)
            size_bytes += operation_bytes
        return group

    async def _write_marker(self, context: _Context[S], operation: _Operation[S]) -> None:
        marker = operation.marker
        assert marker is not None
        try:
            await self._log.append_marker(context.partition, marker)
        except Exception as failure:  # a background job's border: whoever ends the transaction decides what now
            _fail(operation, failure)
            return
        if context.state is Lifecycle.ACTIVE:
            context.shard.replay_end_transaction(marker.producer_id, is_commit=marker.is_commit)
        _answer(operation, ErrorCode.NONE)

    async def _write_group(self, context: _Context[S], group: list[_Operation[S]]) -> None:
        outcomes = [operation.outcome for operation in group if operation.outcome is not None]
        records = [record for outcome in outcomes for record in outcome.records]
        replays = outcomes[0].replays
        transaction = group[0].transaction
        verification = None if transaction is None else transaction.verification
        producer_id = NO_PRODUCER_ID if transaction is None else transaction.producer_id
        code = ErrorCode.NONE
        for chunk in self._chunks(records, is_atomic=all(outcome.is_atomic for outcome in outcomes)):
            try:
                batch = self._batch_of(chunk, context.partition, transaction)
                next_offset = await self._log.append(context.partition, batch, verification)
            except Exception as failure:  # a background job's border: the command fails, the shard goes on
                cause = self._append_error_code(failure)
                code = write_error_code(cause)
                logger.warning(
                    "coordinator append failed coordinator=%s partition=%d error=%s records=%d reason=%s",
                    self._name, context.partition, code.name, len(chunk), failure,
                    exc_info=failure if cause is ErrorCode.UNKNOWN_SERVER_ERROR else None,
                )  # fmt: skip
                break
            if context.state is not Lifecycle.ACTIVE:
                code = ErrorCode.NOT_COORDINATOR
                break
            if replays:
                for index, record in enumerate(chunk, start=next_offset - len(chunk)):
                    context.shard.replay(record, offset=index, producer_id=producer_id)
        for operation in group:
            _answer(operation, code)

    def _chunks(
        self, records: Sequence[CoordinatorRecord], *, is_atomic: bool
    ) -> Iterator[Sequence[CoordinatorRecord]]:
        if is_atomic or _size_of(records) <= self._max_batch_bytes:
            yield records
            return
        chunk: list[CoordinatorRecord] = []
        size_bytes = 0
        for record in records:
            record_bytes = _size_of((record,))
            if chunk and size_bytes + record_bytes > self._max_batch_bytes:
                yield chunk
                chunk, size_bytes = [], 0
            chunk.append(record)
            size_bytes += record_bytes
        yield chunk

    def _batch_of(
        self, records: Sequence[CoordinatorRecord], partition: int, transaction: InTransaction | None
    ) -> bytearray:
        now_ms = self._wall_clock_ms()
        rows = [(record.key, record.value, (), now_ms) for record in records]
        leader_epoch = self._log.leader_epoch(partition)
        if transaction is None:
            return build_batch(rows, leader_epoch=leader_epoch)
        return build_batch(
            rows,
            leader_epoch=leader_epoch,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            base_sequence=0,  # as in Kafka: nothing checks the sequences of a coordinator
            is_transactional=True,
        )

    def _log_failure(self, done: asyncio.Future[Any]) -> None:
        if not done.cancelled() and done.exception() is not None:
            logger.warning("coordinator command failed coordinator=%s error=%r", self._name, done.exception())

    # -- loading ----------------------------------------------------------------------------------------------------

    async def _load_all(self, contexts: Sequence[_Context[S]]) -> None:
        for context in contexts:
            try:
                await self._load(context)
            except Exception as failure:  # a background job's border: this partition stays out, the others load
                logger.error(
                    "coordinator load failed coordinator=%s partition=%d reason=%s",
                    self._name, context.partition, failure, exc_info=unexplained(failure),
                )  # fmt: skip
                if context.state is Lifecycle.LOADING:
                    context.state = Lifecycle.FAILED

    async def _load(self, context: _Context[S]) -> None:
        replayed = 0
        turn = 0
        async for batch in self._log.scan(context.partition):
            if context.state is not Lifecycle.LOADING:
                return
            count = self._replay_batch(context.shard, batch)
            replayed += count
            turn += count
            if turn >= LOAD_RECORDS_PER_TURN:
                turn = 0
                await asyncio.sleep(0)
        if context.state is not Lifecycle.LOADING:
            return
        context.state = Lifecycle.ACTIVE
        context.shard.on_loaded()
        if replayed:
            logger.info(
                "coordinator loaded coordinator=%s partition=%d records=%d", self._name, context.partition, replayed
            )

    def _replay_batch(self, shard: S, batch: memoryview) -> int:
        header = parse_header(batch)
        count = 0
        for record in iter_records(batch):
            count += 1
            if header.is_control:
                marker = record.key
                if header.is_transactional and marker is not None and len(marker) >= 4:
                    shard.replay_end_transaction(
                        header.producer_id, is_commit=int.from_bytes(marker[2:4], "big") == COMMIT_MARKER_TYPE
                    )
            elif record.key is not None:
                stored = CoordinatorRecord(bytes(record.key), None if record.value is None else bytes(record.value))
                producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
                shard.replay(stored, offset=record.offset, producer_id=producer_id)
        return count


COMMIT_MARKER_TYPE = 1
"""Second field of a control record's key: 0 aborts, 1 commits."""


def _no_records(shard: object) -> Outcome[None]:
    return Outcome(None)


def _run(shard: S, operation: _Operation[S]) -> bool:
    """Run a queued command; False when it was refused and its caller has been told."""
    try:
        operation.outcome = operation.command(shard)
    except Exception as refusal:
        _fail(operation, refusal)
        return False
    return True


def _answer(operation: _Operation[Any], code: ErrorCode) -> None:
    outcome = operation.outcome or Outcome(None)
    _conclude(outcome, code)
    if code is not ErrorCode.NONE:
        _fail(operation, WriteFailed(code))
    elif operation.done is not None and not operation.done.done():
        operation.done.set_result(outcome.response)


def _conclude(outcome: Outcome[Any], code: ErrorCode) -> None:
    if outcome.on_written is not None:
        outcome.on_written(code)


def _fail(operation: _Operation[Any], failure: Exception) -> None:
    if operation.done is not None and not operation.done.done():
        operation.done.set_exception(failure)
        # Looked at once here: whoever waited may be gone with its connection, which is no error worth a log line.
        operation.done.exception()


def _size_of(records: Sequence[CoordinatorRecord]) -> int:
    return sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in records)
