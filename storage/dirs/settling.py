"""Which of the logs that a start has found are served, and what becomes of the others.

What can be told without the metadata is told before any log is opened: two logs under one name are refused. The rest is
decided once the metadata says which topics there are and in which directory each partition lives. Source: KAFKA-16234,
KIP-858.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from storage.checkpoints.partition_metadata import read_partition_metadata
from storage.dirs.errors import DuplicateLog
from storage.dirs.futures import FutureLog
from storage.dirs.inventory import Inventory
from storage.dirs.loading import DirLoading, LogToLoad
from storage.dirs.moving import Moving
from storage.dirs.renames import Renames
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint, StorageFailure
from storage.segment.names import LOG_SUFFIX, parse_segment_file
from storage.types import TopicPartition

IsCurrent = Callable[[TopicPartition, bytes | None], bool]
"""Tells whether a partition is to be here and its topic has this id; a log without an id may be of any."""

DirectoryOf = Callable[[TopicPartition], bytes | None]
"""Gives the id of the directory where the metadata says that a partition lives; None where it says nothing."""

logger = logging.getLogger(__name__)


def ensure_unique(fs: FileSystem, loadings: Iterable[DirLoading]) -> None:
    """Make sure that no two folders hold the current log of one partition, nor two its future log.

    Those of different topic ids may be: a directory was away while the topic was deleted and created anew. One that
    was never written to goes: its directory failed while the log was made there, and then it was made elsewhere.
    Raises: DuplicateLog. Blocking: looks into the folders of partitions that occur twice.
    """
    seen: dict[tuple[TopicPartition, bool], tuple[DirLoading, LogToLoad]] = {}
    for loading in loadings:
        for one in tuple(loading.logs):
            first_loading, first = seen.setdefault((one.tp, one.is_future), (loading, one))
            if first is one:
                continue
            topic_id, first_id = _topic_id(fs, one.path), _topic_id(fs, first.path)
            if topic_id is not None and first_id is not None and topic_id != first_id:
                continue
            if _is_unused(fs, one.path):
                loading.leave_out(one)
            elif _is_unused(fs, first.path):
                first_loading.leave_out(first)
                seen[one.tp, one.is_future] = loading, one
            else:
                raise DuplicateLog(one.tp, first.path, one.path)


def _is_unused(fs: FileSystem, path: str) -> bool:
    """Tell whether a log was never written to: there is no segment but an empty one at offset 0."""
    for entry in fs.list_dir(path):
        segment = parse_segment_file(entry.name)
        if segment is not None and (segment.base_offset > 0 or (segment.kind == LOG_SUFFIX and entry.size_bytes > 0)):
            return False
    return True


def _topic_id(fs: FileSystem, path: str) -> bytes | None:
    try:
        return read_partition_metadata(fs, path)
    except CorruptCheckpoint:
        return None  # opening the log reports it


class Settling:
    """Decides about the logs of a start; what is not wanted is set aside. Blocking: renames."""

    __slots__ = ("_inventory", "_moving", "_renames")

    def __init__(self, inventory: Inventory, renames: Renames, moving: Moving) -> None:
        self._inventory = inventory
        self._renames = renames
        self._moving = moving

    def settle_rivals(self, is_current: IsCurrent) -> None:
        """Decide which log of a partition is served where a directory came back with one of an earlier topic id."""
        inventory = self._inventory
        rivals, inventory.rivals = inventory.rivals, []
        for tp, log_dir, log in rivals:
            listed = inventory.logs.get(tp)
            if listed is None or is_current(tp, log.topic_id):
                taken = inventory.take(tp)  # and what is known of how clean it is
                inventory.add(tp, log, log_dir)
                if taken is None:
                    continue
                log, log_dir = taken
            self._renames.set_stray(log, log_dir)

    def settle_futures(self, is_current: IsCurrent, directory_of: DirectoryOf) -> None:
        """Decide about the copies that moves have left.

        - Of a topic that is gone or is another one by now, or beside the log in its own directory: set aside.
        - Beside the current log: it stays, and the move goes on.
        - Alone, in the directory that the metadata names: the last move had come to its end, so it is the log.
        - Alone in another one: it stays and serves nobody, since it need not be whole.
        """
        inventory = self._inventory
        rivals, inventory.rival_futures = inventory.rival_futures, []
        for future in [*inventory.futures.values(), *rivals]:
            tp = future.tp
            if not is_current(tp, future.log.topic_id) or inventory.dir_of.get(tp) is future.log_dir:
                if inventory.futures.get(tp) is future:
                    del inventory.futures[tp]
                future.leave(partial(self._renames.set_stray, future.log, future.log_dir))
            else:
                inventory.futures[tp] = future
        for tp, future in list(inventory.futures.items()):
            if tp in inventory.logs:
                self._keep(future)
            elif future.log_dir.directory_id == directory_of(tp):
                self._promote(future)
            else:
                logger.error("only an unfinished copy of a log is here partition=%s dir=%s", tp, future.log.path)

    def _keep(self, future: FutureLog) -> None:
        current = self._inventory.logs[future.tp]
        logger.info("a move is not finished partition=%s from=%s to=%s", future.tp, current.path, future.log.path)
        if future.log.topic_id is None and current.topic_id is not None:
            try:
                future.log.assign_topic_id(current.topic_id)
            except StorageFailure as failure:
                self._inventory.fail_dir(future.log_dir, failure)

    def _promote(self, future: FutureLog) -> None:
        copy = future.log.path
        try:
            log = self._moving.promote(future.tp)
        except StorageFailure as failure:
            logger.error("cannot finish a move partition=%s dir=%s reason=%s", future.tp, copy, failure)
        else:
            self._renames.deleted_logs.note_renamed(future.log_dir)
            logger.info("a move was finished partition=%s dir=%s end=%d", future.tp, log.path, log.log_end_offset)
