"""The storage side of a move between directories, without pools and without a broker."""

from __future__ import annotations

from storage.dirs.futures import FutureLog
from storage.dirs.manager import LogManager
from storage.types import AppendOrigin, TopicPartition
from tests.sim.logs import read_all


def begin(manager: LogManager, tp: TopicPartition, path: str) -> FutureLog:
    """Begin a copy in another directory."""
    log_dir = manager.dir_at(path)
    assert log_dir is not None, path
    return manager.create_future(tp, log_dir, manager.logs[tp].config)


def catch_up(manager: LogManager, future: FutureLog) -> None:
    """Copy all that the current log has and the copy has not, and make it durable, in one step."""
    current = manager.logs[future.tp]
    future.begin_step()
    data = read_all(current, future.log.log_end_offset)
    if data:
        future.log.append(data, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    future.log.advance_high_watermark(current.high_watermark)
    future.log.flush()
    future.end_step()


def swap(manager: LogManager, tp: TopicPartition) -> None:
    """Let the copy take the place of the current log."""
    retired = manager.retire(tp)
    retired.sync()
    manager.promote(tp, retired)
