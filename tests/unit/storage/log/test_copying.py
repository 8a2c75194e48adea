"""A log is copied into another one while it serves: alignment, what a step appends, following the ends."""

import random
from dataclasses import replace

import pytest

from config.views import LogConfig
from storage.errors import CorruptRecord, LogClosed, StorageFailure
from storage.log import copying
from storage.log.copying import CopyStep, LogCopy
from storage.log.partition_log import PartitionLog
from storage.types import AppendOrigin
from tests.harness.batches import old_message
from tests.harness.legacy_sets import GOLDEN
from tests.sim.faulty_fs import FaultyFS
from tests.sim.logs import NOW, TP, append, append_marker, batch, file_names, offsets_of, read_all

CHUNK = 1 << 20


@pytest.fixture
def pair(fs, clock, rng, tmp_path):
    """Open the log and its copy; every call is a restart of both."""

    def opener(*, copy_start: int = 0, copy_high_watermark: int = 0, clean: bool = True, **options):
        config = LogConfig(**options)

        def one(name: str, start: int, high_watermark: int) -> PartitionLog:
            return PartitionLog.open(
                fs,
                clock,
                rng,
                str(tmp_path / name),
                TP,
                config,
                clean=clean,
                log_start_offset=start,
                high_watermark=high_watermark,
            )

        return one("log", 0, 0), one("copy", copy_start, copy_high_watermark)

    return opener


@pytest.fixture
def filled(pair):
    """Open both, put batches of one record into the log, and begin the copy."""

    def opener(count: int, *, epoch: int = 0, **options):
        log, target = pair(**options)
        for _ in range(count):
            append(log, epoch=epoch)
        return log, target, log.copy_into(target)

    return opener


def carry_out(copy: LogCopy, planned: CopyStep) -> None:
    while planned.turn():
        pass
    copy.note(planned)


def step(copy: LogCopy, max_bytes: int = CHUNK, **options) -> int:
    planned = copy.plan(max_bytes, **options)
    carry_out(copy, planned)
    return planned.copied_bytes


def catch_up(copy: LogCopy, max_bytes: int = CHUNK) -> int:
    for steps in range(10_000):
        if copy.is_caught_up:
            return steps
        step(copy, max_bytes)
    raise AssertionError(copy.lag)


def content(log: PartitionLog) -> bytes:
    log.advance_high_watermark(log.log_end_offset)
    return read_all(log)


def ends(log: PartitionLog) -> tuple[int, int, int]:
    return log.log_start_offset, log.high_watermark, log.log_end_offset


def assert_equal(log: PartitionLog, target: PartitionLog) -> None:
    assert ends(target) == ends(log)
    assert content(target) == content(log)
    assert target.epoch_entries() == [one for one in log.epoch_entries() if one[1] < log.log_end_offset]


