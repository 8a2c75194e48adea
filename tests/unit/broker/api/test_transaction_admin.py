"""DescribeTransactions and ListTransactions over every version."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode as E
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.sim.groups import START_MS, settle
from tests.sim.transactions import TransactionRig


async def test_an_open_transaction_is_described_with_its_partitions() -> None:
    rig = TransactionRig()
    await rig.time.advance(5)
    producer = await rig.begin("x", ("u", 1), ("t", 2), ("t", 0))
    request = DescribeTransactionsRequest(transactional_ids=["x", "nobody", ""])
    found, unknown, empty = (await rig.call(request, 0)).transaction_states
    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, "x", "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (60_000, START_MS + 5)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", [0, 2]), ("u", [1])]
    assert (unknown.error_code, unknown.transactional_id) == (E.TRANSACTIONAL_ID_NOT_FOUND, "nobody")
    assert (empty.error_code, empty.transactional_id) == (E.INVALID_REQUEST, "")


async def test_an_ended_transaction_keeps_the_time_of_its_begin_until_the_id_is_initialized() -> None:
    rig = TransactionRig()
    producer = await rig.begin("x", ("t", 0))
    await rig.coordinator.end("x", producer, is_commit=True, client_version=2)
    await settle()
    request = DescribeTransactionsRequest(transactional_ids=["x"])
    (ended,) = (await rig.call(request, 0)).transaction_states
    assert (ended.transaction_state, ended.transaction_start_time_ms) == ("CompleteCommit", START_MS)
    assert ended.topics == []
    await rig.begin("x")
    (fresh,) = (await rig.call(request, 0)).transaction_states
    assert (fresh.transaction_state, fresh.transaction_start_time_ms) == ("Empty", -1)


async def test_descriptions_of_what_is_not_served_say_so() -> None:
    request = DescribeTransactionsRequest(transactional_ids=["x"])
    rig = TransactionRig(is_started=False)
    assert (await rig.call(request, 0)).transaction_states[0].error_code == E.NOT_COORDINATOR
    rig.coordinator.close()
    assert (await rig.call(request, 0)).transaction_states[0].error_code == E.COORDINATOR_NOT_AVAILABLE
    assert (await rig.call(ListTransactionsRequest(), 2)).error_code == E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", range(3))
async def test_ids_are_listed_with_their_state_and_producer(version: int) -> None:
    rig = TransactionRig()
    x = await rig.begin("x", ("t", 0))
    y = await rig.begin("y")
    answer = await rig.call(ListTransactionsRequest(), version)
    listed = {(s.transactional_id, s.producer_id, s.transaction_state) for s in answer.transaction_states}
    assert listed == {("x", x.producer_id, "Ongoing"), ("y", y.producer_id, "Empty")}
    answer = await rig.call(ListTransactionsRequest(state_filters=["Empty", "Frozen"]), version)
    assert [s.transactional_id for s in answer.transaction_states] == ["y"]
    assert answer.unknown_state_filters == ["Frozen"]
    answer = await rig.call(ListTransactionsRequest(producer_id_filters=[x.producer_id]), version)
    assert [s.transactional_id for s in answer.transaction_states] == ["x"]


async def test_the_filters_of_later_versions() -> None:
    rig = TransactionRig()
    await rig.begin("x", ("t", 0))
    await rig.time.advance(100)
    await rig.begin("y", ("t", 0))
    for version in (1, 2):
        answer = await rig.call(ListTransactionsRequest(duration_filter=99), version)
        assert [s.transactional_id for s in answer.transaction_states] == ["x"]
    answer = await rig.call(ListTransactionsRequest(transactional_id_pattern="[y-z]"), 2)
    assert [s.transactional_id for s in answer.transaction_states] == ["y"]
    answer = await rig.call(ListTransactionsRequest(transactional_id_pattern=""), 2)
    assert len(answer.transaction_states) == 2
    answer = await rig.call(ListTransactionsRequest(transactional_id_pattern="["), 2)
    assert (answer.error_code, answer.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, [])
