"""The runtime: load, one command at a time, shared batches, answers only after the append, failures without a trace."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.coordinator.errors import CoordinatorLoading, NotCoordinator, WriteFailed
from broker.coordinator.runtime import WRITES_ALONE, CoordinatorRuntime
from broker.coordinator.shard import CoordinatorRecord, Outcome
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from tests.sim.groups import CODES, BatchTooLarge, MemoryLog, StorageDown, Tasks, settle


class ListShard:
    """Remembers what was replayed."""

    def __init__(self, partition: int) -> None:
        self.seen: list[tuple[bytes, bytes | None]] = []
        self.offsets: list[int] = []
        self.markers: list[tuple[int, bool]] = []
        self.producer_ids: list[int] = []
        self.is_loaded = False
        self.is_unloaded = False

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        self.seen.append((record.key, record.value))
        self.offsets.append(offset)
        self.producer_ids.append(producer_id)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.markers.append((producer_id, is_commit))

    def on_loaded(self) -> None:
        self.is_loaded = True

    def on_unloaded(self) -> None:
        self.is_unloaded = True

    def write(self, *keys: str, atomic: bool = True) -> Outcome[int]:
        records = [CoordinatorRecord(key.encode(), b"v") for key in keys]
        return Outcome(len(self.seen), records, is_atomic=atomic)


def make_runtime(log: MemoryLog, *, max_batch_bytes: int = 1_000_000) -> CoordinatorRuntime[ListShard]:
    return CoordinatorRuntime(
        "test",
        log,
        Tasks(),
        lambda: 1000,
        lambda: 0.0,
        lambda failure: CODES.get(type(failure), ErrorCode.UNKNOWN_SERVER_ERROR),
        ListShard,
        max_batch_bytes=max_batch_bytes,
    )


async def test_a_command_without_records_is_answered_at_once() -> None:
    runtime = make_runtime(MemoryLog())
    runtime.load([0])
    assert runtime.execute_now(0, lambda shard: Outcome("done")) == "done"


async def test_a_write_is_answered_and_applied_only_after_the_append() -> None:
    log = MemoryLog()
    log.stall = asyncio.Event()
    runtime = make_runtime(log)
    runtime.load([0])
    write = asyncio.ensure_future(runtime.execute(0, lambda shard: shard.write("a")))
    await settle()
    assert not write.done()
    assert runtime.read(0).seen == []
    log.stall.set()
    assert await write == 0
    assert runtime.read(0).seen == [(b"a", b"v")]
    assert [record.key for record in log.records()] == [b"a"]


async def test_a_write_into_a_log_that_takes_it_at_once_is_answered_at_once() -> None:
    log = MemoryLog()
    runtime = make_runtime(log)
    runtime.load([0])
    assert runtime.execute_now(0, lambda shard: shard.write("a")) == 0
    assert runtime.execute_now(0, lambda shard: shard.write("b")) == 1
    assert log.batch_count() == 2


async def test_combined_commands_behind_a_write_share_one_batch() -> None:
    log = MemoryLog()
    log.stall = asyncio.Event()
    runtime = make_runtime(log)
    runtime.load([0])
    keys = [f"k{n}" for n in range(100)]
    writes = [
        asyncio.ensure_future(runtime.execute(0, lambda shard, k=key: shard.write(k), is_combinable=True))
        for key in keys
    ]
    await settle()
    log.stall.set()
    await asyncio.gather(*writes)
    assert log.batch_count() == 2
    assert [key.decode() for key, _ in runtime.read(0).seen] == keys


async def test_a_client_that_is_alone_gathers_nothing_for_a_while() -> None:
    log = MemoryLog()
    runtime = make_runtime(log)
    runtime.load([0])

    def write(key: str) -> object:
        return runtime.execute_now(0, lambda shard: shard.write(key), is_combinable=True)

    write("a")
    waited = write("b")
    assert isinstance(waited, asyncio.Future)
    await waited
    results = [write(f"k{n}") for n in range(WRITES_ALONE + 2)]
    assert [isinstance(result, asyncio.Future) for result in results] == [False] * (WRITES_ALONE + 1) + [True]
    await results[-1]  # type: ignore[misc]


async def test_a_command_that_does_not_combine_keeps_its_place_behind_those_that_gather() -> None:
    log = MemoryLog()
    runtime = make_runtime(log)
    runtime.load([0])
    runtime.execute_now(0, lambda shard: shard.write("a"), is_combinable=True)
    gathering = runtime.execute_now(0, lambda shard: shard.write("b"), is_combinable=True)
    behind = runtime.execute_now(0, lambda shard: shard.write("c"))
    assert isinstance(gathering, asyncio.Future)
    assert isinstance(behind, asyncio.Future)
    assert await behind == 2
    assert [record.key for record in log.records()] == [b"a", b"b", b"c"]
    # The turn is over: the next one of its kind need not wait.
    assert runtime.execute_now(0, lambda shard: shard.write("d"), is_combinable=True) == 3


async def test_a_shard_that_fails_sends_everybody_away_and_serves_nobody_any_more() -> None:
    log = MemoryLog()
    log.stall = asyncio.Event()
    runtime = make_runtime(log)
    runtime.load([0])

    def break_replay(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    shard = runtime.read(0)
    shard.replay = break_replay  # type: ignore[method-assign]
    written = asyncio.ensure_future(runtime.execute(0, lambda shard: shard.write("a")))
    queued = asyncio.ensure_future(runtime.execute(0, lambda shard: shard.write("b")))
    await settle()
    log.stall.set()
    for waiting in (written, queued):
        with pytest.raises(NotCoordinator):
            await waiting
    with pytest.raises(NotCoordinator):
        runtime.read(0)
    assert shard.is_unloaded, "whoever is parked there has to look for another one"


async def test_commands_behind_a_write_wait_and_see_its_effect() -> None:
    log = MemoryLog()
    log.stall = asyncio.Event()
    runtime = make_runtime(log)
    runtime.load([0])
    first = asyncio.ensure_future(runtime.execute(0, lambda shard: shard.write("a")))
    second = asyncio.ensure_future(runtime.execute(0, lambda shard: Outcome(len(shard.seen))))
    await settle()
    assert not second.done()
    log.stall.set()
    assert await first == 0
    assert await second == 1


async def test_combined_commands_of_one_turn_share_a_batch_after_the_first() -> None:
    log = MemoryLog()
    runtime = make_runtime(log)
    runtime.load([0])
    keys = [f"k{n}" for n in range(100)]
    await asyncio.gather(*(runtime.execute(0, lambda shard, k=key: shard.write(k), is_combinable=True) for key in keys))
    assert log.batch_count() == 2
    assert [key.decode() for key, _ in runtime.read(0).seen] == keys
    assert runtime.read(0).offsets == list(range(100))


async def test_other_commands_split_the_shared_batch_and_keep_their_place() -> None:
    log = MemoryLog()
    runtime = make_runtime(log)
    runtime.load([0])
    results = await asyncio.gather(
        runtime.execute(0, lambda shard: shard.write("a"), is_combinable=True),
        runtime.execute(0, lambda shard: shard.write("b"), is_combinable=True),
        runtime.execute(0, lambda shard: Outcome(len(shard.seen))),
        runtime.execute(0, lambda shard: shard.write("c")),
        runtime.execute(0, lambda shard: shard.write("d"), is_combinable=True),
    )
    assert results[2] == 2
    assert log.batch_count() == 4
    assert [record.key for record in log.records()] == [b"a", b"b", b"c", b"d"]


async def test_a_refused_command_in_a_shared_batch_hurts_only_itself() -> None:
    log = MemoryLog()
    runtime = make_runtime(log)
    runtime.load([0])

    def refuse(shard: ListShard) -> Outcome[int]:
        raise NotCoordinator

    results = await asyncio.gather(
        runtime.execute(0, lambda shard: shard.write("a"), is_combinable=True),
        runtime.execute(0, refuse, is_combinable=True),
        runtime.execute(0, lambda shard: shard.write("b"), is_combinable=True),
        return_exceptions=True,
    )
    assert isinstance(results[1], NotCoordinator)
    assert [record.key for record in log.records()] == [b"a", b"b"]
    assert log.batch_count() == 2


async def test_a_failed_append_changes_nothing_and_the_shard_goes_on() -> None:
    log = MemoryLog()
    log.failure = StorageDown()
    runtime = make_runtime(log)
    runtime.load([0])
    told: list[ErrorCode] = []

    def command(shard: ListShard) -> Outcome[int]:
        outcome = shard.write("a")
        outcome.on_written = told.append
        return outcome

    with pytest.raises(WriteFailed) as failure:
        await runtime.execute(0, command)
    assert failure.value.told is ErrorCode.NOT_COORDINATOR
    assert told == [ErrorCode.NOT_COORDINATOR]
    assert runtime.read(0).seen == []
    log.failure = None
    assert await runtime.execute(0, command) == 0
    assert told[-1] is ErrorCode.NONE


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (StorageDown(), ErrorCode.NOT_COORDINATOR),
        (BatchTooLarge(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (OSError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_errors_of_an_append_are_told_as_coordinator_errors(failure: Exception, code: ErrorCode) -> None:
    log = MemoryLog()
    log.failure = failure
    runtime = make_runtime(log)
    runtime.load([0])
    with pytest.raises(WriteFailed) as told:
        await runtime.execute(0, lambda shard: shard.write("a"))
    assert told.value.told is code


@pytest.mark.parametrize(("failure", "is_ours"), [(StorageDown("the disk is gone"), False), (OSError("?"), True)])
async def test_an_append_that_fails_is_logged_with_a_traceback_only_if_nobody_knows_the_failure(
    failure: Exception, is_ours: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = MemoryLog()
    log.failure = failure
    runtime = make_runtime(log)
    runtime.load([0])
    with pytest.raises(WriteFailed):
        await runtime.execute(0, lambda shard: shard.write("a"))
    [record] = caplog.records
    assert f"reason={failure}" in record.getMessage()
    assert (record.exc_info is not None) == is_ours


@pytest.mark.parametrize(("failure", "is_ours"), [(StorageFailure("the disk is gone"), False), (KeyError("?"), True)])
async def test_a_load_that_fails_is_logged_with_a_traceback_only_if_the_fault_is_ours(
    failure: Exception, is_ours: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scan(log: MemoryLog, partition: int) -> AsyncIterator[memoryview]:
        raise failure
        yield

    monkeypatch.setattr(MemoryLog, "scan", scan)
    runtime = make_runtime(MemoryLog())
    runtime.load([0])
    [record] = caplog.records
    assert f"reason={failure}" in record.getMessage()
    assert (record.exc_info is not None) == is_ours
    with pytest.raises(NotCoordinator):
        runtime.read(0)


async def test_mass_deletions_are_spread_over_batches_of_bounded_size() -> None:
    log = MemoryLog()
    runtime = make_runtime(log, max_batch_bytes=400)
    runtime.load([0])
    await runtime.execute(0, lambda shard: shard.write(*(f"key-{n}" for n in range(40)), atomic=False))
    assert log.batch_count() > 3
    assert all(len(batch) < 600 for batch in log.batches[0])
    assert runtime.read(0).offsets == list(range(40))


async def test_a_large_partition_loads_in_turns_and_refuses_commands_meanwhile() -> None:
    log = MemoryLog()
    for start in range(0, 6000, 500):
        records = [(f"k{start + n}".encode(), b"v", (), 5) for n in range(500)]
        await log.append(1, build_batch(records))
    runtime = make_runtime(log)
    runtime.load([0, 1])
    assert runtime.is_loading
    assert runtime.active_partitions() == [0]
    with pytest.raises(CoordinatorLoading):
        runtime.read(1)
    with pytest.raises(CoordinatorLoading):
        await runtime.execute(1, lambda shard: shard.write("x"))
    await settle()
    assert runtime.active_partitions() == [0, 1]
    assert runtime.read(1).is_loaded
    assert runtime.read(1).offsets == list(range(6000))
    assert len(runtime.read(1).seen) == 6000


async def test_loading_tells_transactional_records_and_their_markers() -> None:
    log = MemoryLog()
    await log.append(0, build_batch([(b"p", b"v", (), 5)], producer_id=9, producer_epoch=0, is_transactional=True))
    for kind in (1, 0):
        marker = (0).to_bytes(2, "big") + kind.to_bytes(2, "big")
        await log.append(
            0,
            build_batch(
                [(marker, b"\x00" * 6, (), 5)], producer_id=9, producer_epoch=0, is_transactional=True, is_control=True
            ),
        )
    runtime = make_runtime(log)
    runtime.load([0])
    assert runtime.read(0).producer_ids == [9]
    assert runtime.read(0).markers == [(9, True), (9, False)]


async def test_a_partition_that_cannot_be_read_stays_out_and_the_others_load() -> None:
    log = MemoryLog()
    log.batches[0] = [b"not a batch"]
    runtime = make_runtime(log)
    runtime.load([0, 1])
    assert runtime.active_partitions() == [1]
    with pytest.raises(NotCoordinator):
        runtime.read(0)


async def test_a_shard_that_fails_after_its_load_serves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(shard: ListShard) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ListShard, "on_loaded", fail)
    runtime = make_runtime(MemoryLog())
    runtime.load([0])
    assert runtime.count_by_state() == {"failed": 1}
    assert runtime.active_partitions() == []


async def test_unloading_refuses_what_is_queued_and_what_comes() -> None:
    log = MemoryLog()
    log.stall = asyncio.Event()
    runtime = make_runtime(log)
    runtime.load([0])
    shard = runtime.read(0)
    written = asyncio.ensure_future(runtime.execute(0, lambda s: s.write("a")))
    queued = asyncio.ensure_future(runtime.execute(0, lambda s: s.write("b")))
    await settle()
    runtime.unload(0)
    assert shard.is_unloaded
    with pytest.raises(NotCoordinator):
        await queued
    log.stall.set()
    with pytest.raises(WriteFailed):
        await written
    assert shard.seen == []
    with pytest.raises(NotCoordinator):
        await runtime.execute(0, lambda s: s.write("c"))
