"""Every state against every request, for producers that know the epoch bump (v2) and for those that do not (v1)."""

from __future__ import annotations

import pytest

from broker.api.errors import known_code
from broker.coordinator.errors import CoordinatorError
from broker.coordinator.transaction import rules
from broker.coordinator.transaction.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    ProducerFenced,
    ProducerIdNeeded,
)
from broker.coordinator.transaction.rules import Moment
from broker.coordinator.transaction.state import (
    DECIDED,
    IDLE,
    Producer,
    Transaction,
    TransactionState,
    completed,
    producer_after,
)
from protocol.errors import ErrorCode
from storage.types import TopicPartition

S = TransactionState
E = ErrorCode
PID, EPOCH, NOW = 500, 7, 10_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
STATES = (S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)


def transaction(state: TransactionState, *, epoch: int = EPOCH, version: int = 0) -> Transaction:
    has_partitions = state is S.ONGOING or state in DECIDED
    return Transaction(
        PID,
        60_000,
        5_000,
        producer_epoch=epoch,
        state=state,
        partitions=frozenset({T0}) if has_partitions else frozenset(),
        started_ms=-1 if state is S.EMPTY else 4_000,
        previous_producer_id=PID,
        client_version=version,
    )


def moment(before: Transaction | None, *, new_id: int | None = None, version: int = 2, writing: bool = False) -> Moment:
    """Look as a shard does: an outcome that is decided is pending until it is complete."""
    return Moment(NOW, version, writing or (before is not None and before.state in DECIDED), new_id)


def outcome_of_end(before: Transaction, epoch: int, *, is_commit: bool, version: int, pid: int = PID) -> object:
    """Give 'ok' for a decision, 'done' for a repetition, or the code of the refusal."""
    try:
        after = rules.end(
            before, Producer(pid, epoch), is_commit=is_commit, client_version=version, moment=moment(before)
        )
    except CoordinatorError as refusal:
        return int(known_code(refusal))
    if after is None:
        return "done"
    assert after.state is (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
    return "ok"


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (S.EMPTY, 48, 48),
        (S.ONGOING, "ok", "ok"),
        (S.PREPARE_COMMIT, 51, 51),
        (S.PREPARE_ABORT, 51, 51),
        (S.COMPLETE_COMMIT, "done", 48),
        (S.COMPLETE_ABORT, 48, "done"),
    ],
)
def test_an_end_of_version_1_in_every_state(state: TransactionState, commit: object, abort: object) -> None:
    before = transaction(state)
    assert outcome_of_end(before, EPOCH, is_commit=True, version=0) == commit
    assert outcome_of_end(before, EPOCH, is_commit=False, version=0) == abort


@pytest.mark.parametrize(
    ("state", "commit", "commit_again", "abort", "abort_again"),
    [
        (S.EMPTY, 48, 90, "ok", 90),
        (S.ONGOING, "ok", 90, "ok", 90),
        (S.PREPARE_COMMIT, 51, 51, 51, 51),
        (S.PREPARE_ABORT, 51, 51, 51, 51),
        (S.COMPLETE_COMMIT, 48, "done", "ok", 48),
        (S.COMPLETE_ABORT, 48, 48, "ok", "done"),
    ],
)
def test_an_end_of_version_2_in_every_state_with_the_current_epoch_and_with_the_one_before(
    state: TransactionState, commit: object, commit_again: object, abort: object, abort_again: object
) -> None:
    before = transaction(state, version=2)
    assert outcome_of_end(before, EPOCH, is_commit=True, version=2) == commit
    assert outcome_of_end(before, EPOCH - 1, is_commit=True, version=2) == commit_again
    assert outcome_of_end(before, EPOCH, is_commit=False, version=2) == abort
    assert outcome_of_end(before, EPOCH - 1, is_commit=False, version=2) == abort_again


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_with_any_other_epoch_or_id_is_refused(state: TransactionState, *, is_commit: bool) -> None:
    before = transaction(state)
    pending = state in DECIDED
    for epoch in (EPOCH - 2, EPOCH + 1):
        assert outcome_of_end(before, epoch, is_commit=is_commit, version=0) == 90
        assert outcome_of_end(before, epoch, is_commit=is_commit, version=2) == (51 if pending else 90)
    assert outcome_of_end(before, EPOCH - 1, is_commit=is_commit, version=0) == 90
    assert outcome_of_end(before, EPOCH, is_commit=is_commit, version=0, pid=PID + 1) == 49
    assert outcome_of_end(before, EPOCH, is_commit=is_commit, version=2, pid=PID + 1) == (51 if pending else 49)


