"""The gates of an append to a scheduled log: how far ahead a batch may be, and whether schedules may go backwards."""

from dataclasses import replace

import pytest

from config.views import LONG_MAX
from protocol.records.batch import LOG_APPEND_TIME_BIT, parse_header, patch_timestamps
from storage.errors import (
    InvalidRecord,
    InvalidTimestamp,
    OutOfOrderSequence,
    RecordListTooLarge,
    StorageFailure,
)
from storage.log.delivery import WARNING_INTERVAL_MS
from storage.types import AppendOrigin
from tests.harness import batches
from tests.harness.batches import Record
from tests.sim.faulty_fs import FaultyFS
from tests.sim.logs import NOW, append, append_marker, batch, fill, known, retained


@pytest.fixture
def fs() -> FaultyFS:
    return FaultyFS()


def understating(*, timestamp: int, attributes: int) -> bytearray:
    """Build a batch whose header tells a time before that of its record."""
    records = batch(timestamp=timestamp)
    header = parse_header(records, 0)
    patch_timestamps(records, 0, header, header.attributes | attributes, NOW)
    return records


def stamped(*, timestamp: int) -> bytearray:
    """Build a batch whose header claims that a broker has stamped it."""
    records = batch(timestamp=timestamp)
    header = parse_header(records, 0)
    patch_timestamps(records, 0, header, header.attributes | LOG_APPEND_TIME_BIT, timestamp)
    return records


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME_BIT], ids=["as created", "as if stamped by a broker"])
def test_a_header_that_understates_its_records_is_corrected_before_the_gates(scheduled, attributes):
    log = scheduled(delivery_max_delay_ms=5000)
    log.append(understating(timestamp=NOW + 5000, attributes=attributes), leader_epoch=0)
    assert known(log) == (0, NOW + 5000)
    with pytest.raises(InvalidTimestamp, match="5001 ms from now"):
        log.append(understating(timestamp=NOW + 5001, attributes=attributes), leader_epoch=0)


@pytest.mark.parametrize("base", [LONG_MAX, -LONG_MAX - 1], ids=["above", "below"])
def test_a_time_that_64_bits_do_not_hold_is_none(scheduled, base):
    """A client that counts round would show a record of the far past that is due in the far future, or the reverse."""
    log = scheduled(delivery_max_delay_ms=-1)
    times = [base, base + (1 if base > 0 else -1)]
    records = batches.build([Record(b"v", timestamp=time) for time in times], max_timestamp=NOW)
    with pytest.raises(InvalidRecord, match="does not fit 64 bits"):
        log.append(records, leader_epoch=0)
    append(log, timestamp=base)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_batch_that_claims_to_be_stamped_by_a_broker_has_to_tell_a_time_and_no_window_counts(
    scheduled, timestamp_type
):
    log = scheduled(message_timestamp_type=timestamp_type, message_timestamp_after_max_ms=0)
    log.append(stamped(timestamp=NOW + 5000), leader_epoch=0)
    assert known(log) == (0, NOW + 5000)
    with pytest.raises(InvalidTimestamp, match="invalid timestamp"):
        log.append(stamped(timestamp=-1), leader_epoch=0)


def test_a_delay_above_the_limit_is_refused_and_one_at_it_is_not(scheduled):
    log = scheduled(delivery_max_delay_ms=1000)
    append(log, timestamp=NOW + 1000)
    with pytest.raises(InvalidTimestamp, match=r"1001 ms from now; delivery\.max\.delay\.ms allows 1000") as refused:
        append(log, timestamp=NOW + 1001)
    assert not refused.value.record_errors
    assert log.log_end_offset == 1
    log.config = replace(log.config, delivery_max_delay_ms=0)
    append(log, timestamp=NOW)
    with pytest.raises(InvalidTimestamp):
        append(log, timestamp=NOW + 1)


def test_times_of_delivery_have_no_window_but_their_own_gate(scheduled):
    log = scheduled(
        message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0, delivery_max_delay_ms=365 * 86_400_000
    )
    for timestamp in (0, NOW + 300 * 86_400_000):
        append(log, timestamp=timestamp)
    log.config = replace(log.config, delivery_mode="immediate")
    with pytest.raises(InvalidTimestamp, match="invalid timestamp"):
        append(log, timestamp=0)


def test_a_setting_that_excludes_scheduling_replaces_no_time_of_delivery(scheduled):
    """No request makes such a topic, but a changed static value may."""
    log = scheduled(message_timestamp_type="LogAppendTime")
    append(log, timestamp=NOW + 5000)
    assert known(log) == (0, NOW + 5000)
    assert not log.config.is_log_append_time
    log.config = replace(log.config, delivery_mode="immediate")
    assert log.config.is_log_append_time


