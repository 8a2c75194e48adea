"""The `.kafka_cleanshutdown` marker: its presence at start means that every log of the dir was closed in order."""

from __future__ import annotations

import json
import os.path

from storage.checkpoints.lines import replace_file
from storage.env.fs import FileSystem
from storage.segment.names import CLEAN_SHUTDOWN_FILE

VERSION = 0
UNKNOWN_BROKER_EPOCH = -1


def write_clean_shutdown(fs: FileSystem, directory: str, broker_epoch: int) -> None:
    """Leave the marker; the last write to a dir."""
    content = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(fs, os.path.join(directory, CLEAN_SHUTDOWN_FILE), content.encode())


def has_clean_shutdown(fs: FileSystem, directory: str) -> bool:
    """Tell whether the marker is there."""
    return fs.exists(os.path.join(directory, CLEAN_SHUTDOWN_FILE))


def take_clean_shutdown(fs: FileSystem, directory: str) -> bool:
    """Tell whether the marker was there and remove it durably, so that a crash while loading is an unclean stop."""
    if not has_clean_shutdown(fs, directory):
        return False
    fs.unlink(os.path.join(directory, CLEAN_SHUTDOWN_FILE))
    fs.sync_dir(directory)
    return True


def read_broker_epoch(fs: FileSystem, directory: str) -> int:
    """Return the broker epoch in the marker; -1 when it is missing or written by an older broker."""
    try:
        content = json.loads(fs.read_file(os.path.join(directory, CLEAN_SHUTDOWN_FILE)))
        return int(content["brokerEpoch"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH
