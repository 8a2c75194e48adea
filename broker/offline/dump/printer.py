"""What is said of a file, whatever it looks like: batches, records, entries, notes, and complaints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from broker.offline.batches import StoredBatch
from protocol.records.batch import BatchHeader
from protocol.records.record import Record


class OptionalLong(NamedTuple):
    """A number that may be missing, printed as Java prints it."""

    value: int | None

    def __str__(self) -> str:
        return "OptionalLong.empty" if self.value is None else f"OptionalLong[{self.value}]"


class Control(NamedTuple):
    """What a control record says: the words before a value that is text or JSON, and the fields for JSON lines."""

    words: str
    value: Any
    fields: Mapping[str, Any]


class ShownRecord(NamedTuple):
    """A record and what is shown of it."""

    header: BatchHeader
    record: Record
    crc: int | None = None
    """Of a legacy message; with `is_valid`."""
    is_valid: bool = True
    control: Control | None = None
    has_content: bool = False
    key: Any = None
    payload: Any = None


class Printer(Protocol):
    """Text or JSON lines."""

    def begin(self, path: str, kind: str, fields: Mapping[str, Any]) -> None:
        """Begin a file; the fields say what its name says."""
        ...

    def batch(self, batch: StoredBatch) -> None:
        """Show a batch."""
        ...

    def record(self, shown: ShownRecord) -> None:
        """Show a record of the batch before."""
        ...

    def entry(self, fields: Mapping[str, Any]) -> None:
        """Show an entry, by Kafka's names of its fields."""
        ...

    def note(self, text: str, fields: Mapping[str, Any]) -> None:
        """Say something of the file as a whole; the text and the fields say the same."""
        ...

    def complain(self, text: str) -> None:
        """Say on standard error what is wrong."""
        ...
