"""What happens to transactions over time: markers, failures, crashes, timeouts, expiry, partitions that move away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.api.errors import known_code
from broker.coordinator.errors import (
    CoordinatorError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    InvalidRegularExpression,
    NotCoordinator,
    WriteFailed,
)
from broker.coordinator.internal_topics import partition_for
from broker.coordinator.transaction.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionalRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdNotFound,
)
from broker.coordinator.transaction.listing import TransactionFilter
from broker.coordinator.transaction.state import Producer, TransactionState
from protocol.errors import ErrorCode
from storage.types import TopicPartition
from tests.sim.groups import StorageDown, settle
from tests.sim.transactions import TransactionRig, WrittenMarker

S = TransactionState
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


async def end(rig: TransactionRig, producer: Producer, *, is_commit: bool = True, version: int = 2) -> Producer:
    return await rig.coordinator.end("x", producer, is_commit=is_commit, client_version=version)


async def code_of(call: object) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refusal:
        await call  # type: ignore[misc]
    return known_code(refusal.value)


# -- markers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_commit", [True, False])
async def test_an_end_is_answered_when_decided_and_marked_in_every_partition(version: int, *, is_commit: bool) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0, T1, U0)
    rig.partitions.stall = asyncio.Event()
    after = await end(rig, producer, is_commit=is_commit, version=version)
    assert after == Producer(producer.producer_id, producer.epoch + (version >= 2))
    assert rig.state("x").state is (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
    assert rig.coordinator.completing_count == 1
    await settle()
    assert await code_of(end(rig, producer, is_commit=is_commit, version=version)) == 51
    assert await code_of(rig.coordinator.initialize("x", 1, None)) == 51
    assert await code_of(rig.coordinator.add_partitions("x", after, [TopicPartition("t", 2)])) == 51
    rig.partitions.stall.set()
    await settle()
    for tp in (T0, T1, U0):
        assert rig.markers(*tp) == [WrittenMarker(after.producer_id, after.epoch, is_commit, 3)]
    ended = rig.state("x")
    assert ended.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert ended.producer == after
    assert rig.coordinator.completing_count == 0
    assert await end(rig, producer, is_commit=is_commit, version=version) == after
    assert len(rig.markers(*T0)) == 1


@pytest.mark.parametrize("server_version", [0, 1])
async def test_a_cluster_at_an_older_level_keeps_the_epoch_of_newer_clients(server_version: int) -> None:
    rig = TransactionRig(server_version=server_version)
    producer = await rig.begin("x", T0, version=2)
    assert await end(rig, producer) == producer
    await settle()
    assert await end(rig, producer) == producer
    assert (rig.state("x").producer, rig.state("x").client_version) == (producer, 0)


async def test_two_ends_at_once_leave_one_marker() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    answers = await asyncio.gather(
        end(rig, producer), end(rig, producer), end(rig, producer, is_commit=False), return_exceptions=True
    )
    assert answers[0] == Producer(producer.producer_id, producer.epoch + 1)
    assert [type(one) for one in answers[1:]] == [ConcurrentTransactions] * 2
    await settle()
    assert len(rig.markers(*T0)) == 1


async def test_a_marker_is_tried_again_until_its_partition_takes_it() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0, T1)
    rig.partitions.failures[TopicPartition(*T1)] = StorageDown()
    await end(rig, producer)
    await rig.time.advance(60_000)
    assert rig.state("x").state is S.PREPARE_COMMIT
    assert rig.coordinator.retrying_count == 1
    assert len(rig.markers(*T0)) == 1
    assert rig.partitions.attempts < 25
    rig.partitions.failures.clear()
    await rig.time.advance(5_000)
    assert rig.state("x").state is S.COMPLETE_COMMIT
    assert len(rig.markers(*T1)) == 1
    assert rig.coordinator.retrying_count == 0


async def test_a_deleted_topic_needs_no_marker() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0, U0)
    rig.partitions.failures[TopicPartition(*U0)] = StorageDown()
    await end(rig, producer)
    await rig.time.advance(500)
    assert rig.state("x").state is S.PREPARE_COMMIT
    del rig.topics["u"]
    await rig.time.advance(5_000)
    assert rig.state("x").state is S.COMPLETE_COMMIT
    assert rig.markers(*U0) == []


async def test_a_decision_that_is_not_written_is_none() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    rig.log.failure = StorageDown()
    assert await code_of(end(rig, producer)) == ErrorCode.NOT_COORDINATOR
    assert rig.state("x").state is S.ONGOING
    assert await code_of(rig.coordinator.initialize("x", 1, None)) == ErrorCode.NOT_COORDINATOR
    rig.log.failure = None
    await end(rig, producer)
    await settle()
    assert rig.markers(*T0) == [WrittenMarker(producer.producer_id, producer.epoch + 1, True, 3)]


@pytest.mark.parametrize("failure", [RuntimeError("no space"), StorageDown()])
async def test_the_end_is_written_again_when_the_log_would_not_take_it(failure: Exception) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    rig.partitions.stall = asyncio.Event()
    await end(rig, producer)
    rig.log.failure = failure
    rig.partitions.stall.set()
    await rig.time.advance(1_000)
    assert rig.state("x").state is S.PREPARE_COMMIT
    assert len(rig.markers(*T0)) == 1
    rig.log.failure = None
    await rig.time.advance(5_000)
    assert rig.state("x").state is S.COMPLETE_COMMIT
    assert len(rig.markers(*T0)) == 1


# -- restarts and moves -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_decided_transaction_is_completed_after_a_crash_with_one_marker_a_partition(
    version: int, *, is_commit: bool
) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0, T1)
    rig.partitions.failures[TopicPartition(*T1)] = StorageDown()
    after = await end(rig, producer, is_commit=is_commit, version=version)
    await settle()
    assert len(rig.markers(*T0)) == 1
    again = rig.restarted()
    again.partitions.failures.clear()
    await settle()
    assert again.state("x").state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert again.state("x").producer == after
    assert [one.is_commit for one in again.markers(*T1)] == [is_commit]
    if version >= 2:
        assert [one.is_commit for one in again.markers(*T0)] == [is_commit]


async def test_an_open_transaction_goes_on_after_a_crash() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    before = rig.state("x")
    again = rig.restarted()
    assert again.state("x") == before
    await again.coordinator.add_partitions("x", producer, [TopicPartition(*T1)])
    await end(again, producer)
    await settle()
    assert len(again.markers(*T0)) == len(again.markers(*T1)) == 1


async def test_used_up_epochs_are_used_up_after_a_crash_in_the_middle() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    while producer.epoch < 32_766:
        # Every epoch in turn would take long; the log has the last word on where we are.
        shard = rig.coordinator._runtime.read(partition_for("x", 4))
        shard.transactions["x"] = rig.state("x")._replace(producer_epoch=32_766)
        producer = rig.state("x").producer
    rig.partitions.stall = asyncio.Event()
    after = await end(rig, producer)
    assert after.epoch == 0
    assert after.producer_id != producer.producer_id
    again = rig.restarted()
    again.partitions.stall = None
    await settle()
    assert again.state("x").producer == after
    assert again.markers(*T0) == [WrittenMarker(producer.producer_id, 32_767, True, 3)]
    assert await end(again, producer) == after


async def test_a_partition_that_is_led_elsewhere_is_let_go_of_with_its_markers() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    rig.partitions.failures[TopicPartition(*T0)] = StorageDown()
    await end(rig, producer)
    rig.coordinator.serve(4, ())
    attempts = rig.partitions.attempts
    await rig.time.advance(60_000)
    assert rig.partitions.attempts == attempts
    assert rig.coordinator.completing_count == 0
    assert not rig.coordinator.is_led("x")
    with pytest.raises(NotCoordinator):
        await end(rig, producer)
    rig.partitions.failures.clear()
    rig.coordinator.serve(4, range(4))
    await settle()
    assert rig.state("x").state is S.COMPLETE_COMMIT


async def test_a_write_that_ends_after_its_partition_has_gone_is_not_confirmed() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    rig.log.stall = asyncio.Event()
    call = asyncio.ensure_future(end(rig, producer))
    await settle()
    rig.coordinator.serve(4, ())
    rig.log.stall.set()
    with pytest.raises(WriteFailed):
        await call
    assert rig.markers(*T0) == []
    rig.log.stall = None
    rig.coordinator.serve(4, range(4))
    await settle()
    assert len(rig.markers(*T0)) == 1


async def test_nothing_is_served_without_a_topic_while_loading_or_after_the_stop() -> None:
    rig = TransactionRig(is_started=False)
    with pytest.raises(NotCoordinator):
        await rig.coordinator.initialize("x", 1, None)
    assert await rig.coordinator.list(TransactionFilter()) == []
    assert await rig.coordinator.ensure_topic()
    await rig.coordinator.initialize("x", 1, None)
    rig.coordinator.close()
    with pytest.raises(CoordinatorNotAvailable):
        await rig.coordinator.initialize("x", 1, None)
    with pytest.raises(CoordinatorNotAvailable):
        await rig.coordinator.list(TransactionFilter())


async def test_a_long_log_is_loaded_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.coordinator.loader.LOAD_RECORDS_PER_TURN", 2)
    rig = TransactionRig(partition_count=1)
    for number in range(5):
        await rig.begin(f"x{number}")
    again = rig.restarted()
    with pytest.raises(CoordinatorLoading):
        again.coordinator.describe("x0")
    with pytest.raises(CoordinatorLoading):
        await again.coordinator.list(TransactionFilter())
    await settle()
    assert len(await again.coordinator.list(TransactionFilter())) == 5


# -- producers --------------------------------------------------------------------------------------------------------


async def test_initializing_over_an_open_transaction_aborts_it_first() -> None:
    rig = TransactionRig()
    first = await rig.begin("x", T0)
    assert await code_of(rig.coordinator.initialize("x", 1_000, None)) == 51
    await settle()
    assert rig.state("x").state is S.COMPLETE_ABORT
    assert rig.markers(*T0) == [WrittenMarker(first.producer_id, first.epoch + 1, False, 3)]
    second = await rig.coordinator.initialize("x", 1_000, None)
    assert second == Producer(first.producer_id, first.epoch + 2)
    with pytest.raises(ProducerFenced):
        await end(rig, first)
    with pytest.raises(ProducerFenced):
        await rig.coordinator.add_partitions("x", first, [TopicPartition(*T0)])


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_timeouts_out_of_bounds_are_refused(timeout_ms: int) -> None:
    rig = TransactionRig()
    with pytest.raises(InvalidTransactionTimeout):
        await rig.coordinator.initialize("x", timeout_ms, None)
    with pytest.raises(InvalidTransactionalRequest):
        await rig.coordinator.initialize("", timeout_ms, None)


async def test_many_ids_at_once_share_their_batches() -> None:
    rig = TransactionRig(partition_count=1)
    producers = await asyncio.gather(*(rig.coordinator.initialize(f"x{n}", 1, None) for n in range(50)))
    assert len({one.producer_id for one in producers}) == 50
    assert rig.log.batch_count() < 15


async def test_the_same_id_twice_in_one_batch_is_given_to_one() -> None:
    rig = TransactionRig()
    rig.log.stall = asyncio.Event()
    asked = [asyncio.ensure_future(rig.coordinator.initialize("x", 1, None)) for _ in range(3)]
    await settle()
    rig.log.stall.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    # The first has a batch of its own, and is fenced by the second; the third meets the second being written.
    assert [type(one).__name__ for one in answers] == ["Producer", "Producer", "ConcurrentTransactions"]
    assert answers[0] != answers[1]


# -- verification -----------------------------------------------------------------------------------------------------


async def test_verification_adds_nothing_unless_asked_to() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", T0)
    t0, t1 = TopicPartition(*T0), TopicPartition(*T1)
    verify = rig.coordinator.verify
    assert await verify("x", *producer, [t0, t1], add=False) == {t0: 0, t1: ErrorCode.TRANSACTION_ABORTABLE}
    assert await verify("x", *producer, [t0, t1], add=True) == {t0: 0, t1: 0}
    assert rig.state("x").partitions == {t0, t1}
    assert await verify("x", *producer, [t1], add=False) == {t1: 0}
    for add in (True, False):
        assert await verify("x", producer.producer_id, 9, [t0], add=add) == {t0: ErrorCode.PRODUCER_FENCED}
        assert await verify("y", *producer, [t0], add=add) == {t0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert await verify("", *producer, [t0], add=add) == {t0: ErrorCode.INVALID_REQUEST}
    rig.coordinator.close()
    assert await verify("x", *producer, [t0], add=True) == {t0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server_version", [0, 2])
async def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(server_version: int) -> None:
    rig = TransactionRig(server_version=server_version)
    producer = await rig.coordinator.initialize("x", 25_000, None)
    await rig.coordinator.add_partitions("x", producer, [TopicPartition(*T0)])
    await rig.time.advance(20_000)
    await rig.coordinator.add_partitions("x", producer, [TopicPartition(*T1)])
    assert rig.state("x").state is S.ONGOING
    await rig.time.advance(10_000)
    assert rig.state("x").state is S.COMPLETE_ABORT
    assert rig.coordinator.timed_out_count == 1
    for tp in (T0, T1):
        assert rig.markers(*tp) == [WrittenMarker(producer.producer_id, producer.epoch + 1, False, 3)]
    with pytest.raises(ProducerFenced):
        await end(rig, producer, version=0)
    with pytest.raises(ProducerFenced):
        await rig.coordinator.add_partitions("x", producer, [TopicPartition(*T0)])


async def test_a_timeout_runs_on_over_a_restart() -> None:
    rig = TransactionRig()
    producer = await rig.coordinator.initialize("x", 25_000, None)
    await rig.coordinator.add_partitions("x", producer, [TopicPartition(*T0)])
    await rig.time.advance(9_000)
    again = rig.restarted()
    await again.time.advance(20_001)
    assert again.state("x").state is S.COMPLETE_ABORT


async def test_a_timeout_that_could_not_be_written_comes_with_the_next_search() -> None:
    rig = TransactionRig(abort_interval_ms=1_000)
    producer = await rig.coordinator.initialize("x", 500, None)
    await rig.coordinator.add_partitions("x", producer, [TopicPartition(*T0)])
    rig.log.failure = StorageDown()
    await rig.time.advance(3_500)
    assert rig.state("x").state is S.ONGOING
    rig.log.failure = None
    await rig.time.advance(1_000)
    assert rig.state("x").state is S.COMPLETE_ABORT
    assert rig.markers(*T0)[0].producer_epoch == producer.epoch + 1


async def test_idle_ids_are_forgotten_for_good_and_others_stay() -> None:
    rig = TransactionRig(id_expiration_ms=10_000, expire_interval_ms=4_000)
    idle = await rig.begin("idle")
    await rig.begin("ended", T0)
    await rig.coordinator.end("ended", rig.state("ended").producer, is_commit=True, client_version=2)
    await rig.begin("open", T1)
    await rig.time.advance(12_001)
    for is_restarted in (False, True):
        rig_now = rig.restarted() if is_restarted else rig
        await settle()
        for gone in ("idle", "ended"):
            with pytest.raises(TransactionalIdNotFound):
                rig_now.coordinator.describe(gone)
        assert rig_now.state("open").state is S.ONGOING
        with pytest.raises(InvalidProducerIdMapping):
            await rig_now.coordinator.add_partitions("idle", idle, [TopicPartition(*T0)])


async def test_ids_whose_tombstones_are_not_written_stay() -> None:
    rig = TransactionRig(id_expiration_ms=1_000, expire_interval_ms=2_000)
    await rig.begin("x")
    rig.log.failure = StorageDown()
    await rig.time.advance(2_500)
    assert rig.state("x").state is S.EMPTY
    rig.log.failure = None
    await rig.begin("x")
    assert rig.state("x").producer_epoch == 1


# -- operators --------------------------------------------------------------------------------------------------------


async def test_a_pattern_that_backtracks_for_ever_costs_next_to_nothing() -> None:
    rig = TransactionRig()
    await rig.begin("a" * 60)
    assert await rig.coordinator.list(TransactionFilter(), "(a|aa)+b") == []
    assert len(await rig.coordinator.list(TransactionFilter(), "(a|aa)+")) == 1


async def test_listing_filters_by_state_producer_duration_and_pattern() -> None:
    rig = TransactionRig()
    await rig.begin("a-1", T0)
    await rig.time.advance(1_000)
    await rig.begin("a-2", T0)
    b = await rig.begin("b")

    async def listed(*args: Any, pattern: str = "") -> list[str]:
        return sorted(one.transactional_id for one in await rig.coordinator.list(TransactionFilter(*args), pattern))

    assert await listed() == ["a-1", "a-2", "b"]
    assert await listed(["Ongoing"]) == ["a-1", "a-2"]
    assert await listed(["Ongoing", "Empty"]) == ["a-1", "a-2", "b"]
    assert await listed(["Nonsense"]) == []
    assert await listed(["Ongoing", "Nonsense"]) == ["a-1", "a-2"]
    assert await listed((), [b.producer_id, 1]) == ["b"]
    assert await listed((), (), 999) == ["a-1", "b"]
    assert await listed((), (), 1_000) == ["b"]
    assert await listed(pattern="a-.") == ["a-1", "a-2"]
    assert await listed(pattern="a") == []
    with pytest.raises(
        InvalidRegularExpression, match=r"Transaction ID pattern `a\(` is not a valid regular expression"
    ):
        await listed(pattern="a(")
    assert TransactionFilter(["Dead", "PrepareEpochFence", "dead"]).unknown_states() == ["dead"]
    assert rig.coordinator.count_by_state() == {"Ongoing": 2, "Empty": 1}
