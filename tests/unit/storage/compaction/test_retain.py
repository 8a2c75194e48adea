"""The rules for batches and transactions, one by one."""

import pytest

from protocol.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from protocol.records.control import ControlType
from storage.compaction.retain import BatchRules, CleanedTransactions, Fate
from storage.compaction.task import LastRecord
from storage.segment.txn_index import AbortedTxn

NOW = 1000
END = 100


def batch(base: int, producer: int = -1, *, attributes: int = 0, last_delta: int = 0, **fields) -> BatchHeader:
    values = {"magic": 2, "base_timestamp": 0, "epoch": 0} | fields
    return BatchHeader(
        base,
        100,
        0,
        values["magic"],
        0,
        attributes,
        last_delta,
        values["base_timestamp"],
        0,
        producer,
        values["epoch"],
        0,
        1,
    )


def data(base: int, producer: int, **fields) -> BatchHeader:
    return batch(base, producer, attributes=TRANSACTIONAL_BIT, **fields)


def marker(base: int, producer: int, *, horizon: int | None = None, **fields) -> BatchHeader:
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT | (0 if horizon is None else DELETE_HORIZON_BIT)
    return batch(base, producer, attributes=attributes, base_timestamp=horizon or 0, **fields)


def rules(transactions: CleanedTransactions | None = None, *producers: LastRecord) -> BatchRules:
    return BatchRules(transactions or CleanedTransactions([]), producers, now_ms=NOW, round_end=END)


def judge(rules_: BatchRules, header: BatchHeader, control_type: int | None = None, legacy: bool = False):
    return rules_.judge(header, control_type, keeps_legacy_tombstones=legacy)


# --- transactions ---


def test_data_of_an_aborted_transaction_is_told_from_other_data():
    transactions = CleanedTransactions([AbortedTxn(7, 10, 20, 21)])
    assert not transactions.is_aborted(data(5, 7))
    assert transactions.is_aborted(data(10, 7))
    assert not transactions.is_aborted(data(11, 8))
    assert not transactions.is_aborted(batch(12, 7))
    assert transactions.is_aborted(data(13, 7))
    assert not transactions.is_marker_idle(marker(20, 7), ControlType.ABORT)
    assert not transactions.is_aborted(data(21, 7))


def test_a_batch_that_begins_before_its_transaction_was_noted_belongs_to_it_by_its_last_offset():
    transactions = CleanedTransactions([AbortedTxn(7, 12, 20, 21)])
    assert transactions.is_aborted(data(10, 7, last_delta=5))


def test_the_index_entry_stays_with_a_marker_that_still_ends_data():
    txn = AbortedTxn(7, 10, 20, 21)
    transactions = CleanedTransactions([txn])
    transactions.is_aborted(data(10, 7))
    assert not transactions.is_marker_idle(marker(20, 7), ControlType.ABORT)
    assert transactions.retained == [txn]


def test_an_abort_marker_without_data_is_idle_and_its_index_entry_goes():
    transactions = CleanedTransactions([AbortedTxn(7, 10, 20, 21)])
    assert transactions.is_marker_idle(marker(20, 7), ControlType.ABORT)
    assert transactions.retained == []
    assert CleanedTransactions([]).is_marker_idle(marker(20, 7), ControlType.ABORT)


def test_a_commit_marker_is_idle_once_no_batch_of_its_transaction_is_left():
    transactions = CleanedTransactions([])
    transactions.is_aborted(data(1, 7))
    assert not transactions.is_marker_idle(marker(2, 7), ControlType.COMMIT)
    assert transactions.is_marker_idle(marker(3, 7), ControlType.COMMIT)


def test_other_control_batches_are_never_idle_and_empty_ones_always():
    transactions = CleanedTransactions([])
    assert not transactions.is_marker_idle(marker(1, -1), ControlType.LEADER_CHANGE)
    assert not transactions.is_marker_idle(marker(1, -1), 99)
    assert transactions.is_marker_idle(marker(1, 7), None)


def test_the_same_transaction_listed_by_two_indexes_counts_once():
    txn = AbortedTxn(7, 10, 20, 21)
    transactions = CleanedTransactions([txn, txn])
    transactions.is_aborted(data(10, 7))
    transactions.is_marker_idle(marker(20, 7), ControlType.ABORT)
    assert not transactions.is_aborted(data(21, 7))


# --- batches ---


def test_data_is_filtered_and_aborted_data_dropped():
    judged = rules(CleanedTransactions([AbortedTxn(7, 10, 20, 21)]))
    assert judge(judged, batch(1)).fate is Fate.FILTER
    assert judge(judged, data(10, 7)).fate is Fate.DROP_ALL


@pytest.mark.parametrize(("horizon", "keeps"), [(None, True), (NOW + 1, True), (NOW, False), (NOW - 1, False)])
def test_tombstones_stay_below_the_horizon_of_their_batch(horizon, keeps):
    attributes = 0 if horizon is None else DELETE_HORIZON_BIT
    header = batch(1, attributes=attributes, base_timestamp=horizon or 0)
    assert judge(rules(), header).keeps_tombstones is keeps


def test_an_idle_marker_gets_a_horizon_first_and_goes_once_it_is_over():
    first = judge(rules(), marker(1, 7), ControlType.COMMIT)
    assert (first.fate, first.needs_horizon) == (Fate.KEEP_ALL, True)
    waiting = judge(rules(), marker(1, 7, horizon=NOW + 1), ControlType.COMMIT)
    assert (waiting.fate, waiting.needs_horizon) == (Fate.KEEP_ALL, False)
    assert judge(rules(), marker(1, 7, horizon=NOW), ControlType.COMMIT).fate is Fate.DROP_ALL


def test_a_marker_with_data_stays_even_past_its_horizon():
    judged = rules()
    judge(judged, data(1, 7))
    verdict = judge(judged, marker(2, 7, horizon=NOW - 1), ControlType.COMMIT)
    assert (verdict.fate, verdict.needs_horizon) == (Fate.KEEP_ALL, False)


def test_the_last_data_of_an_active_producer_stays_as_a_header():
    judged = rules(None, LastRecord(7, 3, 15))
    assert judge(judged, batch(10, 7, last_delta=5, epoch=3)).stays_empty
    assert not judge(judged, batch(10, 7, last_delta=4, epoch=3)).stays_empty
    assert not judge(judged, batch(10, 8, last_delta=5)).stays_empty
    assert not judge(judged, marker(16, 7, epoch=3), ControlType.COMMIT).stays_empty


def test_a_marker_stays_as_a_header_if_it_alone_has_the_producers_epoch():
    judged = rules(None, LastRecord(7, 3, -1))
    assert judge(judged, marker(10, 7, epoch=3, horizon=NOW), ControlType.COMMIT).stays_empty
    assert not judge(judged, marker(10, 7, epoch=2, horizon=NOW), ControlType.COMMIT).stays_empty
    assert not judge(judged, data(10, 7, epoch=3)).stays_empty


def test_the_end_of_the_round_stays_as_a_header():
    assert judge(rules(), batch(90, last_delta=9)).stays_empty
    assert not judge(rules(), batch(90, last_delta=8)).stays_empty


def test_legacy_messages_follow_the_age_of_their_segment():
    header = batch(99, magic=1, attributes=TRANSACTIONAL_BIT | DELETE_HORIZON_BIT)
    assert judge(rules(), header, legacy=True) == (Fate.FILTER, False, False, True)
    assert judge(rules(), header, legacy=False) == (Fate.FILTER, False, False, False)
