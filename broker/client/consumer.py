"""A consumer for tools: it knows which partitions to read, where, and what a group may be told of that.

Without a group it reads all partitions of its topics, those that come later included. With one it is a member, reads
what it is assigned, and commits what the caller has taken: now and then, before it gives a partition back, at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.errors import ClientError, ConnectionFailed, Refused, is_retriable
from broker.client.fetching import READ_UNCOMMITTED, Consumed, Fetched, fetch
from broker.client.groups import commit_offsets, committed_offsets
from broker.client.log_offsets import EARLIEST, LATEST, log_offsets
from broker.client.membership import Membership
from protocol.errors import ErrorCode

LONGEST_WAIT_S = 0.5
"""For one fetch, so that a group hears of its member in time."""
ERROR_PAUSE_S = 0.1
METADATA_EVERY_S = 5.0
"""How often topics and partitions are looked for that are new."""
STALE = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
"""A commit that comes too late: somebody else reads the partitions now, and records may be seen twice."""


class Source(Protocol):
    """Says which partitions are read."""

    def partitions(self) -> list[TopicPartition] | None:
        """Return what is to be read from now on; None while that has not changed."""
        ...


class Fixed:
    """One partition."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition: TopicPartition | None = partition

    def partitions(self) -> list[TopicPartition] | None:
        """Return it, once."""
        given, self._partition = self._partition, None
        return None if given is None else [given]


class Topics:
    """All partitions of a topic, or of all topics whose names a test accepts; internal topics by their name only."""

    def __init__(self, client: Client, topic: str | None, accepts: Callable[[str], bool]) -> None:
        self._client = client
        self._topic = topic
        self._accepts = accepts
        self._next_s = 0.0

    def partitions(self) -> list[TopicPartition] | None:
        """Look at the metadata, now and then. A topic that does not exist is created, where brokers do that."""
        now_s = self._client.settings.now_s()
        if now_s < self._next_s:
            return None
        self._next_s = now_s + METADATA_EVERY_S
        cluster = self._client.metadata(None if self._topic is None else [self._topic], may_create=True)
        found = [
            partition
            for name, row in cluster.topics.items()
            if self._topic is not None or (not row.is_internal and self._accepts(name))
            for partition in cluster.partitions_of(name)
        ]
        if self._topic is not None and not found:
            self._next_s = now_s  # it may come at any moment
        return found


class Start(NamedTuple):
    """Where reading begins where nothing says better: a time as ListOffsets has them, or an offset."""

    time: int = LATEST
    offset: int | None = None


