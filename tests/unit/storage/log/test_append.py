import os
from dataclasses import replace

import pytest

from config.views import LogConfig
from protocol.records.batch import check_crc, parse_header
from storage.env.clock import SeededRng
from storage.errors import (
    IndexTooSmall,
    InvalidRecord,
    LogClosed,
    OutOfOrderSequence,
    RecordListTooLarge,
    RecordTooLarge,
    StorageFailure,
)
from storage.log.state import segment_jitter_ms
from storage.stats import StorageStats
from storage.types import AppendOrigin
from tests.sim.logs import NOW, append, append_marker, batch, batches_of, file_names, offsets_of, read_all

SIZE = len(batch())


def bases(log) -> list[int]:
    return [int(name[:-4]) for name in file_names(log) if name.endswith(".log")]


def test_a_batch_is_stamped_with_offset_and_epoch_and_keeps_its_crc(open_log):
    log = open_log()
    log.assign_epoch(7)
    append(log, 3, epoch=7)
    result = append(log, 2, epoch=7)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms, result.is_duplicate) == (3, 4, -1, False)
    data = read_all(log)
    first, second = batches_of(data)
    assert (first.base_offset, second.base_offset, second.partition_leader_epoch) == (0, 3, 7)
    assert check_crc(data, first.size_bytes, second)
    assert log.epoch_entries() == [(7, 0)]


def test_read_only_and_writable_buffers_are_stored_alike(open_log, tmp_path):
    log = open_log()
    source = bytes(batch())
    for buffer in (source, bytearray(source), memoryview(source), memoryview(bytearray(source))):
        log.append(buffer, leader_epoch=0)
    stored = (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
    assert [h.base_offset for h in batches_of(stored)] == [0, 1, 2, 3]
    assert source == bytes(batch())


def test_equal_to_the_segment_size_does_not_roll_and_one_byte_more_does(open_log):
    log = open_log(segment_bytes=2 * SIZE)
    append(log)
    append(log)
    assert bases(log) == [0]
    append(log)
    assert bases(log) == [0, 2]
    assert offsets_of(log) == [0, 1, 2]


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.REPLICATION])
def test_batches_without_timestamp_and_sets_of_them_fill_a_segment_to_the_last_byte(open_log, origin):
    size, stats = len(batch(timestamp=-1)), StorageStats()
    log = open_log(segment_bytes=2 * size, stats=stats)
    for offset in range(3):
        one = batch(timestamp=-1, base_offset=0 if origin is AppendOrigin.CLIENT else offset, leader_epoch=0)
        log.append(one, leader_epoch=0, origin=origin)
    assert (bases(log), stats.rolled_segments) == ([0, 2], 1)


@pytest.mark.parametrize("timestamp", [-1, NOW + 5000])
def test_an_empty_segment_is_neither_too_full_nor_too_old(open_log, clock, timestamp):
    stats = StorageStats()
    log = open_log(segment_bytes=len(batch(timestamp=timestamp)), segment_ms=1000, stats=stats)
    clock.now += 5000
    append(log, timestamp=timestamp)
    assert (bases(log), stats.rolled_segments) == ([0], 0)


def test_a_batch_larger_than_a_segment_changes_nothing(open_log):
    log = open_log(segment_bytes=SIZE)
    append(log)
    with pytest.raises(RecordListTooLarge):
        append(log, 2)
    assert log.log_end_offset == 1
    assert bases(log) == [0]


def test_a_refused_batch_changes_nothing(open_log):
    log = open_log(max_message_bytes=SIZE)
    with pytest.raises(RecordTooLarge):
        append(log, 2)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_time_rolls_by_the_clock_of_the_messages(open_log):
    log = open_log(segment_ms=1000, message_timestamp_after_max_ms=10**12)
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 1000)
    assert bases(log) == [0]
    append(log, timestamp=NOW + 1001)
    assert bases(log) == [0, 2]
    append(log, timestamp=NOW - 5000)
    assert bases(log) == [0, 2]


