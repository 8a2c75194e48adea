"""Installing cleaned segments in a log that is being read, appended to, cut or closed."""

import os
from dataclasses import replace

import pytest

from protocol.records.control import build_marker
from storage.compaction.swap import Swap
from storage.errors import StorageFailure
from storage.types import AppendOrigin
from tests.sim.cleaning import clean, run, stored_records, task_of
from tests.sim.logs import file_names, read_all
from tests.unit.storage.compaction.conftest import COMPACT


@pytest.fixture
def dirty(open_log, put):
    """Segments at 0, 2, 4 and the active one at 6; a third of the records is superseded."""

    def dirty_(config=COMPACT):
        log = open_log(config)
        for n in range(3):
            put(log, (b"a", b"%d" % n), (b"k%d" % n, b"v"), roll=True)
        put(log, (b"z", b"z"))
        return log

    return dirty_


def names(log, ending: str) -> list[str]:
    return [name for name in file_names(log) if name.endswith(ending)]


def steps_of(log, result) -> list[Swap]:
    return [log.cleaning.begin_swap(group, result.cut_count) for group in result.groups]


def test_a_reader_sees_the_whole_log_after_each_step(dirty, fs, clock):
    log = dirty()
    newest = {record.key: record for record in stored_records(read_all(log))}
    result = run(task_of(log, clock.now), fs, clock)
    for swap in steps_of(log, result):
        for step in (swap.stage, swap.switch, swap.retire, swap.settle, swap.sync):
            step()
            assert {record.key: record for record in stored_records(read_all(log))} == newest, step
            assert log.offset_for_timestamp(clock.now, bound=log.log_end_offset) is not None
    assert len(stored_records(read_all(log))) == 5


def test_a_region_that_is_being_sent_keeps_its_old_bytes(dirty, fs, clock):
    log = dirty()
    before = log.read(0, max_bytes=1 << 20, bound=log.log_end_offset, min_one_batch=True)
    clean(log, fs, clock)
    offsets = [record.offset for record in stored_records(before.region.read())]
    before.region.release()
    assert offsets == [0, 1]


def test_what_a_reader_remembered_of_old_segments_is_forgotten(dirty, fs, clock):
    log = dirty()
    for offset in range(7):
        log.read(offset, max_bytes=1, bound=log.log_end_offset, min_one_batch=True).region.release()
    clean(log, fs, clock)
    found = [log.read(offset, max_bytes=1, bound=log.log_end_offset, min_one_batch=True) for offset in range(7)]
    first = [stored_records(one.region.read())[0].offset for one in found]
    assert first == [1, 1, 3, 3, 4, 4, 6]


def test_output_of_segments_that_another_cleaning_has_replaced_comes_too_late(dirty, fs, clock):
    log = dirty(replace(COMPACT, segment_bytes=150))
    result = run(task_of(log, clock.now), fs, clock)
    assert [len(group.sources) for group in result.groups] == [1, 1, 1]
    assert log.cleaning.install(result)
    swaps = [log.cleaning.begin_swap(group, result.cut_count) for group in result.groups]
    assert [swap is None for swap in swaps] == [True, True, False]  # nothing of the last one was superseded


def test_old_files_wait_for_their_deletion_and_the_rest_has_plain_names(dirty, fs, clock):
    log = dirty(replace(COMPACT, file_delete_delay_ms=1000))
    clean(log, fs, clock)
    assert names(log, ".log") == [f"{0:020d}.log", f"{6:020d}.log"]
    assert names(log, ".log.deleted") == [f"{base:020d}.log.deleted" for base in (0, 2, 4)]
    assert not [name for name in file_names(log) if name.endswith((".cleaned", ".swap"))]
    queue = log._state.deletions
    assert not queue.take_due(clock.now + 999)
    assert sorted(map(os.path.basename, queue.take_due(clock.now + 1000))) == names(log, ".deleted")


def test_snapshots_go_with_bases_that_no_segment_has_any_more(dirty, fs, clock):
    log = dirty()
    assert names(log, ".snapshot") == [f"{base:020d}.snapshot" for base in (2, 4, 6)]
    clean(log, fs, clock)
    assert names(log, ".snapshot") == [f"{6:020d}.snapshot"]
    assert names(log, ".snapshot.deleted") == [f"{base:020d}.snapshot.deleted" for base in (2, 4)]


def test_sizes_offsets_and_epochs_are_those_of_the_log(dirty, fs, clock):
    log = dirty()
    before = (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point, log.epoch_entries())
    result = clean(log, fs, clock)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point, log.epoch_entries()) == (
        before
    )
    active = os.path.getsize(os.path.join(log.path, f"{6:020d}.log"))
    assert log.size_bytes == result.stats.bytes_written + active
    assert log.segment_count == 2


def test_appends_between_the_steps_are_not_lost(dirty, put, fs, clock):
    log = dirty()
    result = run(task_of(log, clock.now), fs, clock)
    put(log, (b"n0", b"1"))
    for swap in steps_of(log, result):
        for n, step in enumerate((swap.stage, swap.switch, swap.retire, swap.settle, swap.sync)):
            step()
            put(log, (b"s%d" % n, b"1"), roll=n % 2 == 0)
    assert [record.key for record in stored_records(read_all(log))][-6:] == [b"n0", b"s0", b"s1", b"s2", b"s3", b"s4"]
    log.close()


