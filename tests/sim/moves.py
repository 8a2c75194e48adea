"""The storage side of a move between directories, without pools and without a broker."""

from __future__ import annotations

from storage.dirs.futures import FutureLog
from storage.dirs.manager import LogManager
from storage.log.copying import CopyStep, LogCopy
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition


def begin(manager: LogManager, tp: TopicPartition, path: str) -> FutureLog:
    """Begin a copy in another directory."""
    log_dir = manager.dir_at(path)
    assert log_dir is not None, path
    return manager.create_future(tp, log_dir, manager.logs[tp].config)


def catch_up(manager: LogManager, future: FutureLog, *, max_bytes: int = 1 << 20) -> None:
    """Copy all that the current log has and the copy has not, and make it durable."""
    copy = copy_all(manager.logs[future.tp], future, max_bytes=max_bytes)
    _step(copy, future, copy.plan(max_bytes, is_flushed=True))
    copy.close()


def copy_all(current: PartitionLog, future: FutureLog, *, max_bytes: int = 1 << 20) -> LogCopy:
    """Copy all that the current log has and the copy has not."""
    copy = current.copy_into(future.log)
    while not copy.is_caught_up:
        _step(copy, future, copy.plan(max_bytes))
    return copy


def _step(copy: LogCopy, future: FutureLog, step: CopyStep) -> None:
    future.begin_step()
    while step.turn():
        pass
    future.end_step()
    copy.note(step)


def swap(manager: LogManager, tp: TopicPartition) -> None:
    """Let the copy take the place of the current log."""
    retired = manager.retire(tp)
    retired.log_dir.sync()
    manager.promote(tp, retired)
