"""A member of a consumer group (KIP-848): it says what it wants to read and what it holds, the coordinator assigns.

What is taken away is held until the member has said that it let go; the caller commits before that.
"""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from typing import Any

from broker.client.client import GROUP, Client
from broker.client.cluster import TopicPartition
from broker.client.errors import ConnectionFailed, check
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions

WITHOUT_PARTITIONS_S = 0.5
"""How soon to ask again while nothing is assigned: the coordinator may just have rested between two assignments."""
JOINING = 0
LEAVING = -1
REBALANCE_TIMEOUT_MS = 45_000
"""How long this member may take to let go of a partition."""
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)

Ids = dict[bytes, list[int]]
"""Partitions by topic id."""


class Membership:
    """One member, from its first heartbeat to its last."""

    def __init__(self, client: Client, group: str, *, topic: str | None, regex: str | None) -> None:
        """Subscribe to a topic, or to all topics that match an expression."""
        self.group = group
        self.member_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        self._client = client
        self._topic = topic
        self._regex = regex
        # All of these are changed by heartbeat.
        self.epoch = JOINING
        self.partitions: list[TopicPartition] = []  # assigned now
        self._ids: Ids = {}  # the same
        self._has_news = True  # something was assigned or taken away, and the coordinator waits to hear it is done
        self._next_s = 0.0

    def is_due(self) -> bool:
        """Tell whether the coordinator has to hear of this member."""
        return self._has_news or self._client.settings.now_s() >= self._next_s

    def heartbeat(self) -> bool:
        """Report what is held, and take over what is assigned; tell whether that has changed.

        Whatever was taken away by the last one is let go with this one. Raises: Refused, ConnectionFailed.
        """
        before = self._ids
        answer = self._send(self.epoch)
        if answer.error_code in FENCED:
            self._ids, self.partitions = {}, []  # the group has gone on without this member: it joins anew
            answer = self._send(JOINING)
        check(answer.error_code, answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._ids = {row.topic_id: list(row.partitions) for row in answer.assignment.topic_partitions}
            self.partitions = self._named(self._ids)
        interval_s = answer.heartbeat_interval_ms / 1000
        self._next_s = self._client.settings.now_s() + (
            interval_s if self._ids else min(interval_s, WITHOUT_PARTITIONS_S)
        )
        self._has_news = self._ids != before
        return self._has_news

    def leave(self) -> None:
        """Leave the group, if its coordinator can be reached; else it will notice."""
        if self.epoch > JOINING:
            with suppress(ConnectionFailed):
                self._send(LEAVING)

    def _send(self, epoch: int) -> Any:
        joins, leaves = epoch == JOINING, epoch == LEAVING
        held = [RequestTopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in self._ids.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=([] if self._topic is None else [self._topic]) if joins else None,
            subscribed_topic_regex=self._regex if joins else None,
            topic_partitions=None if leaves else held,
        )
        return self._client.ask_coordinator(GROUP, self.group, request)

    def _named(self, partitions: Ids) -> list[TopicPartition]:
        """Give partitions by the names of their topics; a topic that is gone has none."""
        if not partitions:
            return []
        names = {row.topic_id: name for name, row in self._client.metadata().topics.items()}
        return sorted(
            TopicPartition(names[topic], index)
            for topic, indexes in partitions.items()
            if topic in names
            for index in indexes
        )
