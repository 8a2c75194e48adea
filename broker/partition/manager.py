"""The partitions hosted here: follows the metadata, creates and deletes logs, finds a partition for a request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from broker.metadata.image import (
    BROKER_RESOURCE,
    NO_LEADER,
    TOPIC_RESOURCE,
    ClusterImage,
    Delta,
    PartitionDelta,
    PartitionImage,
    TopicImage,
)
from broker.partition.errors import NotLeader, PartitionOffline, UnknownPartition
from broker.partition.partition import Partition
from broker.partition.traffic import Traffic
from broker.partition.work import Deliveries, DiskWork
from config.views import LogConfig
from protocol.uuids import ZERO_UUID
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.errors import InconsistentTopicId, StorageError, StorageFailure
from storage.types import TopicPartition

logger: Final = logging.getLogger(__name__)

FEW_LOGS: Final = 4
"""So many logs are created on the loop, half a millisecond each; more would keep other clients waiting."""

ConfigFor = Callable[[str, ClusterImage], LogConfig]
OnDirLost = Callable[[LogDir, StorageFailure], None]
"""Told once of each directory that has failed, after its partitions went offline."""


class PartitionManager:
    """Hosts partitions; a publisher of the metadata tells it what there is."""

    def __init__(
        self,
        logs: LogManager,
        node_id: int,
        config_for: ConfigFor,
        now_ms: Callable[[], int],
        on_dir_lost: OnDirLost,
        disk_work: DiskWork,
        deliveries: Deliveries,
    ) -> None:
        self._logs = logs
        self._disk_work = disk_work
        self._deliveries = deliveries
        self._now_ms = now_ms
        self._node_id = node_id
        self._config_for = config_for
        self._on_dir_lost = on_dir_lost
        self._lost_dirs: set[str] = set()  # the paths that on_dir_lost was told of
        self._hosted: dict[tuple[str, int], Partition] = {}
        self._offline: set[tuple[str, int]] = set()
        # Replicas whose directory was away when we started, by the epoch in which nobody leads them.
        self._leaderless: dict[tuple[str, int], int] = {}
        # Where the logs were that have gone with their directory while we served them.
        self._lost: dict[TopicPartition, LogDir] = {}
        self.traffic = Traffic()
        self._has_image = False  # set with the first image, which tells which of the loaded logs are still wanted
        self.find = self._hosted.get  # (topic, partition) → Partition or None; the hot path's door

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._hosted.values())

    def __len__(self) -> int:
        return len(self._hosted)

    @property
    def offline_count(self) -> int:
        """Partitions whose directory has failed."""
        return len(self._offline) + len(self._leaderless)

    def say_away(self) -> None:
        """Log how many partitions have no leader after a start because their logs are not here."""
        if self._leaderless:
            logger.error(
                "logs of partitions are not here partitions=%d first=%s-%d",
                len(self._leaderless),
                *min(self._leaderless),
            )

    def get(self, topic: str, partition: int) -> Partition:
        """Find a partition. Raises: UnknownPartition, PartitionOffline, NotLeader for one that is led by nobody."""
        found = self._hosted.get((topic, partition))
        if found is not None:
            return found
        if (topic, partition) in self._offline:
            raise PartitionOffline(f"The log directory of partition {topic}-{partition} has failed.")
        if (topic, partition) in self._leaderless:
            raise NotLeader(NO_LEADER, self._leaderless[topic, partition])
        raise UnknownPartition(f"This broker has no partition {topic}-{partition}.")

    def whereabouts(self, image: ClusterImage) -> dict[TopicPartition, bytes]:
        """Return the id of the directory that has the current log of each partition, or had it until it failed."""
        where = {}
        for tp, log in self._logs.logs.items():
            topic, log_dir = image.topics_by_name.get(tp.topic), self._logs.dir_of(tp)
            if topic is not None and log_dir is not None and log.topic_id in (None, topic.topic_id):
                where[tp] = log_dir.directory_id
        where.update((tp, log_dir.directory_id) for tp, log_dir in self._lost.items())
        return where

    def fail_dir_of(self, failure: StorageFailure) -> None:
        """Take the directory a failure happened in offline, and its partitions with it."""
        log_dir = self._logs.dir_at(failure.path)
        if log_dir is not None:
            self.fail_dir(log_dir, failure)

    def fail_dir(self, log_dir: LogDir, failure: StorageFailure) -> None:
        """Take a directory of `log.dirs` offline, and its partitions with it."""
        if log_dir.is_online:
            self._logs.fail_dir(log_dir, failure)
        self._follow_lost_dirs()

    def _follow_lost_dirs(self) -> None:
        """Take note of directories that have failed, also where storage has noticed first."""
        failed = [log_dir for log_dir in self._logs.dirs if not log_dir.is_online]
        if failed:
            self._drop_lost()
        for log_dir in failed:
            if log_dir.failure is not None and log_dir.path not in self._lost_dirs:
                self._lost_dirs.add(log_dir.path)
                self._on_dir_lost(log_dir, log_dir.failure)

    def _drop_lost(self) -> None:
        """Stop hosting partitions whose log went with its directory."""
        for partition in tuple(self._hosted.values()):
            tp = partition.tp
            if tp not in self._logs.logs:
                log_dir = self._logs.dir_at(partition.log.path)
                if log_dir is not None and not partition.is_on_hold:  # else a whole copy is where the metadata say
                    self._lost[tp] = log_dir
                self._offline.add(tp)
                del self._hosted[tp]
                partition.leave(PartitionOffline(f"The log directory of partition {tp} has failed."))

    def missing_logs(self, delta: Delta, image: ClusterImage) -> Callable[[], list[StorageFailure]] | None:
        """Give a call that creates the logs a step needs, for a thread, or None when they are few.

        It returns the failures of directories on the way, for `fail_dir_of`. Publishing then finds the logs; what could
        not be created is left to it, which tries again and says why.
        """
        missing = [
            placed
            for placed in delta.created_partitions
            if self._node_id in placed.image.replicas and placed.topic_partition not in self._logs.logs
        ]
        if len(missing) <= FEW_LOGS:
            return None
        configs = {placed.topic.name: self._config_for(placed.topic.name, image) for placed in missing}

        def create() -> list[StorageFailure]:
            failures: list[StorageFailure] = []
            for placed in missing:
                with suppress(StorageError):
                    self._logs.create(
                        placed.topic_partition,
                        placed.topic.topic_id,
                        configs[placed.topic.name],
                        directory_id=self._directory_id(placed.image),
                        on_failure=lambda log_dir, failure: failures.append(failure),
                    )
            return failures

        return create

    def _directory_id(self, placed: PartitionImage) -> bytes:
        """Return the directory that the metadata names for this broker's replica."""
        return placed.directories[placed.replicas.index(self._node_id)]

    def landed(self, delta: Delta) -> dict[TopicPartition, bytes]:
        """Return the directory id of each new log whose place the metadata could not know: with several directories."""
        landed = {}
        for placed in delta.created_partitions:
            log_dir = self._logs.dir_of(placed.topic_partition)
            if log_dir is not None and ZERO_UUID in placed.image.directories:
                landed[placed.topic_partition] = log_dir.directory_id
        return landed

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Bring the hosted partitions in line with a new image. Raises: nothing that a disk could cause."""
        is_first = not self._has_image
        if is_first:
            self._has_image = True
            self._set_strays_aside(image)
        for topic in delta.deleted_topics:
            self._delete(topic, image)
        configs: dict[str, LogConfig] = {}
        for placed in delta.created_partitions:
            self._host(placed, image, configs, is_new=not is_first)
        for placed in delta.changed_partitions:
            self._host(placed, image, configs, is_new=False)
        for topic in self._reconfigured(delta, image):
            self._reconfigure(topic, image)
        self._follow_lost_dirs()

    def _reconfigured(self, delta: Delta, image: ClusterImage) -> Iterable[TopicImage]:
        """Name the topics whose settings may have changed: all of them when what they inherit has."""
        if not {(BROKER_RESOURCE, ""), (BROKER_RESOURCE, str(self._node_id))}.isdisjoint(delta.changed_configs):
            return image.topics_by_name.values()
        return [
            image.topics_by_name[name]
            for kind, name in delta.changed_configs
            if kind == TOPIC_RESOURCE and name in image.topics_by_name
        ]

    def _host(
        self, placed: PartitionDelta, image: ClusterImage, configs: dict[str, LogConfig], *, is_new: bool
    ) -> None:
        if self._node_id not in placed.image.replicas:
            return
        tp = placed.topic_partition
        partition = self._hosted.get(tp)
        if partition is None and not is_new and self._is_away(placed):
            return
        if partition is None:
            config = configs.get(tp.topic)
            if config is None:
                config = configs[tp.topic] = self._config_for(tp.topic, image)
            partition = self._open(placed, config, is_new=is_new)
            if partition is None:
                return
            self._hosted[tp] = partition
        now = placed.image
        partition.follow(now.leader, now.leader_epoch, now.isr, len(now.replicas))

    def _is_away(self, placed: PartitionDelta) -> bool:
        """Tell whether the log of an older partition cannot be served in this run of the broker."""
        tp, now = placed.topic_partition, placed.image
        if tp in self._lost:
            return True
        if now.leader != NO_LEADER or tp in self._logs.logs:
            return False
        self._leaderless[tp] = now.leader_epoch
        return True

    def _open(self, placed: PartitionDelta, config: LogConfig, *, is_new: bool) -> Partition | None:
        tp, topic_id = placed.topic_partition, placed.topic.topic_id
        try:
            log = self._logs.logs.get(tp)
            if log is None:
                directory_id = self._directory_id(placed.image)
                if not is_new:
                    self._logs.ensure_not_elsewhere(tp, directory_id)
                log = self._logs.create(tp, topic_id, config, directory_id=directory_id)
            elif log.topic_id is None:
                log.assign_topic_id(topic_id)
            elif log.topic_id != topic_id:
                raise InconsistentTopicId(log.path, topic_id, log.topic_id)
        except (StorageError, OSError) as failure:
            logger.error("partition offline partition=%s reason=%s", tp, failure)
            self._offline.add(tp)
            return None
        self._offline.discard(tp)
        log.config = config
        stats = self.traffic.of(tp.topic)
        return Partition(
            tp, log, self._node_id, self._now_ms, self.fail_dir_of, self._disk_work, self._deliveries, stats
        )

    def _set_strays_aside(self, image: ClusterImage) -> None:
        """Take logs out of the way whose topic is gone, or was created anew, since they were written.

        A crash between a deletion's commit and the rename of the directory leaves such a log behind; under its name
        the topic's next incarnation could not be served. The files stay for an operator. Source: KAFKA-16234.
        """

        def is_current(tp: TopicPartition, topic_id: bytes | None) -> bool:
            placed = image.partition(tp)
            is_wanted = placed is not None and self._node_id in placed.replicas
            return is_wanted and topic_id in (None, image.topics_by_name[tp.topic].topic_id)

        def directory_of(tp: TopicPartition) -> bytes | None:
            placed = image.partition(tp)
            return self._directory_id(placed) if placed is not None else None

        self._logs.settle_rivals(is_current)
        for tp, log in tuple(self._logs.logs.items()):
            if not is_current(tp, log.topic_id):
                self._logs.set_stray(tp)
        self._logs.settle_futures(is_current, directory_of)

    def _delete(self, topic: TopicImage, image: ClusterImage) -> None:
        delay_ms = self._config_for(topic.name, image).file_delete_delay_ms  # the broker's: the topic's went with it
        for index in range(len(topic.partitions)):
            tp = TopicPartition(topic.name, index)
            self._offline.discard(tp)
            self._leaderless.pop(tp, None)
            self._lost.pop(tp, None)
            partition = self._hosted.pop(tp, None)
            if partition is not None:
                partition.is_deleted = True
                partition.leave(UnknownPartition(f"Topic {tp.topic} was deleted."))
            try:
                if partition is not None:
                    self._logs.delete(tp, delay_ms=delay_ms)
                else:
                    self._logs.drop_future(tp, delay_ms=delay_ms)  # the log itself went with its directory
            except StorageFailure as failure:
                logger.error("cannot delete a log partition=%s reason=%s", tp, failure)
                self.fail_dir_of(failure)
        self.traffic.forget(topic.name)

    def _reconfigure(self, topic: TopicImage, image: ClusterImage) -> None:
        config = self._config_for(topic.name, image)
        for index in range(len(topic.partitions)):
            partition = self._hosted.get((topic.name, index))
            if partition is not None:
                partition.reconfigure(config)
