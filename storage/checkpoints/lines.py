"""The versioned text file of checkpoints: a version line, a count line, one entry a line; replaced atomically.

Order of a write, with what each step prevents: 1. write `<name>.tmp` and sync it, else the rename may expose an empty
file; 2. rename over the old one, so readers see old or new; 3. sync the directory, else the rename may be lost although
the caller already relied on it. Source: Kafka's CheckpointFile.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable

from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint

VERSION = "0"
TMP_SUFFIX = ".tmp"


def replace_file(fs: FileSystem, path: str, content: bytes) -> None:
    """Atomically and durably give `path` this content. Blocking: disk."""
    temporary = path + TMP_SUFFIX
    fs.write_file(temporary, content)
    fs.rename(temporary, path)
    fs.sync_dir(os.path.dirname(path))


def render_lines(entries: Iterable[str]) -> bytes:
    """Return the content of a checkpoint file."""
    lines = list(entries)
    return "\n".join((VERSION, str(len(lines)), *lines, "")).encode("ascii")


def write_lines(fs: FileSystem, path: str, entries: Iterable[str]) -> None:
    """Replace a checkpoint file."""
    replace_file(fs, path, render_lines(entries))


def read_lines(fs: FileSystem, path: str) -> list[list[str]]:
    """Return the entries split into words; a missing or empty file has none. Raises: CorruptCheckpoint."""
    try:
        content = fs.read_file(path)
    except FileNotFoundError:
        return []
    if not content:
        return []
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(path, "is not text") from error
    if lines[0].strip() != VERSION:
        raise CorruptCheckpoint(path, f"version {lines[0]!r}")
    if len(lines) < 2 or not lines[1].strip().isdigit():
        raise CorruptCheckpoint(path, "has no count line")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != int(lines[1]):
        raise CorruptCheckpoint(path, f"announces {lines[1].strip()} entries and has {len(rows)}")
    return rows
