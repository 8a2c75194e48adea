"""The cleaner: which log comes when, what becomes of passes that fail, and who is told."""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from typing import Any

import pytest

from broker.background.cleaner.child import ChildDied, CleaningFailed
from broker.background.cleaner.passes import PROGRESS_EVERY_NS
from broker.background.cleaner.pipe import Fault
from broker.metadata.image import TOPIC_RESOURCE, Delta
from config.views import LogConfig
from storage.compaction.offset_map import SLOT_BYTES
from storage.compaction.swap import Swap
from storage.compaction.task import Progress
from storage.errors import StorageFailure
from tests.harness.cleaning import COMPACT, CleanerBed
from tests.harness.hosted import NOW_MS

SCHEDULED = replace(COMPACT, delivery_mode="scheduled")
"""What nobody can ask for, but may be stored: a scheduled topic is never compacted."""


def checkpoint_lines(bed: CleanerBed, topic: str) -> list[str]:
    path = bed.hosted.path_of(topic).parent / "cleaner-offset-checkpoint"
    return path.read_text().splitlines()[2:]


def held(bed: CleanerBed) -> CleanerBed:
    bed.is_held = True
    return bed


# --- which and when ---


async def test_a_cleaned_log_keeps_the_newest_record_of_each_key_and_its_checkpoint_says_how_far(
    bed: CleanerBed,
) -> None:
    partition = bed.create("t")
    await bed.look()
    await bed.finish()
    assert [(record.offset, record.key, record.value) for record in bed.records("t")] == [
        (58, b"0", b"9"),
        (59, b"1", b"9"),
    ]
    assert partition.log.log_end_offset == 60
    assert checkpoint_lines(bed, "t") == ["t 0 60"]
    assert bed.after == [("t", False)]
    assert bed.leftovers("t") == []
    stats = bed.cleaner.stats
    assert (stats.passes, stats.failures, stats.aborted, stats.removed_records) == (1, 0, 0, 58)
    assert 0 < stats.written_bytes < stats.read_bytes


async def test_a_pass_that_drops_nothing_writes_all_that_it_reads_for_copying(bed: CleanerBed) -> None:
    bed.fill(bed.create("t", segments=0), keys=40, rounds=1)
    await bed.look()
    await bed.finish()
    last = bed.cleaner.stats.last_pass
    assert last.written_bytes == last.copy_read_bytes > 0
    assert last.read_bytes == 2 * last.copy_read_bytes


async def test_the_buffer_is_as_full_as_the_keys_make_the_share_of_one_worker(bed: CleanerBed) -> None:
    bed.config = bed.config._replace(dedupe_buffer_size=2 * 100 * SLOT_BYTES, threads=2)
    bed.fill(bed.create("t", segments=0), keys=40, rounds=1)
    await bed.look()
    await bed.finish()
    assert bed.cleaner.stats.last_pass.map_utilization == 0.4
    bed.fill(bed.create("more", segments=0), keys=400, rounds=1)
    await bed.look()
    await bed.finish()
    assert bed.cleaner.stats.last_pass.map_utilization == bed.config.io_buffer_load_factor


async def test_a_clean_log_is_not_cleaned_again_and_the_processes_end(bed: CleanerBed) -> None:
    bed.create("t")
    await bed.look()
    await bed.finish()
    assert [child.is_gone for child in bed.children] == [False]
    await bed.look()
    assert bed.passes == ["t"]
    assert [child.is_gone for child in bed.children] == [True]


@pytest.mark.parametrize("config", [LogConfig(), SCHEDULED], ids=["delete", "scheduled and compact"])
async def test_logs_that_are_not_compacted_are_left_alone(bed: CleanerBed, config: LogConfig) -> None:
    bed.create("t", config=config)
    await bed.look()
    assert not bed.children


async def test_the_dirtiest_log_comes_first_and_the_other_waits(bed: CleanerBed) -> None:
    for topic in ("less", "more"):
        bed.create(topic, segments=4)
    bed.hosted.logs.set_cleaner_checkpoint(bed.tp("less"), 20)
    held(bed)
    await bed.look()
    assert bed.cleaner.is_busy(bed.tp("more"))
    assert not bed.cleaner.is_busy(bed.tp("less"))
    assert bed.cleaner.waiting_count == 1
    bed.hosted.clock.wall_ms += 5_000
    assert bed.cleaner.oldest_waiting_seconds == 5
    await bed.look()
    assert bed.cleaner.oldest_waiting_seconds == 5
    await bed.finish()
    await bed.look()
    await bed.finish()
    assert bed.passes == ["more", "less"]
    assert len(bed.children) == 1
    assert bed.cleaner.waiting_count == 0


async def test_a_log_below_its_ratio_waits_and_one_that_is_overdue_does_not(bed: CleanerBed) -> None:
    config = replace(COMPACT, min_cleanable_dirty_ratio=0.9)
    bed.create("patient", segments=4, config=config)
    bed.create("overdue", segments=4, config=replace(config, max_compaction_lag_ms=1_000))
    for topic in ("patient", "overdue"):
        bed.hosted.logs.set_cleaner_checkpoint(bed.tp(topic), 60)
    bed.hosted.clock.wall_ms += 6_000
    held(bed)
    await bed.look()
    assert [child.order.task.tp.topic for child in bed.children] == ["overdue"]
    assert bed.cleaner.waiting_count == 0
    assert bed.cleaner.stats.max_compaction_delay_ms == 5_000
    assert bed.cleaner.stats.max_dirty_ratio == pytest.approx(0.25)


