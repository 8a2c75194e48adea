"""Opening a log: recovery in numbered passes, so that any crash point leads back to a log that obeys its invariants.

1. clear left-overs: pending deletions, half-written cleaner output;
2. finish interrupted swaps: complete cleaner output takes the place of what it was made from;
3. find the segments, drop orphan indexes, recover a segment that lost its offset index or has a bad transaction index;
4. after an unclean stop, recover every segment from the recovery point on; the first cut ends the log;
5. after a clean stop trust the files, or walk only the active segment when asked to;
6. no segment, or an end below the known start: begin anew at the start;
7. settle log start and leader epochs;
8. rebuild the producer state at the end, without producers that wrote nothing for too long;
9. settle recovery point and high watermark;
10. a segment with an offset that its indexes cannot express is split, whenever it is met, and all begins anew.

Damage below the recovery point is not searched for: it was on disk, and readers check what they get. What these passes
write is repeated by the next start if they are interrupted; nothing they rely on is overwritten in place.

Foreign files and folders are never touched. Source: Kafka's LogLoader.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from protocol.records.batch import BatchHeader
from protocol.records.errors import CorruptBatch
from storage.checkpoints.leader_epochs import SAVE_SUFFIX
from storage.checkpoints.lines import TMP_SUFFIX
from storage.compaction.swap import complete_swaps, remove_leftovers
from storage.env.fs import DirEntry
from storage.errors import CorruptIndex, CorruptRecord
from storage.log.offsets import LogOffsets
from storage.log.producer_rebuild import rebuild_producers, write_empty_snapshots
from storage.log.split import split
from storage.log.state import LogState
from storage.log.transactions import aborted_txn, replay_batch
from storage.log.truncation import truncate_fully
from storage.producers.snapshot import remove_stray_snapshots, snapshots_among, take_snapshot
from storage.segment.names import (
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    MARKERS,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    SegmentFileName,
    parse_segment_file,
    segment_file,
)
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.recovery import recover, seal_again
from storage.segment.scan import OffsetOverflow
from storage.segment.segment import Segment
from storage.segment.txn_index import AbortedTxn
from storage.stats import LoadProgress

MAX_EPOCH = (1 << 31) - 1
"""Above this no batch tells of a new leader epoch."""

logger = logging.getLogger(__name__)


class LoadParameters(NamedTuple):
    """What the directory's checkpoints say about a log."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    is_clean: bool = False


def load(state: LogState, parameters: LoadParameters, progress: LoadProgress) -> None:
    """Bring a log from its files into memory. Raises: OSError, CorruptRecord. Blocking: disk, cpu."""
    while True:
        try:
            return _load(state, parameters, progress)
        except OffsetOverflow as overflow:  # pass 10; every round leaves one overflow less
            split(state, overflow)
            state.forget()


def _load(state: LogState, parameters: LoadParameters, progress: LoadProgress) -> None:
    entries = _list_or_create(state)
    if any(entry.name.endswith(MARKERS) for entry in entries):
        remove_leftovers(state.fs, state.path)  # pass 1
        complete_swaps(state)  # pass 2
        entries = state.fs.list_dir(state.path)
    state.epochs.load()
    files = {entry.name: entry for entry in entries if entry.is_file}
    if len(files) < len(entries):
        _report_what_is_no_file(state, entries)
    parsed = {name: file for name in files if (file := parse_segment_file(name)) is not None}
    unusable = _find_segments(state, files, parsed)  # pass 3
    is_rebuilt = _recover(state, parameters, unusable, progress)  # passes 4 and 5
    log_end_offset = _ensure_a_segment(state, parameters)  # pass 6
    log_start_offset = max(parameters.log_start_offset, state.segments.first().base_offset)  # pass 7
    state.epochs.truncate_from_end(log_end_offset)
    state.epochs.truncate_from_start(log_start_offset)
    known = None if is_rebuilt or unusable else snapshots_among(parsed.values())
    _settle_producers(state, parameters, known, log_start_offset, log_end_offset, is_rebuilt=is_rebuilt)  # pass 8
    recovery_point = log_end_offset if parameters.is_clean else min(parameters.recovery_point, log_end_offset)  # pass 9
    state.offsets = LogOffsets(log_start_offset, log_end_offset, recovery_point, parameters.high_watermark)
    if not parameters.is_clean and recovery_point <= max(state.segments.active.base_offset, log_end_offset - 1):
        # Given by whoever was killed: the next flush must not trust that they will last.
        state.has_new_names = state.has_unsynced_directory = True
    state.producers.on_high_watermark(state.offsets.high_watermark)
    state.offsets.set_last_stable(state.producers.first_unstable_offset)
    for segment in state.segments:
        segment.release_files()


