"""The loggers of this process and their levels, which have the names that Apache Kafka gives to levels.

Levels are changed while the broker runs; a restart takes them back. A logger without a level of its own has that of the
package it lies in. Source: LoggingController.
"""

from __future__ import annotations

import logging

ROOT = "root"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG // 2,
    "WARN": logging.WARNING,
}


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
