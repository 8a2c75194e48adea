"""Cleaning a log in tests: plan, rewrite as a child process would, install."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from config.views import CleanerConfig
from protocol.records.batch import BatchHeader, iter_batches
from protocol.records.record import Record, iter_records
from storage.compaction.rewrite import rewrite
from storage.compaction.task import CleaningResult, CleaningTask, Progress
from storage.log.partition_log import PartitionLog

SMALL = CleanerConfig(dedupe_buffer_size=1 << 20, io_buffer_size=1 << 14)


def task_of(
    log: PartitionLog, now_ms: int, checkpoint: int | None = None, cleaner: CleanerConfig = SMALL
) -> CleaningTask | None:
    return log.cleaning.task(log.cleaning.dirtiness(checkpoint, now_ms), now_ms=now_ms, cleaner=cleaner)


def run(task: CleaningTask, fs, clock, report: Callable[[Progress], None] = lambda progress: None) -> CleaningResult:
    """Run a pass with its values pickled on the way there and back."""
    task = pickle.loads(pickle.dumps(task))
    return pickle.loads(pickle.dumps(rewrite(task, fs, clock, report=report)))


def clean(
    log: PartitionLog, fs, clock, checkpoint: int | None = None, cleaner: CleanerConfig = SMALL
) -> CleaningResult | None:
    """Clean as far as one pass goes; None when there is nothing to clean."""
    task = task_of(log, clock.now_ms(), checkpoint, cleaner)
    if task is None:
        return None
    result = run(task, fs, clock)
    assert log.cleaning.install(result)
    return result


def stored_batches(data: bytes) -> list[tuple[BatchHeader, list[Record]]]:
    return [(header, list(iter_records(data, position, header))) for position, header in iter_batches(data)]


def stored_records(data: bytes) -> list[Record]:
    """Return the data records of stored batches, control batches left out."""
    return [record for header, records in stored_batches(data) if not header.is_control for record in records]
