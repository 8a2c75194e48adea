"""One log directory: whose it is, how its broker stopped, what its checkpoints say, and which logs lie in it."""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

from broker.offline.verify.context import LogResult
from broker.offline.verify.findings import Findings
from broker.offline.verify.metadata import check_snapshot
from storage.checkpoints.lines import TMP_SUFFIX
from storage.checkpoints.meta_properties import MetaProperties, read_meta_properties
from storage.checkpoints.offsets import read_offsets
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint
from storage.segment.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    DELETE_DIR_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    STRAY_DIR_SUFFIX,
    parse_partition_dir,
)
from storage.types import TopicPartition

_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)
_BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
_NOT_SERVED = (DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX)
_FLOCK = struct.Struct("hhqqi4x")
_MEANT = {
    RECOVERY_POINT_CHECKPOINT: "everything below {offset} is durable",
    HIGH_WATERMARK_CHECKPOINT: "the high watermark is {offset}",
    LOG_START_CHECKPOINT: "the log begins at {offset}",
    CLEANER_CHECKPOINT: "it is compacted up to {offset}",
}


class FoundLog(NamedTuple):
    """A folder of a partition."""

    tp: TopicPartition
    path: str
    marker: str
    """`-future` for a copy that a move makes."""


class Directory(NamedTuple):
    """What a log directory says beside its logs."""

    path: str
    is_clean: bool
    properties: MetaProperties | None
    checkpoints: dict[str, dict[TopicPartition, int]]
    logs: list[FoundLog]

    def recovery_point(self, tp: TopicPartition) -> int:
        """Return below which offset a log is durable."""
        return self.checkpoints[RECOVERY_POINT_CHECKPOINT].get(tp, 0)

    def log_start(self, tp: TopicPartition) -> int:
        """Return below which offset a log is deleted."""
        return self.checkpoints[LOG_START_CHECKPOINT].get(tp, 0)


def is_locked(directory: str) -> bool:
    """Tell whether a broker has the directory: one of ours holds a lock of one kind, the reference of another."""
    try:
        lock = os.open(os.path.join(directory, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        asked = fcntl.fcntl(lock, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        if _FLOCK.unpack(asked)[0] != fcntl.F_UNLCK:
            return True
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(lock)
    return False


def is_partition_folder(fs: FileSystem, path: str) -> bool:
    """Tell whether a path leads to the folder of one partition."""
    parsed = parse_partition_dir(os.path.basename(path))
    return parsed is not None and any(entry.name.endswith(LOG_SUFFIX) for entry in fs.list_dir(path))


def read_directory(fs: FileSystem, path: str, findings: Findings) -> Directory:
    """Read what lies beside the logs of a directory. Raises: OSError."""
    checkpoints = {name: _read_checkpoint(fs, os.path.join(path, name), findings) for name in _CHECKPOINTS}
    logs = []
    for entry in fs.list_dir(path):
        full = os.path.join(path, entry.name)
        if entry.is_dir:
            parsed = parse_partition_dir(entry.name)
            if parsed is not None and parsed.marker in _NOT_SERVED:
                findings.note("leftover", full, f"a log that is not served any more ({parsed.marker})")
            elif parsed is not None and parsed.tp is not None:
                logs.append(FoundLog(parsed.tp, full, parsed.marker))
        elif entry.name.endswith(TMP_SUFFIX):
            findings.note("leftover", full, "the write it is of was interrupted")
        elif entry.name == _BOOTSTRAP_SNAPSHOT:
            _check_bootstrap(fs, full, findings)
    properties = _read_properties(fs, path, findings, has_logs=bool(logs))
    return Directory(path, _is_clean(fs, path, findings), properties, checkpoints, logs)


def _check_bootstrap(fs: FileSystem, path: str, findings: Findings) -> None:
    try:
        check_snapshot(fs, path, findings, is_framed=False)
    except OSError as error:
        findings.unreadable(path, error)


def _read_checkpoint(fs: FileSystem, path: str, findings: Findings) -> dict[TopicPartition, int]:
    try:
        return read_offsets(fs, path)
    except CorruptCheckpoint as error:
        findings.fault("checkpoint", path, error.reason)
    except OSError as error:
        findings.unreadable(path, error)
    return {}


def _read_properties(fs: FileSystem, path: str, findings: Findings, *, has_logs: bool) -> MetaProperties | None:
    full = os.path.join(path, META_PROPERTIES)
    try:
        properties = read_meta_properties(fs, path)
    except CorruptCheckpoint as error:
        findings.fault("identity", full, error.reason)
        return None
    except OSError as error:
        findings.unreadable(full, error)
        return None
    if properties is None and has_logs:
        findings.fault("identity", full, "is missing: nothing tells whose logs these are")
    return properties


def _is_clean(fs: FileSystem, path: str, findings: Findings) -> bool:
    full = os.path.join(path, CLEAN_SHUTDOWN_FILE)
    try:
        content = fs.read_file(full)
    except FileNotFoundError:
        return False
    except OSError as error:
        findings.unreadable(full, error)
        return True
    try:
        if content.strip() and not isinstance(json.loads(content), dict):
            findings.fault("clean-shutdown", full, "is no JSON object")
    except (ValueError, RecursionError) as error:
        findings.fault("clean-shutdown", full, f"is no JSON: {error}")
    return True


def check_identities(directories: Iterable[Directory], findings: Findings) -> None:
    """Compare the identities of directories that one broker has."""
    first: tuple[str, MetaProperties] | None = None
    seen: dict[bytes, str] = {}
    for directory in directories:
        found = directory.properties
        if found is None:
            continue
        path = os.path.join(directory.path, META_PROPERTIES)
        if first is None:
            first = path, found
        elif found.cluster_id != first[1].cluster_id:
            findings.fault("identity", path, f"cluster {found.cluster_id}, {first[0]} has {first[1].cluster_id}")
        elif found.node_id != first[1].node_id:
            findings.fault("identity", path, f"node {found.node_id}, {first[0]} has {first[1].node_id}")
        if found.directory_id is None:
            continue
        if found.directory_id in seen:
            findings.fault("identity", path, f"has the directory id of {seen[found.directory_id]}")
        seen.setdefault(found.directory_id, path)


def check_offsets(
    directory: Directory, results: dict[TopicPartition, LogResult], findings: Findings, *, knows_all: bool
) -> None:
    """Compare the checkpoints of a directory with the logs in it."""
    present = {log.tp for log in directory.logs}
    for name, offsets in directory.checkpoints.items():
        path = os.path.join(directory.path, name)
        for tp, offset in offsets.items():
            result = results.get(tp)
            what = f"{tp.topic}-{tp.partition}: " + _MEANT[name].format(offset=offset)
            if offset < 0:
                findings.fault("checkpoint-offset", path, what)
            elif result is None:
                if knows_all and tp not in present:
                    findings.note("checkpoint-unknown", path, f"{what}, but there is no such log")
            elif offset > result.end_offset and not result.is_damaged:
                # What was said to be durable has to be there however the broker stopped.
                is_excused = not directory.is_clean and name != RECOVERY_POINT_CHECKPOINT
                what += f", but the log ends at {result.end_offset}"
                findings.fault("checkpoint-offset", path, what, is_excused=is_excused)
