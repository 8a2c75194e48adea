"""Who may begin a transaction on a partition: the verification in force, held by the append that runs."""

from __future__ import annotations

import pytest

from protocol.records.batch import MAX_SEQUENCE, parse_header
from protocol.records.builder import build_batch
from protocol.records.control import build_marker, parse_marker
from storage.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence
from storage.producers.state import LAST_PRODUCER_EPOCH, ProducerStateManager
from storage.producers.verification import NOT_ASKED, Begun, Verification
from storage.types import AppendOrigin, TopicPartition

PID = 7


class Log:
    """A producer state that asks for verifications, with a log end offset; it appends as the log does."""

    def __init__(self) -> None:
        self.state = ProducerStateManager(TopicPartition("orders", 0), expiration_ms=1000)
        self.state.verifications.is_required = True
        self.end = 0

    def begin(self, sequence: int = 0, *, epoch: int = 0, bumps_epoch: bool = False, now_ms: int = 0) -> Verification:
        return self.state.verifications.begin(Begun(PID, epoch, sequence, bumps_epoch), now_ms)

    def append(
        self,
        sequence: int,
        held: Verification | None = None,
        *,
        epoch: int = 0,
        count: int = 1,
        is_transactional: bool = True,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> int:
        """Append a batch; gives its offset, or that of the first time for a duplicate."""
        batch = build_batch(
            [(b"k", b"v")] * count,
            base_offset=self.end,
            timestamp=0,
            producer_id=PID,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        header = parse_header(batch)
        self.state.verifications.in_hand = held
        try:
            known = self.state.check(header, origin)
        finally:
            self.state.verifications.in_hand = None
        if known is not None:
            return known.first_offset
        self.state.append(header)
        self.end = header.next_offset
        return header.base_offset

    def mark(self, *, epoch: int = 0, version: int = 0) -> None:
        self.state.check_marker(PID, epoch, version)
        batch = build_marker(
            is_abort=True,
            producer_id=PID,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=self.end,
        )
        header, marker = parse_header(batch), parse_marker(batch)
        assert self.state.check(header, AppendOrigin.COORDINATOR, marker) is None
        self.state.append(header, marker)
        self.end = header.next_offset


@pytest.fixture
def log() -> Log:
    return Log()


def test_nothing_begins_a_transaction_without_a_verification(log: Log) -> None:
    for origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
        with pytest.raises(InvalidTxnState):
            log.append(0, origin=origin)
    assert log.end == 0


def test_with_it_the_transaction_begins_and_goes_on_without(log: Log) -> None:
    assert log.append(0, log.begin()) == 0
    assert log.append(1) == 1
    assert log.state.is_open(PID, 0)


def test_a_marker_makes_a_verification_void_for_ever(log: Log) -> None:
    held = log.begin()
    log.mark()
    with pytest.raises(InvalidTxnState):
        log.append(0, held)
    log.begin()  # somebody asks for the next transaction, which does not revive the answer for this one
    with pytest.raises(InvalidTxnState):
        log.append(0, held)


def test_the_first_batch_uses_it_up(log: Log) -> None:
    held = log.begin()
    log.append(0, held)
    log.mark()
    with pytest.raises(InvalidTxnState):
        log.append(1, held)


def test_batches_that_wait_at_once_share_one(log: Log) -> None:
    first, second = log.begin(0), log.begin(1)
    assert first is second
    assert [log.append(0, first), log.append(1, second)] == [0, 1]


def test_another_epoch_is_another_transaction(log: Log) -> None:
    log.append(0, log.begin())
    with pytest.raises(InvalidTxnState):
        log.append(0, epoch=1)
    with pytest.raises(InvalidTxnState):
        log.append(1, epoch=-1)


def test_a_duplicate_of_an_ended_transaction_is_known_without_asking(log: Log) -> None:
    log.append(0, log.begin(), count=3)
    log.mark()
    assert log.append(0, count=3) == 0
    assert log.end == 4


def test_an_old_epoch_is_refused_even_when_verified(log: Log) -> None:
    log.append(0, log.begin(epoch=4), epoch=4)
    log.mark(epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        log.append(1, log.begin(1, epoch=4), epoch=4)


def test_a_batch_does_not_overtake_an_earlier_one_that_was_announced(log: Log) -> None:
    log.begin(2)
    held = log.begin(5)
    with pytest.raises(OutOfOrderSequence):
        log.append(5, held)
    assert log.append(2, held) == 0
    assert log.append(3) == 1


def test_a_lower_sequence_is_taken_up_and_a_newer_epoch_begins_anew(log: Log) -> None:
    held = log.begin(5)
    log.begin(3)
    with pytest.raises(OutOfOrderSequence):
        log.append(5, held)
    log.begin(9, epoch=1)
    assert log.append(9, held, epoch=1) == 0


def test_a_transaction_with_an_epoch_of_its_own_begins_with_0(log: Log) -> None:
    held = log.begin(3, bumps_epoch=True)
    with pytest.raises(OutOfOrderSequence):
        log.append(3, held)
    log.begin(0, bumps_epoch=True)
    assert log.append(0, held) == 0


def test_without_own_epochs_an_unknown_producer_begins_anywhere(log: Log) -> None:
    assert log.append(MAX_SEQUENCE, log.begin(MAX_SEQUENCE)) == 0
    assert log.append(0) == 1


def test_a_coordinator_numbers_nothing(log: Log) -> None:
    held = log.begin(-1)
    assert log.append(0, held, origin=AppendOrigin.COORDINATOR) == 0
    assert log.append(0, origin=AppendOrigin.COORDINATOR) == 1


def test_nobody_is_asked_where_verification_is_off(log: Log) -> None:
    assert log.append(0, NOT_ASKED) == 0


def test_plain_batches_of_a_producer_and_replicated_ones_need_none(log: Log) -> None:
    assert log.append(0, is_transactional=False) == 0
    assert log.append(1, origin=AppendOrigin.REPLICATION) == 1
    assert log.state.is_open(PID, 0)


def test_a_plain_batch_within_the_transaction_is_refused(log: Log) -> None:
    log.append(0, log.begin())
    with pytest.raises(InvalidTxnState):
        log.append(1, is_transactional=False)


def test_what_led_to_nothing_is_forgotten_in_time(log: Log) -> None:
    old = log.begin(now_ms=0)
    log.state.remove_expired(999)
    assert log.begin(now_ms=999) is old
    log.state.remove_expired(1000)
    assert log.begin(now_ms=1000) is not old


def test_the_next_log_of_a_partition_goes_on_with_them(log: Log) -> None:
    held, after = log.begin(), Log()
    after.state.verifications.is_required = False
    after.state.verifications.take_over(log.state.verifications)
    assert after.append(0, held) == 0
    with pytest.raises(InvalidTxnState):
        after.append(0, epoch=1)


def test_from_version_2_on_a_marker_of_the_open_epoch_comes_too_late(log: Log) -> None:
    log.append(0, log.begin(epoch=3), epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        log.mark(epoch=3, version=2)
    log.mark(epoch=4, version=2)
    assert not log.state.is_open(PID, 3)
    log.mark(epoch=4, version=2)  # once more does no harm
    with pytest.raises(InvalidProducerEpoch):
        log.mark(epoch=3, version=2)


def test_before_version_2_markers_have_the_epoch_of_the_transaction(log: Log) -> None:
    log.append(0, log.begin(epoch=3), epoch=3)
    log.mark(epoch=3, version=1)
    assert not log.state.is_open(PID, 3)


def test_there_is_no_epoch_above_the_last(log: Log) -> None:
    last = LAST_PRODUCER_EPOCH
    log.append(0, log.begin(epoch=last), epoch=last)
    log.mark(epoch=last, version=2)
    assert not log.state.is_open(PID, last)
