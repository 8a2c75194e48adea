"""InitProducerId with an id, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and FindCoordinator over every version."""

from __future__ import annotations

import pytest

from broker.coordinator.transaction.state import Producer, TransactionState
from protocol.errors import ErrorCode as E
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.types import TopicPartition
from tests.sim.groups import NODE_ID, settle
from tests.sim.transactions import TransactionRig

S = TransactionState


async def initialize(rig: TransactionRig, version: int, **fields: object) -> tuple[int, int, int]:
    request = InitProducerIdRequest(**{"transactional_id": "x", "transaction_timeout_ms": 60_000, **fields})
    answer = await rig.call(request, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


async def add(
    rig: TransactionRig,
    version: int,
    producer: Producer,
    topics: dict[str, list[int]],
    *,
    transactional_id: str = "x",
    verify_only: bool = False,
) -> dict[tuple[str, int], int]:
    asked = [AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=asked,
        )
        results = (await rig.call(request, version)).results_by_topic_v3_and_below
    else:
        one = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify_only,
            topics=asked,
        )
        answer = await rig.call(AddPartitionsToTxnRequest(transactions=[one]), version)
        assert answer.error_code == 0
        (result,) = answer.results_by_transaction
        assert result.transactional_id == transactional_id
        results = result.topic_results
    return {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in results
        for one in topic.results_by_partition
    }


async def end(rig: TransactionRig, version: int, producer: Producer, *, committed: bool = True) -> tuple[int, int, int]:
    request = EndTxnRequest(
        transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=committed
    )
    answer = await rig.call(request, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


# -- producers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
async def test_a_transactional_id_keeps_its_producer_id_and_gets_epoch_after_epoch(version: int) -> None:
    rig = TransactionRig()
    assert [await initialize(rig, version) for _ in range(3)] == [(0, 1_000, 0), (0, 1_000, 1), (0, 1_000, 2)]
    assert await initialize(rig, version, transactional_id="y") == (0, 1_001, 0)


@pytest.mark.parametrize("version", range(6))
async def test_what_producers_ask_wrongly(version: int) -> None:
    rig = TransactionRig()
    assert await initialize(rig, version, transactional_id="") == (E.INVALID_REQUEST, -1, -1)
    for timeout_ms in (0, -1, 900_001):
        answer = await initialize(rig, version, transaction_timeout_ms=timeout_ms)
        assert answer == (E.INVALID_TRANSACTION_TIMEOUT, -1, -1)
    assert (await initialize(rig, version, transaction_timeout_ms=900_000))[0] == 0
    if version >= 3:
        assert (await initialize(rig, version, producer_id=5))[0] == E.INVALID_REQUEST
        assert (await initialize(rig, version, producer_epoch=5))[0] == E.INVALID_REQUEST


@pytest.mark.parametrize(("version", "code"), [(3, 47), (4, 90), (5, 90)])
async def test_a_stale_producer_that_goes_on_is_fenced(version: int, code: int) -> None:
    rig = TransactionRig()
    assert await initialize(rig, version) == (0, 1_000, 0)
    assert await initialize(rig, version, producer_id=1_000, producer_epoch=0) == (0, 1_000, 1)
    assert await initialize(rig, version, producer_id=1_000, producer_epoch=0) == (0, 1_000, 1)
    assert await initialize(rig, version) == (0, 1_000, 2)
    assert await initialize(rig, version, producer_id=1_000, producer_epoch=1) == (code, -1, -1)
    assert await initialize(rig, version, producer_id=77, producer_epoch=2) == (code, -1, -1)


@pytest.mark.parametrize("version", range(6))
async def test_an_open_transaction_makes_the_next_holder_wait(version: int) -> None:
    rig = TransactionRig()
    await rig.begin("x", ("t", 0))
    assert await initialize(rig, version) == (E.CONCURRENT_TRANSACTIONS, -1, -1)
    await settle()
    assert await initialize(rig, version) == (0, 1_000, 2)


async def test_without_a_topic_nobody_coordinates() -> None:
    rig = TransactionRig(is_started=False)
    assert await initialize(rig, 5) == (E.NOT_COORDINATOR, -1, -1)


# -- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added_and_adding_again_is_a_success(version: int) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x")
    for _ in range(2):
        codes = await add(rig, version, producer, {"t": [0, 2, 0], "u": [1]})
        assert codes == {("t", 0): 0, ("t", 2): 0, ("u", 1): 0}
    assert rig.state("x").partitions == {("t", 0), ("t", 2), ("u", 1)}
    assert rig.state("x").state is S.ONGOING
    assert rig.state("x").client_version == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", range(6))
async def test_one_missing_partition_spoils_the_addition(version: int) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x")
    codes = await add(rig, version, producer, {"t": [0, 3], "nope": [0], "u": [-1]})
    not_there = E.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {
        ("t", 0): E.OPERATION_NOT_ATTEMPTED,
        ("t", 3): not_there,
        ("nope", 0): not_there,
        ("u", -1): not_there,
    }
    assert rig.state("x").state is S.EMPTY


@pytest.mark.parametrize("version", range(6))
async def test_strangers_add_nothing(version: int) -> None:
    rig = TransactionRig()
    await rig.begin("x")
    producer = await rig.begin("x")
    stale = Producer(producer.producer_id, 0)
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert await add(rig, version, stale, {"t": [0, 1]}) == {("t", 0): fenced, ("t", 1): fenced}
    mapping = {("t", 0): E.INVALID_PRODUCER_ID_MAPPING}
    assert await add(rig, version, Producer(5, 1), {"t": [0]}) == mapping
    assert await add(rig, version, producer, {"t": [0]}, transactional_id="y") == mapping
    assert await add(rig, version, producer, {"t": [0]}, transactional_id="") == {("t", 0): E.INVALID_REQUEST}
    assert rig.state("x").state is S.EMPTY


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_only_verify_when_they_say_so_and_for_many_transactions(version: int) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", ("t", 0))
    codes = await add(rig, version, producer, {"t": [0, 1]}, verify_only=True)
    assert codes == {("t", 0): 0, ("t", 1): E.TRANSACTION_ABORTABLE}
    stale = Producer(producer.producer_id, 9)
    assert await add(rig, version, stale, {"t": [0]}, verify_only=True) == {("t", 0): E.PRODUCER_FENCED}
    other = await rig.begin("y")
    asked = [
        AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            verify_only=False,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[1])],
        )
        for name, who in (("x", producer), ("y", other), ("z", other))
    ]
    answer = await rig.call(AddPartitionsToTxnRequest(transactions=asked), version)
    codes_by_id = {
        one.transactional_id: one.topic_results[0].results_by_partition[0].partition_error_code
        for one in answer.results_by_transaction
    }
    assert codes_by_id == {"x": 0, "y": 0, "z": E.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("version", range(5))
async def test_a_group_s_offsets_join_as_the_partition_that_keeps_them(version: int) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x")

    async def add_offsets(producer: Producer, transactional_id: str = "x") -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="g",
        )
        return int((await rig.call(request, version)).error_code)

    assert await add_offsets(producer) == 0
    assert rig.groups.created == ["__consumer_offsets"]
    partition = TopicPartition("__consumer_offsets", rig.groups.coordinator.partition_of("g"))
    assert rig.state("x").partitions == {partition}
    assert await add_offsets(producer) == 0
    assert await add_offsets(Producer(1, 0)) == E.INVALID_PRODUCER_ID_MAPPING
    assert await add_offsets(producer, "") == E.INVALID_REQUEST
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert await add_offsets(Producer(producer.producer_id, 9)) == fenced