def _list_or_create(state: LogState) -> list[DirEntry]:
    try:
        return state.fs.list_dir(state.path)
    except FileNotFoundError:
        state.fs.make_dirs(state.path)
        state.has_unsynced_directory = True
        return []


def _report_what_is_no_file(state: LogState, entries: Sequence[DirEntry]) -> None:
    """Say what has a name of ours and is passed over: a pipe, a folder, a link to what is not there."""
    for entry in entries:
        if not entry.is_file and parse_segment_file(entry.name) is not None:
            logger.warning("passing over what is no regular file path=%s", os.path.join(state.path, entry.name))


# --- pass 3 ---


def _find_segments(
    state: LogState, entries: Mapping[str, DirEntry], parsed: Mapping[str, SegmentFileName]
) -> list[Segment]:
    """Fill the map from the directory listing; return the segments whose transaction index cannot be trusted.

    Where the offset index is gone, somebody removed files: an absent transaction index need not mean an empty one then.
    """
    for name, file in parsed.items():
        if file.marker:
            continue
        if file.kind == LOG_SUFFIX:
            state.segments.add(_segment_from(state, file.base_offset, entries))
        elif file.kind in INDEX_SUFFIXES and segment_file(file.base_offset, LOG_SUFFIX) not in entries:
            logger.warning("removing an index without its log path=%s", os.path.join(state.path, name))
            state.fs.unlink(os.path.join(state.path, name))
    for suffix in (TMP_SUFFIX, SAVE_SUFFIX):
        if LEADER_EPOCH_CHECKPOINT + suffix in entries:
            state.fs.unlink(os.path.join(state.path, LEADER_EPOCH_CHECKPOINT + suffix))
    return [
        segment
        for segment in state.segments
        if (segment.log.size and segment_file(segment.base_offset, INDEX_SUFFIX) not in entries)
        or not _has_usable_txn_index(segment)
    ]


def _segment_from(state: LogState, base_offset: int, entries: Mapping[str, DirEntry]) -> Segment:
    def size_of(kind: str) -> int:
        entry = entries.get(segment_file(base_offset, kind))
        return entry.size_bytes if entry is not None else 0

    segment = state.new_segment(base_offset, size_of(LOG_SUFFIX))
    segment.set_index_sizes(size_of(INDEX_SUFFIX), size_of(TIME_INDEX_SUFFIX), size_of(TXN_INDEX_SUFFIX))
    return segment


def _has_usable_txn_index(segment: Segment) -> bool:
    try:
        segment.txn_index.check()
    except CorruptIndex as error:
        logger.warning("recovering a segment path=%s reason=%s", error.path, error.reason)
        return False
    return True


# --- passes 4 and 5 ---


def _recover(state: LogState, parameters: LoadParameters, unusable: list[Segment], progress: LoadProgress) -> bool:
    """Recover what must not be trusted; tell whether the producer state now stands at the log end."""
    segments = list(state.segments)
    suspect = _suspects(state, parameters)
    progress.segments_left = len(suspect)
    for segment in segments[: len(segments) - len(suspect)]:
        if segment in unusable:
            _rebuild_at(state, parameters, segment.base_offset)
            _recover_in_turn(state, segment, progress)
            state.unsynced_files += segment.file_paths()  # flushes begin at the recovery point, which is above
        if not parameters.is_clean or segment.has_odd_index_sizes():
            segment.ensure_indexes()
        following = state.segments.after(segment)
        if not parameters.is_clean and following is not None and following in suspect[:1]:
            seal_again(segment, following.base_offset)
            state.unsynced_files += segment.file_paths()  # flushes begin behind it
        _ensure_in_range(state, segment)
        segment.release_files()
    if not segments or (parameters.is_clean and segments[-1] not in unusable):
        if segments and state.config.validate_on_open:
            _validate_active(segments[-1], progress)
        return False
    _rebuild_at(state, parameters, suspect[0].base_offset)
    for segment in suspect:
        # Later segments go first: once the damage is cut nothing would tell that they lie behind a hole.
        cut = _recover_in_turn(state, segment, progress, before_cut=partial(_remove_after, state, segment))
        progress.segments_left -= 1
        if cut:
            progress.segments_left = 0
            break
    _drop_empty_end(state)
    return True


def _suspects(state: LogState, parameters: LoadParameters) -> list[Segment]:
    """Return the segments at the end of the log that may hold unfinished writes."""
    segments = list(state.segments)
    return segments[-1:] if parameters.is_clean else state.segments.starting_with(parameters.recovery_point)