async def test_there_are_as_many_passes_as_threads_and_they_share_memory_and_rate(bed: CleanerBed) -> None:
    bed.config = bed.config._replace(threads=2, io_max_bytes_per_second=1_000.0)
    for topic in ("x", "y", "z"):
        bed.create(topic)
    held(bed)
    await bed.look()
    assert bed.cleaner.running_count == 2
    first, second = bed.children
    assert (first.rates[-1], second.rates[-1]) == (500, 500)
    assert first.order is not None
    assert first.order.task.dedupe_buffer_bytes == bed.config.dedupe_buffer_size // 2
    first.proceed()
    await bed.turns(60)
    assert second.rates[-1] == 1_000
    bed.config = bed.config._replace(threads=1, io_max_bytes_per_second=200.0)
    await bed.look()
    assert bed.cleaner.running_count == 1
    assert second.rates[-1] == 200


async def test_without_threads_nothing_is_cleaned(bed: CleanerBed) -> None:
    bed.config = bed.config._replace(threads=0)
    bed.create("t")
    await bed.look()
    assert (bed.cleaner.running_count, bed.cleaner.waiting_count) == (0, 1)


async def test_a_log_has_one_pass_at_a_time(bed: CleanerBed) -> None:
    bed.config = bed.config._replace(threads=4)
    bed.create("t")
    held(bed)
    await bed.look()
    await bed.look()
    assert len(bed.children) == 1


async def test_a_checkpoint_below_the_log_start_is_set_to_it_and_written(bed: CleanerBed) -> None:
    partition = bed.create("t", segments=2)
    bed.hosted.logs.set_cleaner_checkpoint(partition.tp, 10)
    partition.log.increment_log_start_offset(40)
    await bed.look()
    assert not bed.children
    assert checkpoint_lines(bed, "t") == ["t 0 40"]


async def test_groups_are_installed_while_the_pass_goes_on(bed: CleanerBed) -> None:
    config = replace(COMPACT, segment_bytes=2_000)
    partition = bed.create("t", segments=4, config=config, keys=20)
    before = partition.log.segment_count
    swaps: list[bool] = []
    bed.pools.before = lambda call: swaps.append(bed.cleaner.is_busy(partition.tp))
    await bed.look()
    await bed.finish()
    assert swaps
    assert bed.leftovers("t") == []
    assert len(bed.records("t")) == 20
    assert partition.log.segment_count <= before


# --- failures ---


async def test_a_log_whose_data_fails_is_reported_once_and_stops_no_other(
    bed: CleanerBed, caplog: pytest.LogCaptureFixture
) -> None:
    bed.create("bad", segments=4)
    bed.create("good", segments=3)
    bed.hosted.logs.set_cleaner_checkpoint(bed.tp("good"), 20)
    held(bed)
    await bed.look()
    bed.children[0].proceed(CleaningFailed(Fault.DATA, "CorruptBatch: at 17", "Traceback ..."))
    await bed.finish()
    bed.is_held = False
    for _ in range(3):
        bed.hosted.clock.wall_ms += 3_600_000
        await bed.look()
        await bed.finish()
    assert bed.passes == ["good"]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "topic=bad partition=0" in errors[0].message
    assert "CorruptBatch: at 17" in errors[0].message
    assert [one.log.tp.topic for one in bed.cleaner.troubles.uncleanable] == ["bad"]
    assert bed.cleaner.stats.failures == 1


async def test_an_uncleanable_log_has_another_chance_when_its_policy_changes(bed: CleanerBed) -> None:
    bed.create("bad")
    held(bed)
    await bed.look()
    bed.children[0].proceed(CleaningFailed(Fault.DATA, "bad batch", ""))
    await bed.finish()
    bed.is_held = False
    for config in (LogConfig(), COMPACT):
        bed.hosted.configure("bad", config)
        bed.cleaner.publish(Delta(changed_configs=frozenset({(TOPIC_RESOURCE, "bad")})), bed.hosted.current)
    assert not bed.cleaner.troubles.uncleanable
    await bed.look()
    await bed.finish()
    assert bed.passes == ["bad"]