def test_the_first_timestamp_is_found_again_after_a_restart(open_log):
    log = open_log(segment_ms=1000, message_timestamp_after_max_ms=10**12)
    append(log, timestamp=NOW)
    log.close()
    log = open_log(segment_ms=1000, message_timestamp_after_max_ms=10**12, clean=True)
    append(log, timestamp=NOW + 1001)
    assert bases(log) == [0, 1]


def test_batches_without_timestamp_roll_by_the_wall_clock_and_idle_logs_do_not(open_log, clock):
    log = open_log(segment_ms=1000)
    append(log, timestamp=-2, value=b"x")  # both records' timestamps would be -2: none of them counts
    clock.now += 1000
    append(log, timestamp=-1)
    assert bases(log) == [0]
    clock.now += 1
    assert bases(log) == [0]
    append(log, timestamp=-1)
    assert bases(log) == [0, 2]


def test_a_full_index_rolls(open_log):
    log = open_log(segment_index_bytes=24, index_interval_bytes=0)
    for n in range(4):
        append(log, timestamp=NOW + n)
    assert bases(log) == [0, 2]
    path = os.path.join(log.path, "00000000000000000000.index")
    assert os.path.getsize(path) == 8
    assert os.path.getsize(os.path.join(log.path, "00000000000000000000.timeindex")) == 12


def test_lower_limits_on_a_live_log_count_from_the_next_append_on(open_log):
    log = open_log(segment_ms=10_000)
    append(log, 2)
    log.config = replace(log.config, segment_bytes=SIZE + 10)
    assert bases(log) == [0]
    append(log)
    assert bases(log) == [0, 2]
    log.config = replace(log.config, segment_bytes=1 << 30, segment_ms=1)
    append(log, timestamp=NOW + 2)
    assert bases(log) == [0, 2, 3]


def test_a_bound_on_compaction_lag_shortens_the_roll_of_compacted_logs_only(open_log):
    log = open_log(max_compaction_lag_ms=1000, cleanup_policy=frozenset({"delete"}))
    append(log)
    append(log, timestamp=NOW + 1001)
    assert bases(log) == [0]
    log.config = replace(log.config, cleanup_policy=frozenset({"compact", "delete"}))
    append(log, timestamp=NOW + 1000)
    assert bases(log) == [0]
    append(log, timestamp=NOW + 1001)
    assert bases(log) == [0, 3]


def test_a_batch_from_the_future_rolls_at_once_and_one_from_the_past_never(open_log):
    log = open_log(message_timestamp_after_max_ms=(1 << 63) - 1)
    append(log)
    append(log, timestamp=1 << 62)
    assert bases(log) == [0, 1]
    append(log, timestamp=0)
    append(log, timestamp=NOW)
    assert bases(log) == [0, 1]


def test_the_jitter_of_a_segment_is_one_sample_and_counts_from_its_making(open_log):
    log = open_log(segment_ms=1000, segment_jitter_ms=500)
    active = log._state.segments.active
    jitter = active.jitter_ms
    assert 0 < jitter < 500
    append(log)
    append(log, timestamp=NOW + 1000 - jitter)
    log.config = replace(log.config, segment_jitter_ms=0)
    append(log, timestamp=NOW + 1000 - jitter)
    assert (bases(log), active.jitter_ms) == ([0], jitter)
    append(log, timestamp=NOW + 1001 - jitter)
    assert bases(log) == [0, 3]
    assert log._state.segments.active.jitter_ms == 0


def test_a_roll_removes_stray_files_of_the_new_name(open_log):
    log = open_log()
    append(log)
    for kind in ("log", "index", "timeindex", "txnindex"):
        with open(os.path.join(log.path, f"{1:020d}.{kind}"), "wb") as file:
            file.write(b"stray" * 20)
    log.roll()
    append(log)
    assert offsets_of(log) == [0, 1]
    assert f"{1:020d}.txnindex" not in file_names(log)


