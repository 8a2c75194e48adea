"""The border of a log: what the disk or the bytes do wrong leaves it as a storage error that names the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from protocol.records.errors import CorruptBatch, InvalidBatch
from storage.errors import CorruptIndex, CorruptRecord, StorageFailure
from storage.log.state import LogState

_T = TypeVar("_T")


def guarded(state: LogState, doing: str, action: Callable[[], _T]) -> _T:
    """Run an action; `doing` names it in a failure's message. Raises: StorageFailure, CorruptRecord."""
    try:
        return action()
    except OSError as error:
        raise StorageFailure(f"cannot {doing} {state.path}: {error}", state.path) from error
    except (CorruptBatch, InvalidBatch, CorruptIndex) as error:
        raise CorruptRecord(f"cannot {doing} {state.path}: {error}") from error
