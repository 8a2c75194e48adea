"""What is told of a failure: a traceback only where it may be an error of ours, to operators what they can mend."""

from __future__ import annotations

import os

from storage.errors import LogClosed, StorageFailure


class Consequence(Exception):
    """Parent of what follows from a loss that was logged where it was noticed: its text says all there is to say."""


def unexplained(failure: BaseException) -> BaseException | None:
    """Return the failure when its traceback belongs in the log, None when the line alone explains it.

    A disk that fails, and what follows from it, is the operator's to look at; a traceback would point at us.
    """
    return None if isinstance(failure, (StorageFailure, LogClosed, Consequence)) else failure


def for_operator(failure: BaseException) -> str:
    """Say in one line why a start failed; where something was not permitted, to whom."""
    text = " ".join(str(failure).split())
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, PermissionError):
            return f"{text}; this process runs as user {os.geteuid()}, group {os.getegid()}"
        cause = cause.__cause__
    return text