def test_a_copy_holds_the_same_bytes_offsets_and_epochs(pair):
    log, target = pair(segment_bytes=4000)
    for n in range(100):
        append(log, 1 + n % 3, epoch=n // 30, timestamp=NOW + n)
    copy = log.copy_into(target)
    catch_up(copy)
    assert_equal(log, target)
    assert target.segment_count == log.segment_count
    assert copy.copied_bytes == log.size_bytes == target.size_bytes
    assert (copy.lag, copy.left_bytes) == (0, 0)
    for timestamp in range(NOW, NOW + 103):
        assert target.offset_for_timestamp(timestamp, bound=1000) == log.offset_for_timestamp(timestamp, bound=1000)


def test_a_step_takes_no_more_than_it_may_but_one_batch_at_least(pair):
    log, target = pair()
    small, large = len(batch()), len(batch(value=b"v" * 50_000))
    for _ in range(9):
        append(log)
    append(log, value=b"v" * 50_000)
    append(log)
    copy = log.copy_into(target)
    assert [step(copy, 4 * small + 10), step(copy, 5 * small)] == [4 * small, 5 * small]
    assert (step(copy, 100), step(copy, 100), step(copy, 100)) == (0, large, small)
    assert copy.is_caught_up


def test_more_batches_than_one_piece_holds_are_appended_in_several_turns(filled, monkeypatch):
    monkeypatch.setattr(copying, "BATCHES_PER_PIECE", 4)
    log, target, copy = filled(10)
    planned = copy.plan(CHUNK)
    turns = 1
    while planned.turn():
        turns += 1
    copy.note(planned)
    assert turns > 2
    assert_equal(log, target)


def test_appends_that_come_while_a_step_runs_are_left_to_the_next_one(filled):
    log, target, copy = filled(1)
    step(copy)
    planned = copy.plan(CHUNK)
    append(log)
    carry_out(copy, planned)
    assert (target.log_end_offset, copy.is_caught_up, copy.lag) == (1, False, 1)
    catch_up(copy)
    assert_equal(log, target)


def test_what_is_not_replicated_yet_is_copied_too_and_the_high_watermark_follows(pair):
    log, target = pair()
    append(log, 3)
    log.append(batch(2), leader_epoch=0)
    copy = log.copy_into(target)
    catch_up(copy)
    assert ends(target) == (0, 3, 5)
    log.advance_high_watermark(5)
    step(copy)
    assert target.high_watermark == 5


def test_transactions_and_producers_are_known_to_the_copy(pair):
    log, target = pair(segment_bytes=600)
    for n in range(12):
        append(log, 2, producer_id=5, producer_epoch=0, base_sequence=2 * n, is_transactional=True)
        append(log, producer_id=9, producer_epoch=1, base_sequence=n)
        if n % 3 == 2:
            append_marker(log, 5, is_abort=n % 2 == 0)
    append(log, producer_id=5, producer_epoch=0, base_sequence=24, is_transactional=True)
    copy = log.copy_into(target)
    catch_up(copy, 500)
    assert target.last_stable_offset == log.last_stable_offset < log.log_end_offset
    assert target.transactions.aborted(0, 1000) == log.transactions.aborted(0, 1000) != []

    def known(one):
        return sorted(
            (entry.producer_id, entry.producer_epoch, list(entry.batches), entry.current_txn_first_offset)
            for entry in one.active_producers()
        )

    assert known(target) == known(log)
    assert target.append(
        batch(producer_id=9, producer_epoch=1, base_sequence=11), leader_epoch=0
    ).is_duplicate  # a retry that comes after the swap


def test_an_end_without_batches_is_the_end_of_the_copy_too(pair):
    log, target = pair()
    append(log, 5)
    append(log, 5)
    log.truncate_to(7)
    copy = log.copy_into(target)
    catch_up(copy)
    assert (target.log_end_offset, target.size_bytes) == (7, log.size_bytes)
    append(log, 2)
    catch_up(copy)
    assert offsets_of(target, start=0) == [0, 7]


def test_gaps_of_a_compacted_log_stay(pair):
    log, target = pair(segment_bytes=500)
    for base_offset in (4, 9, 100, 2**31 + 5):
        log.append(
            bytes(batch(3, base_offset=base_offset, leader_epoch=2)), leader_epoch=2, origin=AppendOrigin.REPLICATION
        )
    log.advance_high_watermark(log.log_end_offset)
    copy = log.copy_into(target)
    catch_up(copy)
    assert_equal(log, target)


# --- alignment ---


def test_a_copy_that_was_made_before_goes_on_where_it_was(filled):
    log, target, copy = filled(10)
    step(copy, 4 * len(batch()))
    assert target.log_end_offset == 4
    again = log.copy_into(target)
    catch_up(again)
    assert again.copied_bytes == 6 * len(batch())
    assert_equal(log, target)


def test_an_equal_end_with_another_tail_is_cut_before_it_counts_as_caught_up(pair):
    log, target = pair()
    for one in (log, target):
        append(one, 3, epoch=1)
    append(target, 2, epoch=2, value=b"never in the log....")
    append(log, 2, epoch=3, value=b"in the log..........")
    copy = log.copy_into(target)
    assert not copy.is_caught_up
    catch_up(copy)
    assert_equal(log, target)


def test_epochs_that_the_log_does_not_know_are_passed_over_one_after_the_other(pair):
    log, target = pair()
    for one in (log, target):
        append(one, 3, epoch=1)
        append(one, 3, epoch=2)
    append(log, 9, epoch=6)
    for epoch in (4, 5, 7):
        append(target, 2, epoch=epoch)
    target.flush()
    copy = log.copy_into(target)
    step(copy)
    assert target.log_end_offset == 6
    catch_up(copy)
    assert_equal(log, target)


def test_of_the_same_epoch_the_shorter_end_counts(pair):
    log, target = pair()
    append(log, 3, epoch=1)
    append(log, 1, epoch=2)
    for _ in range(2):
        append(target, 3, epoch=1)
    target.flush()
    copy = log.copy_into(target)
    step(copy)
    assert target.log_end_offset == 3
    catch_up(copy)
    assert_equal(log, target)


def test_a_copy_that_is_ahead_of_the_log_is_cut_to_its_end(pair):
    log, target = pair()
    append(log, 2, epoch=1)
    for _ in range(3):
        append(target, 2, epoch=1)
    copy = log.copy_into(target)
    catch_up(copy)
    assert_equal(log, target)


def test_without_epochs_the_copy_keeps_what_lies_below_its_high_watermark(pair):
    log, target = pair()
    for one in (log, target):
        for _ in range(6):
            one.append(batch(), leader_epoch=-1)
    target.advance_high_watermark(4)
    target.flush()
    copy = log.copy_into(target)
    step(copy)
    assert target.log_end_offset == 4
    catch_up(copy)
    assert content(target) == content(log)


def test_a_log_that_was_cut_cuts_the_copy_to_the_same_offset_even_within_one_epoch(filled):
    log, target, copy = filled(10, epoch=1)
    catch_up(copy)
    log.truncate_to(6)
    log.truncate_to(4)
    for _ in range(6):
        append(log, epoch=1, value=b"another value.......")
    assert not copy.is_caught_up
    step(copy)
    assert target.log_end_offset == 4
    catch_up(copy)
    assert_equal(log, target)


def test_a_log_that_was_cut_while_a_step_ran_is_followed_by_the_next_one(filled):
    log, target, copy = filled(10)
    step(copy)
    planned = copy.plan(CHUNK)
    planned.turn()
    log.truncate_to(3)
    append(log, epoch=1)
    copy.note(planned)
    assert not copy.is_caught_up
    catch_up(copy)
    assert_equal(log, target)


# --- the log start ---


def test_a_copy_below_the_log_start_begins_anew_there(filled):
    log, target, copy = filled(20, segment_bytes=300)
    step(copy)
    step(copy, 300)
    assert target.log_end_offset < 11
    log.increment_log_start_offset(11)
    catch_up(copy)
    assert_equal(log, target)
    assert target.first_segment_base_offset == 11


def test_a_log_start_within_a_batch_is_kept_beside_the_whole_batch(pair):
    log, target = pair(copy_start=7)
    append(log, 5)
    append(log, 5)
    append(log, 5)
    log.increment_log_start_offset(7)
    copy = log.copy_into(target)
    catch_up(copy)
    assert ends(target) == (7, 15, 15)
    assert (target.first_segment_base_offset, target.log_start_to_checkpoint) == (5, 7)
    assert read_all(target) == read_all(log)


def test_a_log_start_within_a_batch_that_is_larger_than_a_step_is_passed(pair):
    log, target = pair(copy_start=2)
    append(log, 5, value=b"v" * 500)
    log.increment_log_start_offset(2)
    copy = log.copy_into(target)
    assert catch_up(copy, 300) <= 3
    assert_equal(log, target)


def test_segments_below_the_log_start_leave_the_copy_with_the_next_step(filled):
    log, target, copy = filled(30, segment_bytes=300)
    catch_up(copy)
    log.increment_log_start_offset(17)
    step(copy)
    assert target.log_start_offset == 17
    assert target.first_segment_base_offset <= 17
    assert target.segment_count < log.segment_count
    assert not any(name.endswith((".log", ".index")) and int(name[:20]) < 10 for name in file_names(target))


class WatchedFS(FaultyFS):
    """Lets somebody look at a log before each call, as the thread that writes checkpoints may at any time."""

    look = staticmethod(lambda: None)

    def run(self, operation, path, call):
        self.look()
        return super().run(operation, path, call)


@pytest.mark.parametrize("log_start", [7, 28], ids=["within the first batch", "above all that was copied"])
def test_others_may_look_at_the_copy_at_any_moment_of_a_step(pair, clock, rng, tmp_path, log_start):
    log, _ = pair(segment_bytes=500)
    for _ in range(10):
        append(log, 5)
    fs, starts = WatchedFS(), []
    target = PartitionLog.open(fs, clock, rng, str(tmp_path / "watched"), TP, log.config, log_start_offset=7)
    fs.look = lambda: starts.append((target.log_start_to_checkpoint, target.size_bytes, target.segment_count))
    log.increment_log_start_offset(7)
    copy = log.copy_into(target)
    step(copy, 300)
    log.increment_log_start_offset(log_start)
    catch_up(copy)
    assert_equal(log, target)
    assert {start for start, _, _ in starts} <= {None, 7, log_start}
    assert all(segments for _, _, segments in starts)


def test_an_empty_log_has_an_empty_copy_with_its_start(pair):
    log, target = pair(copy_start=0)
    append(log, 9)
    log.increment_log_start_offset(9)
    log.truncate_fully_and_start_at(9)
    copy = log.copy_into(target)
    catch_up(copy)
    assert ends(target) == (9, 9, 9)


# --- settings, kinds of logs ---


def test_settings_are_followed_from_the_next_step_on(filled):
    log, target, copy = filled(10)
    log.config = replace(log.config, segment_bytes=3 * len(batch()))
    for _ in range(4):
        step(copy, 3 * len(batch()))
    assert target.config == log.config
    assert target.segment_count == 4


def test_a_preallocated_log_is_copied_as_far_as_it_is_written(pair):
    log, target = pair(preallocate=True, segment_bytes=20_000)
    log.direct_writes.defer()
    for _ in range(3):
        log.append(batch(value=b"v" * 5000), leader_epoch=0)
    has_plans = log.direct_writes.has_unwritten  # not on every file system
    copy = log.copy_into(target)
    step(copy)
    step(copy)
    assert copy.is_caught_up is not has_plans
    while (plan := log.direct_writes.plan()) is not None:
        plan.run()
        log.direct_writes.written(plan)
    catch_up(copy)
    assert content(target) == content(log)


def test_messages_of_older_formats_are_copied_byte_for_byte(pair, tmp_path):
    pieces, offset = [], 0
    for n in range(60):
        magic, codec, _ = list(GOLDEN)[n % len(GOLDEN)]
        if codec == "none":
            pieces.append(old_message(b"v" * n, magic=magic, offset=offset, timestamp=NOW + n))
            offset += 1
    content = b"".join(pieces)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / f"{0:020}.log").write_bytes(content)
    log, target = pair(clean=False, index_interval_bytes=100, segment_bytes=500)
    log.advance_high_watermark(log.log_end_offset)
    append(log, 3)
    copy = log.copy_into(target)
    catch_up(copy, 333)
    copied = b"".join((tmp_path / "copy" / name).read_bytes() for name in file_names(target) if name.endswith(".log"))
    assert copied[: len(content)] == content
    assert len(copied) == log.size_bytes
    for timestamp in range(NOW, NOW + 60):
        assert target.offset_for_timestamp(timestamp, bound=1000) == log.offset_for_timestamp(timestamp, bound=1000)


