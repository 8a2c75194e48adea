"""The storage side of a move between directories, without pools and without a broker."""

from __future__ import annotations

from storage.dirs.futures import FutureLog
from storage.dirs.manager import LogManager
from storage.log.partition_log import PartitionLog
from storage.types import AppendOrigin, TopicPartition


def begin(manager: LogManager, tp: TopicPartition, path: str) -> FutureLog:
    """Begin a copy in another directory."""
    log_dir = manager.dir_at(path)
    assert log_dir is not None, path
    return manager.create_future(tp, log_dir, manager.logs[tp].config)


def catch_up(manager: LogManager, future: FutureLog) -> None:
    """Copy all that the current log has and the copy has not, and make it durable, in one step."""
    current = manager.logs[future.tp]
    future.begin_step()
    copy(current, future)
    future.log.flush()
    future.end_step()


def copy(current: PartitionLog, future: FutureLog, *, max_bytes: int = 1 << 20) -> None:
    """Append to the copy what it has not, up to the end of the log."""
    end = current.log_end_offset
    while future.log.log_end_offset < end:
        found = current.read(future.log.log_end_offset, max_bytes=max_bytes, bound=end, min_one_batch=True)
        assert found.region is not None
        future.log.append(found.region.read(), leader_epoch=0, origin=AppendOrigin.REPLICATION)
        found.region.release()
    future.log.advance_high_watermark(current.high_watermark)


def swap(manager: LogManager, tp: TopicPartition) -> None:
    """Let the copy take the place of the current log."""
    retired = manager.retire(tp)
    retired.sync()
    manager.promote(tp, retired)
