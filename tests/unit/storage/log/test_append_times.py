"""When records were appended: what the headers say, for every offset, beside a log that goes on."""

import os
import random

import pytest

from config.views import LogConfig
from protocol.records.batch import DELETE_HORIZON_BIT, BatchHeader
from storage.errors import CorruptRecord, LogClosed, StorageFailure
from storage.log.append_times import NO_TIME, time_of
from tests.sim.logs import NOW, append, append_marker, batch


def filled(open_log, seed: int = 1, **options):
    """Make a log of several segments, and what is to be found for each of its offsets."""
    chance = random.Random(seed)
    log = open_log(segment_bytes=4000, index_interval_bytes=300, **options)
    expected = {}
    for number in range(80):
        count, timestamp = chance.randint(1, 5), NOW - 100_000 + number * 1000 + chance.randint(-300, 300)
        result = append(log, count, timestamp=timestamp, value=chance.randbytes(chance.randint(0, 120)))
        expected.update(dict.fromkeys(range(result.base_offset, result.last_offset + 1), timestamp))
    assert log.segment_count > 3
    return log, expected


@pytest.mark.parametrize("is_restarted", (False, True))
def test_every_offset_has_the_time_of_its_batch(open_log, is_restarted):
    log, expected = filled(open_log)
    if is_restarted:
        log.close()
        log = open_log(clean=True, segment_bytes=4000, index_interval_bytes=300)
    assert log.append_times(expected).run() == expected
    for offset, timestamp in expected.items():
        assert log.append_times([offset]).run() == {offset: timestamp}


def test_there_is_nothing_behind_the_last_record(open_log):
    log, _ = filled(open_log)
    assert log.append_times([log.log_end_offset, 1 << 40]).run() == {log.log_end_offset: None, 1 << 40: None}


def test_an_empty_log_has_no_times(open_log):
    assert open_log().append_times([0]).run() == {0: None}


def test_an_offset_below_the_first_segment_leads_to_the_first_batch(open_log):
    log = open_log()
    log.truncate_fully_and_start_at(50)
    append(log, timestamp=NOW)
    assert log.append_times([3]).run() == {3: NOW}


def test_an_offset_that_was_compacted_away_leads_to_the_next_batch_in_the_next_segment_too(open_log):
    log, expected = filled(open_log)
    second = log._state.segments.ascending()[1].base_offset
    first = log._state.segments.first()
    first.log.truncate(0)  # as a pass does that removes all records of a segment
    assert log.append_times([0]).run() == {0: expected[second]}


def test_a_topic_that_stamps_its_records_gives_the_time_of_the_append(open_log, clock):
    log = open_log(message_timestamp_type="LogAppendTime")
    append(log, timestamp=NOW - 1_000_000)
    assert log.append_times([0]).run() == {0: clock.now_ms()}


def test_a_transactions_marker_has_its_own_time(open_log):
    log = open_log()
    append(log, timestamp=NOW - 50, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 7, is_abort=False)
    assert log.append_times([0, 1]).run() == {0: NOW - 50, 1: NOW}


def test_a_record_of_the_oldest_format_bears_no_time():
    header = BatchHeader(0, 50, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, 1)
    assert time_of(header) == NO_TIME


def test_a_producer_that_says_zero_says_nothing(open_log):
    log = open_log()
    append(log, timestamp=0)
    append(log, timestamp=1)
    assert log.append_times([0, 1]).run() == {0: NO_TIME, 1: 1}


def test_a_batch_that_keeps_its_delete_horizon_gives_its_largest_timestamp():
    header = BatchHeader(0, 50, 0, 2, 0, DELETE_HORIZON_BIT, 0, NOW + 9_999_999, NOW, -1, -1, -1, 1)
    assert time_of(header) == NOW


def test_what_was_cut_or_removed_under_a_plan_counts_for_nothing(open_log):
    log, _ = filled(open_log)
    plan = log.append_times([0])
    assert log.holds(plan)
    log.truncate_to(log.log_end_offset - 1)
    assert not log.holds(plan)
    plan = log.append_times([0])
    log.close()
    assert not log.holds(plan)


def test_a_file_that_is_gone_is_told_from_a_disk_that_fails_and_from_damage(open_log, monkeypatch):
    log, _ = filled(open_log)
    first = log._state.segments.first()
    first.release_files()
    plan = log.append_times([5])
    with open(first.log.path, "r+b") as file:
        file.write(bytes(200))
    with pytest.raises(CorruptRecord):
        plan.run()
    os.rename(first.log.path, first.log.path + ".gone")
    with pytest.raises(LogClosed):
        plan.run()

    def fails(*_args, **_options):
        raise OSError(5, "bad disk")

    monkeypatch.setattr(type(log._state.fs), "open", fails)
    with pytest.raises(StorageFailure):
        plan.run()


def test_few_bytes_are_read_for_an_offset(open_log, monkeypatch):
    log = open_log(index_interval_bytes=LogConfig().index_interval_bytes)
    for _ in range(400):
        append(log, value=bytes(3000))
    read = []
    real = type(log._state.fs).open

    def opened(fs, path, **options):
        file = real(fs, path, **options)

        class Counting:
            def read_at(self, size, position):
                read.append(size)
                return file.read_at(size, position)

            def close(self):
                file.close()

        return Counting()

    monkeypatch.setattr(type(log._state.fs), "open", opened)
    assert log.append_times([300]).run() == {300: NOW}
    assert sum(read) < 20_000


def test_a_preallocated_log_tells_the_times_of_what_is_written(open_log):
    log = open_log(preallocate=True, segment_bytes=1 << 20)
    for number in range(5):
        append(log, 2, timestamp=NOW + number)
    assert log.append_times([0, 5, 9]).run() == {0: NOW, 5: NOW + 2, 9: NOW + 4}
    log.direct_writes.defer()
    log.append(batch(timestamp=NOW + 9), leader_epoch=0)
    assert log.append_times([9]).run() == {9: NOW + 4}
