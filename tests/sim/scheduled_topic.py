"""A scheduled topic's list of batches, and a consumer of it that is parked when there is nothing to read."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.partition.partition import READ_COMMITTED, Partition
from config.views import LogConfig
from protocol.records.batch import iter_batches
from storage.errors import LogClosed


class Appended(NamedTuple):
    """A batch as its topic's list has it."""

    base: int
    last: int
    timestamp: int


@dataclass
class Topic:
    """A topic of one partition, and what must be true of it."""

    partition: Partition
    config: LogConfig
    appended: list[Appended] = field(default_factory=list)
    releasable: int = 0  # the most that may be visible
    released: int = 0  # what was visible, and stays so
    open_from: int | None = None  # where the transaction begins that has not ended

    @property
    def name(self) -> str:
        return self.partition.tp.topic

    @property
    def end(self) -> int:
        return self.appended[-1].last + 1 if self.appended else 0

    def first_pending(self, offset: int, limit: int) -> int:
        for batch in self.appended:
            if batch.base >= offset and batch.timestamp > limit:
                return batch.base
        return self.end

    def visible_end(self, limit: int, isolation_level: int) -> int:
        """Return below what consumers may read who come now."""
        delivery = self.partition.log.delivery
        end = self.end if delivery is None else self.first_pending(delivery.watermark, limit)
        is_cut = isolation_level == READ_COMMITTED and self.open_from is not None
        return min(end, self.open_from) if is_cut else end


class Follower:
    """A consumer that reads as far as it may and is parked then."""

    def __init__(self, topic: Topic, isolation_level: int) -> None:
        self.topic = topic
        self.isolation_level = isolation_level
        self.position = 0
        self.is_parked = self.is_woken = False

    def wake(self, source: Hashable) -> None:
        """Note that there may be something to read."""
        self.is_woken = True

    def look(self) -> None:
        """Read on: batch after batch, as they were appended, and none that is not due."""
        topic, log = self.topic, self.topic.partition.log
        self._leave()
        self.position = max(self.position, log.log_start_offset)
        bound = topic.partition.visible(topic.partition.bound(self.isolation_level))
        assert bound <= topic.releasable or log.delivery is None, (bound, topic.releasable)
        try:
            found = log.read(self.position, max_bytes=1000, bound=bound, min_one_batch=True)
        except LogClosed:
            return  # the one that takes over wakes us
        data = b"" if found.region is None else bytes(found.region.read())
        if found.region is not None:
            found.region.release()
        got = [(header.base_offset, header.last_offset) for _, header in iter_batches(data)]
        expected = [(one.base, one.last) for one in topic.appended if one.last >= self.position]
        assert got == expected[: len(got)]
        if got:
            self.position = got[-1][1] + 1
        else:
            assert bound <= self.position
            self.is_parked, self.is_woken = True, False
            topic.partition.waiters.add(self)

    def _leave(self) -> None:
        self.topic.partition.waiters.discard(self)
        self.is_parked = False

    def is_forgotten(self, limit: int) -> bool:
        """Tell whether it waits for what is there."""
        return (
            self.is_parked and not self.is_woken and self.position < self.topic.visible_end(limit, self.isolation_level)
        )
