"""What an interrupted deletion, cleaning or split leaves behind, and how loading resolves it.

`.deleted` files are unlinked. `.cleaned` files are half-written and go; a `.swap` at or above the smallest `.cleaned`
base belongs to the same unfinished split and goes too. Every other `.swap` is complete: what it was made from is
removed first, then it gets its final name, so that a crash in between only repeats the work.
"""

from __future__ import annotations

import logging
import os.path

from protocol.records.errors import CorruptBatch
from storage.env.fs import FileSystem
from storage.log.state import LogState
from storage.segment.log_file import LogFile
from storage.segment.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    SegmentFileName,
    is_kraft_snapshot,
    parse_segment_file,
    segment_file,
)

logger = logging.getLogger(__name__)


def remove_leftovers(fs: FileSystem, directory: str) -> None:
    """Remove pending deletions, unfinished cleaner output and swaps of an unfinished split."""
    entries = [entry.name for entry in fs.list_dir(directory) if entry.is_file]
    parsed = {name: parse_segment_file(name) for name in entries}
    cleaned = [file.base_offset for file in parsed.values() if file is not None and file.marker == CLEANED_SUFFIX]
    for name in entries:
        if _is_leftover(name, parsed[name], min(cleaned, default=None)):
            logger.info("removing a left-over file path=%s", os.path.join(directory, name))
            fs.unlink(os.path.join(directory, name))


def _is_leftover(name: str, file: SegmentFileName | None, smallest_cleaned: int | None) -> bool:
    if name.endswith(DELETED_SUFFIX):
        return not is_kraft_snapshot(name) and file is not None
    if file is None or smallest_cleaned is None:
        return False
    return file.marker == CLEANED_SUFFIX or (file.marker == SWAP_SUFFIX and file.base_offset >= smallest_cleaned)


def complete_swaps(state: LogState) -> None:
    """Let complete cleaner output take the place of the segments it was made from."""
    names = [entry.name for entry in state.fs.list_dir(state.path) if entry.is_file]
    files = {name: file for name in names if (file := parse_segment_file(name)) is not None}
    swaps = {name: file for name, file in files.items() if file.marker == SWAP_SUFFIX}
    if not swaps:
        return
    replaced = [_range_of(state, file) for file in swaps.values() if file.kind == LOG_SUFFIX]
    if replaced:
        start, end = min(first for first, _ in replaced), max(last for _, last in replaced)
        for name, file in files.items():
            is_segment = file.kind == LOG_SUFFIX or file.kind in INDEX_SUFFIXES
            if is_segment and not file.marker and start <= file.base_offset < end:
                logger.info("removing a file that a swap replaces path=%s", os.path.join(state.path, name))
                state.fs.unlink(os.path.join(state.path, name))
    for name, file in swaps.items():
        if file.kind != SNAPSHOT_SUFFIX:
            target = segment_file(file.base_offset, file.kind)
            state.fs.rename(os.path.join(state.path, name), os.path.join(state.path, target))
    state.fs.sync_dir(state.path)


def _range_of(state: LogState, swap: SegmentFileName) -> tuple[int, int]:
    """Return [base offset, next offset) of a swapped-in log, walking its headers."""
    path = os.path.join(state.path, segment_file(swap.base_offset, LOG_SUFFIX, SWAP_SUFFIX))
    log = LogFile(state.fs, path, state.fs.file_size(path))
    end = swap.base_offset + 1  # even an empty swap replaces the segment of its own name
    try:
        for _, header in log.headers():
            end = max(end, header.next_offset)
    except CorruptBatch as error:
        logger.warning("found a damaged batch path=%s reason=%s", path, error)
    finally:
        log.close()
    return swap.base_offset, end