@pytest.mark.parametrize("version", [0, 2])
def test_an_end_of_an_unknown_id_is_refused(version: int) -> None:
    with pytest.raises(InvalidProducerIdMapping):
        rules.end(None, Producer(PID, 0), is_commit=True, client_version=version, moment=moment(None))


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", STATES)
def test_an_end_while_a_change_is_being_written_is_concurrent(state: TransactionState, version: int) -> None:
    before = transaction(state)
    with pytest.raises(ConcurrentTransactions):
        rules.end(
            before,
            Producer(PID, EPOCH),
            is_commit=True,
            client_version=version,
            moment=moment(before, writing=True),
        )


@pytest.mark.parametrize(("version", "epoch_after"), [(0, EPOCH), (2, EPOCH + 1)])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_decision_bumps_the_epoch_from_version_2_on(version: int, epoch_after: int, *, is_commit: bool) -> None:
    before = transaction(S.ONGOING)
    after = rules.end(before, Producer(PID, EPOCH), is_commit=is_commit, client_version=version, moment=moment(before))
    assert after is not None
    assert after.producer_epoch == epoch_after
    assert after.partitions == {T0}
    assert (after.started_ms, after.updated_ms, after.timeout_ms) == (4_000, NOW, 60_000)
    assert after.client_version == version
    ended = completed(after, now_ms=NOW + 1)
    assert ended.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert ended.producer == producer_after(after) == Producer(PID, epoch_after)
    assert (ended.partitions, ended.started_ms, ended.updated_ms) == (frozenset(), 4_000, NOW + 1)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_an_abort_of_nothing_begins_and_ends_at_its_own_time(state: TransactionState) -> None:
    before = transaction(state)
    after = rules.end(before, Producer(PID, EPOCH), is_commit=False, client_version=2, moment=moment(before))
    assert after is not None
    assert (after.state, after.producer_epoch, after.started_ms) == (S.PREPARE_ABORT, EPOCH + 1, NOW)
    assert after.partitions == frozenset()


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_uses_up_the_epochs_gives_out_a_new_id_which_a_repetition_learns_too(*, is_commit: bool) -> None:
    before = transaction(S.ONGOING, epoch=32_766)
    producer = Producer(PID, 32_766)
    with pytest.raises(ProducerIdNeeded):
        rules.end(before, producer, is_commit=is_commit, client_version=2, moment=moment(before))
    after = rules.end(before, producer, is_commit=is_commit, client_version=2, moment=moment(before, new_id=900))
    assert after is not None
    # The markers still carry the old id, at the epoch that no producer ever has.
    assert after.producer == Producer(PID, 32_767)
    assert producer_after(after) == Producer(900, 0)
    ended = completed(after, now_ms=NOW)
    assert (ended.producer, ended.previous_producer_id, ended.next_producer_id) == (Producer(900, 0), PID, -1)
    assert outcome_of_end(ended, 32_766, is_commit=is_commit, version=2) == "done"
    assert outcome_of_end(ended, 32_766, is_commit=not is_commit, version=2) == 48
    assert outcome_of_end(ended, 32_765, is_commit=is_commit, version=2) == 49
    assert outcome_of_end(ended, 0, is_commit=False, version=2, pid=900) == "ok"


def test_a_producer_of_version_1_ends_its_transactions_at_the_last_epoch_for_ever() -> None:
    before = transaction(S.ONGOING, epoch=32_766)
    after = rules.end(before, Producer(PID, 32_766), is_commit=True, client_version=0, moment=moment(before))
    assert after is not None
    assert producer_after(after) == Producer(PID, 32_766)