def test_a_flush_between_the_steps_finds_its_files_or_needs_none(dirty, fs, clock):
    log = dirty()
    plan = log.durability.flush_plan()
    swap = steps_of(log, run(task_of(log, clock.now), fs, clock))[0]
    swap.stage()
    swap.switch()
    plan.run()
    log.durability.flushed(plan)
    swap.retire()
    swap.settle()
    swap.sync()
    assert log.recovery_point == log.log_end_offset


def test_a_second_cleaning_works_on_the_installed_segments(dirty, put, fs, clock):
    log = dirty()
    checkpoint = clean(log, fs, clock).end_offset
    put(log, (b"k0", b"new"), roll=True)
    put(log, (b"y", b"y"))
    clean(log, fs, clock, checkpoint)
    assert [record.key for record in stored_records(read_all(log))] == [b"k1", b"a", b"k2", b"z", b"k0", b"y"]


def test_an_empty_result_leaves_an_empty_segment_that_readers_pass(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), roll=True)
    put(log, (b"a", b"2"), roll=True)
    put(log, (b"z", b"z"))
    log.config = replace(log.config, segment_bytes=1)  # the segments stay apart
    clean(log, fs, clock)
    assert os.path.getsize(os.path.join(log.path, f"{0:020d}.log")) == 0
    assert [record.offset for record in stored_records(read_all(log, start=0))] == [1, 2]
    log.close()
    again = open_log(clean=True, high_watermark=3)
    assert (again.log_start_offset, again.segment_count) == (0, 3)
    assert [record.offset for record in stored_records(read_all(again, start=0))] == [1, 2]


@pytest.mark.pure  # what is replaced here is bound when it is compiled
def test_several_outputs_of_one_group_are_installed_together(open_log, put, fs, clock, monkeypatch):
    monkeypatch.setattr("storage.compaction.output.MAX_LOG_BYTES", 200)
    log = open_log()
    for n in range(6):
        put(log, (b"k%d" % n, b"v" * 10), roll=n == 2)
    log.roll()
    marker = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    put(log, (b"x", b"aborted"), **marker)
    log.append(
        build_marker(is_abort=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=clock.now),
        leader_epoch=0,
        origin=AppendOrigin.COORDINATOR,
    )
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    put(log, (b"z", b"z"))
    clean(log, fs, clock)
    assert names(log, ".log") == [f"{base:020d}.log" for base in (0, 2, 4, 6, 8)]
    assert [record.offset for record in stored_records(read_all(log))] == [0, 1, 2, 3, 4, 5, 8]
    assert log.transactions.aborted(0, 9) == [(7, 6)]
    log.close()
    assert len(stored_records(read_all(open_log(clean=True, high_watermark=9)))) == 7


# --- too late ---


def nothing_installed(log, before):
    assert not [name for name in file_names(log) if name.endswith((".cleaned", ".swap"))]
    assert read_all(log) == before


def test_a_result_for_a_log_that_was_cut_is_discarded(dirty, put, fs, clock):
    log = dirty()
    result = run(task_of(log, clock.now), fs, clock)
    log.truncate_to(5)
    put(log, (b"k2", b"v"), roll=True)
    put(log, (b"z", b"z"))
    before = read_all(log)
    assert not log.cleaning.install(result)
    nothing_installed(log, before)


def test_a_result_for_a_log_that_began_anew_is_discarded(dirty, put, fs, clock):
    log = dirty()
    result = run(task_of(log, clock.now), fs, clock)
    log.truncate_fully_and_start_at(0)
    for n in range(3):
        put(log, (b"a", b"%d" % n), (b"k%d" % n, b"v"), roll=True)
    put(log, (b"z", b"z"))
    before = read_all(log)
    assert not log.cleaning.install(result)
    nothing_installed(log, before)


def test_a_result_whose_sources_retention_removed_is_discarded(dirty, fs, clock):
    log = dirty(replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=0))
    result = run(task_of(log, clock.now), fs, clock)
    removal = log.retain(clock.now)
    removal.rename()
    log.removed(removal)
    before = read_all(log)
    assert not log.cleaning.install(result)
    nothing_installed(log, before)


def test_a_closed_log_takes_nothing(dirty, fs, clock):
    log = dirty()
    result = run(task_of(log, clock.now), fs, clock)
    log.close()
    assert not log.cleaning.install(result)
    assert log.cleaning.begin_swap(result.groups[0], result.cut_count) is None


def test_a_cut_between_stage_and_switch_leaves_nothing_behind(dirty, fs, clock):
    log = dirty()
    result = run(task_of(log, clock.now), fs, clock)
    swap = log.cleaning.begin_swap(result.groups[0], result.cut_count)
    swap.stage()
    log.truncate_to(3)
    before = read_all(log)
    assert not swap.switch()
    swap.abandon()
    nothing_installed(log, before)


def test_output_that_is_missing_changes_nothing(dirty, fs, clock):
    log = dirty()
    result = run(task_of(log, clock.now), fs, clock)
    os.unlink(os.path.join(log.path, f"{0:020d}.timeindex.cleaned"))
    before = read_all(log)
    assert not log.cleaning.install(result)
    nothing_installed(log, before)


def test_a_rename_that_the_disk_refuses_is_a_failure_of_the_directory(dirty, fs, clock, monkeypatch):
    log = dirty()
    result = run(task_of(log, clock.now), fs, clock)

    def refuse(self, source, target):
        raise OSError(5, "Input/output error", source)

    monkeypatch.setattr(type(fs), "rename", refuse)
    with pytest.raises(StorageFailure) as failure:
        log.cleaning.install(result)
    assert failure.value.path == log.path