async def test_offsets_do_not_join_without_their_topic() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x")
    rig.groups.creation_failure = RuntimeError("no directory")
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="g"
    )
    assert (await rig.call(request, 4)).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert rig.state("x").state is S.EMPTY


# -- end --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_an_end_of_an_older_client_keeps_the_epoch(version: int) -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", ("t", 0))
    assert (await end(rig, version, producer))[0] == 0
    await settle()
    assert rig.state("x").producer == producer
    assert (await end(rig, version, producer))[0] == 0
    assert (await end(rig, version, producer, committed=False))[0] == E.INVALID_TXN_STATE
    assert (await end(rig, version, Producer(5, 0)))[0] == E.INVALID_PRODUCER_ID_MAPPING
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert (await end(rig, version, Producer(producer.producer_id, 5)))[0] == fenced


async def test_an_end_of_a_newer_client_tells_the_next_epoch() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", ("t", 0))
    assert await end(rig, 5, producer) == (0, producer.producer_id, 1)
    await settle()
    assert await end(rig, 5, producer) == (0, producer.producer_id, 1)
    assert await end(rig, 5, producer, committed=False) == (E.INVALID_TXN_STATE, -1, -1)
    assert await end(rig, 5, Producer(producer.producer_id, 1), committed=False) == (0, producer.producer_id, 2)
    assert await end(rig, 5, Producer(producer.producer_id, 7)) == (E.CONCURRENT_TRANSACTIONS, -1, -1)
    await settle()
    assert await end(rig, 5, Producer(producer.producer_id, 7)) == (E.PRODUCER_FENCED, -1, -1)


# -- finding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
async def test_looking_for_the_coordinator_of_an_id_creates_its_topic(version: int) -> None:
    rig = TransactionRig(is_started=False)
    request = FindCoordinatorRequest(key="x", key_type=1, coordinator_keys=["x", "y"])
    answer = await rig.call(request, version)
    for one in [answer] if version < 4 else answer.coordinators:
        assert (one.error_code, one.node_id, one.host) == (0, NODE_ID, "broker.example")
    assert rig.created == ["__transaction_state"]
    assert rig.groups.created == []


@pytest.mark.parametrize("version", range(1, 7))
async def test_an_id_whose_partition_nobody_leads_has_no_coordinator(version: int) -> None:
    rig = TransactionRig(is_started=False)
    rig.creation_failure = RuntimeError("no directory")
    request = FindCoordinatorRequest(key="x", key_type=1, coordinator_keys=["x"])
    answer = await rig.call(request, version)
    one = answer if version < 4 else answer.coordinators[0]
    assert (one.error_code, one.node_id) == (E.COORDINATOR_NOT_AVAILABLE, -1)
    rig = TransactionRig()
    rig.created.append("__transaction_state")
    rig.coordinator.serve(4, ())
    answer = await rig.call(request, version)
    one = answer if version < 4 else answer.coordinators[0]
    assert (one.error_code, one.node_id) == (E.COORDINATOR_NOT_AVAILABLE, -1)
