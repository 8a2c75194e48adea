"""The cluster image: what the metadata log says at one offset, as immutable values.

An image is never changed. `apply.py` replays records on top of one and yields the next image and the delta between
both; readers keep a reference as long as they like. The mappings are plain dicts behind a read-only type: whoever
holds an image must not write to them.

Source: the image/* classes of Kafka's metadata module.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.metadata.access import AccessImage
from protocol.uuids import RESERVED_BELOW
from storage.types import TopicPartition

NO_LEADER = -1
LOST_DIR = (2).to_bytes(16, "big")
"""Stands for a directory that failed before anybody knew which one it was."""
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

ConfigResource = tuple[int, str]
"""Resource type and name; the empty broker name holds the cluster-wide defaults."""

RetainedKey = tuple[str, ...]


class PartitionImage(NamedTuple):
    """One partition: who leads, since when, and where its replicas live."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[bytes, ...]
    """A log directory id for each replica; all zero while the broker has not chosen one."""
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0


class TopicImage(NamedTuple):
    """One topic; the partition number is the position in `partitions`."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]


class EndpointImage(NamedTuple):
    """Where a registered broker listens."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    """The levels of a feature that a registered node can run at."""

    name: str
    min_level: int
    max_level: int


class BrokerImage(NamedTuple):
    """One registered broker. The epoch is the offset of its registration record."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[EndpointImage, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    cordoned_log_dirs: tuple[bytes, ...] | None = None
    """Those that take no new replicas; None until the broker has told, which it does from 4.3-IV0 on."""

    def endpoint(self, listener_name: str) -> EndpointImage | None:
        """Return the address for clients that came through a listener, or None when the broker has none there."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)

    def has_online_dir(self, directory_id: bytes) -> bool:
        """Tell whether a replica that metadata place there can be served; in doubt it can.

        A broker that registered before directories had ids names none of them. Source: DirectoryId.isOnline.
        """
        if int.from_bytes(directory_id, "big") < RESERVED_BELOW:
            return directory_id != LOST_DIR
        return not self.log_dirs or directory_id in self.log_dirs


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The whole cluster as of `end_offset` (exclusive) of the metadata log."""

    cluster_id: str
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    kraft_version: int = 0
    """Level of the quorum's own feature: control records state it, not feature records."""
    next_producer_id: int = -1
    access: AccessImage = field(default_factory=AccessImage)
    retained: Mapping[RetainedKey, object] = field(default_factory=dict)
    """Records of kinds this broker does not act upon (delegation tokens, controllers): the last one of each identity,
    so that a snapshot gives them back unchanged."""
    end_offset: int = 0
    epoch: int = 0
    last_timestamp_ms: int = -1
    features_epoch: int = 0
    """Offset of the last change of a feature level."""

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the overrides of a topic, empty when it has none."""
        return self.configs.get((TOPIC_RESOURCE, name), {})

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        """Return one partition, or None when it does not exist."""
        topic = self.topics_by_name.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        """Return the replicas nobody can serve: their broker is away or has lost their directory."""
        return [
            replica
            for replica, directory in zip(partition.replicas, partition.directories, strict=False)
            if (broker := self.brokers.get(replica)) is None or broker.fenced or not broker.has_online_dir(directory)
        ]

    def active_brokers(self) -> list[BrokerImage]:
        """Return the brokers that may lead and be told to clients, by id."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.fenced]


class PartitionDelta(NamedTuple):
    """One partition that came, changed or went, with the topic it belongs to."""

    topic: TopicImage
    partition: int
    image: PartitionImage

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition's name."""
        return TopicPartition(self.topic.name, self.partition)


class Delta(NamedTuple):
    """What differs between two images. Deletions come first: a name may go and come again in one delta."""

    deleted_topics: tuple[TopicImage, ...] = ()
    created_topics: tuple[TopicImage, ...] = ()
    deleted_partitions: tuple[PartitionDelta, ...] = ()
    """Those of deleted topics."""
    created_partitions: tuple[PartitionDelta, ...] = ()
    """Those of created topics and those that were added to existing ones."""
    changed_partitions: tuple[PartitionDelta, ...] = ()
    changed_configs: frozenset[ConfigResource] = frozenset()
    brokers_changed: bool = False
    features_changed: bool = False


def full_delta(image: ClusterImage) -> Delta:
    """Return the delta from nothing to `image`: what a subscriber is told first."""
    topics = tuple(image.topics_by_name.values())
    return Delta(
        created_topics=topics,
        created_partitions=tuple(entry for topic in topics for entry in partitions_of(topic)),
        changed_configs=frozenset(image.configs),
        brokers_changed=True,
        features_changed=True,
    )


def partitions_of(topic: TopicImage) -> Iterator[PartitionDelta]:
    """Yield every partition of a topic as a delta entry."""
    for number, partition in enumerate(topic.partitions):
        yield PartitionDelta(topic, number, partition)
