"""The transactions of a log: which aborted ones a read is told of, and how the last stable offset survives."""

from __future__ import annotations

import pytest

from storage.errors import InvalidTxnState
from storage.producers.state import DEFAULT_EXPIRATION_MS
from storage.producers.verification import Begun
from storage.types import AppendOrigin
from tests.sim.logs import append, append_marker, batch

SIZE = len(batch())


def write(log, producer_id, count=1, *, sequence=0):
    """Append one-record batches to the open transaction of a producer."""
    for number in range(sequence, sequence + count):
        append(log, producer_id=producer_id, producer_epoch=0, base_sequence=number, is_transactional=True)


def aborted(log, offset, *, max_bytes=1 << 20):
    """Read from an offset; give how many batches that found, and the aborted transactions it was told of."""
    found = log.read(offset, max_bytes=max_bytes, bound=log.last_stable_offset, min_one_batch=True)
    told = log.transactions.aborted_in(offset, found)
    if found.region is not None:
        found.region.release()
    return found.size // SIZE, told


def two_aborted(log):
    """0, 1: producer 1; 2: its abort; 3: plain; 4, 5: producer 2; 6: its abort; 7: plain."""
    write(log, 1, 2)
    append_marker(log, 1, is_abort=True)
    append(log)
    write(log, 2, 2)
    append_marker(log, 2, is_abort=True)
    append(log)


@pytest.mark.parametrize(
    "options", [{}, {"segment_bytes": 3 * SIZE}, {"segment_bytes": 2 * SIZE}, {"preallocate": True}]
)
def test_a_read_is_told_of_the_aborted_transactions_that_it_touches_and_no_others(open_log, options):
    log = open_log(**options)
    two_aborted(log)
    size = SIZE + 20  # a batch, and not two of them
    first, second = (1, 0), (2, 4)
    told = [aborted(log, offset, max_bytes=size)[1] for offset in range(8)]
    assert told == [[first], [first], [first], [], [second], [second], [second], []]


def test_a_read_of_everything_is_told_of_all_in_the_order_of_their_beginnings(open_log):
    log = open_log()
    write(log, 1)
    write(log, 2)
    append_marker(log, 2, is_abort=True)
    append_marker(log, 1, is_abort=True)
    assert aborted(log, 0)[1] == [(1, 0), (2, 1)]
    assert aborted(log, 3)[1] == [(1, 0)]


def test_a_read_that_found_nothing_is_told_of_nothing(open_log):
    log = open_log()
    two_aborted(log)
    write(log, 3)
    assert aborted(log, log.last_stable_offset) == (0, [])


def test_committed_and_open_transactions_are_no_news(open_log):
    log = open_log()
    write(log, 1)
    append_marker(log, 1, is_abort=False)
    write(log, 2)
    assert aborted(log, 0)[1] == []
    assert log.last_stable_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_transaction_and_its_epoch_survive_a_restart(open_log, clean):
    log = open_log()
    append(log)
    write(log, 5)
    append(log)
    log.close() if clean else log.flush()
    again = open_log(clean=clean, high_watermark=3)
    assert (again.last_stable_offset, again.high_watermark) == (1, 3)
    again.transactions.require_verification()
    assert again.transactions.is_open(5, 0)
    assert again.transactions.begin_verification(Begun(5, 0, 1, False)) is None
    write(again, 5, sequence=1)
    append_marker(again, 5, is_abort=False)
    again.advance_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == again.log_end_offset


def producer_ids(log):
    return {entry.producer_id for entry in log.active_producers()}


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_forgets_producers_that_are_idle_for_long_unless_their_transaction_is_open(open_log, clock, clean):
    def write_at(timestamp, producer_id, **fields):
        append(log, timestamp=timestamp, producer_id=producer_id, producer_epoch=0, base_sequence=0, **fields)

    log = open_log()
    expired_ms = clock.now_ms() - DEFAULT_EXPIRATION_MS
    write_at(expired_ms, 5)
    write_at(expired_ms + 1, 6)
    write_at(expired_ms, 7, is_transactional=True)
    assert producer_ids(log) == {5, 6, 7}
    log.close() if clean else log.flush()
    assert producer_ids(open_log(clean=clean)) == {6, 7}


def test_a_verification_counts_for_the_append_inside_alone(open_log):
    log = open_log()
    log.transactions.require_verification()
    held = log.transactions.begin_verification(Begun(5, 0, 0, False))
    with pytest.raises(InvalidTxnState):
        write(log, 5)
    with log.transactions.in_hand(held):
        write(log, 5)
    append_marker(log, 5, is_abort=True)
    with pytest.raises(InvalidTxnState), log.transactions.in_hand(held):
        write(log, 5, sequence=1)
    with pytest.raises(InvalidTxnState):
        write(log, 5, sequence=1)
    assert log.log_end_offset == 2


def test_a_refused_append_keeps_the_verification_in_force(open_log):
    log = open_log()
    log.transactions.require_verification()
    held = log.transactions.begin_verification(Begun(5, 0, 0, False))
    damaged = batch(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    damaged[-1] ^= 1
    with pytest.raises(Exception, match="CRC"), log.transactions.in_hand(held):
        log.append(damaged, leader_epoch=0, origin=AppendOrigin.CLIENT)
    with log.transactions.in_hand(held):
        write(log, 5)
    assert log.transactions.is_open(5, 0)
