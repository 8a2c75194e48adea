"""What retention does to a log: files, offsets, epochs, snapshots, readers, and what a restart finds."""

import logging

import pytest

from storage.errors import OffsetOutOfRange
from storage.log.deletions import unlink_files
from storage.log.retention import MAX_SEGMENTS_PER_DECISION
from tests.sim.logs import NOW, append, append_marker, batch, file_names, offsets_of, retained

SIZE = len(batch())
LATER = NOW + 1_000_000


def bases(log) -> list[int]:
    return [int(name[:-4]) for name in file_names(log) if name.endswith(".log")]


def snapshots(log) -> list[int]:
    return [int(name[:-9]) for name in file_names(log) if name.endswith(".snapshot")]


def pending(log) -> list[str]:
    return [name for name in file_names(log) if name.endswith(".deleted")]


def expire(log, now_ms: int = LATER) -> int:
    return retained(log, now_ms)


def fill(log, count: int = 6, *, timestamp: int = NOW) -> None:
    for _ in range(count):
        append(log, timestamp=timestamp)


@pytest.fixture
def open_small(open_log):
    """Two batches a segment."""
    return lambda **options: open_log(
        **{"segment_bytes": 2 * SIZE, "index_interval_bytes": 0, "retention_ms": 1000, **options}
    )


def test_expired_segments_leave_and_the_log_start_follows(open_small):
    log = open_small()
    fill(log, 4)
    fill(log, 2, timestamp=LATER)
    assert expire(log) == 2
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (4, 6, [4])
    assert offsets_of(log) == [4, 5]
    with pytest.raises(OffsetOutOfRange):
        log.read(3, max_bytes=1 << 20, bound=6, min_one_batch=True)


def test_a_quiet_log_loses_its_active_segment_too_and_goes_on_at_its_end(open_small):
    log = open_small()
    fill(log, 5)
    assert expire(log) == 3
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, bases(log)) == (5, 5, 5, [5])
    assert expire(log) == 0
    append(log, timestamp=LATER)
    assert offsets_of(log) == [5]


def test_a_removed_log_comes_back_at_its_end_after_either_stop(open_small):
    log = open_small()
    fill(log, 5)
    expire(log)
    for clean in (False, True):
        log = open_small(clean=clean)
        assert (log.log_start_offset, log.log_end_offset, pending(log)) == (5, 5, [])
        log.close()


@pytest.mark.parametrize("written_ms", [LATER - 1000, LATER - 1001])
def test_without_timestamps_the_modification_time_counts(open_small, fs, written_ms):
    log = open_small(message_timestamp_type="CreateTime")
    log.append(batch(timestamp=-1), leader_epoch=0)
    log.advance_high_watermark(1)
    fs.set_mtime_ms(log.path + f"/{0:020d}.log", written_ms)
    assert expire(log) == (written_ms < LATER - 1000)


def test_records_at_the_beginning_of_time_expire(open_small):
    log = open_small()
    fill(log, 1, timestamp=0)
    assert expire(log) == 1


def test_one_fresh_record_keeps_the_old_ones_of_its_segment(open_small):
    log = open_small(segment_bytes=4 * SIZE)
    fill(log, 2)
    fill(log, 1, timestamp=LATER)
    assert expire(log) == 0
    assert offsets_of(log) == [0, 1, 2]


def test_nothing_above_the_high_watermark_goes(open_small):
    log = open_small()
    for _ in range(4):
        log.append(batch(), leader_epoch=0)
    log.advance_high_watermark(3)
    assert expire(log) == 1
    assert (log.log_start_offset, bases(log)) == (2, [2])


def test_a_timestamp_far_ahead_pins_its_segment_and_is_told_once_a_segment(open_small, caplog):
    log = open_small(message_timestamp_after_max_ms=(1 << 63) - 1)
    fill(log, 2)
    fill(log, 2, timestamp=1 << 62)
    fill(log, 2)
    with caplog.at_level(logging.WARNING):
        assert expire(log) == 1
        assert expire(log) == 0
    assert [record.getMessage().split(" partition")[0] for record in caplog.records] == [
        "a timestamp ahead of the clock keeps segments from expiring"
    ]
    assert log.log_start_offset == 2
    log.config = type(log.config)(retention_bytes=0)
    assert expire(log) == 2
    assert log.log_start_offset == 6


@pytest.mark.parametrize(("value", "left"), [(-5, 4), (3 * SIZE + 1, 4), (3 * SIZE, 3), (SIZE, 1), (0, 0)])
def test_size_counts_log_bytes_and_the_active_segment(open_small, value, left):
    log = open_small(segment_bytes=SIZE, retention_ms=-1, retention_bytes=value)
    fill(log, 4)
    expire(log)
    assert len(offsets_of(log)) == left