# -- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_partitions_are_added_in_every_state_but_while_an_outcome_is_carried_out(state: TransactionState) -> None:
    before = transaction(state)
    if state in DECIDED:
        with pytest.raises(ConcurrentTransactions):
            rules.add_partitions(before, Producer(PID, EPOCH), [T1], 0, moment(before))
        return
    after = rules.add_partitions(before, Producer(PID, EPOCH), [T1], 2, moment(before))
    assert after is not None
    assert after.state is S.ONGOING
    assert after.partitions == before.partitions | {T1}
    assert after.started_ms == (NOW if state in IDLE else 4_000)
    assert (after.updated_ms, after.client_version, after.producer) == (NOW, 2, before.producer)


def test_partitions_that_are_there_need_no_write_but_in_an_open_transaction_only() -> None:
    before = transaction(S.ONGOING)
    assert rules.add_partitions(before, Producer(PID, EPOCH), [T0], 0, moment(before)) is None
    idle = transaction(S.EMPTY)
    began = rules.add_partitions(idle, Producer(PID, EPOCH), [], 0, moment(idle))
    assert began is not None
    assert began.state is S.ONGOING


@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_partitions_of_somebody_else_are_not_added(state: TransactionState) -> None:
    before = transaction(state)
    for epoch in (EPOCH - 1, EPOCH + 1):
        with pytest.raises(ProducerFenced):
            rules.add_partitions(before, Producer(PID, epoch), [T0], 0, moment(before))
    for stranger in (before, None):
        with pytest.raises(InvalidProducerIdMapping):
            rules.add_partitions(stranger, Producer(PID + 1, EPOCH), [T0], 0, moment(stranger))


def test_a_pending_change_wins_over_a_wrong_id() -> None:
    before = transaction(S.ONGOING)
    with pytest.raises(ConcurrentTransactions):
        rules.add_partitions(before, Producer(PID + 1, 0), [T0], 2, moment(before, writing=True))


@pytest.mark.parametrize("state", STATES)
def test_verification_tells_partition_by_partition(state: TransactionState) -> None:
    before = transaction(state)
    if state in DECIDED:
        with pytest.raises(ConcurrentTransactions):
            rules.verify_partitions(before, Producer(PID, EPOCH), [T0])
    else:
        told = rules.verify_partitions(before, Producer(PID, EPOCH), [T0, T1])
        there = E.NONE if state is S.ONGOING else E.TRANSACTION_ABORTABLE
        assert told == {T0: there, T1: E.TRANSACTION_ABORTABLE}
    with pytest.raises(ProducerFenced):
        rules.verify_partitions(before, Producer(PID, EPOCH - 1), [T0])
    with pytest.raises(InvalidProducerIdMapping):
        rules.verify_partitions(before, Producer(PID + 1, EPOCH), [T0])
    with pytest.raises(InvalidProducerIdMapping):
        rules.verify_partitions(None, Producer(PID, EPOCH), [T0])


# -- producers --------------------------------------------------------------------------------------------------------


def initialize(
    before: Transaction | None, expected: Producer | None = None, *, new_id: int | None = None, version: int = 2
) -> Transaction:
    return rules.initialize(before, expected, 30_000, moment(before, new_id=new_id, version=version))