def test_random_logs_and_chunks_end_in_equal_copies(pair, rng):
    chance = random.Random(7)
    log, target = pair(segment_bytes=2000, index_interval_bytes=100)
    copy = log.copy_into(target)
    epoch = 0
    for _ in range(400):
        action = chance.random()
        if action < 0.5:
            append(log, chance.randint(1, 4), epoch=epoch, value=b"v" * chance.randint(0, 300))
        elif action < 0.55 and log.log_end_offset > log.log_start_offset:
            log.truncate_to(chance.randint(log.log_start_offset, log.log_end_offset))
            epoch += 1
        elif action < 0.6:
            log.increment_log_start_offset(chance.randint(log.log_start_offset, log.high_watermark))
        elif action < 0.63:
            copy = log.copy_into(target)
        else:
            step(copy, chance.randint(1, 1500))
    catch_up(copy, 500)
    step(copy)
    assert ends(target) == ends(log)
    assert content(target) == content(log)


# --- failures ---


def test_a_damaged_batch_is_not_copied_and_the_copy_stays_as_it_was(pair):
    log, target = pair()
    for _ in range(3):
        append(log)
    with open(log.path + "/00000000000000000000.log", "r+b") as file:
        file.seek(len(batch()) + 70)
        file.write(b"x")
    copy = log.copy_into(target)
    planned = copy.plan(CHUNK)
    with pytest.raises(CorruptRecord, match=r"cannot copy .*/log/0+\.log"):
        while planned.turn():
            pass
    copy.failed(planned)
    assert target.log_end_offset == 0