def test_a_duplicate_is_answered_whatever_its_time_is_by_now(scheduled):
    log = scheduled(delivery_schedule_monotonic=True)
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    append(log, timestamp=NOW + 1000, **fields)
    append(log, timestamp=NOW + 2000)
    log.config = replace(log.config, delivery_max_delay_ms=0)
    again = append(log, timestamp=NOW + 1000, **fields)
    assert again.is_duplicate and again.base_offset == 0
    with pytest.raises(InvalidTimestamp):
        append(log, timestamp=NOW + 1000, **(fields | {"base_sequence": 1}))
    assert log.log_end_offset == 2


def test_a_batch_that_fits_no_segment_is_refused_for_that(scheduled):
    log = scheduled(segment_bytes=1000, delivery_max_delay_ms=0)
    with pytest.raises(RecordListTooLarge):
        append(log, timestamp=NOW + 1, value=b"x" * 1000)


def test_a_refused_batch_rolls_no_segment(scheduled):
    log = scheduled(segment_ms=1000, delivery_max_delay_ms=5000)
    for _ in range(3):
        append(log, timestamp=NOW)
        with pytest.raises(InvalidTimestamp):
            append(log, timestamp=NOW + 5001)
    assert log.segment_count == 1


def test_what_is_wrong_with_the_sequence_is_told_before_the_time(scheduled):
    log = scheduled(delivery_max_delay_ms=0)
    fields = {"producer_id": 5, "producer_epoch": 3}
    append(log, timestamp=NOW, base_sequence=0, **fields)
    with pytest.raises(OutOfOrderSequence):
        append(log, timestamp=NOW + 1, base_sequence=7, **fields)


def test_a_refused_batch_leaves_its_producer_where_it_was(scheduled):
    log = scheduled(delivery_max_delay_ms=0)
    fields = {"producer_id": 5, "producer_epoch": 0}
    append(log, timestamp=NOW, base_sequence=0, **fields)
    with pytest.raises(InvalidTimestamp):
        append(log, timestamp=NOW + 1, base_sequence=1, **fields)
    assert append(log, timestamp=NOW, base_sequence=1, **fields).base_offset == 1


def test_a_schedule_that_goes_backwards_is_refused_where_it_must_not(scheduled):
    log = scheduled(delivery_schedule_monotonic=True, delivery_max_delay_ms=-1)
    for timestamp in (NOW + 100, NOW + 100):
        append(log, timestamp=timestamp)
    with pytest.raises(InvalidTimestamp, match=r"delivery\.schedule\.monotonic forbids") as refused:
        append(log, timestamp=NOW + 99)
    assert not refused.value.record_errors
    append(log, timestamp=LONG_MAX)
    with pytest.raises(InvalidTimestamp):
        append(log, timestamp=LONG_MAX - 1)
    append(log, timestamp=LONG_MAX)
    assert log.log_end_offset == 4


def test_the_order_of_a_schedule_counts_over_segments_and_restarts(scheduled):
    log = scheduled(segment_bytes=200)
    for delay in (300, 100, 200):
        append(log, timestamp=NOW + delay, value=b"v" * 100)
    assert log.segment_count == 3
    log.close()
    log = scheduled(segment_bytes=200, delivery_schedule_monotonic=True, clean=True)
    with pytest.raises(InvalidTimestamp, match=str(NOW + 300)):
        append(log, timestamp=NOW + 299)
    append(log, timestamp=NOW + 300)


def test_what_is_cut_or_removed_no_longer_counts_for_the_order(scheduled, clock):
    log = scheduled(delivery_schedule_monotonic=True, segment_bytes=200, retention_bytes=0)
    for delay in (100, 200):
        append(log, timestamp=NOW + delay, value=b"v" * 100)
    log.truncate_to(1)
    append(log, timestamp=NOW + 150, value=b"v" * 100)
    clock.now += 10_000
    log.delivery.advance(clock.now)
    assert retained(log, clock.now) == 2
    append(log, timestamp=0)
    assert log.log_end_offset == 3


