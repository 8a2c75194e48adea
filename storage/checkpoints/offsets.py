"""Offset checkpoints of a log dir: `topic partition offset` a line (recovery points, high watermarks, log starts)."""

from __future__ import annotations

from collections.abc import Mapping

from storage.checkpoints.lines import read_lines, write_lines
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint
from storage.types import TopicPartition


def read_offsets(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Return the offsets; a missing or empty file has none. Raises: CorruptCheckpoint."""
    offsets = {}
    for row in read_lines(fs, path):
        try:
            topic, partition, offset = row
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CorruptCheckpoint(path, f"malformed line {' '.join(row)!r}") from error
    return offsets


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Atomically replace the file. Blocking: disk."""
    write_lines(fs, path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()))
