"""LogDir: one directory of `log.dirs`: its lock, its identity, its checkpoints, and whether it still is trusted.

The open directory is held, so that one which is put in its place later cannot be taken for it. A directory goes
offline at its first I/O error and stays so until the process ends: nothing is written to it any more, no clean-shutdown
marker above all. Source: KIP-112, KIP-858; Kafka's LogManager.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Callable, Mapping

from protocol.uuids import random_uuid
from storage.checkpoints.clean_shutdown import has_clean_shutdown, take_clean_shutdown, write_clean_shutdown
from storage.checkpoints.lines import TMP_SUFFIX
from storage.checkpoints.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from storage.checkpoints.offsets import read_offsets, write_offsets
from storage.env.clock import Rng
from storage.env.fs import DirHandle, DirLock, FileSystem, Space
from storage.errors import CorruptCheckpoint, DirLocked, StorageFailure
from storage.segment.names import LOCK_FILE, META_PROPERTIES, RECOVERY_POINT_CHECKPOINT, WRITE_PROBE
from storage.types import TopicPartition

DATA_LOGS = "data logs"

logger = logging.getLogger(__name__)


class LogDir:
    """One log directory. `path` is absolute and without a trailing slash."""

    __slots__ = (
        "_begun",
        "_fs",
        "_handle",
        "_is_identified",
        "_lock",
        "_opened",
        "_unloaded",
        "_written",
        "failure",
        "is_new",
        "path",
        "properties",
        "was_clean",
    )

    def __init__(self, fs: FileSystem, path: str, contents: str = DATA_LOGS) -> None:
        self._fs = fs
        self.path = path
        self.properties: MetaProperties | None = None  # set by settle_identity
        self.is_new = False  # set by settle_identity: nobody has used the directory before
        self._is_identified = False  # the file says what settle_identity found; set by it and by write_identity
        self._begun = False  # set by begin_loading
        self.was_clean = False  # set by look_whether_clean: the last stop of this directory was in order
        self.failure: StorageFailure | None = None  # the first reason for being offline
        self._unloaded = {contents}  # what of the directory has not been loaded, so that a stop cannot close it
        self._opened: set[str] = set()  # what of it was begun to be loaded, so that its files may have changed
        self._lock: DirLock | None = None
        self._handle: DirHandle | None = None  # of the directory that was opened; held as long as the lock
        self._written: dict[str, dict[TopicPartition, int]] = {}  # what each checkpoint file holds, to skip rewrites

    @property
    def is_online(self) -> bool:
        """Tell whether the directory is still trusted."""
        return self.failure is None

    @property
    def directory_id(self) -> bytes:
        """The directory's own id; zeros before settle_identity."""
        known = self.properties.directory_id if self.properties is not None else None
        return known or bytes(16)

    def fail(self, failure: StorageFailure, *, partitions: int = 0) -> None:
        """Put the directory offline, with the partitions that are served from there; the first reason is kept."""
        if self.failure is None:
            self.failure = failure
            reason = str(failure)
            if failure.path is not None and failure.path not in reason:
                reason += f" ({failure.path})"
            logger.error("log directory offline dir=%s partitions=%d reason=%s", self.path, partitions, reason)

    # --- opening ---

    def open(self) -> None:
        """Create the directory when missing, take its lock, read its identity and try whether it can be written.

        Raises: DirLocked when another process has it; StorageFailure when it cannot be used; CorruptCheckpoint for an
        unreadable meta.properties. Blocking: disk.
        """
        probe = os.path.join(self.path, WRITE_PROBE)
        try:
            self._fs.make_dirs(self.path)
            self._fs.list_dir(self.path)
            self._lock = self._fs.lock(os.path.join(self.path, LOCK_FILE))
            self._handle = self._fs.open_dir(self.path)
            self.properties = read_meta_properties(self._fs, self.path)
            try:
                self._fs.write_file(probe, b"writable")
            finally:
                self._fs.unlink(probe)
        except BlockingIOError as error:
            raise DirLocked(self.path) from error
        except FileExistsError as error:
            raise StorageFailure(f"cannot use log directory {self.path}: it is no directory", self.path) from error
        except OSError as error:
            where = "" if error.filename in (None, self.path) else f" ({error.filename})"
            reason = f"cannot use log directory {self.path}: {error.strerror or error}{where}"
            raise StorageFailure(reason, self.path) from error

    def ensure_present(self) -> None:
        """Check that the path still leads to the directory that was opened, and that this was not emptied.

        What is written to open files of a removed directory is gone with the last of them. Raises: StorageFailure.
        Blocking: disk; any thread.
        """
        handle = self._handle
        if handle is None:
            return
        try:
            if not handle.is_at(self.path):
                raise StorageFailure(f"log directory {self.path} was removed or replaced", self.path)
            if not self._fs.exists(os.path.join(self.path, META_PROPERTIES)):
                raise StorageFailure(f"log directory {self.path} was emptied: it has no {META_PROPERTIES}", self.path)
        except OSError as error:
            raise StorageFailure(f"cannot look at log directory {self.path}: {error}", self.path) from error

    def space(self) -> Space:
        """Return the room on the directory's file system. Raises: StorageFailure. Blocking: disk; any thread."""
        try:
            return self._fs.space(self.path)
        except OSError as error:
            raise StorageFailure(f"cannot look at the file system of {self.path}: {error}", self.path) from error

    def sync(self) -> None:
        """Make the names of the folders in it durable. Raises: StorageFailure. Blocking: disk; any thread."""
        if self.failure is not None:  # a second sync could pretend that the first one had gone well
            raise StorageFailure(f"log directory {self.path} is offline", self.path)
        try:
            self._fs.sync_dir(self.path)
        except OSError as error:
            raise StorageFailure(f"cannot sync {self.path}: {error}", self.path) from error

    def settle_identity(self, cluster_id: str, node_id: int, rng: Rng) -> None:
        """Decide who a fresh directory is, and the id of an older one; write_identity makes it last.

        Nothing is written yet: the start may still be refused.
        """
        found = self.properties
        self.is_new = self.is_new or found is None
        directory_id = found.directory_id if found is not None else None
        wanted = MetaProperties(cluster_id, node_id, directory_id or random_uuid(rng.random_bytes))
        self._is_identified = wanted == found
        self.properties = wanted

    def write_identity(self) -> None:
        """Write what settle_identity has found, if the file does not say so. Raises: StorageFailure. Blocking: disk."""
        wanted = self.properties
        if self._is_identified or wanted is None:
            return
        self._guarded_write(lambda: write_meta_properties(self._fs, self.path, wanted))
        self._is_identified = True

    def look_whether_clean(self) -> bool:
        """Tell whether the last stop was in order; nothing is changed. Raises: OSError. Blocking: disk."""
        if not self._begun:
            self.was_clean = has_clean_shutdown(self._fs, self.path)
        return self.was_clean

    def begin_loading(self, what: str) -> None:
        """Take the clean-shutdown marker before anything of `what` is opened: from now on a crash is an unclean stop.

        So is a stop before all of it was loaded: what was not loaded cannot have been closed. The marker is taken by
        the first of those that load from here.
        """
        if not self._begun:
            try:
                self.was_clean = take_clean_shutdown(self._fs, self.path)
            except OSError as error:
                raise StorageFailure(f"cannot read {self.path}: {error}", self.path) from error
            self._begun = True
        self._opened.add(what)

    def expect(self, what: str) -> None:
        """Announce that more is to be loaded from this directory."""
        self._unloaded.add(what)

    def note_loaded(self, what: str) -> None:
        """Note that nothing of `what` is left to be loaded."""
        self._unloaded.discard(what)

    # --- checkpoints ---

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets of a checkpoint file; an unreadable one counts as empty, with a warning."""
        path = os.path.join(self.path, name)
        try:
            return read_offsets(self._fs, path)
        except CorruptCheckpoint as error:
            logger.warning("ignoring a damaged checkpoint path=%s reason=%s", path, error.reason)
        except OSError as error:
            logger.warning("ignoring an unreadable checkpoint path=%s reason=%s", path, error)
        return {}

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Atomically replace a checkpoint file unless it holds the same already.

        Not before everything is loaded: what is not known yet would be missing.

        Raises: StorageFailure; putting the directory offline is the caller's, on the thread that owns the logs.
        Blocking: disk; any thread.
        """
        wanted = dict(offsets)
        if self._written.get(name) == wanted or not self.is_online or self._unloaded:
            return
        path = os.path.join(self.path, name)
        self.ensure_present()  # in an empty mount point it would vouch for logs that are elsewhere
        self._guarded_write(lambda: write_offsets(self._fs, path, wanted))
        self._written[name] = wanted

    def may_vouch_for(self, tp: TopicPartition) -> bool:
        """Tell whether a file on the disk may say something of a partition, be it of a log that is gone."""
        return RECOVERY_POINT_CHECKPOINT not in self._written or any(tp in rows for rows in self._written.values())

    def mark_clean(self, broker_epoch: int) -> None:
        """Leave the clean-shutdown marker: the last write, after every log and checkpoint. Blocking: disk.

        Not in a directory whose loading was given up: its logs may still need the recovery they did not get. What was
        not even begun is as the stop before has left it, so a start that is refused gives the marker back.
        """
        left = self._unloaded & self._opened if self.was_clean else self._unloaded
        if self.is_online and self._begun and not left:
            self._guarded_write(lambda: write_clean_shutdown(self._fs, self.path, broker_epoch))

    def release(self) -> None:
        """Give the lock back; the file stays, it means nothing by itself."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def remove_stale_tmp_files(self, names: tuple[str, ...]) -> None:
        """Remove what an interrupted checkpoint write left."""
        for name in names:
            self._fs.unlink(os.path.join(self.path, name + TMP_SUFFIX))

    def _guarded_write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            raise StorageFailure(f"cannot write in {self.path}: {error}", self.path) from error

    def __repr__(self) -> str:
        return f"LogDir({self.path!r}, {'online' if self.is_online else 'offline'})"