def test_whatever_came_without_being_held_to_the_order_counts_for_it(scheduled):
    log = scheduled(delivery_schedule_monotonic=True)
    append(log, timestamp=NOW + 300)
    append_marker(log, 7, is_abort=False)
    log.config = replace(log.config, delivery_schedule_monotonic=False)
    for delay in (500, 400):
        append(log, timestamp=NOW + delay)
    log.config = replace(log.config, delivery_schedule_monotonic=True)
    with pytest.raises(InvalidTimestamp, match=str(NOW + 500)):
        append(log, timestamp=NOW + 499)
    append(log, timestamp=NOW + 500)
    replicated = batch(timestamp=NOW + 600)
    replicated[:8] = log.log_end_offset.to_bytes(8, "big")
    log.append(replicated, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    with pytest.raises(InvalidTimestamp, match=str(NOW + 600)):
        append(log, timestamp=NOW + 599)


def test_an_order_that_cannot_be_looked_up_is_a_failure_of_the_disk(scheduled, fs, tmp_path):
    log = scheduled(segment_bytes=100)
    fill(log, [NOW, NOW + 1])
    log.close()
    fs.break_("open", tmp_path, f"{0:020}.timeindex")
    log = scheduled(clean=True, high_watermark=2, segment_bytes=100, delivery_schedule_monotonic=True)
    with pytest.raises(StorageFailure):
        append(log, timestamp=NOW + 2)
    fs.faults.clear()
    append(log, timestamp=NOW + 2)


def test_no_append_after_a_start_looks_into_indexes_for_the_order(scheduled, reopened, fs):
    log = scheduled(segment_bytes=100)
    fill(log, [NOW, NOW + 500, NOW + 1, NOW + 2])
    log = reopened(log, segment_bytes=100, delivery_schedule_monotonic=True)
    fs.reads.clear()
    with pytest.raises(InvalidTimestamp, match=str(NOW + 500)):
        append(log, timestamp=NOW + 499)
    assert not fs.reads
    log = reopened(log, segment_bytes=100)
    assert not [path for path in fs.reads if path.endswith(f"{0:020}.timeindex")]


@pytest.mark.parametrize("origin", [AppendOrigin.REPLICATION, AppendOrigin.COORDINATOR])
def test_only_what_clients_send_passes_the_gates(scheduled, origin):
    log = scheduled(delivery_max_delay_ms=0, delivery_schedule_monotonic=True)
    for delay in (5000, 1000):
        records = batch(timestamp=NOW + delay)
        records[:8] = log.log_end_offset.to_bytes(8, "big")
        log.append(records, leader_epoch=0, origin=origin)
    assert log.log_end_offset == 2
    log.delivery.advance(NOW)
    assert known(log) == (0, NOW + 5000)
    with pytest.raises(InvalidTimestamp):
        append(log, timestamp=NOW)


def test_an_immediate_log_has_neither_gates_nor_a_watermark(open_log):
    log = open_log(delivery_max_delay_ms=0, delivery_schedule_monotonic=True, message_timestamp_after_max_ms=LONG_MAX)
    append(log, timestamp=LONG_MAX)
    append(log, timestamp=NOW)
    assert log.delivery is None and log.released_end_offset == 2


def warnings_of(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_time_in_seconds_is_accepted_and_warned_of_once_an_hour(scheduled, clock, caplog):
    log = scheduled(retention_ms=86_400_000)
    seconds = 1_796_760_716
    append(log, timestamp=seconds)
    append(log, timestamp=5000)
    [line] = warnings_of(caplog)
    assert f"partition={log.tp} time={seconds} (1970-01-21 19:06:00 UTC) retention_ms=86400000" in line
    assert "in seconds" in line
    clock.now += WARNING_INTERVAL_MS - 1
    append(log, timestamp=seconds)
    assert len(warnings_of(caplog)) == 1
    clock.now += 1
    append(log, timestamp=5000)
    assert len(warnings_of(caplog)) == 2 and "time=5000 (1970-01-01 00:00:05 UTC)" in warnings_of(caplog)[1]


@pytest.mark.parametrize(
    ("timestamp", "options"),
    [
        (-1, {"retention_ms": 1000}),
        (NOW - 1000, {"retention_ms": 1000}),
        (0, {"retention_ms": -1}),
        (0, {"retention_ms": 1000, "cleanup_policy": frozenset[str]()}),
    ],
    ids=["no time", "young enough", "no limit", "no deletion"],
)
def test_what_retention_leaves_for_now_is_not_warned_of(scheduled, caplog, timestamp, options):
    append(scheduled(**options), timestamp=timestamp)
    assert not warnings_of(caplog)


def test_refusals_tell_the_time_as_a_date_where_there_is_one(scheduled):
    log = scheduled(delivery_max_delay_ms=1000, delivery_schedule_monotonic=True)
    with pytest.raises(InvalidTimestamp, match=r"at 1796760716185 \(2026-12-08 20:11:56 UTC\), which is \d+ ms from"):
        append(log, timestamp=1796760716185)
    for far in (253_402_300_800_000, LONG_MAX):
        with pytest.raises(InvalidTimestamp, match=rf"at {far}, which is"):
            append(log, timestamp=far)
    append(log, timestamp=NOW)
    with pytest.raises(InvalidTimestamp, match=rf"at -1, before one .* at {NOW} \(\d+-\d+-\d+ \d+:\d+:\d+ UTC\); "):
        append(log, timestamp=-1)
