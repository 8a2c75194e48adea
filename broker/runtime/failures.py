"""Which failures are logged with their traceback: those that may be an error of ours."""

from __future__ import annotations

from storage.errors import LogClosed, StorageFailure


class Consequence(Exception):
    """Parent of what follows from a loss that was logged where it was noticed: its text says all there is to say."""


def unexplained(failure: BaseException) -> BaseException | None:
    """Return the failure when its traceback belongs in the log, None when the line alone explains it.

    A disk that fails, and what follows from it, is the operator's to look at; a traceback would point at us.
    """
    return None if isinstance(failure, (StorageFailure, LogClosed, Consequence)) else failure
