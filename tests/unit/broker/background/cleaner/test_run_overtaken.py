"""Passes of the cleaner that are overtaken by events: pauses, deletions, cuts, another policy, the end."""

from __future__ import annotations

from typing import Any

import pytest

from broker.metadata.image import TOPIC_RESOURCE, Delta
from config.views import LogConfig
from storage.compaction.task import Progress
from tests.harness.cleaning import CleanerBed
from tests.unit.broker.background.cleaner.test_run import SCHEDULED, checkpoint_lines, held


async def test_a_paused_log_is_not_touched_until_every_pause_is_taken_back(bed: CleanerBed) -> None:
    partition = bed.create("t")
    held(bed)
    await bed.look()
    await bed.cleaner.pause(partition.tp)
    assert not bed.cleaner.is_busy(partition.tp)
    assert bed.leftovers("t") == []
    await bed.cleaner.pause(partition.tp)
    bed.cleaner.resume(partition.tp)
    await bed.look()
    assert not bed.cleaner.is_busy(partition.tp)
    bed.cleaner.resume(partition.tp)
    await bed.look()
    assert bed.cleaner.is_busy(partition.tp)
    assert bed.cleaner.stats.aborted == 1


async def test_a_pass_ends_when_its_topic_is_deleted_and_the_line_of_the_checkpoint_goes(bed: CleanerBed) -> None:
    tp = bed.create("t", segments=4).tp
    bed.create("elsewhere")
    bed.create("stays")
    for one in (tp, bed.tp("stays")):
        bed.hosted.logs.set_cleaner_checkpoint(one, 0)
    held(bed)
    await bed.look()
    assert bed.cleaner.is_busy(tp)
    delta = Delta(deleted_topics=(bed.hosted.current.topics_by_name["t"],))
    bed.hosted.delete("t")
    bed.cleaner.publish(delta, bed.hosted.current)
    await bed.turns(60)
    assert not bed.cleaner.is_busy(tp)
    assert not bed.hosted.lost_dirs
    assert checkpoint_lines(bed, "stays") == ["stays 0 0"]


@pytest.mark.parametrize("step", range(1, 6))
async def test_a_deletion_at_any_step_of_the_installation_harms_nothing(bed: CleanerBed, step: int) -> None:
    tp = bed.create("t").tp
    other = bed.create("u", segments=1)
    calls = 0

    def before(call: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == step and tp in bed.hosted.logs.logs:
            topic = bed.hosted.current.topics_by_name["t"]
            bed.hosted.delete("t")
            bed.cleaner.publish(Delta(deleted_topics=(topic,)), bed.hosted.current)

    bed.pools.before = before
    for _ in range(2):
        await bed.look()
        await bed.finish()
    assert tp not in bed.hosted.logs.logs
    assert not bed.hosted.lost_dirs
    assert not bed.cleaner.troubles.uncleanable
    assert other.tp in bed.hosted.logs.logs
    assert "u" in bed.passes


@pytest.mark.parametrize("config", [LogConfig(), SCHEDULED], ids=["delete", "scheduled and compact"])
async def test_a_pass_ends_when_the_policy_loses_compact(bed: CleanerBed, config: LogConfig) -> None:
    tp = bed.create("t").tp
    held(bed)
    await bed.look()
    bed.hosted.configure("t", config)
    bed.cleaner.publish(Delta(changed_configs=frozenset({(TOPIC_RESOURCE, "t")})), bed.hosted.current)
    await bed.turns()
    assert not bed.cleaner.is_busy(tp)
    assert bed.passes == []


async def test_a_step_of_the_process_shows_that_the_policy_was_lost_by_another_way(bed: CleanerBed) -> None:
    partition = bed.create("t")
    held(bed)
    await bed.look()
    partition.log.config = LogConfig()
    bed.children[0].report(Progress(1, 2, 3))
    await bed.turns()
    assert not bed.cleaner.is_busy(partition.tp)


@pytest.mark.parametrize("is_read_before", [False, True])
async def test_a_log_that_was_truncated_meanwhile_is_neither_replaced_nor_uncleanable(
    bed: CleanerBed, is_read_before: bool
) -> None:
    partition = bed.create("t")
    if is_read_before:
        bed.pools.before = lambda call: partition.log.truncate_to(30)
        await bed.look()
    else:
        held(bed)
        await bed.look()
        partition.log.truncate_to(30)
    await bed.finish()
    bed.pools.before = lambda call: None
    assert bed.leftovers("t") == []
    assert bed.hosted.logs.cleaner_checkpoint(partition.tp) is None
    assert [record.offset for record in bed.records("t")] == list(range(30))
    assert (bed.cleaner.stats.aborted, bed.cleaner.stats.failures) == (1, 0)
    assert bed.after == []
    assert bed.cleaner.pause_ms <= bed.config.backoff_ms
    bed.hosted.clock.wall_ms += bed.config.backoff_ms
    await bed.look()
    await bed.finish()
    assert bed.cleaner.stats.passes == 1


async def test_closing_stops_the_passes_and_waits_for_them(bed: CleanerBed) -> None:
    tp = bed.create("t").tp
    held(bed)
    await bed.look()
    await bed.cleaner.close()
    assert not bed.cleaner.is_busy(tp)
    assert bed.leftovers("t") == []
    assert all(child.is_gone for child in bed.children)
    await bed.cleaner.look()
    assert bed.cleaner.running_count == 0


@pytest.mark.parametrize("step", range(1, 5))
async def test_closing_in_the_middle_of_an_installation_completes_it(bed: CleanerBed, step: int) -> None:
    partition = bed.create("t")
    calls = 0
    closing: list[Any] = []

    def before(call: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            closing.append(bed.cleaner._tasks.spawn("close", bed.cleaner.close()))

    bed.pools.before = before
    await bed.look()
    while bed.cleaner.is_busy(partition.tp):
        await bed.turns()
    assert bed.leftovers("t") == []
    assert [record.offset for record in bed.records("t")][-2:] == [58, 59]
    await bed.turns()
