"""The loggers of this process and their levels, which have the names that Apache Kafka gives to levels.

Levels are changed while the broker runs; a restart takes them back. A logger without a level of its own has that of the
package it lies in. Source: LoggingController.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TextIO

ROOT = "root"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG // 2,
    "WARN": logging.WARNING,
}

_FIRST_LEVELS = {**LEVELS, "ALL": logging.NOTSET + 1, "OFF": logging.CRITICAL + 1}
"""Log4j has two more, which no administrator can ask for while a broker runs."""
PACKAGES = frozenset(("broker", "config", "native", "protocol", "storage"))
"""Where our loggers live; a configuration that was made for Apache Kafka names classes of it."""

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
"""What a terminal or a collector of lines would act upon, and how it is spelled."""


class OneLine(logging.Formatter):
    """Keeps a message on its line: names in it are what clients chose. A traceback has lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Spell control characters out."""
        record.message = record.message.translate(CONTROLS)
        return super().formatMessage(record)


def log_to(stream: TextIO) -> None:
    """Send what is logged to a stream, a line a message."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.INFO)


def set_first_levels(levels: Iterable[tuple[str, str]]) -> None:
    """Give loggers the levels that the configuration wants; a name that no module of ours has does nothing."""
    for name, level in levels:
        if name == ROOT or name.partition(".")[0] in PACKAGES:
            _logger(name).setLevel(_FIRST_LEVELS[level])


def levels() -> dict[str, str]:
    """Return the level in force of each logger; packages are loggers, too."""
    names = [ROOT, *logging.root.manager.loggerDict]
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in names}


def exists(name: str) -> bool:
    """Tell whether something logs under a name."""
    return name == ROOT or name in logging.root.manager.loggerDict


def set_level(name: str, level: str) -> None:
    """Give a logger, and those in it without one of their own, a level."""
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """Take a logger's own level away; not the root's, who has nobody to inherit from."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name_of(level: int) -> str:
    """Name a level: the most serious one that is not above it."""
    return max((one for one in LEVELS.items() if one[1] <= level), key=lambda one: one[1], default=("TRACE", 0))[0]
