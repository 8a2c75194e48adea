"""The newest log lines that say something is wrong, kept for whoever looks at the broker instead of at its log."""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

from broker.runtime.loggers import CONTROLS

OUR_LOGGERS = ("broker", "storage", "config", "protocol")
MAX_LINES = 50
MAX_TEXT_LENGTH = 500


class RecentLine(NamedTuple):
    """One line, and how often it came in a row; the time is that of the last one, wall clock."""

    time_ms: int
    level: str
    logger: str
    text: str
    times: int = 1

    def is_same(self, other: RecentLine) -> bool:
        """Tell whether another line says the same at another time."""
        return self[1:4] == other[1:4]


class RecentLines(logging.Handler):
    """Keeps warnings and worse, as they are logged: names are as clients chose them, without control characters."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[RecentLine] = deque(maxlen=MAX_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line; any thread, one at a time."""
        try:
            text = record.getMessage()
        except Exception:  # a message that does not fit its arguments must not hurt who logs
            self.handleError(record)
            return
        text = text[:MAX_TEXT_LENGTH].translate(CONTROLS)
        line = RecentLine(int(record.created * 1000), record.levelname, record.name, text)
        if self._lines and self._lines[-1].is_same(line):
            line = line._replace(times=self._lines.pop().times + 1)
        self._lines.append(line)

    def newest_first(self) -> tuple[RecentLine, ...]:
        """Return what is kept."""
        return tuple(reversed(self._lines.copy()))

    def open(self) -> None:
        """Listen to our own loggers: a host program's lines are its own."""
        for name in OUR_LOGGERS:
            logging.getLogger(name).addHandler(self)

    def close(self) -> None:
        """Stop to listen."""
        for name in OUR_LOGGERS:
            logging.getLogger(name).removeHandler(self)
        super().close()
