"""The state-machine contract of a coordinator: `command -> (records, response)` plus `replay(record)`.

A shard is the state kept in one partition of an internal topic. Commands look at the state and return what is to be
written and what is to be answered; only `replay` changes the part of the state that is stored, and it runs after the
append, so a failed write leaves nothing to undo. What lives in memory only (parked members, timers) a command may
change at once; `on_written` is told how its write ended.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorShard and CoordinatorResult.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from protocol.errors import ErrorCode

R = TypeVar("R")

WrittenCallback = Callable[[ErrorCode], None]
"""Called once the write ended: NONE when the records are committed, else what the client is to be told."""


class CoordinatorRecord(NamedTuple):
    """One stored record: the framed key, and the framed value or None for a tombstone.

    `parsed` is what replay would read from them, where the writer has it at hand.
    """

    key: bytes
    value: bytes | None
    parsed: Any = None


@dataclass(slots=True)
class Outcome(Generic[R]):
    """What a command asks for: records to append, the response once they are committed, and who wants to know.

    `replays` is false when the command keeps its own state in step through `on_written`. `is_atomic` is false when
    the records may be spread over several batches (mass deletions).
    """

    response: R
    records: Sequence[CoordinatorRecord] = ()
    on_written: WrittenCallback | None = None
    replays: bool = True
    is_atomic: bool = True


class Shard(Protocol):
    """The state of one partition, as the runtime sees it."""

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Apply a committed record; `producer_id` is -1 outside transactions."""

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the marker that decides a producer's open transaction."""

    def on_loaded(self) -> None:
        """Start timers: every record of the partition has been replayed."""

    def on_unloaded(self) -> None:
        """Answer what is parked and drop timers: this shard ends."""
