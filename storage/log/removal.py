"""Segments leaving a log: detached on the owner's side, renamed anywhere, then scheduled to be unlinked.

Like a FlushPlan, a Removal is planned on the side that owns the log, run in any thread and noted on the owner's side.
The order, with what each step prevents:

1. detach: the map forgets the segments, so no reader finds what is about to lose its name; pinned readers go on;
2. the directory is synced if it has names that no sync has covered: without the segment that was rolled in their place,
   a log of which only removals survived a power failure would begin at offset 0 again;
3. each file gets the suffix `.deleted`, the oldest segment first and its `.log` before its indexes, so that a stop in
   between leaves a log without a hole and at worst indexes without their log, which loading removes;
4. the directory is synced: only now may the log-start checkpoint forget a start that lay in a removed segment;
5. the unlink is scheduled.

Nobody may make a file under the name of a detached one before step 4. Source: Kafka's LocalLog.removeAndDeleteSegments,
UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Collection, Sequence

from storage.env.clock import monotonic_ms
from storage.env.fs import FileSystem
from storage.errors import StorageFailure
from storage.log.append import roll
from storage.log.delivery import released_end
from storage.log.retention import Decision, Ends, deletable
from storage.log.state import LogState
from storage.log.truncation import advance_log_start
from storage.segment.names import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, segment_file
from storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Removal:
    """Files of detached segments, until they carry `.deleted`."""

    __slots__ = (
        "_directory",
        "_fs",
        "_names",
        "_syncs_first",
        "first_base_offset",
        "renamed",
        "segment_count",
        "size_bytes",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        segments: Sequence[Segment],
        *,
        keep_snapshots_of: Collection[int],
        syncs_first: bool,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._names = _names_of(segments, keep_snapshots_of)
        self._syncs_first = syncs_first
        self.first_base_offset = segments[0].base_offset
        self.segment_count = len(segments)
        self.size_bytes = sum(segment.log.size for segment in segments)
        self.renamed: list[str] = []  # paths under their new names; filled by rename()

    def rename(self) -> None:
        """Give the files their suffix. A file that is missing is passed over: its directory may have been renamed.

        Raises: StorageFailure. Blocking: disk; any thread.
        """
        try:
            if self._syncs_first:
                self._fs.sync_dir(self._directory)
            for name in self._names:
                self._rename(os.path.join(self._directory, name))
            self._fs.sync_dir(self._directory)
        except FileNotFoundError:
            return  # the directory was deleted or moved meanwhile, and everything in it
        except OSError as error:
            raise StorageFailure(f"cannot remove segments in {self._directory}: {error}", self._directory) from error

    def _rename(self, path: str) -> None:
        target = path + DELETED_SUFFIX
        try:
            self._fs.rename(path, target)
        except FileNotFoundError:
            return
        self.renamed.append(target)


def retain(state: LogState, now_ms: int) -> Removal | None:
    """Detach the oldest segments that retention lets go, and move the log start to what is left.

    Shape: at most a fixed number of segments, so whoever gets a removal asks again. The log start moves first, so that
    no read looks for what is gone. Raises: OSError, CorruptBatch. Blocking: ends of index files; a roll when all go.
    """
    offsets, segments = state.offsets, state.segments
    ends = Ends(offsets.log_start_offset, released_end(state), offsets.log_end_offset)
    decision = deletable(segments.ascending(), ends, state.config, now_ms)
    _note_future(state, decision, now_ms)
    count = len(decision.reasons)
    if not count:
        return None
    leaving = segments.ascending()[:count]
    if decision.needs_roll:
        roll(state, offsets.log_end_offset)
    advance_log_start(state, segments.ascending()[count].base_offset)
    for segment, reason in zip(leaving, decision.reasons, strict=True):
        state.stats.note_deleted(reason.value, segment.size)
    logger.info(
        "segments expired partition=%s count=%d reasons=%s log_start=%d",
        state.tp,
        count,
        ",".join(dict.fromkeys(reason.value for reason in decision.reasons)),
        offsets.log_start_offset,
    )
    return detach(state, leaving)


def _note_future(state: LogState, decision: Decision, now_ms: int) -> None:
    """Say once of a segment that a timestamp ahead of the clock keeps it, and all after it, from expiring."""
    if decision.future_timestamp is None:
        return
    base_offset = state.segments.ascending()[len(decision.reasons)].base_offset
    if state.noted_future_base != base_offset:
        state.noted_future_base = base_offset
        logger.warning(
            "a timestamp ahead of the clock keeps segments from expiring partition=%s segment=%d timestamp=%d now=%d",
            state.tp,
            base_offset,
            decision.future_timestamp,
            now_ms,
        )


def detach(state: LogState, segments: Sequence[Segment], *, keep_snapshots_of: Collection[int] = ()) -> Removal:
    """Take segments out of the map, on the owner's side; another segment must be left.

    The producer snapshots at their base offsets go with them, except those named. What a reader remembers of positions
    is forgotten. Whoever calls this runs `rename()` and then `note_removed`. Blocking: closes files.
    """
    assert 0 < len(segments) < len(state.segments), (len(segments), len(state.segments))
    removal = Removal(
        state.fs, state.path, segments, keep_snapshots_of=keep_snapshots_of, syncs_first=state.has_new_names
    )
    state.unfinished_removals.append(removal.first_base_offset)  # first: a checkpoint may be looking from its thread
    for segment in segments:
        state.segments.remove(segment)
        segment.release_files()
    state.read_positions.clear()
    if state.delivery is not None:
        state.delivery.forget_largest()
    return removal


def detach_below_start(state: LogState) -> Removal | None:
    """Take the segments out that lie wholly below the log start, as a copy does that follows its log; see `detach`."""
    segments, start = state.segments.ascending(), state.offsets.log_start_offset
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= start:
        count += 1
    return detach(state, segments[:count]) if count else None


def note_removed(state: LogState, removal: Removal) -> None:
    """Note that a removal's renames are done, on the owner's side: its files are unlinked after the delay."""
    state.unfinished_removals.remove(removal.first_base_offset)
    state.deletions.schedule(monotonic_ms(state.clock) + state.config.file_delete_delay_ms, removal.renamed)


def _names_of(segments: Sequence[Segment], keep_snapshots_of: Collection[int]) -> list[str]:
    names = []
    for segment in segments:
        names += [segment_file(segment.base_offset, kind) for kind in SEGMENT_SUFFIXES]
        if segment.base_offset not in keep_snapshots_of:
            names.append(segment_file(segment.base_offset, SNAPSHOT_SUFFIX))
    return names
