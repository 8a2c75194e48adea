"""One pass over a log with transactions: what is aborted goes, and markers when nobody needs them any more."""

from dataclasses import replace

import pytest

from protocol.records.batch import DELETE_HORIZON_BIT
from protocol.records.control import ControlType, build_control_batch, build_marker
from storage.types import AppendOrigin
from tests.sim.cleaning import clean
from tests.unit.storage.compaction.conftest import COMPACT
from tests.unit.storage.compaction.test_rewrite import headers, pairs


@pytest.fixture
def end(clock):
    """Append the marker of a transaction."""

    def end_(log, producer_id, *, is_abort, epoch=0, roll=False):
        marker = build_marker(
            is_abort=is_abort,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp=clock.now,
        )
        offset = log.append(marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR).base_offset
        log.advance_high_watermark(log.log_end_offset)
        if roll:
            log.roll()
        return offset

    return end_


@pytest.fixture
def transact(put):
    """Append data of a transaction; each producer counts its own sequence."""
    sequences: dict[int, int] = {}

    def transact_(log, producer_id, *records, epoch=0, roll=False):
        first = sequences.get(producer_id, 0)
        sequences[producer_id] = first + len(records)
        return put(
            log,
            *records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first,
            is_transactional=True,
            roll=roll,
        )

    return transact_


def test_aborted_data_goes_and_its_marker_two_passes_later(open_log, put, transact, end, fs, clock):
    log = open_log(replace(COMPACT, delete_retention_ms=0))
    transact(log, 7, (b"a", b"1"), roll=True)
    transact(log, 7, (b"b", b"1"))
    end(log, 7, is_abort=True)
    put(log, (b"a", b"0"), roll=True)
    transact(log, 7, (b"y", b"1"))
    end(log, 7, is_abort=False, roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    assert [key for _, key, _ in pairs(log)] == [b"a", b"y", b"z"]
    assert log.transactions.aborted(0, 10) == [(7, 0)]
    assert [header.base_offset for header in headers(log)] == [2, 3, 4, 5, 6]
    clean(log, fs, clock)
    assert log.transactions.aborted(0, 10) == []
    assert headers(log)[0].attributes & DELETE_HORIZON_BIT
    clean(log, fs, clock)
    assert [header.base_offset for header in headers(log)] == [3, 4, 5, 6]
    assert log.last_stable_offset == log.log_end_offset


def test_aborted_values_supersede_nothing(open_log, put, transact, end, fs, clock):
    log = open_log()
    put(log, (b"a", b"kept"), roll=True)
    transact(log, 7, (b"a", b"aborted"), roll=True)
    end(log, 7, is_abort=True, roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    assert pairs(log) == [(0, b"a", b"kept"), (3, b"z", b"z")]


def test_data_is_known_as_aborted_by_a_marker_above_the_round(open_log, put, transact, end, fs, clock):
    log = open_log()
    put(log, (b"a", b"kept"))
    transact(log, 7, (b"a", b"aborted"), roll=True)
    end(log, 7, is_abort=True)
    clean(log, fs, clock)
    assert pairs(log) == [(0, b"a", b"kept")]
    assert log.transactions.aborted(0, 3) == [(7, 1)]


def test_a_checkpoint_inside_an_aborted_transaction_knows_of_it(open_log, put, transact, end, fs, clock):
    log = open_log()
    put(log, (b"a", b"kept"))
    transact(log, 7, (b"x", b"aborted"), roll=True)
    transact(log, 7, (b"a", b"aborted"))
    end(log, 7, is_abort=True, roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock, checkpoint=2)
    assert pairs(log) == [(0, b"a", b"kept"), (4, b"z", b"z")]


def test_interleaved_transactions_are_told_apart(open_log, put, transact, end, fs, clock):
    log = open_log()
    transact(log, 1, (b"a", b"aborted"))
    transact(log, 2, (b"a", b"committed"), roll=True)
    transact(log, 1, (b"b", b"aborted"))
    end(log, 2, is_abort=False)
    transact(log, 2, (b"b", b"aborted too"), roll=True)
    end(log, 1, is_abort=True)
    transact(log, 1, (b"c", b"committed"))
    end(log, 2, is_abort=True)
    end(log, 1, is_abort=False, roll=True)
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    assert [(key, value) for _, key, value in pairs(log)] == [
        (b"a", b"committed"),
        (b"c", b"committed"),
        (b"z", b"z"),
    ]
    assert log.transactions.aborted(0, 10) == [(1, 0), (2, 4)]


def test_the_newest_epoch_of_a_producer_stays_with_its_marker(open_log, put, transact, end, fs, clock):
    log = open_log(replace(COMPACT, delete_retention_ms=0))
    transact(log, 7, (b"a", b"1"))
    end(log, 7, is_abort=False, epoch=1, roll=True)
    put(log, (b"a", b"2"), roll=True)
    put(log, (b"z", b"z"))
    for _ in range(4):
        clean(log, fs, clock)
    assert [(header.base_offset, header.is_control, header.record_count) for header in headers(log)] == [
        (1, True, 0),
        (2, False, 1),
        (3, False, 1),
    ]
    assert headers(log)[0].producer_epoch == 1


def test_unknown_control_records_stay(open_log, put, fs, clock):
    log = open_log(replace(COMPACT, delete_retention_ms=0))
    batch = build_control_batch([(ControlType.LEADER_CHANGE, b"what it is")], timestamp=clock.now)
    log.append(batch, leader_epoch=0, origin=AppendOrigin.RAFT)
    put(log, (b"a", b"1"), roll=True)
    put(log, (b"z", b"z"))
    for _ in range(3):
        clean(log, fs, clock)
    assert [header.base_offset for header in headers(log)] == [0, 1, 2]
