"""Recovery of one segment: what its batches prove is kept, everything behind the first bad byte is cut."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from protocol.records.batch import NO_LEADER_EPOCH
from protocol.records.errors import CorruptBatch
from storage.env.fs import File
from storage.segment.scan import WINDOW_BYTES, Follow, Scanned, scan
from storage.segment.segment import Segment
from storage.stats import LoadProgress

PADDING_PROBE_BYTES = 4096
"""Zeros behind the last batch are a block at most, or the rest of a segment of the reference's."""

logger = logging.getLogger(__name__)


def recover(
    segment: Segment,
    follow: Follow,
    progress: LoadProgress,
    *,
    known_epoch: int = NO_LEADER_EPOCH,
    before_cut: Callable[[], None] | None = None,
) -> Scanned:
    """Rebuild the indexes from the batches and cut at the first bad byte; before_cut is called before the latter.

    `follow` sees the good batches that tell of a producer or of an epoch above known_epoch, in order. The txn index
    is the caller's. Raises: OffsetOverflow, and nothing has changed. Blocking: reads the whole segment.
    """
    entries = segment.new_entries()
    found = scan(segment.log, entries, follow, progress, known_epoch=known_epoch)
    segment.bytes_since_index = 0
    file = segment.log.open()
    cut = max(file.size(), segment.log.size) - found.valid_bytes
    if cut:
        is_unused = _is_zero_from(file, found.valid_bytes)
        logger.log(
            logging.INFO if is_unused else logging.WARNING,
            "cutting the tail path=%s valid_bytes=%d cut_bytes=%d reason=%s",
            *(segment.log.path, found.valid_bytes, cut, "unused space" if is_unused else found.damage),
        )
        if not is_unused:
            progress.cut_bytes += cut
        if before_cut is not None:
            before_cut()
    if cut or segment.log.allocation is not None:
        segment.log.truncate(found.valid_bytes)  # gives back what was reserved, too
    segment.take_entries(entries)
    progress.recovered_segments += 1
    return found._replace(cut_bytes=cut)


def _is_zero_from(file: File, position: int) -> bool:
    """Tell whether only zeros follow, as preallocation leaves them: up to a whole segment, so piece by piece."""
    zeros = bytes(min(WINDOW_BYTES, file.size() - position))
    piece = bytearray(zeros)
    while got := file.read_into(memoryview(piece), position):
        del piece[got:]  # the last one is shorter
        if piece != zeros[:got]:  # far faster than any() or views, which look at byte after byte
            return False
        position += got
    return True


def seal_again(segment: Segment, next_base_offset: int) -> None:
    """Repeat what a crash of the machine may undo of sealing.

    It may happen after everything in the segment was flushed, so that recovery begins behind it, at the next segment's
    base. Then something that was cut may be back behind the last batch, and the time index may lack its final entry;
    what that tells came after the last index entry. Raises: OffsetOverflow. Blocking: disk.
    """
    segment.ensure_indexes()
    log = segment.log
    end, next_offset = segment.last_indexed(), segment.base_offset
    with suppress(CorruptBatch):
        for position, header in log.headers(end):
            if header.last_offset >= next_base_offset:
                break
            end, next_offset = position + header.size_bytes, header.next_offset
            if header.max_timestamp > segment.largest_timestamp:
                segment.largest_timestamp = header.max_timestamp
                segment.offset_of_largest_timestamp = header.last_offset
    if segment.largest_timestamp > segment.time_index.last_timestamp:
        logger.warning("completing an index path=%s", segment.time_index.file.path)
        segment.time_index.file.make_room()
        segment.write_final_time_entry()
    surplus = log.size - end
    if surplus and (next_offset == next_base_offset or not any(log.read(end, PADDING_PROBE_BYTES))):
        logger.warning("cutting what is unused path=%s valid_bytes=%d cut_bytes=%d", log.path, end, surplus)
        log.truncate(end)