class Consumer:
    """Reads records. Not for several threads."""

    def __init__(
        self,
        client: Client,
        source: Source,
        start: Start,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        membership: Membership | None = None,
        commits: bool = True,
        on_lost: Callable[[ConnectionFailed], None] = lambda failure: None,
    ) -> None:
        """Prepare; `on_lost` is told when a broker went away and is waited for."""
        self._client = client
        self._on_lost = on_lost
        self._source = source
        self._start = start
        self._isolation_level = isolation_level
        self._membership = membership
        self._commits = commits and membership is not None
        self._positions: dict[TopicPartition, int] = {}  # the next offset to fetch; changed by poll
        self._was_connected = False  # changed by poll
        self._taken: dict[TopicPartition, int] = {}  # where the group is to go on, not committed yet; changed by took
        self._ends: dict[TopicPartition, tuple[int, int]] = {}  # of the last fetch: its last record, where to go on

    def poll(self, timeout_s: float) -> list[Consumed]:
        """Return the next records, none when there are none within the time or something else was to do.

        Who polls again is done with what came before. Once it has been connected, brokers that cannot be reached are
        waited for. Raises: ClientError.
        """
        try:
            self._take_assignment()
            answers = self._fetched(timeout_s)
            self._was_connected = True
        except ConnectionFailed as failure:
            if not self._was_connected:
                raise
            self._on_lost(failure)
            self._client.settings.sleep(LONGEST_WAIT_S)
            return []
        found: list[Consumed] = []
        for partition, records, next_offset, code in answers:
            if code and code != ErrorCode.OFFSET_OUT_OF_RANGE and not is_retriable(code):
                raise Refused(code)
            if not code:
                if records:
                    self._ends[partition] = (records[-1].record.offset, next_offset)
                elif next_offset > self._positions[partition]:
                    self._taken[partition] = next_offset
                self._positions[partition] = next_offset
                found += records
        if not found and any(answer.error_code for answer in answers):
            self._client.settings.sleep(min(timeout_s, ERROR_PAUSE_S))
        return found

    def _fetched(self, timeout_s: float) -> list[Fetched]:
        """Fetch once; a position that its log does not have is found anew."""
        if not self._positions:
            self._client.settings.sleep(min(timeout_s, ERROR_PAUSE_S))
            return []
        wait_ms = int(min(timeout_s, LONGEST_WAIT_S) * 1000)
        answers = fetch(self._client, self._positions, max_wait_ms=wait_ms, isolation_level=self._isolation_level)
        outside = [one.partition for one in answers if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE]
        if outside:
            self._begin(self._found(outside, self._start.time))
        return answers

    def took(self, consumed: Consumed) -> None:
        """Note that the caller is done with a record, and all before it in its partition."""
        last, next_offset = self._ends[consumed.partition]
        offset = consumed.record.offset
        # What follows the last record of a fetch is for nobody: the end of a transaction, what was compacted away.
        self._taken[consumed.partition] = next_offset if offset == last else offset + 1

    def commit(self) -> None:
        """Commit what was taken. Raises: Refused, ConnectionFailed."""
        taken, self._taken = self._taken, {}
        member = self._membership
        if member is None or not self._commits or not taken:
            return
        try:
            commit_offsets(self._client, member.group, taken, member_id=member.member_id, member_epoch=member.epoch)
        except Refused as refused:
            if refused.code not in STALE:
                raise

    def close(self) -> None:
        """Commit and leave the group. Raises: ClientError."""
        try:
            self.commit()
        finally:
            if self._membership is not None:
                self._membership.leave()

    # --- which partitions

    def _take_assignment(self) -> None:
        member = self._membership
        if member is None:
            partitions = self._source.partitions()
            if partitions is not None:
                self._read_from(partitions)
        elif member.is_due():
            self.commit()
            if member.heartbeat():
                self.commit()  # before the next heartbeat lets go of what was taken away
                self._read_from(member.partitions)

    def _read_from(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others; what is new begins where the group has been, or where all begin."""
        wanted = list(partitions)
        new = [partition for partition in wanted if partition not in self._positions]
        self._positions = {one: self._positions[one] for one in wanted if one in self._positions}
        if not new:
            return
        if self._membership is not None:
            committed = committed_offsets(self._client, self._membership.group)
            self._positions.update((one, committed[one].offset) for one in new if one in committed)
        others = [one for one in new if one not in self._positions]
        if self._start.offset is not None:
            self._begin(dict.fromkeys(others, self._start.offset))
        else:
            self._begin(self._found(others, self._start.time))

    def _begin(self, positions: dict[TopicPartition, int]) -> None:
        """Read from here. A group is told so even if no record comes: its next member must not miss what does."""
        self._positions.update(positions)
        self._taken.update(positions)

    def _found(self, partitions: list[TopicPartition], time: int) -> dict[TopicPartition, int]:
        """Find where to begin; a partition that has no leader yet is left for later."""
        found = {}
        times = dict.fromkeys(partitions, time)
        for partition, (refused, offset) in log_offsets(
            self._client, times, isolation_level=self._isolation_level
        ).items():
            if refused is not None and not is_retriable(refused.code):
                raise refused
            if offset is not None and refused is None:
                found[partition] = offset
        return found


def time_of(policy: str) -> int:
    """Read `auto.offset.reset`. Raises: ClientError."""
    if policy not in ("earliest", "latest"):
        raise ClientError(
            f"Invalid value {policy[:80]} for configuration auto.offset.reset: expected earliest or latest"
        )
    return EARLIEST if policy == "earliest" else LATEST
