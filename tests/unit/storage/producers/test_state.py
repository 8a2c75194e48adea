"""Idempotence and transactions of one partition, case by case against what Kafka answers."""

import pytest

from protocol.records.batch import MAX_SEQUENCE, parse_header
from protocol.records.builder import build_batch
from protocol.records.control import build_marker, parse_marker
from storage.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, TransactionCoordinatorFenced
from storage.producers.entry import ProducerEntry
from storage.producers.state import ProducerStateManager
from storage.types import AppendOrigin, TopicPartition

PID = 7


class Log:
    """A producer state manager with a log end offset, appending as the log does: check, then take up."""

    def __init__(self) -> None:
        self.state = ProducerStateManager(TopicPartition("orders", 0))
        self.end = 0

    def append(self, sequence, count=1, *, epoch=0, pid=PID, txn=False, origin=AppendOrigin.CLIENT, timestamp=1000):
        batch = build_batch(
            [(b"k", b"v")] * count,
            base_offset=self.end,
            timestamp=timestamp,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=txn,
        )
        header = parse_header(batch)
        duplicate = self.state.check(header, origin)
        if duplicate is not None:
            return duplicate
        self.state.append(header)
        self.end = header.next_offset
        return header.base_offset

    def end_transaction(self, *, abort=False, epoch=0, pid=PID, coordinator_epoch=0, origin=AppendOrigin.COORDINATOR):
        batch = build_marker(
            is_abort=abort,
            producer_id=pid,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=2000,
            base_offset=self.end,
        )
        header = parse_header(batch)
        marker = parse_marker(batch)
        assert self.state.check(header, origin, marker) is None
        completed = self.state.append(header, marker)
        self.end = header.next_offset
        return completed


@pytest.fixture
def log():
    return Log()


def test_sequences_continue_and_the_same_batch_again_is_a_duplicate(log):
    assert log.append(0, 10) == 0
    assert log.append(10, 5) == 10
    duplicate = log.append(0, 10, timestamp=5)
    assert (duplicate.first_offset, duplicate.last_offset, duplicate.timestamp) == (0, 9, 1000)
    assert log.end == 15


def test_five_batches_are_remembered_and_an_older_one_is_out_of_order(log):
    for sequence in range(6):
        log.append(sequence)
    for sequence in range(1, 6):
        assert log.append(sequence).first_offset == sequence
    with pytest.raises(OutOfOrderSequence):
        log.append(0)


@pytest.mark.parametrize(("sequence", "count"), [(3, 5), (0, 6), (1, 4), (4, 1), (9, 1), (6, 1)])
def test_overlaps_and_gaps_are_out_of_order(log, sequence, count):
    log.append(0, 5)
    with pytest.raises(OutOfOrderSequence):
        log.append(sequence, count)
    assert log.append(5, 1) == 5


def test_a_sequence_wraps_after_two_to_the_31_less_one(log):
    log.append(MAX_SEQUENCE - 1, 2)
    assert log.append(0, 1) == 2
    log.append(1, 1)
    assert log.append(MAX_SEQUENCE - 1, 2).first_offset == 0


def test_a_batch_may_itself_cross_the_wrap(log):
    log.append(MAX_SEQUENCE, 3)
    assert log.state.producers[PID].last_sequence == 1
    assert log.append(2) == 3
    assert log.append(MAX_SEQUENCE, 3).first_offset == 0