def test_a_full_empty_segment_is_made_anew_by_every_append(open_log):
    log = open_log(segment_index_bytes=12, index_interval_bytes=0)
    for n in range(3):
        append(log, timestamp=NOW + n)
    assert bases(log) == [0, 1, 2]
    assert offsets_of(log) == [0, 1, 2]


def test_replicated_batches_beyond_the_reach_of_a_segment_name_the_next_one(open_log):
    log = open_log()
    far = 1 << 31
    for base_offset in (5, far + 4, far + 6):
        log.append(
            bytes(batch(base_offset=base_offset, leader_epoch=0)), leader_epoch=0, origin=AppendOrigin.REPLICATION
        )
    assert bases(log) == [0, far + 4]


def test_index_settings_without_room_for_an_entry_refuse_a_new_segment_and_change_nothing(open_log):
    with pytest.raises(IndexTooSmall):
        open_log(segment_index_bytes=4)
    log = open_log()
    append(log)
    log.config = replace(log.config, segment_bytes=SIZE, segment_index_bytes=11)
    for _ in range(2):
        with pytest.raises(IndexTooSmall):
            append(log)
    assert (bases(log), log.log_end_offset) == ([0], 1)
    log.config = replace(log.config, segment_index_bytes=12)
    append(log)
    assert bases(log) == [0, 1]
    log.close()
    log = open_log(clean=True, segment_index_bytes=4, high_watermark=2)
    assert offsets_of(log) == [0, 1]


def test_only_the_active_segment_has_index_files_of_full_size(open_log):
    def sizes(base: int) -> list[int]:
        return [os.path.getsize(os.path.join(log.path, f"{base:020d}.{kind}")) for kind in ("index", "timeindex")]

    config = {"segment_bytes": 3 * SIZE, "index_interval_bytes": 0, "segment_index_bytes": 300}
    log = open_log(**config)
    for n in range(4):
        append(log, timestamp=NOW + n)
    assert (sizes(0), sizes(3)) == ([16, 24], [296, 300])
    log.fail()
    log = open_log(**config)  # after a crash the tail of zeros is no entry
    assert log.log_end_offset == 4
    assert (sizes(0), sizes(3)) == ([16, 24], [296, 300])
    assert log._state.segments.active.offset_index.file.count == 0
    log.close()
    assert sizes(3) == [0, 12]
    log = open_log(clean=True, **config)
    assert sizes(3) == [296, 300]


def test_roll_leaves_a_snapshot_and_trimmed_indexes(open_log):
    log = open_log()
    append(log, 5, producer_id=1, producer_epoch=0, base_sequence=0)
    log.roll()
    log.roll()
    assert file_names(log) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000005.index",
        "00000000000000000005.log",
        "00000000000000000005.snapshot",
        "00000000000000000005.timeindex",
    ]
    assert os.path.getsize(os.path.join(log.path, "00000000000000000000.index")) == 0
    assert os.path.getsize(os.path.join(log.path, "00000000000000000000.timeindex")) == 12
    assert os.path.getsize(os.path.join(log.path, "00000000000000000005.index")) == 10485760


def test_jitter_lies_in_its_range():
    rng = SeededRng(3)
    samples = [segment_jitter_ms(LogConfig(segment_ms=1000, segment_jitter_ms=5000), rng) for _ in range(10_000)]
    assert min(samples) >= 0
    assert max(samples) < 1000
    assert len(set(samples)) > 500
    assert segment_jitter_ms(LogConfig(), rng) == 0


def test_duplicates_answer_with_their_first_offsets_also_after_a_restart(open_log):
    log = open_log()
    append(log)
    for sequence in range(0, 15, 5):
        append(log, 5, producer_id=9, producer_epoch=0, base_sequence=sequence)
    for _ in range(2):
        again = append(log, 5, producer_id=9, producer_epoch=0, base_sequence=10)
        assert (again.base_offset, again.last_offset, again.is_duplicate) == (11, 15, True)
        assert log.log_end_offset == 16
        with pytest.raises(OutOfOrderSequence):
            append(log, 5, producer_id=9, producer_epoch=0, base_sequence=30)
        log.close()
        log = open_log(clean=True)
        log.advance_high_watermark(log.log_end_offset)
    assert append(log, 5, producer_id=9, producer_epoch=0, base_sequence=15).base_offset == 16


