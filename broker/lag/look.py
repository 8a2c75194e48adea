"""One look at all groups: what they have committed against where the partitions end.

A partition's end is read once a look, so that all groups are measured by the same one. Lag counts from the committed
offset to where consumers find the end, as kafka_exporter and kafka-consumer-groups have it: the high watermark, or, of
a scheduled topic, the first record below it that is held back. It is negative when somebody has committed beyond the
end, and -1 stands for a partition without a commit in a topic where the group has some.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.offsets import NO_OFFSET
from broker.coordinator.group.records import CommittedOffset
from broker.coordinator.group.shard import AnyGroup, GroupShard
from broker.lag.record_times import PARTITIONS_A_STEP, PartitionTimes, RecordTimes
from broker.lag.snapshot import LagSnapshot
from broker.metadata.image import ClusterImage
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition

MAX_GROUPS = 5_000
"""Groups with numbers of their own, those with members first."""
MAX_SERIES = 20_000
"""Topics of groups, and partitions of groups, with numbers of their own. Sums and maxima count all partitions."""
NO_LAG = -1
NO_ROW = -1
GROUPS_A_STEP = 64
Pause = Callable[[], Awaitable[None]]
"""Lets others run if it is time to."""


class _Topic:
    """The partitions of a topic as all groups of one look see them."""

    __slots__ = ("ends", "numbers", "partitions", "starts", "times")

    def __init__(self, partitions: list[Partition | None]) -> None:
        self.partitions = partitions
        self.numbers = [str(number) for number in range(len(partitions))]
        self.ends: list[int | None] = []  # None where nobody leads, or somebody else does
        self.starts: list[int] = []
        for partition in partitions:
            log = partition.log if partition is not None and partition.is_leader else None
            self.ends.append(None if log is None else log.released_end_offset)
            self.starts.append(0 if log is None else log.log_start_offset)
        self.times: list[PartitionTimes | None] = [None] * len(partitions)  # set where a group has committed


class _Waiting:
    """Where groups have a record before them: columns of what is needed to say for how long it has been waiting."""

    __slots__ = ("groups", "offsets", "rows", "times")

    def __init__(self) -> None:
        self.groups: list[int] = []  # rows of groups
        self.rows: list[int] = []  # rows of their partitions, NO_ROW beyond MAX_SERIES
        self.times: list[PartitionTimes] = []
        self.offsets: list[int] = []


class Look:
    """Fills a snapshot."""

    def __init__(
        self,
        image: ClusterImage,
        partitions: PartitionManager,
        times: RecordTimes,
        now_ms: Callable[[], int],
        pause: Pause,
    ) -> None:
        self._image = image
        self._find = partitions.find
        self._times = times
        self._now_ms = now_ms
        self._pause = pause
        self._topics: dict[str, _Topic | None] = {}
        self._waiting = _Waiting()
        self._first_records: list[tuple[PartitionTimes, int]] = []
        self.found = LagSnapshot()

    async def take(self, shards: list[GroupShard]) -> None:
        """Look at all groups, and ask for the times of the records they wait for."""
        for shard, group in await self._chosen(shards):
            self._add_group(group)
            offsets = shard.offsets.of_group(group.group_id)
            if offsets:
                await self._add_offsets(group.group_id, offsets)
            await self._pause()

    async def _chosen(self, shards: list[GroupShard]) -> list[tuple[GroupShard, AnyGroup]]:
        """Count all groups, and choose those to be looked at."""
        counts = self.found.counts
        used: list[tuple[GroupShard, AnyGroup]] = []
        unused: list[tuple[GroupShard, AnyGroup]] = []
        count = 0
        for shard in shards:
            for group in list(shard.all_groups()):
                counts[group.group_type, group.state.value] += 1
                chosen = used if group.members else unused
                if len(chosen) < MAX_GROUPS:
                    chosen.append((shard, group))
                count += 1
                if count % GROUPS_A_STEP == 0:
                    await self._pause()
        groups = (used + unused)[:MAX_GROUPS]
        self.found.left_out["groups"] = count - len(groups)
        return groups

    async def take_first_records(self, partitions: Iterable[Partition]) -> None:
        """Ask for the times of the first records of partitions."""
        for number, partition in enumerate(partitions):
            if number % PARTITIONS_A_STEP == 0:
                await self._pause()
            start = partition.log.log_start_offset
            if start < partition.log.high_watermark:
                times = self._times.of(partition)
                times.ask(start)
                self._first_records.append((times, start))

    async def tell_times(self) -> None:
        """Take over what is known by now: for how long records have been waiting, and the times of the first ones."""
        await self._tell_seconds()
        found = self.found
        for number, (times, offset) in enumerate(self._first_records):
            if number % PARTITIONS_A_STEP == 0:
                await self._pause()
            stamp = times.stamp(offset)
            if stamp is not None:
                topic, partition = times.partition.tp
                found.oldest_labels.append((topic, str(partition)))
                found.oldest_seconds.append(stamp / 1000)

    async def _tell_seconds(self) -> None:
        found, waiting, now_ms = self.found, self._waiting, self._now_ms()
        for number, (group, row, times, offset) in enumerate(
            zip(waiting.groups, waiting.rows, waiting.times, waiting.offsets, strict=True)
        ):
            if number % PARTITIONS_A_STEP == 0:
                await self._pause()
            since_ms = times.appended_ms(offset)
            if since_ms is not None:
                seconds = (now_ms - since_ms) / 1000 if now_ms > since_ms else 0.0
                if row != NO_ROW:
                    found.seconds[row] = seconds
                most = found.max_seconds[group]
                if most is None or seconds > most:
                    found.max_seconds[group] = seconds

    def _add_group(self, group: AnyGroup) -> None:
        found, group_id = self.found, group.group_id
        found.group_labels.append((group_id,))
        found.state_labels.append((group_id, group.group_type, group.state.value))
        found.members.append(len(group.members))
        found.epochs.append(group.generation_id if isinstance(group, ClassicGroup) else group.epoch)
        found.max_lags.append(None)
        found.max_seconds.append(None)
        found.commit_seconds.append(None)

    async def _add_offsets(self, group_id: str, offsets: Mapping[str, Mapping[int, CommittedOffset]]) -> None:
        """Add what the group that was added last has committed."""
        found = self.found
        newest_ms = 0
        for name in list(offsets):
            topic = self._topic(name)
            committed = offsets.get(name)
            if topic is None or not committed:
                continue
            sum_committed = sum_lag = 0
            for number, end in enumerate(topic.ends):
                if number % PARTITIONS_A_STEP == PARTITIONS_A_STEP - 1:
                    await self._pause()
                commit = committed.get(number)
                if commit is None:
                    self._add_row(group_id, name, topic.numbers[number], NO_OFFSET, NO_LAG, None)
                    continue
                sum_committed += commit.offset
                if commit.commit_timestamp_ms > newest_ms:
                    newest_ms = commit.commit_timestamp_ms
                if end is None:
                    self._add_row(group_id, name, topic.numbers[number], commit.offset, None, None)
                else:
                    sum_lag += end - commit.offset
                    self._add_lag(group_id, name, topic, number, commit.offset, end)
            if len(found.topic_labels) >= MAX_SERIES:
                found.left_out["topics"] += 1
                continue
            found.topic_labels.append((group_id, name))
            found.topic_committed.append(sum_committed)
            found.topic_lags.append(sum_lag)
        if newest_ms:
            found.commit_seconds[-1] = newest_ms / 1000

    def _add_lag(self, group_id: str, name: str, topic: _Topic, number: int, offset: int, end: int) -> None:
        """Add how far the group that was added last is behind in a partition, and what it waits for."""
        found, waiting = self.found, self._waiting
        group = len(found.group_labels) - 1
        lag = end - offset
        most = found.max_lags[group]
        if most is None or lag > most:
            found.max_lags[group] = lag
        times = topic.times[number] or self._follow(topic, number, end)
        start = topic.starts[number]
        following = offset if offset > start else start
        is_behind = following < end  # what it has not read may all be deleted
        row = self._add_row(group_id, name, topic.numbers[number], offset, lag, None if is_behind else 0.0)
        if is_behind:
            times.ask(following)
            waiting.groups.append(group)
            waiting.rows.append(row)
            waiting.times.append(times)
            waiting.offsets.append(following)
        elif found.max_seconds[group] is None:
            found.max_seconds[group] = 0.0

    def _add_row(
        self, group_id: str, topic: str, partition: str, committed: int, lag: int | None, seconds: float | None
    ) -> int:
        found = self.found
        row = len(found.committed)
        if row >= MAX_SERIES:
            found.left_out["partitions"] += 1
            return NO_ROW
        found.partition_labels.append((group_id, topic, partition))
        found.committed.append(committed)
        found.lags.append(lag)
        found.seconds.append(seconds)
        return row

    def _follow(self, topic: _Topic, number: int, end: int) -> PartitionTimes:
        """Take note of where a partition ends; once a look."""
        partition = topic.partitions[number]
        assert partition is not None
        times = topic.times[number] = self._times.of(partition)
        times.follow(end, self._now_ms())
        return times

    def _topic(self, name: str) -> _Topic | None:
        """Give a topic, None when it is deleted."""
        try:
            return self._topics[name]
        except KeyError:
            image = self._image.topics_by_name.get(name)
            topic = None if image is None else _Topic([self._find((name, n)) for n in range(len(image.partitions))])
            self._topics[name] = topic
            return topic
