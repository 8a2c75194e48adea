"""Splitting a segment that holds an offset its indexes cannot express.

Brokers of old could write one. The protocol is that of compaction, so that any crash leads to the old segment or to
the new ones: 1. both parts are written as `.cleaned` files and synced; 2. they become `.swap`, the upper one first,
because left-overs of a split are told by a `.cleaned` file at or below a `.swap`; 3. loading begins anew, removes what
they replace and gives them their names. Source: Kafka's UnifiedLog.splitOverflowedSegment; KAFKA-6264.
"""

from __future__ import annotations

import logging
import os.path

from protocol.records.errors import CorruptBatch
from storage.env.fs import File
from storage.errors import CorruptIndex
from storage.log.state import LogState
from storage.segment.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, TXN_INDEX_SUFFIX, segment_file
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.scan import OffsetOverflow
from storage.segment.segment import Segment
from storage.segment.txn_index import encode

COPY_BYTES = 1 << 20

logger = logging.getLogger(__name__)


def split(state: LogState, overflow: OffsetOverflow) -> None:
    """Divide a segment before the first batch that is too far above its base. Raises: OSError. Blocking: copies it."""
    segment = state.segments.floor(overflow.base_offset)
    assert segment is not None and segment.base_offset == overflow.base_offset, (segment, overflow)
    position, offset = _place_of_overflow(segment)
    if offset is None:
        logger.warning("cutting a damaged segment path=%s valid_bytes=%d", segment.log.path, position)
        segment.log.truncate(position)
        return
    logger.warning("splitting a segment path=%s reason=%s at=%d", segment.log.path, overflow, offset)
    lower, upper = _divided_index(segment, offset)
    source = segment.log.open()
    _write_part(state, source, segment.base_offset, 0, position, lower)
    _write_part(state, source, offset, position, source.size(), upper)
    state.fs.sync_dir(state.path)
    for base_offset in (offset, segment.base_offset):
        for kind in (TXN_INDEX_SUFFIX, LOG_SUFFIX):
            name = os.path.join(state.path, segment_file(base_offset, kind))
            if state.fs.exists(name + CLEANED_SUFFIX):
                state.fs.rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX)
    state.fs.sync_dir(state.path)


def _place_of_overflow(segment: Segment) -> tuple[int, int | None]:
    """Return position and base offset of the first batch that is too far up; None after damage that hides it."""
    end = 0
    try:
        for position, header in segment.log.headers():
            if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                return position, header.base_offset
            end = position + header.size_bytes
    except CorruptBatch as error:
        logger.warning("found a damaged batch path=%s reason=%s", segment.log.path, error)
    return end, None


def _divided_index(segment: Segment, offset: int) -> tuple[bytes, bytes]:
    """Return what the transaction indexes of both parts hold.

    An unusable index goes to both, so that both are recovered; none would count as "nothing was aborted".
    """
    try:
        segment.txn_index.check()
    except CorruptIndex:
        content = segment.txn_index.content()
        return content, content
    transactions = segment.txn_index.entries()
    return (
        encode(txn for txn in transactions if txn.last_offset < offset),
        encode(txn for txn in transactions if txn.last_offset >= offset),
    )


def _write_part(state: LogState, source: File, base_offset: int, start: int, end: int, txn_index: bytes) -> None:
    """Write the bytes [start, end) of the segment as one of its own, durable but for the names."""
    path = os.path.join(state.path, segment_file(base_offset, LOG_SUFFIX, CLEANED_SUFFIX))
    state.fs.unlink(path)
    target = state.fs.open(path, create=True)
    try:
        buffer = memoryview(bytearray(min(COPY_BYTES, end - start)))
        position = start
        while position < end and (got := source.read_into(buffer[: end - position], position)):
            target.write_at(buffer[:got], position - start)
            position += got
        target.sync()
    finally:
        target.close()
    state.fs.set_mtime_ms(path, state.fs.mtime_ms(source.path))
    if txn_index:
        state.fs.write_file(
            os.path.join(state.path, segment_file(base_offset, TXN_INDEX_SUFFIX, CLEANED_SUFFIX)), txn_index
        )
