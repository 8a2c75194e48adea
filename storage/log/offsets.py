"""The five offsets of a log; the only code that moves them, and it asserts their order.

log start <= last stable <= high watermark <= log end, recovery point <= log end.
"""

from __future__ import annotations


class LogOffsets:
    """Log start, log end, high watermark, last stable offset and recovery point of one log."""

    __slots__ = ("high_watermark", "last_stable_offset", "log_end_offset", "log_start_offset", "recovery_point")

    def __init__(self, log_start_offset: int, log_end_offset: int, recovery_point: int, high_watermark: int) -> None:
        assert 0 <= log_start_offset <= log_end_offset, (log_start_offset, log_end_offset)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = min(recovery_point, log_end_offset)
        self.high_watermark = max(min(high_watermark, log_end_offset), log_start_offset)
        self.last_stable_offset = self.high_watermark

    def advance_end(self, log_end_offset: int) -> None:
        """Move the log end forward after an append."""
        assert log_end_offset >= self.log_end_offset, (log_end_offset, self.log_end_offset)
        self.log_end_offset = log_end_offset

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark forward, never beyond the log end; tell whether it moved."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def advance_stable_high_watermark(self, offset: int) -> bool:
        """Move the high watermark and the last stable offset as one, while no transaction is undecided."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = self.last_stable_offset = offset
        return True

    def set_last_stable(self, first_unstable_offset: int | None) -> None:
        """Derive the last stable offset from the high watermark and the oldest undecided transaction."""
        stable = self.high_watermark
        if first_unstable_offset is not None and first_unstable_offset < stable:
            stable = max(first_unstable_offset, self.log_start_offset)
        self.last_stable_offset = stable

    def advance_log_start(self, offset: int) -> bool:
        """Move the log start forward, not beyond the high watermark; tell whether it moved."""
        assert offset <= self.high_watermark, (offset, self.high_watermark)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.last_stable_offset < offset:
            self.last_stable_offset = offset
        return True

    def advance_recovery_point(self, offset: int) -> None:
        """Note that everything below `offset` is on disk."""
        assert offset <= self.log_end_offset, (offset, self.log_end_offset)
        if offset > self.recovery_point:
            self.recovery_point = offset

    def truncate(self, offset: int) -> None:
        """Move the log end back to `offset` and everything that lies above it too."""
        assert offset <= self.log_end_offset, (offset, self.log_end_offset)
        self._restart(min(self.log_start_offset, offset), offset)

    def restart(self, log_start_offset: int, log_end_offset: int) -> None:
        """Begin anew after everything was removed."""
        self.recovery_point = log_start_offset
        self.high_watermark = log_start_offset
        self._restart(log_start_offset, log_end_offset)

    def _restart(self, log_start_offset: int, log_end_offset: int) -> None:
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self.high_watermark = max(min(self.high_watermark, log_end_offset), log_start_offset)
        self.last_stable_offset = max(min(self.last_stable_offset, self.high_watermark), log_start_offset)