async def test_a_corrupt_log_is_uncleanable_by_the_real_rewrite_and_one_line_says_why(
    bed: CleanerBed, caplog: pytest.LogCaptureFixture
) -> None:
    partition = bed.create("bad")
    path = bed.hosted.path_of("bad") / f"{20:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    await bed.look()
    while bed.cleaner.is_busy(partition.tp):
        await bed.turns()
    assert bed.leftovers("bad") == []
    assert bed.cleaner.stats.failures == 1
    assert bed.hosted.logs.cleaner_checkpoint(partition.tp) is None
    (error,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert "reason=Uncleanable: the batch at" in error
    assert "\n" not in error


@pytest.mark.parametrize("failure", [ChildDied("signal 9"), CleaningFailed(Fault.OTHER, "MemoryError: ", "")])
async def test_a_failure_that_may_pass_is_tried_again_after_a_while_in_another_process(
    bed: CleanerBed, failure: Exception
) -> None:
    bed.create("t")
    held(bed)
    await bed.look()
    bed.children[0].proceed(failure)
    bed.children[0].is_alive = False
    await bed.finish()
    await bed.look()
    assert bed.cleaner.running_count == 0
    assert bed.cleaner.pause_ms <= bed.config.backoff_ms
    bed.hosted.clock.wall_ms += bed.config.backoff_ms
    await bed.look()
    assert len(bed.children) == 2
    await bed.finish()
    assert bed.passes == ["t"]
    assert not bed.cleaner.troubles.uncleanable
    assert bed.cleaner.troubles.next_retry_ms() is None


async def test_a_process_that_cannot_be_started_is_tried_again_later(bed: CleanerBed) -> None:
    bed.create("t")
    bed.refusal = OSError(errno.EMFILE, "Too many open files")
    await bed.look()
    await bed.finish()
    assert bed.cleaner.stats.failures == 1
    bed.refusal = None
    bed.hosted.clock.wall_ms += bed.config.backoff_ms
    await bed.look()
    await bed.finish()
    assert bed.passes == ["t"]


async def test_a_failed_disk_takes_its_directory_and_stops_no_other(bed: CleanerBed) -> None:
    bed.config = bed.config._replace(threads=2)
    lost, kept = bed.create("x").tp, bed.create("y").tp
    held(bed)
    await bed.look()
    bed.children[0].proceed(CleaningFailed(Fault.DISK, "OSError: EIO", ""))
    await bed.finish()
    assert list(bed.hosted.logs.logs) == [kept]
    assert len(bed.hosted.lost_dirs) == 1
    assert bed.passes == ["y"]
    assert not bed.cleaner.is_busy(lost)


async def test_output_that_cannot_be_installed_takes_the_directory(
    bed: CleanerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = bed.create("t")

    def refuse(swap: Swap) -> None:
        raise StorageFailure("EIO", partition.log.path)

    monkeypatch.setattr(Swap, "stage", refuse)
    await bed.look()
    await bed.finish()
    assert partition.tp not in bed.hosted.logs.logs
    assert bed.cleaner.stats.failures == 1


async def test_an_error_of_ours_is_shown_as_a_dead_thread_until_a_look_goes_well(
    bed: CleanerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.config = bed.config._replace(backoff_ms=0)
    broken = True

    def config() -> Any:
        if broken:
            raise ValueError("a bug")
        return bed.config

    monkeypatch.setattr(bed.cleaner, "_config", config)
    assert not bed.cleaner.is_failing
    await bed.cleaner.look_safely()
    assert bed.cleaner.is_failing
    broken = False
    await bed.cleaner.look_safely()
    assert not bed.cleaner.is_failing


# --- what is said ---


async def test_start_progress_and_end_are_said(bed: CleanerBed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bed.create("t")
    held(bed)
    await bed.look()
    report = bed.children[0].report
    report(Progress(10, 4 << 20, 0))
    bed.hosted.clock.wall_ms += PROGRESS_EVERY_NS // 1_000_000
    report(Progress(1 << 20, 4 << 20, 77))
    report(Progress(2 << 20, 4 << 20, 99))
    await bed.finish()
    said = [record.message for record in caplog.records if "cleaning" in record.message]
    assert len(said) == 3
    assert said[0].startswith("cleaning started topic=t partition=0 first_dirty_offset=0 end_offset=60 ")
    assert f"read_bytes={1 << 20} of={4 << 20} written_bytes=77 mib_per_s=0.1 left_s=30" in said[1]
    assert said[2].startswith("cleaning done topic=t partition=0 end_offset=60 ")
    assert "removed_records=58" in said[2]
    read_bytes = int(said[2].split("read_bytes=")[1].split()[0])
    seconds = PROGRESS_EVERY_NS / 1e9
    assert said[2].endswith(f"seconds={seconds:.3f} mib_per_s={read_bytes / (1 << 20) / seconds:.1f}")


async def test_the_time_since_the_last_look_grows(bed: CleanerBed) -> None:
    await bed.look()
    bed.hosted.clock.wall_ms = NOW_MS + 700
    assert bed.cleaner.since_last_look_ms == 700


async def test_a_pass_tells_how_far_it_is(bed: CleanerBed) -> None:
    bed.create("t")
    bed.is_held = True
    await bed.look()
    (running,) = bed.cleaner.running()
    assert (running.tp.topic, running.read_bytes, running.left_bytes) == ("t", 0, 0), "it has just begun"
    bed.children[0].report(Progress(300, 1000, 20))
    assert (running.read_bytes, running.left_bytes) == (300, 700)
    bed.children[0].report(Progress(910, 900, 50))
    assert running.left_bytes == 0
    await bed.finish()
    assert bed.cleaner.running() == []
