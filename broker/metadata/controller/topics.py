"""CreateTopics and DeleteTopics as commands: image and request → records and results; pure.

The order of checks is Kafka's, since tools and tests see which error wins: duplicates, then names, then existence,
then configs, then assignment or counts, then placement.

Source: ReplicationControlManager.createTopics/deleteTopics, ControllerApis.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from broker.metadata.controller.configs import checked_configs, topic_config_records
from broker.metadata.controller.partitions import partition_record
from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Charge, Plan, uncharged
from broker.metadata.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    MetadataError,
    PolicyViolation,
    ThrottlingQuotaExceeded,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from broker.metadata.image import ClusterImage, PartitionImage, TopicImage
from broker.metadata.names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    check_topic_name,
    collision_key,
    has_collision_chars,
)
from broker.metadata.placement import check_assignment, new_partition, place_replicas
from config.resolve import Resolver
from config.views import BrokerConfig, GroupConfig, TransactionConfig
from protocol.stored.cluster import RemoveTopicRecord, TopicRecord
from protocol.uuids import ZERO_UUID

DEFAULT = -1

COORDINATOR_TOPIC_PARTITIONS = 50
COORDINATOR_TOPIC_SEGMENT_BYTES = 104_857_600

INTERNAL_TOPIC_CONFIGS: Mapping[str, tuple[tuple[str, str], ...]] = {
    CONSUMER_OFFSETS: (("cleanup.policy", "compact"), ("compression.type", "producer")),
    TRANSACTION_STATE: (
        ("cleanup.policy", "compact"),
        ("compression.type", "uncompressed"),
        ("min.insync.replicas", "1"),
        ("unclean.leader.election.enable", "false"),
    ),
    SHARE_GROUP_STATE: (
        ("cleanup.policy", "delete"),
        ("compression.type", "uncompressed"),
        ("min.insync.replicas", "1"),
        ("retention.ms", "-1"),
    ),
}


class NewTopic(NamedTuple):
    """A topic to create; -1 asks for the broker's default."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(partition, replicas) pairs when the client chose the brokers itself."""
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicResult(NamedTuple):
    """One topic of a creation: the topic as it begins, or why not."""

    name: str
    topic: TopicImage | None = None
    configs: Mapping[str, str] | None = None
    error: MetadataError | None = None


class TopicToDelete(NamedTuple):
    """One entry of a deletion: a name, or an id (the other one is None or zero)."""

    name: str | None
    topic_id: bytes = ZERO_UUID


class DeleteTopicResult(NamedTuple):
    """One entry of a deletion: what was removed, or why not."""

    name: str | None
    topic_id: bytes
    error: MetadataError | None = None


class TopicRules(NamedTuple):
    """What the broker's configuration says about new topics."""

    broker: BrokerConfig
    groups: GroupConfig
    resolver: Callable[[ClusterImage], Resolver]
    """The configuration that topics inherit from, as it is under an image."""
    takes_replicas: Callable[[ClusterImage], bool] = lambda image: True
    """Whether this broker has a log directory that is not cordoned, as it is under an image."""
    transactions: TransactionConfig = TransactionConfig()

    def full_brokers(self, image: ClusterImage) -> frozenset[int]:
        """Return the brokers that automatic placement leaves out."""
        return frozenset() if self.takes_replicas(image) else frozenset({self.broker.node_id})


def internal_topic(name: str, rules: TopicRules) -> NewTopic | None:
    """Return how one of the broker's own topics is made, or None for a topic of a client. On one node: one replica."""
    configs = INTERNAL_TOPIC_CONFIGS.get(name)
    if configs is None:
        return None
    partitions, segment_bytes = COORDINATOR_TOPIC_PARTITIONS, COORDINATOR_TOPIC_SEGMENT_BYTES
    if name == CONSUMER_OFFSETS:
        partitions, segment_bytes = rules.groups.offsets_topic_num_partitions, rules.groups.offsets_topic_segment_bytes
    elif name == TRANSACTION_STATE:
        partitions, segment_bytes = rules.transactions.topic_num_partitions, rules.transactions.topic_segment_bytes
    return NewTopic(name, partitions, 1, configs=(*configs, ("segment.bytes", str(segment_bytes))))


