"""A segment as it was at one moment, for reads beside its owner: names, sizes and what was known of its timestamps."""

import os.path
from enum import Enum
from typing import NamedTuple

from storage.segment.names import segment_file


class TimesFrom(Enum):
    """Where that is from which is known of a segment's timestamps."""

    BATCHES = "written or read by this process, or compared with some of them"
    INDEX = "a time index that was found"
    DISPROVED = "a time index that batches contradict, or one made of a log that is damaged"


class SegmentView(NamedTuple):
    """Immutable. The files hold at least the sizes given here while the segment is in the log under this marker."""

    directory: str
    base_offset: int
    marker: str
    log_bytes: int
    index_bytes: int
    time_index_bytes: int
    largest_timestamp: int | None
    """None while nobody has looked at the time index; it is then a file of the size given here."""
    offset_of_largest: int
    times_from: TimesFrom

    def path(self, kind: str) -> str:
        """Return the path of the file with this suffix."""
        return os.path.join(self.directory, segment_file(self.base_offset, kind, self.marker))
