"""The swap protocol: how cleaned segments take the place of what they were made from, live and after a crash.

The live steps, where each runs, and what a stop right after it leads to:

1. stage (disk): `.cleaned` becomes `.swap`, the highest base first. A stop in between leaves a `.cleaned` at or below
   every `.swap` of the group, and loading removes them all: the old segments stand;
2. switch (owner): the map forgets the old segments and knows the new ones, under their `.swap` names. From here on a
   stop leads to the new ones: loading removes what they replace and completes the renames;
3. retire (disk): the old files get `.deleted`, with the producer snapshots of bases that no segment has any more;
4. settle (owner): `.swap` becomes the plain name, the lowest base first and the `.log` before its indexes, since
   loading removes everything with a plain name that lies in the range of a `.swap` `.log`. The unlink of the old files
   is scheduled;
5. sync (disk): the names are durable, and only now may the cleaner's checkpoint cover the group.

Groups are installed in ascending order, one after the other, and no `.cleaned` of an earlier pass lies about: above it
loading would mistake a complete `.swap` for half of one. Nothing else may detach or rename segments of the log
meanwhile.

Loading unlinks `.deleted` files and the half-written `.cleaned` ones, and with these each `.swap` at or above the
lowest of them. Every other `.swap` is complete: what it was made from is removed first, then it gets its plain name, so
that a crash in between only repeats the work. The split of a segment (storage.log.split) leaves its parts to this too.
Source: Kafka's LocalLog.replaceSegments.
"""

from __future__ import annotations

import logging
import os.path

from protocol.records.errors import CorruptBatch
from storage.compaction.task import CleanedGroup
from storage.env.fs import FileSystem
from storage.errors import StorageFailure
from storage.log.removal import Removal, detach, note_removed
from storage.log.state import LogState
from storage.segment.log_file import LogFile
from storage.segment.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    SegmentFileName,
    is_kraft_snapshot,
    parse_segment_file,
    segment_file,
)
from storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Swap:
    """One group on its way into the log. Steps are called in the order above, each once."""

    __slots__ = ("_cut_count", "_directory", "_group", "_installed", "_is_void", "_removal", "_state")

    def __init__(self, state: LogState, group: CleanedGroup, cut_count: int) -> None:
        self._state = state
        self._group = group
        self._cut_count = cut_count
        self._directory = state.path
        self._is_void = False  # set by stage when the files are gone
        self._removal: Removal | None = None  # set by switch
        self._installed: list[Segment] = []  # set by switch

    def is_valid(self) -> bool:
        """Tell whether the sources are still segments of the log; on the owner's side."""
        return self._sources() is not None

    def _sources(self) -> list[Segment] | None:
        state = self._state
        if state.cut_count != self._cut_count or state.path != self._directory:
            return None
        found = []
        for base_offset, log_bytes in self._group.sources:
            segment = state.segments.floor(base_offset)
            if segment is None or segment.base_offset != base_offset or segment.log.size != log_bytes:
                return None
            if segment is state.segments.active:
                return None
            found.append(segment)
        return found

    def stage(self) -> None:
        """Step 1. Files that are missing went with their directory: then the group is not installed.

        Raises: StorageFailure. Blocking: disk; any thread.
        """
        try:
            for segment in reversed(self._group.segments):
                for kind in SEGMENT_SUFFIXES:
                    if kind is not SEGMENT_SUFFIXES[-1] or segment.txn_index_bytes:
                        source = self._path(segment.base_offset, kind, CLEANED_SUFFIX)
                        self._state.fs.rename(source, self._path(segment.base_offset, kind, SWAP_SUFFIX))
        except FileNotFoundError:
            self._is_void = True
        except OSError as error:
            raise StorageFailure(f"cannot install cleaned segments: {error}", self._directory) from error

    def switch(self) -> bool:
        """Step 2; False when the log was cut or lost the sources meanwhile: then only `abandon` may follow."""
        sources = self._sources()
        if sources is None or self._is_void:
            return False
        state = self._state
        bases = {segment.base_offset for segment in self._group.segments}
        self._removal = detach(state, sources, keep_snapshots_of=bases)
        for cleaned in self._group.segments:
            segment = state.new_segment(cleaned.base_offset, cleaned.log_bytes)
            segment.set_index_sizes(cleaned.index_bytes, cleaned.time_index_bytes, cleaned.txn_index_bytes)
            segment.adopt_marker(SWAP_SUFFIX)
            state.segments.add(segment)
            self._installed.append(segment)
        return True

    def retire(self) -> None:
        """Step 3. Raises: StorageFailure. Blocking: disk; any thread."""
        assert self._removal is not None, "switch comes first"
        self._removal.rename()

    def settle(self) -> None:
        """Step 4. Raises: StorageFailure. Blocking: a rename a file."""
        assert self._removal is not None, "switch comes first"
        try:
            for segment in self._installed:
                segment.rename("")
        except OSError as error:
            raise StorageFailure(f"cannot install cleaned segments: {error}", self._directory) from error
        note_removed(self._state, self._removal)

    def sync(self) -> None:
        """Step 5. Raises: StorageFailure. Blocking: disk; any thread."""
        try:
            self._state.fs.sync_dir(self._directory)
        except OSError as error:
            raise StorageFailure(f"cannot install cleaned segments: {error}", self._directory) from error

    def abandon(self) -> None:
        """Remove the files of a group that is not installed. Raises: StorageFailure. Blocking: disk; any thread."""
        try:
            for segment in self._group.segments:
                for kind in SEGMENT_SUFFIXES:
                    for marker in (CLEANED_SUFFIX, SWAP_SUFFIX):
                        self._state.fs.unlink(self._path(segment.base_offset, kind, marker))
        except OSError as error:
            raise StorageFailure(f"cannot remove cleaned segments: {error}", self._directory) from error

    def _path(self, base_offset: int, kind: str, marker: str) -> str:
        return os.path.join(self._directory, segment_file(base_offset, kind, marker))


def install(state: LogState, group: CleanedGroup, cut_count: int) -> bool:
    """Run all steps here and now; False when the group came too late and was removed.

    Raises: StorageFailure. Blocking: disk.
    """
    swap = Swap(state, group, cut_count)
    swap.stage()
    if not swap.switch():
        swap.abandon()
        return False
    swap.retire()
    swap.settle()
    swap.sync()
    return True


# --- the recovery half ---


def remove_leftovers(fs: FileSystem, directory: str) -> None:
    """Remove pending deletions, unfinished cleaner output and swaps of an unfinished split.

    Deletions are pending after every stop, by the thousand where retention was busy: one line tells of them all.
    """
    entries = [entry.name for entry in fs.list_dir(directory) if entry.is_file]
    parsed = {name: parse_segment_file(name) for name in entries}
    cleaned = [file.base_offset for file in parsed.values() if file is not None and file.marker == CLEANED_SUFFIX]
    leftovers = [name for name in entries if _is_leftover(name, parsed[name], min(cleaned, default=None))]
    pending = sum(name.endswith(DELETED_SUFFIX) for name in leftovers)
    if pending:
        logger.info("removing files of pending deletions path=%s count=%d", directory, pending)
    for name in leftovers:
        level = logging.DEBUG if name.endswith(DELETED_SUFFIX) else logging.INFO
        logger.log(level, "removing a left-over file path=%s", os.path.join(directory, name))
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
