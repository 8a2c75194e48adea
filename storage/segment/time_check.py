"""Whether what a time index says of its segment can be so: compared with a few batches before it is relied on.

An index from a backup, or of another log, may say too little, and what relies on it would take pending batches for due.
To read all batches would prove it, and make of a start a reading of whole logs. So the batch that holds the last time
is looked at, which must have that time, some behind it and the last ones of the segment, which must not be later: an
older copy is one that ends too early. What this process has written or read itself is never compared.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import Final

from protocol.records.batch import BatchHeader
from protocol.records.errors import CorruptBatch
from storage.segment.log_file import LogFile
from storage.segment.segment import Segment
from storage.segment.view import TimesFrom

COMPARED_BATCHES: Final = 8
"""So many behind the one that holds the last time, and so many at the end."""

logger: Final = logging.getLogger(__name__)


def has_sure_times(segment: Segment, end_offset: int) -> bool:
    """Tell whether no batch of a segment is later than its largest timestamp, as far as that is looked into.

    All its batches end below end_offset. Raises: OSError, CorruptIndex. Blocking: disk, or page cache, once for each
    segment.
    """
    segment.ensure_indexes()
    if segment.times_from is TimesFrom.INDEX:
        largest, offset = segment.largest_timestamp, segment.offset_of_largest_timestamp
        positions = segment.offset_index.lookup(offset), segment.last_indexed()
        if is_contradicted(segment.log, end_offset, (largest, offset), positions):
            logger.warning(
                "a time index says too little, so all batches of its segment are looked at path=%s largest=%d",
                segment.time_index.file.path,
                largest,
            )
            segment.times_from = TimesFrom.DISPROVED
        else:
            segment.times_from = TimesFrom.BATCHES
    return segment.times_from is TimesFrom.BATCHES


def is_contradicted(log: LogFile, end_offset: int, largest: tuple[int, int], positions: tuple[int, int]) -> bool:
    """Tell whether batches are seen to contradict a largest timestamp and the offset of the batch that holds it.

    The positions are of a batch at or before that one, and of one near the end. Without a timestamp nothing is said of
    the batches, and what is damaged or cannot be read contradicts nothing. Blocking: disk, or page cache.
    """
    timestamp, offset = largest
    position, last_position = positions
    if timestamp < 0 or offset >= end_offset:
        return log.size > 0
    try:
        found = log.find_batch(offset, position)
        if found is None:
            return False
        holder, *behind = _headers(log, found, 1 + COMPARED_BATCHES)
        if holder.last_offset >= end_offset:
            return False
        if holder.base_offset > offset or holder.max_timestamp != timestamp:
            return True
        if last_position > found:
            behind += _headers(log, last_position, COMPARED_BATCHES)
    except (OSError, CorruptBatch):
        return False
    return any(header.max_timestamp > timestamp for header in behind)


def _headers(log: LogFile, position: int, count: int) -> list[BatchHeader]:
    headers = [header for _, header in islice(log.headers(position), count)]
    if not headers:
        raise CorruptBatch(f"no whole batch at byte {position} of {log.path}")
    return headers