def plan_create_topics(
    image: ClusterImage,
    topics: Sequence[NewTopic],
    rules: TopicRules,
    new_topic_id: Callable[[], bytes],
    charge: Charge = uncharged,
) -> Plan[list[CreateTopicResult]]:
    """Plan a creation. One result a topic, in request order; a name that stands twice yields one, refused."""
    counts = Counter(topic.name for topic in topics)
    distinct = {topic.name: topic for topic in topics}
    too_many = _asked_partitions(distinct.values(), rules) > MAX_RECORDS_PER_COMMAND
    collisions = _collision_index(image, topics)
    resolver = rules.resolver(image)
    records: list[object] = []
    results: list[CreateTopicResult] = []
    for name, topic in distinct.items():
        try:
            if counts[name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            if too_many:
                raise PolicyViolation("Excessively large number of partitions per request.")
            _check_name(image, name, collisions)
            configs = checked_configs(topic.configs, resolver)
            created = TopicImage(name, new_topic_id(), tuple(_new_partitions(image, topic, rules)))
            if not charge(len(created.partitions)):
                raise ThrottlingQuotaExceeded
        except MetadataError as refusal:
            results.append(CreateTopicResult(name, error=refusal))
            continue
        if has_collision_chars(name):
            collisions.setdefault(collision_key(name), name)
        records.extend(_creation_records(created, configs))
        results.append(CreateTopicResult(name, created, configs))
    return Plan(records, results)


def plan_delete_topics(
    image: ClusterImage, topics: Sequence[TopicToDelete], charge: Charge = uncharged
) -> Plan[list[DeleteTopicResult]]:
    """Plan a deletion. One result an entry; a name or id that stands twice yields one, refused."""
    names = Counter(topic.name for topic in topics if topic.name is not None)
    ids = Counter(topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID)
    records: list[object] = []
    results: list[DeleteTopicResult] = []
    for entry in dict.fromkeys(topics):
        try:
            topic = _topic_to_delete(image, entry, names, ids)
            if not charge(len(topic.partitions)):
                raise ThrottlingQuotaExceeded
        except MetadataError as refusal:
            results.append(DeleteTopicResult(entry.name, entry.topic_id, refusal))
            continue
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        results.append(DeleteTopicResult(topic.name, topic.topic_id))
    return Plan(records, results)


def _asked_partitions(topics: Iterable[NewTopic], rules: TopicRules) -> int:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        else:
            total += rules.broker.num_partitions if topic.num_partitions == DEFAULT else max(0, topic.num_partitions)
    return total


def _collision_index(image: ClusterImage, topics: Sequence[NewTopic]) -> dict[str, str]:
    """Map collision keys to existing names; empty when no requested name could collide."""
    if not any(has_collision_chars(topic.name) for topic in topics):
        return {}
    return {collision_key(name): name for name in image.topics_by_name if has_collision_chars(name)}


def _check_name(image: ClusterImage, name: str, collisions: Mapping[str, str]) -> None:
    if name == CLUSTER_METADATA:
        raise InvalidRequest(f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
    check_topic_name(name)
    if name in image.topics_by_name:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")
    other = collisions.get(collision_key(name)) if has_collision_chars(name) else None
    if other is not None:
        raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")


def _new_partitions(image: ClusterImage, topic: NewTopic, rules: TopicRules) -> list[PartitionImage]:
    if topic.assignments:
        return _assigned_partitions(image, topic)
    if topic.replication_factor == 0 or topic.replication_factor < DEFAULT:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions == 0 or topic.num_partitions < DEFAULT:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = rules.broker.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = topic.replication_factor
    if factor == DEFAULT:
        factor = rules.broker.default_replication_factor
    partitions = []
    try:
        placed = place_replicas(image.brokers, count, factor, rules.full_brokers(image))
    except InvalidReplicationFactor as refusal:
        raise InvalidReplicationFactor(f"Unable to replicate the partition {factor} time(s): {refusal}") from refusal
    for replicas in placed:
        partition = new_partition(image.brokers, replicas)
        assert partition is not None, "placement uses live brokers only"
        partitions.append(partition)
    return partitions


def _assigned_partitions(image: ClusterImage, topic: NewTopic) -> list[PartitionImage]:
    if topic.replication_factor != DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    partitions: dict[int, PartitionImage] = {}
    size: int | None = None
    for number, replicas in topic.assignments:
        if number in partitions:
            raise InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {number}")
        check_assignment(image.brokers, replicas, size)
        size = len(replicas)
        partition = new_partition(image.brokers, replicas)
        if partition is None:
            raise InvalidReplicaAssignment(
                f"All brokers specified in the manual partition assignment for partition {number} are fenced."
            )
        partitions[number] = partition
    if sorted(partitions) != list(range(len(partitions))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return [partitions[number] for number in range(len(partitions))]


def _creation_records(topic: TopicImage, configs: Mapping[str, str]) -> list[object]:
    """Return the topic, then its configs, then its partitions: a log is opened with its configs already known."""
    return [
        TopicRecord(name=topic.name, topic_id=topic.topic_id),
        *topic_config_records(topic.name, configs),
        *(partition_record(topic.topic_id, number, partition) for number, partition in enumerate(topic.partitions)),
    ]


def _topic_to_delete(image: ClusterImage, entry: TopicToDelete, names: Counter[str], ids: Counter[bytes]) -> TopicImage:
    if entry.name is not None and entry.topic_id != ZERO_UUID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if entry.name is None and entry.topic_id == ZERO_UUID:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if entry.name is not None:
        if names[entry.name] > 1:
            raise InvalidRequest("Duplicate topic name.")
        topic = image.topics_by_name.get(entry.name)
        if topic is None:
            raise UnknownTopicOrPartition("This server does not host this topic-partition.")
        if ids[topic.topic_id]:
            raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")
        return topic
    if ids[entry.topic_id] > 1:
        raise InvalidRequest("Duplicate topic id.")
    topic = image.topics_by_id.get(entry.topic_id)
    if topic is None:
        raise UnknownTopicId("This server does not host this topic ID.")
    if names[topic.name]:
        raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")
    return topic
