"""Walking batch headers up to the first one that is later than a moment: what scheduled delivery asks of a `.log`.

Only headers are read, in windows, and never more of them than allowed. What cannot be read, and a header that cannot be
one, end the walk where they are, so that nothing is passed unread and what lies before them is.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from protocol.records.batch import CONTROL_BIT, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, MIN_BATCH_LENGTH
from protocol.records.errors import CorruptBatch
from storage.segment.log_file import HEADER_WINDOW_BYTES, LogFile, parse_any_header

READ_STEPS: Final = 8
"""What a read of a window counts beside the headers in it: it takes so much longer than to look at one of them."""
NO_STEPS_LIMIT: Final = 1 << 62
_TIMES: Final = Struct(">qi4xb4xhi8xq")  # base offset, length, magic, attributes, last offset delta, max timestamp


class Walk(NamedTuple):
    """Where a walk has come to."""

    position: int
    """Of the batch that is later, or of the one to be looked at next; the end of the `.log` when none is left."""
    next_offset: int
    """After the last batch that was passed."""
    later: int | None
    """The largest timestamp of the batch at `position`, which is later; None when none was found so far."""
    steps_left: int
    failure: Exception | None
    """Why what is at `position` could not be looked at."""


class Bounds(NamedTuple):
    """What a walk must not pass."""

    limit: int
    """The latest time that is not later."""
    end_offset: int
    """All batches of the segment end below it; one that does not is damaged."""


def walk_until_later(
    log: LogFile, position: int, next_offset: int, bounds: Bounds, steps: int, passed: list[int] | None = None
) -> Walk:
    """Pass the batches from `position` on whose largest timestamp is at most the limit, within about so many steps.

    The batch at `position` ends at or above next_offset. The timestamps of those passed are added to `passed`,
    but not those of transactions' markers: they tell of the commit, long before its records are due.
    Blocking: disk, or page cache.
    """
    end, at = log.size, 0
    limit, end_offset = bounds
    unpack = _TIMES.unpack_from
    try:
        while position < end and steps > 0:
            at = 0
            window = log.read(position, HEADER_WINDOW_BYTES)
            size = len(window)
            steps -= READ_STEPS
            while at < size:
                if size - at >= HEADER_SIZE:
                    base_offset, length, magic, attributes, delta, timestamp = unpack(window, at)
                elif position + size < end:
                    break  # the window cuts the header; the next one begins with it
                else:
                    length, magic, attributes = 0, 0, 0
                if magic != MAGIC_V2 or length < MIN_BATCH_LENGTH:
                    header = parse_any_header(window, at)
                    base_offset, length, delta = header.base_offset, header.batch_length, 0
                    timestamp = header.max_timestamp
                last_offset = base_offset + delta
                following = at + length + LOG_OVERHEAD
                if not next_offset <= last_offset < end_offset or position + following > end:
                    raise CorruptBatch(f"no sound batch at byte {position + at} of {log.path}")
                if timestamp > limit:
                    return Walk(position + at, next_offset, timestamp, steps, None)
                if passed is not None and not attributes & CONTROL_BIT:
                    passed.append(timestamp)
                next_offset = last_offset + 1
                at = following
                steps -= 1
                if steps <= 0:
                    break
            if not at:
                raise CorruptBatch(f"{size} bytes at {position} of {log.path} are too few for a batch")
            position += at
    except (OSError, CorruptBatch) as error:
        return Walk(position + at, next_offset, None, steps, error)
    return Walk(position, next_offset, None, steps, None)


class Lead(NamedTuple):
    """Where a walk may go on: everything below `next_offset` is due, and no batch before `position` ends above it."""

    position: int
    next_offset: int


def lead_by(log: LogFile, position: int, entry: tuple[int, int]) -> Lead | None:
    """Find the batch that an entry of the time index is about, from a position that is said to be at or before it.

    None where there is none of that time: the entry or the position is not of this log, and tells nothing.
    Raises: OSError, CorruptBatch. Blocking: disk, or page cache.
    """
    timestamp, offset = entry
    found = log.find_batch(offset, position)
    if found is None:
        return None
    header = log.header_at(found)
    if header.base_offset > offset or header.max_timestamp != timestamp:
        return None
    return Lead(found, header.base_offset)