def test_a_log_start_within_a_segment_keeps_that_segment(open_small):
    log = open_small(retention_ms=-1)
    fill(log)
    log.increment_log_start_offset(3)
    assert expire(log) == 1
    assert (log.log_start_offset, log.first_segment_base_offset, bases(log)) == (3, 2, [2, 4])


def test_a_log_start_at_the_end_keeps_the_active_segment(open_small):
    log = open_small(retention_ms=-1)
    fill(log)
    log.increment_log_start_offset(6)
    assert expire(log) == 2
    assert (log.log_start_offset, bases(log)) == (6, [4])


def test_compacted_logs_only_lose_what_lies_below_the_log_start(open_small):
    log = open_small(cleanup_policy=frozenset({"compact"}), retention_bytes=0)
    fill(log)
    assert expire(log) == 0
    log.increment_log_start_offset(2)
    assert expire(log) == 1
    assert bases(log) == [2, 4]


def test_producer_snapshots_of_removed_offsets_go_and_producers_go_on(open_small):
    log = open_small()
    for sequence in range(5):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    assert snapshots(log) == [2, 4]
    expire(log)
    assert snapshots(log) == [5]
    assert [name for name in pending(log) if ".snapshot" in name] == [f"{at:020d}.snapshot.deleted" for at in (2, 4)]
    assert append(log, producer_id=7, producer_epoch=0, base_sequence=4).is_duplicate
    assert append(log, producer_id=7, producer_epoch=0, base_sequence=5, timestamp=LATER).base_offset == 5


def test_aborted_transactions_go_with_their_segments(open_small):
    log = open_small(segment_bytes=500)
    append(log, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 7, is_abort=True)
    assert any(name.endswith(".txnindex") for name in file_names(log))
    assert log.transactions.aborted(0, 2) == [(7, 0)]
    assert expire(log) == 1
    assert [name for name in file_names(log) if name.endswith(".txnindex")] == []
    assert log.transactions.aborted(2, 2) == []


def test_epochs_below_the_log_start_are_forgotten_also_on_disk(open_small):
    log = open_small()
    for epoch in (1, 2, 3):
        log.assign_epoch(epoch)
        append(log, 1, epoch=epoch)
        append(log, 1, epoch=epoch, timestamp=NOW if epoch < 3 else LATER)
    expire(log)
    assert log.epoch_entries() == [(3, 4)]
    log.close()
    assert open_small(clean=True).epoch_entries() == [(3, 4)]
    with open(log.path + "/leader-epoch-checkpoint") as file:
        assert file.read() == "0\n1\n3 4\n"


def test_files_carry_the_suffix_until_the_delay_has_passed(open_small, clock, fs):
    log = open_small(file_delete_delay_ms=500)
    clock.now = LATER
    fill(log, 2)
    expire(log)
    deletions = log._state.deletions
    assert pending(log) and deletions.take_due(LATER + 499) == []
    unlink_files(fs, deletions.take_due(LATER + 500))
    assert pending(log) == []


def test_without_a_delay_the_files_are_due_at_once(open_small, clock, fs):
    log = open_small(file_delete_delay_ms=0)
    fill(log, 2)
    expire(log)
    unlink_files(fs, log._state.deletions.take_due(clock.now))
    assert pending(log) == []


def test_many_expired_segments_go_in_several_steps(open_small):
    log = open_small(segment_bytes=SIZE)
    fill(log, MAX_SEGMENTS_PER_DECISION + 2)
    first = log.retain(LATER)
    assert first.segment_count == MAX_SEGMENTS_PER_DECISION
    second = log.retain(LATER)
    assert second.segment_count == 2
    assert log.retain(LATER) is None
    assert log.first_segment_base_offset == 0
    for removal in (second, first):
        removal.rename()
        log.removed(removal)
    assert log.first_segment_base_offset == log.log_start_offset == MAX_SEGMENTS_PER_DECISION + 2


def test_deleted_segments_and_bytes_are_counted_by_reason(open_small):
    log = open_small()
    fill(log, 4)
    log.increment_log_start_offset(2)
    expire(log)
    assert log._state.stats.deleted_segments == {"log_start": 1, "time": 1}
    assert log._state.stats.deleted_bytes == {"log_start": 2 * SIZE, "time": 2 * SIZE}


def test_a_closed_log_is_left_alone(open_small):
    log = open_small()
    fill(log, 4)
    log.close()
    assert log.retain(LATER) is None


def test_sealed_segments_of_an_earlier_run_expire_by_their_index(open_small):
    log = open_small()
    fill(log, 4)
    fill(log, 2, timestamp=LATER)
    log.close()
    log = open_small(clean=True, high_watermark=6)
    assert expire(log) == 2