def test_a_new_id_begins_at_epoch_0() -> None:
    with pytest.raises(ProducerIdNeeded):
        initialize(None)
    after = initialize(None, new_id=900)
    assert (after.producer, after.state, after.timeout_ms) == (Producer(900, 0), S.EMPTY, 30_000)
    assert (after.started_ms, after.updated_ms, after.previous_producer_id) == (-1, NOW, 900)
    # Also for a producer that goes on with an id that expired meanwhile.
    assert initialize(None, Producer(3, 4), new_id=900).producer == Producer(900, 0)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_known_id_gets_the_next_epoch_between_transactions(state: TransactionState) -> None:
    after = initialize(transaction(state))
    assert (after.producer, after.state, after.timeout_ms) == (Producer(PID, EPOCH + 1), S.EMPTY, 30_000)
    assert (after.started_ms, after.last_producer_epoch) == (-1, -1)


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_an_id_is_not_given_out_while_an_outcome_is_carried_out(state: TransactionState) -> None:
    with pytest.raises(ConcurrentTransactions):
        initialize(transaction(state))
    with pytest.raises(ConcurrentTransactions):
        rules.initialize(transaction(S.EMPTY), None, 1, moment(transaction(S.EMPTY), writing=True))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_open_transaction_is_aborted_with_a_bumped_epoch(version: int) -> None:
    after = initialize(transaction(S.ONGOING), version=version)
    assert (after.state, after.producer) == (S.PREPARE_ABORT, Producer(PID, EPOCH + 1))
    assert (after.partitions, after.timeout_ms, after.started_ms) == ({T0}, 60_000, 4_000)
    assert after.client_version == (2 if version == 2 else 0)
    ended = completed(after, now_ms=NOW)
    assert initialize(ended, version=version).producer == Producer(PID, EPOCH + 2)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_producer_that_goes_on_is_known_by_its_epoch_or_by_the_one_before(state: TransactionState) -> None:
    bumped = initialize(transaction(state), Producer(PID, EPOCH))
    assert (bumped.producer, bumped.last_producer_epoch) == (Producer(PID, EPOCH + 1), EPOCH)
    assert initialize(bumped, Producer(PID, EPOCH)).producer == bumped.producer
    assert initialize(bumped, Producer(PID, EPOCH + 1)).producer == Producer(PID, EPOCH + 2)
    for stale in (Producer(PID, EPOCH - 1), Producer(PID, EPOCH + 2), Producer(PID + 1, EPOCH + 1)):
        with pytest.raises(ProducerFenced):
            initialize(bumped, stale)


def test_another_holder_ends_what_the_one_before_could_repeat() -> None:
    bumped = initialize(transaction(S.EMPTY), Producer(PID, EPOCH))
    taken = initialize(bumped)
    with pytest.raises(ProducerFenced):
        initialize(taken, Producer(PID, EPOCH))
    with pytest.raises(ProducerFenced):
        initialize(taken, Producer(PID, EPOCH + 1))


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("epoch", [32_766, 32_767])
def test_used_up_epochs_give_a_new_producer_id(state: TransactionState, epoch: int) -> None:
    before = transaction(state, epoch=epoch)
    with pytest.raises(ProducerIdNeeded):
        initialize(before)
    after = initialize(before, new_id=900)
    assert (after.producer, after.previous_producer_id, after.last_producer_epoch) == (Producer(900, 0), PID, -1)


def test_a_producer_that_used_up_its_epochs_may_repeat_its_request() -> None:
    rotated = initialize(transaction(S.EMPTY, epoch=32_766), Producer(PID, 32_766), new_id=900)
    assert rotated.producer == Producer(900, 0)
    assert initialize(rotated, Producer(PID, 32_766)).producer == Producer(900, 0)
    with pytest.raises(ProducerFenced):
        initialize(rotated, Producer(PID, 32_765))


@pytest.mark.parametrize(("version", "epoch_after"), [(0, (PID, 32_767)), (2, (900, 0))])
def test_fencing_the_last_epoch_leaves_none_to_anybody(version: int, epoch_after: tuple[int, int]) -> None:
    before = transaction(S.ONGOING, epoch=32_766)
    after = initialize(before, new_id=900, version=version)
    assert after.producer == Producer(PID, 32_767)
    assert producer_after(after) == Producer(*epoch_after)


def test_transactions_time_out_when_open_and_ids_expire_when_idle() -> None:
    for state in STATES:
        before = transaction(state)
        assert before.is_past_timeout(64_001) is (state is S.ONGOING)
        assert not before.is_past_timeout(64_000)
        assert rules.is_expired(before, now_ms=6_000, expiration_ms=1_000) is (state in IDLE)
        assert not rules.is_expired(before, now_ms=5_999, expiration_ms=1_000)
