"""Keeps the topics that a group's regular expressions match up to date.

Matching runs beside the loop; its result comes back as a command, is stored, and raises the group's epoch when the
topics changed. Looked at with every heartbeat: anew when an expression is new, when topics have been created since,
and now and then; at most every ten seconds for a group, and once at a time.
Source: GroupMetadataManager.maybeUpdateRegularExpressions, handleRegularExpressionsResult.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from broker.coordinator.group.consumer.group import NOTHING_RESOLVED, ConsumerGroup, ResolvedRegex
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.records import epoch_record, regex_record, regex_tombstone
from broker.coordinator.group.consumer.regex import compiled, matching_topics
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.shard import CoordinatorRecord, Outcome

logger = logging.getLogger(__name__)

REFRESH_MIN_INTERVAL_MS = 10_000


class RegexChange(Enum):
    """What a heartbeat did to its member's expression."""

    NONE = 0
    UNRESOLVED = 1
    """It changed; the topics of the new one are not known yet."""
    RESOLVED = 2
    """It changed, and its topics are known."""


class Regexes:
    """The regular expressions of one shard."""

    def __init__(
        self,
        groups: Mapping[str, ConsumerGroup],
        world: ConsumerWorld,
        spawn: Callable[[str, Coroutine[Any, Any, None]], object],
        submit: Callable[[Callable[[], Outcome[None]]], None],
    ) -> None:
        self._groups = groups
        self._world = world
        self._spawn = spawn
        self._submit = submit
        self._running: set[str] = set()

    def follow(
        self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, records: list[CoordinatorRecord]
    ) -> RegexChange:
        """Follow a member's change, and have expressions resolved when it is time. Raises: InvalidRegularExpression."""
        change = RegexChange.NONE
        is_new = False
        if old.topic_regex != new.topic_regex:
            change, is_new = self._change(group, old.topic_regex, new.topic_regex, records)
        if is_new or group.regexes:
            self._resolve_if_due(group, old, new, is_new=is_new)
        return change

    def _change(
        self, group: ConsumerGroup, old: str | None, new: str | None, records: list[CoordinatorRecord]
    ) -> tuple[RegexChange, bool]:
        if old and group.regexes[old] == 1:
            records.append(regex_tombstone(group.group_id, old))
        if not new:
            return (RegexChange.RESOLVED if old else RegexChange.UNRESOLVED), False
        if not group.regexes[new]:
            compiled(new)
            return RegexChange.UNRESOLVED, True
        return (RegexChange.RESOLVED if new in group.resolved else RegexChange.UNRESOLVED), False

    def _resolve_if_due(self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, *, is_new: bool) -> None:
        if group.group_id in self._running:
            return
        expressions = group.regexes.copy()
        expressions.subtract([old.topic_regex] if old.topic_regex else [])
        expressions.update([new.topic_regex] if new.topic_regex else [])
        wanted = frozenset(expression for expression, count in expressions.items() if count > 0)
        last = next(iter(group.resolved.values()), None)
        age_ms = None if last is None else self._world.now_ms() - last.timestamp_ms
        if not wanted or (age_ms is not None and 0 <= age_ms <= REFRESH_MIN_INTERVAL_MS):
            return
        if (
            is_new
            or last is None
            or age_ms is None
            or len(wanted) != len(group.resolved)
            or last.version < self._world.new_topics_version
            or not 0 <= age_ms <= self._world.config.regex_refresh_interval_ms
        ):
            self._running.add(group.group_id)
            self._spawn(f"regexes-{group.group_id}", self._resolve(group.group_id, wanted))

    async def _resolve(self, group_id: str, expressions: Iterable[str]) -> None:
        image = self._world.image()
        topics = tuple(image.topics_by_name)
        version, now_ms = self._world.metadata_version(), self._world.now_ms()

        def compute() -> list[CoordinatorRecord]:
            matches = matching_topics(expressions, topics)
            # So that the loop finds the hashes known.
            self._world.hashes.of_topics(frozenset().union(*matches.values()), image)
            return [
                regex_record(group_id, expression, ResolvedRegex(found, version, now_ms))
                for expression, found in matches.items()
            ]

        try:
            records = await self._world.run_aside(compute)
        except Exception:  # a background job's border: the next heartbeat tries again
            logger.exception("regular expressions not resolved group=%s", group_id)
            return
        finally:
            self._running.discard(group_id)
        self._submit(lambda: self.store(group_id, records))

    def store(self, group_id: str, resolved: Sequence[CoordinatorRecord]) -> Outcome[None]:
        """Store what expressions match; one that nobody uses any more is passed over."""
        group = self._groups.get(group_id)
        if group is None:
            return Outcome(None)
        records: list[CoordinatorRecord] = []
        has_changed = False
        merged = dict(group.resolved)
        for record in resolved:
            _, expression, found = record.parsed
            if not group.regexes[expression]:
                continue
            has_changed |= merged.get(expression, NOTHING_RESOLVED).topics != found.topics
            merged[expression] = found
            records.append(record)
        topics = group.named_topics.union(*(merged[r].topics for r in group.regexes if r in merged))
        metadata_hash = self._world.hashes.of_topics(topics, self._world.image())
        if has_changed or metadata_hash != group.metadata_hash:
            epoch = group.epoch + 1
            self._world.stats.rebalances["consumer"] += 1
            records.append(epoch_record(group_id, epoch, metadata_hash))
            group.refreshed_epoch = epoch
            logger.info("consumer group epoch raised group=%s epoch=%d", group_id, epoch)
        return Outcome(None, records)
