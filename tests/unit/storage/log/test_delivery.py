"""Scheduled delivery in one log: what is released when, and how it follows the ends, settings and moves of the log."""

from dataclasses import replace

import pytest

from config.views import LONG_MAX, LogConfig
from protocol.records.builder import build_batch
from storage.errors import InvalidTimestamp
from storage.log.partition_log import PartitionLog
from tests.sim.logs import NOW, TP, append, append_marker, batch, batches_of, known, read_all, retained

E = 250
# --- what is released when ---


def test_a_batch_is_released_when_its_time_and_the_uncertainty_have_passed(scheduled):
    log = scheduled()
    append(log, timestamp=NOW + 1000)
    assert known(log) == (0, NOW + 1000)
    assert not log.delivery.advance(NOW + 1249)
    assert known(log) == (0, NOW + 1000)
    assert log.delivery.advance(NOW + 1250)
    assert known(log) == (1, None)
    assert not log.delivery.advance(NOW + 1250)
    assert log.high_watermark == log.last_stable_offset == log.log_end_offset == 1


def test_a_batch_that_is_due_is_released_by_its_append(scheduled):
    log = scheduled()
    for timestamp in (NOW - E, 0, -1):
        append(log, timestamp=timestamp)
    assert known(log) == (3, None)
    append(log, timestamp=NOW - E + 1)
    assert known(log) == (3, NOW - E + 1)


def test_what_is_due_behind_a_pending_batch_waits_for_it(scheduled):
    log = scheduled()
    append(log, timestamp=NOW + 10_000)
    append(log, timestamp=0)
    assert not log.delivery.advance(NOW + 10_249)
    assert log.delivery.advance(NOW + 10_250)
    assert known(log) == (2, None)


def test_a_batch_waits_as_a_whole_for_the_newest_of_its_records(scheduled):
    log = scheduled()
    rows = [(b"k", b"v", (), NOW + delay) for delay in (5000, 10, 0)]
    log.append(build_batch(rows, codec=1), leader_epoch=0)
    assert not log.delivery.advance(NOW + 5249)
    assert log.delivery.advance(NOW + 5250)
    assert known(log) == (3, None)


def test_the_largest_timestamp_of_all_never_comes_due(scheduled):
    log = scheduled(delivery_max_delay_ms=-1, segment_ms=1000, retention_ms=1, retention_bytes=0)
    append(log, timestamp=NOW)
    append(log, timestamp=LONG_MAX)
    append(log, timestamp=NOW)
    assert log.delivery.advance(1 << 61)
    assert known(log) == (1, LONG_MAX)
    log.retain(1 << 61)
    assert [header.max_timestamp for header in batches_of(read_all(log, 1))][:1] == [LONG_MAX]
    assert log.offset_for_timestamp(LONG_MAX, bound=3)[:2] == (LONG_MAX, 1)
    assert log.offset_of_max_timestamp(3)[:2] == (LONG_MAX, 1)


def test_a_clock_that_is_set_back_takes_nothing_back(scheduled, clock):
    log = scheduled()
    append(log, timestamp=NOW + 1000)
    log.delivery.advance(NOW + 1250)
    clock.now -= 3_600_000
    assert not log.delivery.advance(clock.now)
    assert known(log) == (1, None)
    append(log, timestamp=NOW)
    assert known(log) == (1, NOW)


def test_a_larger_uncertainty_holds_for_what_comes_due_later(scheduled):
    log = scheduled()
    for delay in (1000, 2000):
        append(log, timestamp=NOW + delay)
    log.delivery.advance(NOW + 1250)
    log.config = replace(log.config, delivery_clock_uncertainty_ms=5000)
    assert known(log) == (1, NOW + 2000)
    assert not log.delivery.advance(NOW + 6999)
    assert log.delivery.advance(NOW + 7000)


def test_an_uncertainty_without_bound_holds_everything_back(scheduled):
    log = scheduled(delivery_clock_uncertainty_ms=LONG_MAX)
    append(log, timestamp=-1)
    assert not log.delivery.advance(1 << 62)
    assert known(log) == (0, -1)


