"""What the client raises: each message is one line that says what happened and with whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from protocol.errors import ErrorCode

Row = TypeVar("Row")

_ERRORS: dict[int, ErrorCode] = {int(error): error for error in ErrorCode}


class ClientError(Exception):
    """Something between this client and the cluster did not work."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConnectionFailed(ClientError):
    """A broker cannot be reached, went away or does not answer; another try may find it, or another broker."""


class UnsupportedApi(ClientError):
    """The broker offers no version of an API that this client speaks."""


class Refused(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(message or describe(code))
        self.code = code


class MissingPartition(Refused):
    """The cluster knows no such topic or partition: nothing that passes."""


def describe(code: int) -> str:
    """Say what an error code means, in a line, with its name."""
    error = _ERRORS.get(code)
    if error is None:
        return f"The broker answered with error code {code}, which is not known here."
    return f"{error.text} ({error.name})"


def is_retriable(code: int) -> bool:
    """Tell whether the same request may succeed a little later."""
    error = _ERRORS.get(code)
    return error is not None and error.retriable


def check(code: int, message: str | None = None) -> None:
    """Raise what an error code says; the broker's own words come first."""
    if code:
        raise Refused(code, message)


def only(rows: Sequence[Row]) -> Row:
    """Return the row of the one thing that was asked for. Raises: ClientError when the answer has another number."""
    if len(rows) != 1:
        raise ClientError(f"The broker was asked for one thing and answered for {len(rows)}.")
    return rows[0]
