"""Settings replaced on a live log: what holds from the next append on, what stays, and what is no change at all."""

import os
from dataclasses import fields, replace

import pytest

from config.views import LogConfig
from protocol.records.batch import TimestampType, check_crc
from protocol.records.builder import build_batch
from protocol.records.record import iter_records
from storage.errors import InvalidRecord, RecordListTooLarge
from storage.log.state import segment_jitter_ms
from storage.types import AppendOrigin
from tests.sim.logs import NOW, append, batch, batches_of, file_names, read_all

APPEND_TIME = {"message_timestamp_type": "LogAppendTime"}


def bases(log) -> list[int]:
    return [int(name[:-4]) for name in file_names(log) if name.endswith(".log")]


@pytest.mark.parametrize("field", [field.name for field in fields(LogConfig)])
def test_two_settings_are_equal_if_and_only_if_every_field_is(field):
    other = {bool: True, int: 7, float: 0.25, str: "other", frozenset: frozenset({"compact"}), type(None): 5}
    default = getattr(LogConfig(), field)
    value = other[type(default)] if default is not True else False
    changed = replace(LogConfig(), **{field: value})
    assert changed != LogConfig() and changed == replace(LogConfig(), **{field: value})
    assert replace(changed, **{field: default}) == LogConfig()


def test_equal_settings_are_no_change(open_log):
    log = open_log()
    before = log.config
    log.config = replace(before)
    assert log.config is before
    log.config = replace(before, segment_bytes=1 << 20)
    assert log.config is not before


def test_the_type_of_timestamps_changes_for_new_batches_only(open_log, clock):
    log = open_log()
    append(log, 2, timestamp=NOW - 50)
    log.config = LogConfig(**APPEND_TIME)
    clock.now += 1000
    result = append(log, 2, timestamp=NOW - 50)
    assert result.log_append_time_ms == clock.now
    log.config = LogConfig()
    clock.now += 1000
    assert append(log, timestamp=NOW - 50).log_append_time_ms == -1
    data = read_all(log)
    kinds = [header.timestamp_type for header in batches_of(data)]
    assert kinds == [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME, TimestampType.CREATE_TIME]
    position, times = 0, []
    for header in batches_of(data):
        assert check_crc(data, position, header)
        times += [record.timestamp for record in iter_records(data, position, header)]
        position += header.size_bytes
    assert times == [NOW - 50, NOW - 49, NOW + 1000, NOW + 1000, NOW - 50]


def test_rolls_lookups_and_retention_go_by_the_time_of_the_append_where_that_is_stored(open_log, clock):
    log = open_log(segment_ms=1000, retention_ms=500, **APPEND_TIME)
    append(log, timestamp=NOW - 10**9)
    clock.now += 1000
    append(log, timestamp=NOW - 10**9)
    assert bases(log) == [0]
    clock.now += 1
    append(log, timestamp=NOW - 10**9)
    assert bases(log) == [0, 2]
    assert log.offset_for_timestamp(NOW + 1, bound=3).offset == 1
    assert log.retain(clock.now + 499) is None
    assert log.retain(clock.now + 500).segment_count == 1


@pytest.mark.parametrize("settings", [{}, APPEND_TIME])
def test_a_follower_keeps_the_times_of_its_leader(open_log, clock, settings):
    """Whatever its own settings, and however old the records are."""
    log = open_log(message_timestamp_before_max_ms=1, **settings)
    stamped = build_batch(
        [(b"k", b"v")], timestamp=5, timestamp_type=TimestampType.LOG_APPEND_TIME, base_offset=0, leader_epoch=0
    )
    plain = batch(timestamp=6, base_offset=1, leader_epoch=0)
    log.append(bytes(stamped + plain), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.advance_high_watermark(2)
    assert read_all(log) == bytes(stamped + plain)


def test_a_log_that_becomes_compacted_refuses_keyless_records_from_then_on(open_log):
    log = open_log()
    keyless = bytes(build_batch([(None, b"v")], timestamp=NOW))
    log.append(keyless, leader_epoch=0)
    log.config = LogConfig(cleanup_policy=frozenset({"compact"}))
    with pytest.raises(InvalidRecord):
        log.append(keyless, leader_epoch=0)
    log.config = LogConfig()
    assert log.append(keyless, leader_epoch=0).base_offset == 1


def test_a_repetition_that_has_become_too_large_for_a_segment_is_refused_as_too_large(open_log):
    log = open_log()
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    append(log, 5, **fields)
    log.config = LogConfig(segment_bytes=len(batch(5)) - 1)
    with pytest.raises(RecordListTooLarge):
        append(log, 5, **fields)
    log.config = LogConfig()
    assert append(log, 5, **fields).is_duplicate


def test_the_smallest_of_all_chances_is_no_jitter():
    class Smallest:
        def int32(self) -> int:
            return -(1 << 31)

        def random_bytes(self, count: int) -> bytes:
            return bytes(count)

    assert segment_jitter_ms(LogConfig(segment_ms=1000, segment_jitter_ms=700), Smallest()) == 0


@pytest.mark.parametrize("is_clean", [False, True])
def test_the_room_behind_the_entries_of_an_index_is_no_entries(open_log, is_clean):
    settings = {"index_interval_bytes": 0, "segment_index_bytes": 800, "validate_on_open": False}
    log = open_log(**settings)
    for n in range(5):
        append(log, timestamp=NOW + n)
    sizes = [os.path.getsize(os.path.join(log.path, f"{0:020d}{kind}")) for kind in (".index", ".timeindex")]
    assert sizes == [800, 792]
    if is_clean:
        log.close()
    else:
        log.fail()
    log = open_log(clean=is_clean, **settings)
    segment = log._state.segments.active
    segment.ensure_indexes()
    assert (segment.offset_index.file.count, segment.time_index.file.count) == (4, 4)
    for n in range(2):  # the bytes since the last entry are counted from the restart on
        append(log, timestamp=NOW + 5 + n)
    assert (segment.offset_index.file.count, segment.offset_index.last_offset) == (5, 6)