def test_a_marker_is_a_batch_like_any_other_with_the_time_of_its_write(scheduled):
    log = scheduled(delivery_max_delay_ms=0, delivery_schedule_monotonic=True)
    log.append(
        batch(1, timestamp=NOW - 1000, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        leader_epoch=0,
    )
    append_marker(log, 7, is_abort=False)
    assert known(log) == (1, NOW)
    assert log.delivery.advance(NOW + E)
    assert known(log) == (2, None)


# --- what is told of lateness ---


def test_it_is_told_how_late_batches_are_that_were_seen_to_be_pending(scheduled):
    log = scheduled()
    told: list[int] = []
    log._state.stats.on_activated = told.append
    append(log, timestamp=NOW - 5000)
    for delay in (1000, 400, 0, -E, 1000, 9000):
        append(log, timestamp=NOW + delay)
    assert log.delivery.advance(NOW + 1300)
    assert told == [50, 650, 1050, 50], "what was due when the first one began to wait was not late"
    append(log, timestamp=NOW + 1000)
    del told[:]
    log.delivery.advance(NOW + 9250)
    assert told == [0]


def test_a_transactions_marker_is_not_late_behind_the_records_that_it_commits(scheduled):
    log = scheduled()
    told: list[int] = []
    log._state.stats.on_activated = told.append
    append(log, timestamp=NOW + 500)
    log.append(
        batch(1, timestamp=NOW + 5000, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        leader_epoch=0,
    )
    append_marker(log, 7, is_abort=False)
    assert log.delivery.advance(NOW + 5000 + E)
    assert known(log) == (3, None)
    assert told == [4500, 0]


# --- the ends of the log ---


def test_a_truncation_lowers_what_is_released_and_forgets_what_was_pending(scheduled):
    log = scheduled()
    for delay in (-E, -E, 1000):
        append(log, timestamp=NOW + delay)
    log.truncate_to(2)
    assert known(log) == (2, None) and not log.delivery.is_behind
    append(log, timestamp=NOW - E)
    assert known(log) == (3, None)
    log.truncate_to(1)
    assert known(log) == (1, None)
    append(log, timestamp=NOW + 1000)
    assert known(log) == (1, NOW + 1000)


def test_what_is_left_of_the_pending_is_found_again_after_a_truncation(scheduled):
    log = scheduled()
    for delay in (1000, 2000):
        append(log, timestamp=NOW + delay)
    log.truncate_to(1)
    assert log.delivery.is_behind
    assert not log.delivery.advance(NOW)
    assert known(log) == (0, NOW + 1000)


def test_a_log_that_is_emptied_begins_anew(scheduled):
    log = scheduled()
    append(log, timestamp=NOW + 1000)
    log.truncate_fully_and_start_at(10)
    assert known(log) == (10, None) and not log.delivery.is_behind
    append(log, timestamp=NOW - E)
    log.truncate_fully_and_start_at(4)
    assert known(log) == (4, None)


def test_a_batch_that_a_truncation_cut_into_leaves_a_gap_that_belongs_to_the_next_one(scheduled):
    log = scheduled()
    append(log, 3, timestamp=NOW - 10_000)
    append(log, 3, timestamp=NOW - 10_000)
    log.truncate_to(5)
    assert known(log) == (5, None) and log.log_end_offset == 5
    append(log, timestamp=NOW + 1000)
    assert known(log) == (5, NOW + 1000)
    log.truncate_to(5)
    log.close()
    assert not log.delivery.advance(NOW), "a closed log is not read"


def test_a_log_start_beyond_the_watermark_takes_it_along(scheduled):
    log = scheduled()
    for delay in (1000, 2000, 3000):
        append(log, timestamp=NOW + delay)
    log.increment_log_start_offset(1)
    assert known(log) == (1, None) and log.delivery.is_behind
    log.delivery.advance(NOW)
    assert known(log) == (1, NOW + 2000)


def test_a_log_start_within_a_batch_is_where_its_watermark_begins(scheduled):
    log = scheduled()
    append(log, 5, timestamp=NOW - 10_000)
    append(log, timestamp=NOW + 1000)
    log.increment_log_start_offset(3)
    log.close()
    log = scheduled(clean=True, log_start_offset=3, high_watermark=6)
    assert known(log) == (3, None)
    assert log.delivery.advance(NOW)
    assert known(log) == (5, NOW + 1000)


# --- retention ---


def test_pending_segments_stay_whatever_retention_says(scheduled, caplog):
    log = scheduled(segment_bytes=200, retention_bytes=0)
    for delay in (-E, -E, 86_400_000, -E, 172_800_000):
        append(log, timestamp=NOW + delay, value=b"v" * 100)
    assert log.segment_count == 5
    assert retained(log, NOW) == 2
    assert (log.log_start_offset, log.segment_count) == (2, 3)
    assert not caplog.records, "that a time ahead keeps a segment is as it should be"
    log.delivery.advance(NOW + 86_400_000 + E)
    assert retained(log, NOW + 86_400_000 + E) == 2
    log.delivery.advance(NOW + 172_800_000 + E)
    assert retained(log, NOW + 172_800_000 + E) == 1
    assert log.log_start_offset == log.log_end_offset == 5


def test_a_pending_batch_in_the_active_segment_keeps_it_from_being_rolled_to_go(scheduled):
    log = scheduled(retention_ms=1000)
    append(log, timestamp=NOW - 20_000)
    append(log, timestamp=NOW - 1000)
    log.config = replace(log.config, delivery_clock_uncertainty_ms=15_000)
    append(log, timestamp=NOW - 14_000)
    assert known(log) == (2, NOW - 14_000)
    assert retained(log, NOW + 999) == 0
    log.delivery.advance(NOW + 1000)
    assert retained(log, NOW + 1000) == 1


def test_what_may_be_deleted_ends_at_what_is_replicated_and_released(scheduled):
    log = scheduled()
    log.append(batch(timestamp=NOW - E), leader_epoch=0)
    log.append(batch(timestamp=NOW + 1000), leader_epoch=0)
    assert log.released_end_offset == 0
    log.advance_high_watermark(2)
    assert log.released_end_offset == 1


def test_a_compacted_policy_means_nothing_to_a_scheduled_log():
    both = LogConfig(cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=5, delivery_mode="scheduled")
    assert not both.is_compact and both.max_segment_ms == both.segment_ms
    assert replace(both, delivery_mode="immediate").is_compact


def test_a_record_without_a_key_is_welcome_where_nothing_is_compacted(scheduled):
    log = scheduled(cleanup_policy=frozenset({"compact"}))
    log.append(build_batch([(None, b"v", (), NOW)]), leader_epoch=0)
    assert log.log_end_offset == 1


# --- restarts, modes, moves ---


def test_a_restart_derives_it_anew_from_the_log_and_the_clock(scheduled):
    log = scheduled(segment_bytes=200)
    for delay in (-E, 1000, -E, 5000):
        append(log, timestamp=NOW + delay, value=b"v" * 100)
    log.delivery.advance(NOW + 1250)
    assert known(log) == (3, NOW + 5000)
    log.close()
    for clean in (True, False):
        log = scheduled(segment_bytes=200, clean=clean, high_watermark=4)
        assert known(log) == (0, None) and log.delivery.is_behind
        assert log.delivery.advance(NOW + 1250)
        assert known(log) == (3, NOW + 5000)
        log.close()
    log = scheduled(segment_bytes=200, clean=True, high_watermark=4)
    log.delivery.advance(NOW + 1249)
    assert known(log) == (1, NOW + 1000)


def test_a_log_that_becomes_scheduled_hides_what_is_pending_in_it(open_log):
    log = open_log(message_timestamp_after_max_ms=LONG_MAX)
    for delay in (-E, 5000, -E):
        append(log, timestamp=NOW + delay)
    log.config = replace(log.config, delivery_mode="scheduled")
    log.delivery.advance(NOW)
    assert known(log) == (1, NOW + 5000)


def test_what_one_schedule_released_the_next_one_does_not_take_back(scheduled):
    log = scheduled()
    for delay in (1000, 5000):
        append(log, timestamp=NOW + delay)
    log.delivery.advance(NOW + 1250)
    log.config = replace(log.config, delivery_mode="immediate")
    assert log.delivery is None
    append(log, timestamp=NOW + 1000)
    log.config = replace(log.config, delivery_mode="scheduled")
    log.delivery.advance(NOW)
    assert known(log) == (1, NOW + 5000)


@pytest.mark.parametrize("cut", [PartitionLog.truncate_to, PartitionLog.truncate_fully_and_start_at])
def test_what_is_cut_off_an_immediate_log_is_released_no_longer(scheduled, cut):
    log = scheduled()
    append(log, timestamp=NOW - E)
    log.config = replace(log.config, delivery_mode="immediate")
    cut(log, 0)
    append(log, timestamp=NOW + 1000)
    log.config = replace(log.config, delivery_mode="scheduled")
    log.delivery.advance(NOW)
    assert known(log) == (0, NOW + 1000)


def test_other_settings_leave_what_is_known_alone(scheduled):
    log = scheduled()
    append(log, timestamp=NOW + 1000)
    before = log.delivery
    log.config = replace(log.config, retention_ms=5)
    assert log.delivery is before and known(log) == (0, NOW + 1000)


@pytest.fixture
def moved(fs, clock, rng, tmp_path):
    """Copy a log into another directory and let the copy take over."""

    def move(log: PartitionLog) -> PartitionLog:
        target = PartitionLog.open(fs, clock, rng, str(tmp_path / "other"), TP, LogConfig())
        copy = log.copy_into(target)
        while not copy.is_complete:
            step = copy.plan(1 << 20, is_flushed=True)
            while step.turn():
                pass
            copy.note(step)
        copy.close()
        target.config = log.config
        target.take_over_delivery(log)
        return target

    return move


def test_a_log_moves_with_what_was_released_of_it(scheduled, moved):
    log = scheduled(delivery_schedule_monotonic=True)
    for delay in (1000, 5000):
        append(log, timestamp=NOW + delay)
    log.delivery.advance(NOW + 1250)
    target = moved(log)
    assert known(target) == (1, NOW + 5000)
    assert target.delivery.advance(NOW + 5250)
    assert known(target) == (2, None)
    with pytest.raises(InvalidTimestamp):
        append(target, timestamp=NOW)


def test_a_log_that_moves_while_it_is_immediate_takes_along_what_was_released_before(scheduled, moved):
    log = scheduled()
    for delay in (1000, 5000):
        append(log, timestamp=NOW + delay)
    log.delivery.advance(NOW + 1250)
    log.config = replace(log.config, delivery_mode="immediate")
    target = moved(log)
    target.config = replace(log.config, delivery_mode="scheduled")
    target.delivery.advance(NOW)
    assert known(target) == (1, NOW + 5000)
