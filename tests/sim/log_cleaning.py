"""Cleanings in the life of a log: plan, rewrite, install, with whatever may come in between."""

from __future__ import annotations

from collections.abc import Iterator

from storage.compaction.swap import Swap
from storage.compaction.task import CleaningResult
from storage.segment.names import CLEANED_SUFFIX
from tests.sim.cleaning import SMALL, run, task_of
from tests.sim.log_life import Life
from tests.sim.log_model import Stored, replay, stored_batches
from tests.sim.log_steps import (
    append,
    delete_records,
    flush,
    idempotent,
    retain,
    roll,
    setting,
    transactional,
    truncate,
)
from tests.sim.logs import TP


def clean(life: Life) -> None:
    if "compact" not in life.config.cleanup_policy:
        return
    life.finish_removal()
    checkpoint = life.manager.cleaner_checkpoint(TP)
    task = task_of(life.log, life.clock.now, checkpoint, SMALL._replace(dedupe_buffer_size=24 * 40))
    if task is None:
        return
    result = run(task, life.fs, life.clock)
    if life.chance.random() < 0.5:
        life.meanwhile((append, roll, retain, truncate, delete_records, setting, flush))
        life.finish_removal()
    if _install(life, result):
        life.manager.set_cleaner_checkpoint(TP, result.end_offset)
        life.manager.checkpoint_cleaner_offsets()


def _install(life: Life, result: CleaningResult) -> bool:
    life.cleaned_to = max(life.cleaned_to, result.end_offset)
    for group in result.groups:
        swap = life.log.cleaning.begin_swap(group, result.cut_count)
        if swap is None or not _run_swap(life, swap):
            life.log.cleaning.remove_cleaned()
            return False
    return True


def _run_swap(life: Life, swap: Swap) -> bool:
    """Do the steps of one group; appends come in between."""
    steps = (append, transactional, idempotent)
    for batch in _cleaned_batches(life, swap):
        life.model.note(batch)
    swap.stage()
    life.meanwhile(steps)
    if not swap.switch():
        swap.abandon()
        return False
    life.meanwhile(steps)
    swap.retire()
    life.meanwhile(steps)
    swap.settle()
    swap.sync()
    _take_cleaned(life, life.on_disk())
    return True


def _cleaned_batches(life: Life, swap: Swap) -> Iterator[Stored]:
    for segment in swap._group.segments:
        path = swap._path(segment.base_offset, ".log", CLEANED_SUFFIX)
        yield from stored_batches(life.fs.read_file(path))


def _take_cleaned(life: Life, stored: list[Stored]) -> None:
    """Compare what a cleaning left with what there was, and go on from it."""
    model = life.model
    aborted = replay(model.appended).aborted_batches
    before = model.newest(aborted)
    old = {batch.base: batch for batch in model.stored}
    for batch in stored:
        assert batch.base in old and old[batch.base].last == batch.last, batch.header
        records = {record.offset: record for record in old[batch.base].records}
        assert all(records[record.offset] == record for record in batch.records), batch.header
    model.stored = stored
    assert model.newest(aborted) == before
