"""Asking the transaction coordinator on behalf of those who append: when, how often, and what they are told."""

from __future__ import annotations

import pytest

from broker.partition.partition import Marker
from broker.partition.verification import Flow, Writer
from config.views import VerificationConfig
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from storage.producers.verification import NOT_ASKED, Verification
from storage.types import TopicPartition
from tests.harness.hosted import NOW_MS, OTHER_ID, Hosted
from tests.harness.verifying import Asked, ScriptedVerifier

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ALL_FLOWS = list(Flow)


def writer(flow: Flow = Flow.ADDED_BEFORE, epoch: int = 0) -> Writer:
    return Writer("id", 7, epoch, flow)


def transactional(epoch: int) -> bytearray:
    return build_batch(
        [(None, b"v")], timestamp=NOW_MS, producer_id=7, producer_epoch=epoch, base_sequence=0, is_transactional=True
    )


@pytest.mark.parametrize("flow", ALL_FLOWS)
async def test_one_question_for_all_partitions_says_whether_to_add_them(hosted: Hosted, flow: Flow) -> None:
    hosted.create("t", partitions=2)
    verifier = ScriptedVerifier(hosted.manager)
    verified = await verifier.verify(writer(flow), {T0: 0, T1: 5})
    assert all(type(verified[tp]) is Verification for tp in (T0, T1))
    assert verifier.coordinator.asked == [Asked("id", 7, 0, (T0, T1), flow is Flow.ADDS)]


async def test_a_partition_with_the_open_transaction_is_not_asked_for(hosted: Hosted) -> None:
    partition = hosted.create("t", partitions=2)
    verifier = ScriptedVerifier(hosted.manager)
    verified = (await verifier.verify(writer(), {T0: 0}))[T0]
    assert isinstance(verified, Verification)
    with partition.log.transactions.in_hand(verified):
        partition.append(transactional(epoch=0))
    assert await verifier.verify(writer(), {T0: 1}) == {T0: None}
    assert (await verifier.verify(writer(), {T0: 1, T1: 0}))[T0] is None
    assert [one.partitions for one in verifier.coordinator.asked] == [(T0,), (T1,)]
    assert isinstance((await verifier.verify(writer(epoch=1), {T0: 0}))[T0], Verification)


async def test_a_partition_that_is_not_led_here_is_left_to_the_append(hosted: Hosted) -> None:
    hosted.create("t", leader=OTHER_ID)
    verifier = ScriptedVerifier(hosted.manager)
    assert await verifier.verify(writer(), {T0: 0, TopicPartition("gone", 0): 0}) == {
        T0: None,
        TopicPartition("gone", 0): None,
    }
    assert not verifier.coordinator.asked


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, dict.fromkeys(ALL_FLOWS, ErrorCode.INVALID_PRODUCER_EPOCH)),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            {
                Flow.ADDED_BEFORE: ErrorCode.INVALID_TXN_STATE,
                Flow.ABORTABLE: ErrorCode.TRANSACTION_ABORTABLE,
                Flow.ADDS: ErrorCode.INVALID_TXN_STATE,
            },
        ),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, dict.fromkeys(ALL_FLOWS, ErrorCode.INVALID_PRODUCER_ID_MAPPING)),
        (ErrorCode.NOT_COORDINATOR, dict.fromkeys(ALL_FLOWS, ErrorCode.NOT_COORDINATOR)),
    ],
)
async def test_refusals_are_told_in_words_the_client_knows(
    hosted: Hosted, code: ErrorCode, told: dict[Flow, ErrorCode]
) -> None:
    hosted.create("t", partitions=2)
    for flow in ALL_FLOWS:
        verifier = ScriptedVerifier(hosted.manager)
        verifier.coordinator.by_partition[T0] = code
        verified = await verifier.verify(writer(flow), {T0: 0, T1: 0})
        assert verified[T0] is told[flow]
        assert isinstance(verified[T1], Verification)


async def test_adding_is_tried_again_for_a_moment_while_the_transaction_before_ends(hosted: Hosted) -> None:
    hosted.create("t")
    verifier = ScriptedVerifier(hosted.manager, VerificationConfig(retry_backoff_ms=30, retry_backoff_max_ms=100))
    verifier.coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
    assert isinstance((await verifier.verify(writer(Flow.ADDS), {T0: 0}))[T0], Verification)
    assert verifier.pauses_s == [0.03, 0.03]
    verifier.coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert (await verifier.verify(writer(Flow.ADDS), {T0: 0}))[T0] is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(verifier.pauses_s) == 2 + 3


@pytest.mark.parametrize("comes", ["while it waits", "while it asks"])
async def test_the_marker_of_the_transaction_before_makes_no_answer_void(hosted: Hosted, comes: str) -> None:
    partition = hosted.create("t")
    verifier = ScriptedVerifier(hosted.manager)
    first = (await verifier.verify(writer(Flow.ADDS), {T0: 0}))[T0]
    assert isinstance(first, Verification)
    with partition.log.transactions.in_hand(first):
        partition.append(transactional(epoch=0))

    def end_the_one_before() -> None:
        partition.append_marker(Marker(7, 1, True, 1, 2))

    assert not partition.log.transactions.is_open(7, 1)
    if comes == "while it waits":
        verifier.coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
        verifier.on_pause = end_the_one_before
    else:
        verifier.coordinator.meanwhile = [end_the_one_before]
    verified = (await verifier.verify(writer(Flow.ADDS, epoch=1), {T0: 0}))[T0]
    assert isinstance(verified, Verification)
    with partition.log.transactions.in_hand(verified):
        assert partition.append(transactional(epoch=1)).base_offset == 2


async def test_who_has_added_the_partition_before_asks_once(hosted: Hosted) -> None:
    hosted.create("t")
    verifier = ScriptedVerifier(hosted.manager)
    verifier.coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert (await verifier.verify(writer(), {T0: 0}))[T0] is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(verifier.coordinator.asked) == 1


async def test_switched_off_nobody_is_asked_but_partitions_are_still_added(hosted: Hosted) -> None:
    hosted.create("t")
    verifier = ScriptedVerifier(hosted.manager, VerificationConfig(partition_verification_enable=False))
    for flow in (Flow.ADDED_BEFORE, Flow.ABORTABLE):
        assert await verifier.verify(writer(flow), {T0: 0}) == {T0: NOT_ASKED}
    assert not verifier.coordinator.asked
    assert isinstance((await verifier.verify(writer(Flow.ADDS), {T0: 0}))[T0], Verification)
    assert [one.add for one in verifier.coordinator.asked] == [True]
    verifier.settings = VerificationConfig()
    assert isinstance((await verifier.verify(writer(), {T0: 0}))[T0], Verification)