def _ensure_in_range(state: LogState, segment: Segment) -> None:
    """Look at the end of a trusted segment if the next one begins so far above that it may hold what it must not.

    Raises: OffsetOverflow.
    """
    following = state.segments.after(segment)
    if following is None or following.base_offset - segment.base_offset <= MAX_RELATIVE_OFFSET + 1:
        return
    try:
        end_offset = segment.next_offset()
    except CorruptBatch as error:
        logger.warning("found a damaged batch path=%s reason=%s", segment.log.path, error)
        return
    segment.ensure_in_range(end_offset - 1)


def _validate_active(segment: Segment, progress: LoadProgress) -> None:
    """Walk the active segment after a clean stop; producer state and transaction index are trusted up to a cut."""
    found = recover(segment, lambda header, batch: None, progress, known_epoch=MAX_EPOCH)
    if found.cut_bytes:
        segment.txn_index.truncate_to(found.next_offset)


def _rebuild_at(state: LogState, parameters: LoadParameters, offset: int) -> None:
    start = max(parameters.log_start_offset, state.segments.first().base_offset)
    rebuild_producers(state, log_start_offset=min(start, offset), end_offset=offset)


def _recover_in_turn(
    state: LogState, segment: Segment, progress: LoadProgress, *, before_cut: Callable[[], None] | None = None
) -> int:
    """Recover a segment with the producer state standing at its base; return how many bytes were cut."""
    producers, epochs = state.producers, state.epochs
    producers.map_end_offset = segment.base_offset
    take_snapshot(state.fs, state.path, producers, sync=False)
    aborted: list[AbortedTxn] = []

    def follow(header: BatchHeader, batch: memoryview) -> None:
        if header[2] > epochs.latest_epoch:
            epochs.assign_recovered(header[2], header[0])
        completed = replay_batch(producers, header, batch)
        if completed is not None and completed.is_aborted:
            aborted.append(aborted_txn(completed))

    found = recover(segment, follow, progress, known_epoch=epochs.latest_epoch, before_cut=before_cut)
    producers.map_end_offset = found.next_offset
    if segment.txn_index.replace(aborted):
        state.has_new_names = True
    return found.cut_bytes


def _drop_empty_end(state: LogState) -> None:
    """Remove an empty active segment that begins above the end of the one before it.

    That one lost its last batches as a whole, which leaves nothing to cut, while the name of the segment rolled after
    them has survived: kept, it would tear a hole into the offsets.
    """
    *_, before, last = [None, None, *state.segments]
    if before is not None and last is not None and not last.log.size and last.base_offset != before.next_offset():
        _remove_after(state, before)


def _remove_after(state: LogState, segment: Segment) -> None:
    """Remove the later segments for good."""
    later = [one for one in state.segments if one.base_offset > segment.base_offset]
    for one in later:
        logger.warning("removing a segment behind a damaged one path=%s", one.log.path)
        state.segments.remove(one)
        one.unlink()
    if later:
        state.fs.sync_dir(state.path)


# --- passes 6 to 8 ---


def _ensure_a_segment(state: LogState, parameters: LoadParameters) -> int:
    """Make sure there is an active segment; return the log end offset."""
    start = parameters.log_start_offset
    if len(state.segments):
        try:
            log_end_offset = state.segments.active.next_offset()
        except CorruptBatch as error:
            raise CorruptRecord(f"cannot find the end of {state.segments.active.log.path}: {error}") from error
        state.segments.active.ensure_in_range(log_end_offset - 1)
        if log_end_offset >= start:
            state.segments.active.activate()
            return log_end_offset
        logger.warning("the log ends below its start path=%s end=%d start=%d", state.path, log_end_offset, start)
    truncate_fully(state, start)
    return start


def _settle_producers(
    state: LogState,
    parameters: LoadParameters,
    known: Sequence[int] | None,
    log_start_offset: int,
    log_end_offset: int,
    *,
    is_rebuilt: bool,
) -> None:
    known = remove_stray_snapshots(state.fs, state.path, state.segments.base_offsets(), known)
    if is_rebuilt and state.producers.map_end_offset <= log_end_offset:
        state.producers.map_end_offset = log_end_offset
        state.producers.remove_expired(state.clock.now_ms())  # as one that is loaded from a snapshot forgets them
    elif parameters.is_clean and not known:
        state.producers.reset(log_start_offset)
        write_empty_snapshots(state, log_end_offset)
    else:
        rebuild_producers(state, log_start_offset=log_start_offset, end_offset=log_end_offset, known=known)
