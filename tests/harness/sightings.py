"""A scheduled topic as its consumers must see it: from when on each offset may be seen, and when it was."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable

from tests.harness import batches
from tests.harness.raw import RawClient
from tests.harness.readers import Reader, Seen
from tests.harness.transactions import is_abort

# The broker's default of odradek.log.delivery.clock.uncertainty.ms.
UNCERTAINTY_MS = 250

Place = tuple[int, int]
"""A partition and an offset."""


class Log:
    """What a topic holds once everything in it is due: the values, and when each may be seen first."""

    def __init__(self, client: RawClient, topic: str, partitions: int) -> None:
        self.values: dict[Place, str] = {}
        self.due_ms: dict[Place, int] = {}
        # What a transaction holds, by how it ended; and when its marker was written.
        self.aborted: set[Place] = set()
        self._decided_ms: dict[Place, int] = {}
        for partition in range(partitions):
            self._take(partition, batches.parse(client.fetch_all(topic, partition)))

    def _take(self, partition: int, found: list[batches.Batch]) -> None:
        due_ms = 0
        open_places: dict[int, list[Place]] = {}
        for batch in found:
            # One batch is one time, and what stands behind a later one waits for it.
            due_ms = max(due_ms, batch.max_timestamp + UNCERTAINTY_MS)
            if batch.attributes & batches.CONTROL:
                decided = open_places.pop(batch.producer_id)
                self._decided_ms.update(dict.fromkeys(decided, batch.max_timestamp))
                if is_abort(batch):
                    self.aborted.update(decided)
                continue
            for record in batch.records():
                place = partition, record.offset
                self.due_ms[place] = due_ms
                self.values[place] = (record.value or b"").decode()
                if batch.attributes & batches.TRANSACTIONAL:
                    open_places.setdefault(batch.producer_id, []).append(place)

    def committed(self) -> dict[Place, str]:
        """Return what read_committed consumers get."""
        return {place: value for place, value in self.values.items() if place not in self.aborted}

    def committed_due_ms(self) -> dict[Place, int]:
        """Return from when read_committed consumers may get each record: not before its transaction is decided."""
        return {place: max(due_ms, self._decided_ms.get(place, 0)) for place, due_ms in self.due_ms.items()}


def check_once_in_order(seen: Iterable[Seen], expected: dict[Place, str]) -> None:
    """Check that a consumer has had each record once, each partition in the order of its offsets."""
    got = [(one.partition, one.offset) for one in seen]
    twice = [place for place, count in Counter(got).items() if count > 1]
    assert not twice, f"seen more than once: {twice}"
    assert {(one.partition, one.offset): one.value for one in seen} == expected
    for partition in {partition for partition, _ in got}:
        offsets = [offset for number, offset in got if number == partition]
        assert offsets == sorted(offsets), f"partition {partition} out of order"


def check_never_early(seen: Iterable[Seen], due_ms: dict[Place, int]) -> None:
    """Check that nothing was seen before its time, whose bound the broker's clock uncertainty has moved up."""
    early = [(one, due_ms[one.partition, one.offset]) for one in seen if one.at_ms < due_ms[one.partition, one.offset]]
    assert not early, f"seen early: {early}"


def lateness_ms(seen: Iterable[Seen], due_ms: dict[Place, int], *, from_ms: float = 0) -> list[float]:
    """Return by how much each record came later than it could; those that were due before that time are left out."""
    return sorted(one.at_ms - due for one in seen if (due := due_ms[one.partition, one.offset]) >= from_ms)


def spread(late_ms: list[float]) -> str:
    """Show the median and the maximum."""
    return f"{statistics.median(late_ms):7.1f} ms, at most {late_ms[-1]:7.1f} ms, of {len(late_ms)}" if late_ms else "-"


def union(readers: Iterable[Reader]) -> list[Seen]:
    """Return what the members of a group have seen together, in the order of time."""
    return sorted((one for reader in readers for one in reader.seen), key=lambda one: one.at_ms)
