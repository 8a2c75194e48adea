"""Logs the cleaner stays away from: those that cannot be cleaned, and those whose last pass failed a moment ago.

A log is uncleanable when its data made a pass fail: asking again would end the same way, so it is left until the broker
restarts or its cleanup policy changes. Any other failure, of the child process, of memory or of space, only puts it
back for a while: twice as long each time, up to a bound, less a share of chance so that several do not come at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from storage.env.clock import Rng
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition

LONGEST_WAIT_MS = 600_000
SHORTEST_WAIT_MS = 1_000
JITTER = 0.2


class Uncleanable(NamedTuple):
    """A log whose data cannot be cleaned, under the policy it had."""

    log: PartitionLog
    policy: frozenset[str]
    reason: str


class _Delayed(NamedTuple):
    log: PartitionLog
    failures: int
    until_ms: int


class Troubles:
    """What is known of failed passes; times are monotonic."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._uncleanable: dict[TopicPartition, Uncleanable] = {}
        self._delayed: dict[TopicPartition, _Delayed] = {}

    @property
    def uncleanable(self) -> Collection[Uncleanable]:
        """The logs that are left alone."""
        return self._uncleanable.values()

    def mark_uncleanable(self, log: PartitionLog, reason: str) -> None:
        """Leave a log alone until it is another one or has another policy."""
        self._delayed.pop(log.tp, None)
        self._uncleanable[log.tp] = Uncleanable(log, log.config.cleanup_policy, reason)

    def delay(self, log: PartitionLog, now_ms: int, shortest_ms: int) -> int:
        """Put a log back after a failure that may pass; return for how long."""
        before = self._delayed.get(log.tp)
        failures = before.failures + 1 if before is not None and before.log is log else 1
        wait_ms = min(max(shortest_ms, SHORTEST_WAIT_MS) << min(failures - 1, 32), LONGEST_WAIT_MS)
        chance = (self._rng.int32() & 0xFFFF) / 0x10000
        wait_ms -= int(wait_ms * JITTER * chance)
        self._delayed[log.tp] = _Delayed(log, failures, now_ms + wait_ms)
        return wait_ms

    def succeeded(self, tp: TopicPartition) -> None:
        """Forget the failures before."""
        self._delayed.pop(tp, None)

    def keeps_from(self, log: PartitionLog, now_ms: int) -> bool:
        """Tell whether a log is to be left alone now."""
        marked = self._uncleanable.get(log.tp)
        if marked is not None:
            if marked.log is log and marked.policy == log.config.cleanup_policy:
                return True
            del self._uncleanable[log.tp]
        delayed = self._delayed.get(log.tp)
        return delayed is not None and delayed.log is log and now_ms < delayed.until_ms

    def forget_all_but(self, hosted: Iterable[PartitionLog]) -> None:
        """Drop what is known of logs that are gone or have another policy."""
        kept = {log.tp: log for log in hosted}
        for tp, marked in tuple(self._uncleanable.items()):
            if kept.get(tp) is not marked.log or marked.policy != marked.log.config.cleanup_policy:
                del self._uncleanable[tp]
        for tp, delayed in tuple(self._delayed.items()):
            if kept.get(tp) is not delayed.log:
                del self._delayed[tp]

    def next_retry_ms(self) -> int | None:
        """Return when the next of the delayed logs may be tried again."""
        return min((one.until_ms for one in self._delayed.values()), default=None)