def test_an_unknown_producer_starts_anywhere(log):
    assert log.append(41, 2) == 0
    assert log.append(43) == 2


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero(log):
    log.append(0, epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        log.append(1, epoch=2)
    with pytest.raises(OutOfOrderSequence):
        log.append(1, epoch=4)
    assert log.append(0, epoch=4) == 1
    with pytest.raises(InvalidProducerEpoch):
        log.append(0, epoch=3)


def test_a_known_producer_without_an_epoch_starts_anywhere(log):
    log.state.producers[PID] = ProducerEntry(PID)
    assert log.append(9, epoch=0) == 0


def test_coordinators_are_not_asked_for_sequences(log):
    log.append(-1, origin=AppendOrigin.COORDINATOR, epoch=2)
    log.append(-1, origin=AppendOrigin.COORDINATOR, epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        log.append(-1, origin=AppendOrigin.COORDINATOR, epoch=1)


def test_a_replica_only_warns(log, caplog):
    log.append(0, epoch=2)
    log.append(77, epoch=1, origin=AppendOrigin.REPLICATION)
    assert "old producer epoch" in caplog.text


def test_batches_without_producer_only_move_the_end(log):
    log.append(-1, 3, pid=-1, epoch=-1)
    log.append(-1, 3, pid=-5, epoch=-1)
    assert log.state.is_empty and log.state.map_end_offset == 6


def test_an_open_transaction_refuses_plain_batches_and_holds_the_stable_offset(log):
    log.append(0, pid=1)
    log.append(0, 2, txn=True)
    log.append(2, txn=True)
    assert log.state.first_unstable_offset == 1
    with pytest.raises(InvalidTxnState):
        log.append(3)
    assert log.state.first_undecided_offset == 1


def test_a_commit_frees_the_stable_offset_once_the_high_watermark_passes_the_marker(log):
    log.append(0, 2, txn=True)
    completed = log.end_transaction()
    assert completed == (PID, 0, 2, False, 3)
    log.state.on_high_watermark(2)
    assert log.state.first_unstable_offset == 0 and log.state.first_undecided_offset is None
    log.state.on_high_watermark(3)
    assert log.state.first_unstable_offset is None


def test_an_abort_reports_the_oldest_transaction_that_stays_open(log):
    log.append(0, txn=True, pid=1)
    log.append(0, txn=True, pid=2)
    log.append(0, txn=True, pid=3)
    completed = log.end_transaction(abort=True, pid=1)
    assert completed.is_aborted and completed.last_stable_offset == 1
    assert log.end_transaction(abort=True, pid=3).last_stable_offset == 1
    log.state.on_high_watermark(log.end)
    assert log.state.first_unstable_offset == 1


def test_sequences_go_on_after_a_marker_at_the_same_epoch(log):
    log.append(0, 3, txn=True)
    log.end_transaction()
    with pytest.raises(OutOfOrderSequence):
        log.append(0, 1, txn=True)
    assert log.append(3, txn=True) == 4


def test_a_marker_that_bumps_the_epoch_restarts_sequences_at_zero(log):
    log.append(0, 3, txn=True)
    log.end_transaction(epoch=1)
    with pytest.raises(OutOfOrderSequence):
        log.append(3, epoch=1, txn=True)
    assert log.append(0, epoch=1, txn=True) == 4
    with pytest.raises(InvalidProducerEpoch):
        log.append(0, epoch=0, txn=True)


def test_a_marker_without_records_here_is_no_transaction(log):
    assert log.end_transaction(epoch=5) is None
    assert log.state.producers[PID].producer_epoch == 5
    assert log.state.first_unstable_offset is None


def test_markers_of_an_old_coordinator_or_epoch_are_refused(log):
    log.append(0, txn=True, epoch=2)
    log.end_transaction(epoch=2, coordinator_epoch=4)
    with pytest.raises(TransactionCoordinatorFenced):
        log.end_transaction(epoch=2, coordinator_epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        log.end_transaction(epoch=1, coordinator_epoch=5)


def test_expiry_spares_recent_producers_and_open_transactions(log):
    log.append(0, timestamp=1000, pid=1)
    log.append(0, timestamp=5000, pid=2)
    log.append(0, timestamp=1000, pid=3, txn=True)
    assert log.state.remove_expired(1000 + log.state.expiration_ms - 1) == 0
    assert log.state.remove_expired(1000 + log.state.expiration_ms) == 1
    assert sorted(log.state.producers) == [2, 3]


def test_a_time_to_come_keeps_a_producer_no_longer_than_the_first_look_at_it(log):
    log.append(0, timestamp=(1 << 63) - 1)
    first_look_ms = 5000
    assert log.state.remove_expired(first_look_ms) == 0
    assert log.state.remove_expired(first_look_ms + log.state.expiration_ms - 1) == 0
    assert log.state.remove_expired(first_look_ms + log.state.expiration_ms) == 1


def test_replay_rebuilds_the_same_state():
    log = Log()
    batches = [
        build_batch([(b"k", b"v")] * 2, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
        build_batch(
            [(b"k", b"v")], base_offset=2, producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True
        ),
        build_marker(is_abort=True, producer_id=1, producer_epoch=0, coordinator_epoch=3, timestamp=9, base_offset=3),
        build_batch([(None, b"plain")], base_offset=4),
    ]
    completed = list(log.state.replay(b"".join(batches)))
    assert completed == [(1, 0, 3, True, 2)]
    assert log.state.map_end_offset == 5
    assert log.state.first_undecided_offset == 2
    assert log.state.producers[1].coordinator_epoch == 3 and log.state.producers[1].last_sequence == 1


def test_log_start_moves_forget_transactions_but_not_producers(log):
    log.append(0, txn=True)
    log.end_transaction()
    log.state.on_log_start_incremented(2)
    assert log.state.first_unstable_offset is None and PID in log.state.producers


def test_a_failed_check_changes_nothing(log):
    log.append(0, epoch=1)
    before = repr(log.state.producers[PID])
    for attempt in ({"sequence": 5, "epoch": 1}, {"sequence": 0, "epoch": 0}, {"sequence": 4, "epoch": 2}):
        with pytest.raises((OutOfOrderSequence, InvalidProducerEpoch)):
            log.append(**attempt)
    assert repr(log.state.producers[PID]) == before
