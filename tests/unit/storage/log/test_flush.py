"""When a flush is due, what it syncs, and how far the recovery point moves."""

import os

import pytest

from storage.env.posix import PosixFile
from storage.errors import StorageFailure
from tests.sim.logs import append, batch

SIZE = len(batch())


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """Note the names of the files that are synced."""
    names: list[str] = []
    monkeypatch.setattr(PosixFile, "sync", lambda file: names.append(file.path.rpartition("/")[2]))
    return names


def test_flush_messages_counts_offsets_since_the_last_flush_across_batches(open_log, synced):
    log = open_log(flush_messages=3)
    due = []
    for count in (1, 1, 1, 2, 10):
        append(log, count)
        due.append(log.durability.is_flush_due(log.recovery_point))
        if due[-1]:
            log.flush()
    assert due == [False, False, True, False, True]
    assert synced.count("00000000000000000000.log") == 2
    assert log.recovery_point == log.log_end_offset == 15


def test_what_a_running_flush_covers_is_not_counted_again(open_log):
    log = open_log(flush_messages=3)
    append(log, 3)
    plan = log.durability.flush_plan()
    append(log, 2)
    assert not log.durability.is_flush_due(plan.target_offset)
    append(log)
    assert log.durability.is_flush_due(plan.target_offset)
    plan.release()


def test_flush_on_append_is_due_with_every_append_and_without_settings_none_is(open_log):
    log = open_log()
    append(log, 1000)
    assert not log.durability.is_flush_due(0)
    log.close()
    log = open_log(flush_on_append=True, clean=True)
    append(log)
    assert log.durability.is_flush_due(1000)


def test_flush_ms_counts_from_the_last_flush_and_asks_for_nothing_while_nothing_is_unflushed(open_log, clock):
    log = open_log(flush_ms=1000)
    assert log.durability.ms_until_flush(clock.now + 5000) is None
    append(log)
    assert [log.durability.ms_until_flush(clock.now + passed) for passed in (0, 999, 1000, 9000)] == [1000, 1, 0, 0]
    assert log.durability.ms_until_flush(clock.now - 3_600_000) == 1000, (
        "a clock that was set back postpones nothing for long"
    )
    clock.now += 400
    log.flush()
    assert log.durability.ms_until_flush(clock.now + 1000) is None
    append(log)
    assert log.durability.ms_until_flush(clock.now) == 1000


def test_flush_ms_of_zero_is_always_due_and_the_largest_never(open_log, clock):
    log = open_log(flush_ms=0)
    append(log)
    assert log.durability.ms_until_flush(clock.now) == 0
    log.close()
    log = open_log(clean=True)
    append(log)
    assert log.durability.ms_until_flush(clock.now + 10**15) is None


def test_a_roll_is_told_and_its_flush_takes_the_sealed_files_alone(open_log, synced):
    log = open_log(segment_bytes=2 * SIZE)
    rolled: list[int] = []
    log.durability.watch(on_rolled=lambda: rolled.append(log.durability.sealed_end_offset), on_window_full=lambda: None)
    append(log)
    append(log)
    assert rolled == []
    append(log)
    assert rolled == [2]
    synced.clear()
    plan = log.durability.flush_plan(below=2)
    plan.run()
    log.durability.flushed(plan)
    assert plan.has_sealed
    assert log.recovery_point == 2
    assert "00000000000000000000.log" in synced
    assert not [name for name in synced if name.startswith("00000000000000000002")]
    log.flush()
    assert log.recovery_point == 3
    assert "00000000000000000002.log" in synced


def test_an_empty_segment_made_anew_is_no_roll(open_log):
    log = open_log()
    told: list[None] = []
    log.durability.watch(on_rolled=lambda: told.append(None), on_window_full=lambda: None)
    log.roll()
    assert told == []
    append(log)
    log.roll()
    assert told == [None]


def test_below_an_offset_of_the_active_segment_everything_is_flushed(open_log):
    log = open_log(segment_bytes=2 * SIZE)
    for _ in range(3):
        append(log)
    plan = log.durability.flush_plan(below=3)
    assert (plan.target_offset, plan.has_sealed) == (3, True)
    plan.release()
    log.flush()
    append(log)
    plan = log.durability.flush_plan(below=4)
    assert (plan.target_offset, plan.has_sealed) == (4, False)
    plan.release()


def test_a_log_that_was_closed_meanwhile_only_takes_back_its_pins(open_log):
    log = open_log()
    append(log)
    plan = log.durability.flush_plan()
    log.fail()
    plan.run()
    log.durability.flushed(plan)
    assert log.recovery_point == 0


def test_a_failed_sync_moves_no_recovery_point(open_log, monkeypatch):
    log = open_log()
    append(log)

    def refuse(file: PosixFile) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(PosixFile, "sync", refuse)
    with pytest.raises(StorageFailure):
        log.flush()
    assert log.recovery_point == 0


def test_an_append_leaves_the_epoch_file_to_the_flush_before_the_recovery_point_passes_the_batch(open_log):
    log = open_log()
    path = os.path.join(log.path, "leader-epoch-checkpoint")
    append(log, 5, epoch=3)
    log.assign_epoch(4)
    assert not os.path.exists(path)
    log.flush()
    assert _lines(path) == ["3 0", "4 5"]
    append(log, epoch=4)
    assert not log.durability.flush_plan().epochs, "the file has it already"


def test_a_flush_that_failed_leaves_the_epochs_to_the_next_one(open_log, monkeypatch):
    log = open_log()
    append(log, epoch=3)
    plan = log.durability.flush_plan()
    with monkeypatch.context() as broken, pytest.raises(StorageFailure):
        broken.setattr(PosixFile, "sync", _refuse)
        plan.run()
    log.durability.flush_failed(plan)
    log.flush()
    assert _lines(os.path.join(log.path, "leader-epoch-checkpoint")) == ["3 0"]


def test_epochs_found_again_after_a_crash_are_written_by_the_next_flush(open_log):
    log = open_log()
    append(log, 5, epoch=3)
    log.fail()
    again = open_log()
    path = os.path.join(again.path, "leader-epoch-checkpoint")
    assert (again.epoch_entries(), os.path.exists(path)) == ([(3, 0)], False)
    assert again.durability.has_unflushed_data
    again.flush()
    assert _lines(path) == ["3 0"]
    assert not again.durability.has_unflushed_data


def _lines(path: str) -> list[str]:
    with open(path) as file:
        return file.read().splitlines()[2:]


def _refuse(file: PosixFile) -> None:
    raise OSError(5, "Input/output error", file.path)
