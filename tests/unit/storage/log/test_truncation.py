"""Cutting a log: what lies above is forgotten everywhere, and what lies below stays as it was."""

import pytest

from protocol.records.control import build_marker
from storage.log.partition_log import PartitionLog
from storage.types import AppendOrigin
from tests.sim.logs import NOW, append, append_marker, batch, batches_of, offsets_of
from tests.unit.storage.log.test_loader import SMALL, assert_whole, crash


def test_truncation_forgets_what_lies_above(open_log):
    log = open_log(**SMALL)
    log.assign_epoch(0)
    for n in range(18):
        append(log, timestamp=NOW + n)
    log.assign_epoch(1)
    for sequence in range(17):
        append(log, producer_id=3, producer_epoch=0, base_sequence=sequence, timestamp=NOW + 18 + sequence, epoch=1)
    offsets_of(log)
    assert log.truncate_to(20)
    assert_whole(log, 20)
    assert log.epoch_entries() == [(0, 0), (1, 18)]
    assert not append(log, producer_id=3, producer_epoch=0, base_sequence=2, timestamp=NOW + 20, epoch=1).is_duplicate
    assert_whole(log, 21)
    assert not log.truncate_to(21)
    log.truncate_to(5)
    assert log.epoch_entries() == [(0, 0)]
    assert_whole(log, 5)
    log.truncate_fully_and_start_at(50)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point) == (50, 50, 50, 50)
    assert append(log).base_offset == 50
    crash(log)
    assert open_log(log_start_offset=50, **SMALL).log_end_offset == 51


def test_a_truncation_leaves_the_last_stable_offset_to_what_is_undecided_below_it(open_log):
    log = open_log()
    fields = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, producer_id=1, **fields)
    append_marker(log, 1, is_abort=False)
    append(log, 2)
    log.truncate_to(3)
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)


@pytest.mark.parametrize(("offset", "stable"), [(4, 1), (3, 1), (2, 1)])
def test_a_transaction_whose_marker_is_not_replicated_stays_undecided_over_a_truncation(open_log, offset, stable):
    log = open_log()
    append(log)
    log.append(batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True), leader_epoch=0)
    marker = build_marker(is_abort=False, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    log.append(bytes(marker), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.roll()  # a snapshot here knows nothing of the marker's place
    log.append(batch(2), leader_epoch=0)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 1
    log.truncate_to(offset)
    assert log.last_stable_offset == stable


def test_a_truncation_forgets_the_aborted_transactions_that_end_above(open_log):
    log = open_log()
    fields = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
    for n in range(2):
        append(log, base_sequence=n, **fields)
        append_marker(log, 1, is_abort=True)
    assert log.transactions.aborted(0, 4) == [(1, 0), (1, 2)]
    log.truncate_to(3)
    assert log.transactions.aborted(0, 3) == [(1, 0)]
    append_marker(log, 1, is_abort=False)
    assert log.transactions.aborted(0, 4) == [(1, 0)]


@pytest.mark.parametrize("truncate", [PartitionLog.truncate_to, PartitionLog.truncate_fully_and_start_at])
def test_a_truncation_forgets_where_reads_have_found_offsets(open_log, truncate):
    log = open_log()
    append(log, 4)
    append(log)
    for offset in range(5):
        log.read(offset, max_bytes=1, bound=5, min_one_batch=True).region.release()
    truncate(log, 4)
    append(log, 2, value=b"other" * 50)
    for offset in (4, 5):
        found = log.read(offset, max_bytes=1, bound=6, min_one_batch=True)
        assert [header.base_offset for header in batches_of(found.region.read())] == [4]
        found.region.release()


def test_a_truncation_cuts_the_indexes_of_a_segment_that_nobody_has_looked_into(open_log):
    log = open_log()
    append(log, timestamp=NOW + 1000)
    log.roll()
    log.close()
    log = open_log(clean=True, high_watermark=1)
    log.truncate_to(0)
    append(log, timestamp=NOW)
    assert log.offset_of_max_timestamp(1)[:2] == (NOW, 0)
