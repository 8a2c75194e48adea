"""A segment as it was at one moment, for reads beside its owner: names, sizes and what was known of its timestamps."""

import os.path
from typing import NamedTuple

from storage.segment.names import segment_file


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

    def path(self, kind: str) -> str:
        """Return the path of the file with this suffix."""
        return os.path.join(self.directory, segment_file(self.base_offset, kind, self.marker))