def test_a_file_that_has_lost_its_end_is_damaged_unless_the_log_was_cut(filled):
    log, target, copy = filled(4)
    planned = copy.plan(CHUNK)
    log.truncate_to(2)
    planned.turn()
    copy.note(planned)
    append(log, epoch=1)
    catch_up(copy)
    assert_equal(log, target)
    append(log)
    planned = copy.plan(CHUNK)
    with open(log.path + "/00000000000000000000.log", "r+b") as file:
        file.truncate(log.size_bytes - 1)
    planned.turn()
    with pytest.raises(CorruptRecord):
        copy.note(planned)
    assert target.log_end_offset == 3


def test_a_log_that_is_closed_is_not_copied(filled):
    log, _target, copy = filled(1)
    log.close()
    with pytest.raises(LogClosed):
        copy.plan(CHUNK)


def test_a_step_that_is_planned_goes_on_with_its_pins_when_the_log_is_let_go(pair):
    log, target = pair()
    append(log, 3)
    copy = log.copy_into(target)
    planned = copy.plan(CHUNK)
    log.fail()
    carry_out(copy, planned)
    assert target.log_end_offset == 3


def test_a_flushed_step_leaves_nothing_to_be_flushed(filled):
    _log, target, copy = filled(10, segment_bytes=300)
    catch_up(copy)
    assert target.durability.has_unflushed_data
    step(copy, is_flushed=True)
    assert not target.durability.has_unflushed_data
    assert target.recovery_point == 10


def test_a_copy_is_flushed_whenever_enough_was_appended(filled, monkeypatch):
    monkeypatch.setattr(copying, "FLUSH_EVERY_BYTES", 3 * len(batch()))
    _log, target, copy = filled(8)
    points = []
    while not copy.is_caught_up:
        step(copy, len(batch()))
        points.append(target.recovery_point)
    assert points == [0, 0, 3, 3, 3, 6, 6, 6]


def test_a_disk_that_cannot_be_read_is_named(filled):
    log, _target, copy = filled(1)
    planned = copy.plan(CHUNK)

    def refuse(*_):
        raise OSError(5, "as if the disk were broken")

    planned._region = type("Broken", (), {"read": refuse, "release": lambda self: None})()
    with pytest.raises(StorageFailure) as failed:
        planned.turn()
    assert failed.value.path.startswith(log.path)
    copy.failed(planned)