def test_a_write_that_fails_midway_is_undone(open_log, monkeypatch):
    log = open_log()
    append(log, 2)
    file = log._state.segments.active.log.file

    class Torn:
        def __getattr__(self, name):
            return getattr(file, name)

        def write_at(self, data, position):
            file.write_at(data[: len(data) // 2], position)
            raise OSError(28, "No space left on device")

    log._state.segments.active.log.writer = Torn()
    with pytest.raises(StorageFailure):
        append(log)
    assert file.size() == len(batch(2))
    log._state.segments.active.log.writer = file
    assert append(log).base_offset == 2
    assert offsets_of(log) == [0, 2]


def test_transactions_hold_the_stable_offset_and_aborted_ones_are_listed(open_log):
    log = open_log()
    append(log)
    fields = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True}
    append(log, 2, base_sequence=0, **fields)
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    append(log)
    append_marker(log, 5, is_abort=True)
    assert log.last_stable_offset == log.high_watermark == 5
    append(log, 1, base_sequence=2, **fields)
    append_marker(log, 5, is_abort=False)
    assert log.transactions.aborted(0, 10) == [(5, 1)]
    assert log.transactions.aborted(5, 10) == []
    assert log.transactions.aborted(0, 1) == []
    log.close()
    again = open_log(clean=True)
    assert again.transactions.aborted(0, 10) == [(5, 1)]


def test_replicated_batches_keep_offsets_and_epochs(open_log):
    leader = batch(2, base_offset=10, leader_epoch=3) + batch(3, base_offset=20, leader_epoch=4)
    log = open_log()
    result = log.append(bytes(leader + leader[:30]), leader_epoch=9, origin=AppendOrigin.REPLICATION)
    log.advance_high_watermark(23)
    assert (result.base_offset, result.last_offset, log.log_end_offset) == (10, 22, 23)
    assert log.epoch_entries() == [(3, 10), (4, 20)]
    assert offsets_of(log, start=0) == [10, 20]
    with pytest.raises(InvalidRecord):
        log.append(bytes(leader), leader_epoch=9, origin=AppendOrigin.REPLICATION)


def test_the_metadata_log_may_append_several_batches_at_once(open_log):
    log = open_log()
    result = log.append(bytes(batch(2) + batch(3)), leader_epoch=2, origin=AppendOrigin.RAFT)
    assert (result.base_offset, result.last_offset) == (0, 4)
    log.advance_high_watermark(5)
    assert [parse_header(read_all(log)).partition_leader_epoch, offsets_of(log)] == [2, [0, 2]]


def test_a_set_of_batches_may_find_room_for_fewer_index_entries_than_it_would_add(open_log):
    log = open_log(index_interval_bytes=0, segment_index_bytes=36)  # four offsets, and two times beside the final one
    for base_offset in (0, 8):
        batches = [
            batch(base_offset=base_offset + n, leader_epoch=0, timestamp=NOW + base_offset + n) for n in range(8)
        ]
        log.append(b"".join(batches), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.advance_high_watermark(16)
    assert bases(log) == [0, 8]
    assert [offsets_of(log, start=offset)[0] for offset in range(16)] == list(range(16))
    assert [log.offset_for_timestamp(NOW + n, bound=16).offset for n in range(16)] == list(range(16))


def test_a_closed_log_refuses(open_log):
    log = open_log()
    log.close()
    with pytest.raises(LogClosed):
        append(log)
    with pytest.raises(LogClosed):
        log.read(0, max_bytes=1, bound=0, min_one_batch=True)
