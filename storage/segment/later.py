"""Walking batch headers up to the first one that is later than a moment: what scheduled delivery asks of a `.log`.

Only headers are read, in windows, and never more of them than allowed. A header that cannot be one ends the walk with
an error, so that nothing is passed unread.
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


def walk_until_later(
    log: LogFile, position: int, next_offset: int, limit: int, steps: int, passed: list[int] | None = None
) -> Walk:
    """Pass the batches from `position` on whose largest timestamp is at most `limit`, within about so many steps.

    The batch at `position` ends at or above next_offset. The timestamps of those passed are added to `passed`,
    but not those of transactions' markers: they tell of the commit, long before its records are due.
    Raises: OSError, CorruptBatch. Blocking: disk, or page cache.
    """
    end = log.size
    unpack = _TIMES.unpack_from
    while position < end and steps > 0:
        window = log.read(position, HEADER_WINDOW_BYTES)
        size = len(window)
        steps -= READ_STEPS
        at = 0
        while at < size:
            if size - at >= HEADER_SIZE:
                base_offset, length, magic, attributes, delta, timestamp = unpack(window, at)
            elif position + size < end:
                break  # the window cuts the header; the next one begins with it
            else:
                length, magic, attributes = 0, 0, 0
            if magic != MAGIC_V2 or length < MIN_BATCH_LENGTH:
                header = parse_any_header(window, at)
                base_offset, length, delta, timestamp = header.base_offset, header.batch_length, 0, header.max_timestamp
            last_offset = base_offset + delta
            following = at + length + LOG_OVERHEAD
            if last_offset < next_offset or position + following > end:
                raise CorruptBatch(f"no sound batch at byte {position + at} of {log.path}")
            if timestamp > limit:
                return Walk(position + at, next_offset, timestamp, steps)
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
    return Walk(position, next_offset, None, steps)
