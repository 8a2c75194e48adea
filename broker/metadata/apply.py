"""Records → next image and delta: replays committed metadata records on top of an image.

A MetadataDraft starts as an empty layer over a base image, takes records in log order and is finished once. It copies
only the mappings that records touch. Records between BeginTransaction and EndTransaction are held back until the end
record; an aborted transaction leaves nothing.

Source: MetadataDelta and its parts; PartitionRegistration.merge for the epoch rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from broker.metadata.access import AccessDraft
from broker.metadata.errors import CorruptMetadata
from broker.metadata.image import (
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    Delta,
    EndpointImage,
    FeatureRange,
    PartitionDelta,
    PartitionImage,
    RetainedKey,
    TopicImage,
    partitions_of,
)
from protocol.stored.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)

NO_LEADER_CHANGE = -2

Record = object
"""Any message of `protocol.stored.cluster`."""


class _TopicDraft:
    """A topic while records change it."""

    __slots__ = ("base", "changed", "created", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, base: TopicImage | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.base = base
        self.partitions: list[PartitionImage] = list(base.partitions) if base is not None else []
        self.created: set[int] = set()
        self.changed: set[int] = set()


class MetadataDraft:
    """The next image in the making. Not reusable after `finish`."""

    def __init__(self, base: ClusterImage) -> None:
        self._base = base
        self._topics: dict[bytes, _TopicDraft] = {}
        self._ids: dict[str, bytes | None] = {}
        self._deleted: dict[bytes, TopicImage] = {}
        self._brokers: dict[int, BrokerImage] | None = None
        self._features: dict[str, int] | None = None
        self._features_epoch = base.features_epoch
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._access = AccessDraft(base.access)
        self._retained: dict[RetainedKey, object] | None = None
        self._next_producer_id = base.next_producer_id
        self._transaction: list[tuple[Record, int]] | None = None
        self.transaction_start_offset = -1

    def replay(self, record: Record, offset: int) -> None:
        """Apply one record that stands at `offset`. Raises CorruptMetadata when it contradicts what came before."""
        kind = type(record)
        if kind is BeginTransactionRecord:
            if self._transaction is not None:
                raise CorruptMetadata(f"a metadata transaction begins inside another one at offset {offset}")
            self._transaction = []
            self.transaction_start_offset = offset
        elif kind is EndTransactionRecord:
            for held, held_offset in self._close_transaction(offset):
                self._dispatch(held, held_offset)
        elif kind is AbortTransactionRecord:
            # The transaction may have begun below the base image, which never contains an unfinished one.
            self._transaction, self.transaction_start_offset = None, -1
        elif self._transaction is not None:
            self._transaction.append((record, offset))
        else:
            self._dispatch(record, offset)

    def finish(self, *, end_offset: int, epoch: int, timestamp_ms: int) -> tuple[ClusterImage, Delta]:
        """Return the image at `end_offset` and what differs from the base image."""
        base = self._base
        topics_by_name, topics_by_id, delta = self._finish_topics()
        image = replace(
            base,
            topics_by_name=topics_by_name,
            topics_by_id=topics_by_id,
            brokers=base.brokers if self._brokers is None else self._brokers,
            features=base.features if self._features is None else self._features,
            configs=self._finish_configs(),
            next_producer_id=self._next_producer_id,
            access=self._access.finish(),
            retained=base.retained if self._retained is None else self._retained,
            end_offset=end_offset,
            epoch=epoch,
            last_timestamp_ms=timestamp_ms,
            features_epoch=self._features_epoch,
        )
        return image, delta._replace(
            changed_configs=frozenset(self._configs),
            brokers_changed=self._brokers is not None,
            features_changed=self._features is not None,
        )

    def _finish_topics(self) -> tuple[Mapping[str, TopicImage], Mapping[bytes, TopicImage], Delta]:
        if not self._topics and not self._deleted:
            return self._base.topics_by_name, self._base.topics_by_id, Delta()
        by_name, by_id = dict(self._base.topics_by_name), dict(self._base.topics_by_id)
        for topic in self._deleted.values():
            by_name.pop(topic.name, None)
            by_id.pop(topic.topic_id, None)
        created_topics: list[TopicImage] = []
        created: list[PartitionDelta] = []
        changed: list[PartitionDelta] = []
        for draft in self._topics.values():
            topic = TopicImage(draft.name, draft.topic_id, tuple(draft.partitions))
            by_name[topic.name] = topic
            by_id[topic.topic_id] = topic
            if draft.base is None:
                created_topics.append(topic)
            created.extend(PartitionDelta(topic, p, topic.partitions[p]) for p in sorted(draft.created))
            changed.extend(PartitionDelta(topic, p, topic.partitions[p]) for p in sorted(draft.changed - draft.created))
        deleted = tuple(self._deleted.values())
        return (
            by_name,
            by_id,
            Delta(
                deleted_topics=deleted,
                created_topics=tuple(created_topics),
                deleted_partitions=tuple(p for topic in deleted for p in partitions_of(topic)),
                created_partitions=tuple(created),
                changed_partitions=tuple(changed),
            ),
        )

    def _finish_configs(self) -> Mapping[ConfigResource, Mapping[str, str]]:
        if not self._configs:
            return self._base.configs
        configs = dict(self._base.configs)
        for resource, values in self._configs.items():
            if values:
                configs[resource] = values
            else:
                configs.pop(resource, None)
        return configs

    def _close_transaction(self, offset: int) -> list[tuple[Record, int]]:
        if self._transaction is None:
            raise CorruptMetadata(f"a metadata transaction ends at offset {offset} that never began")
        held, self._transaction = self._transaction, None
        self.transaction_start_offset = -1
        return held

    def _dispatch(self, record: Record, offset: int) -> None:
        match record:
            case PartitionChangeRecord():
                self._partition_change(record, offset)
            case PartitionRecord():
                self._partition(record, offset)
            case TopicRecord():
                self._topic(record, offset)
            case ConfigRecord():
                self._config(record)
            case RemoveTopicRecord():
                self._remove_topic(record, offset)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case FeatureLevelRecord():
                self._feature_level(record, offset)
            case RegisterBrokerRecord():
                self._register_broker(record)
            case BrokerRegistrationChangeRecord():
                self._registration_change(record, offset)
            case FenceBrokerRecord():
                self._set_fenced(record.id, record.epoch, offset, fenced=True)
            case UnfenceBrokerRecord():
                self._set_fenced(record.id, record.epoch, offset, fenced=False)
            case UnregisterBrokerRecord():
                self._known_broker(record.broker_id, record.broker_epoch, offset)
                del self._editable_brokers()[record.broker_id]
            case ClearElrRecord():
                self._clear_elr(record, offset)
            case NoOpRecord() | ZkMigrationStateRecord():
                pass
            case _:
                if not self._access.replay(record):
                    self._keep(record)

    # Topics and partitions.

    def _draft(self, topic_id: bytes, record: Record, offset: int) -> _TopicDraft:
        draft = self._topics.get(topic_id)
        if draft is None:
            base = self._base.topics_by_id.get(topic_id)
            if base is None or topic_id in self._deleted:
                raise CorruptMetadata(f"{type(record).__name__} at offset {offset} names an unknown topic id")
            draft = self._topics[topic_id] = _TopicDraft(base.name, topic_id, base)
        return draft

    def _topic(self, record: TopicRecord, offset: int) -> None:
        current = self._ids.get(record.name, b"")
        if current == b"":
            base = self._base.topics_by_name.get(record.name)
            current = None if base is None else base.topic_id
        if current is not None and current != record.topic_id:
            raise CorruptMetadata(f"topic '{record.name}' is created again at offset {offset} without a removal")
        self._ids[record.name] = record.topic_id
        if current is None:
            self._topics[record.topic_id] = _TopicDraft(record.name, record.topic_id, None)

    def _partition(self, record: PartitionRecord, offset: int) -> None:
        draft = self._draft(record.topic_id, record, offset)
        partition = PartitionImage(
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            directories=tuple(record.directories) or (bytes(16),) * len(record.replicas),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )
        number = record.partition_id
        if number == len(draft.partitions):
            draft.partitions.append(partition)
            draft.created.add(number)
        elif 0 <= number < len(draft.partitions):
            draft.partitions[number] = partition
            draft.changed.add(number)
        else:
            raise CorruptMetadata(f"partition {number} of '{draft.name}' at offset {offset} leaves a gap")

    def _partition_change(self, record: PartitionChangeRecord, offset: int) -> None:
        draft = self._draft(record.topic_id, record, offset)
        number = record.partition_id
        if not 0 <= number < len(draft.partitions):
            raise CorruptMetadata(f"change of unknown partition {number} of '{draft.name}' at offset {offset}")
        draft.partitions[number] = merge_change(draft.partitions[number], record)
        draft.changed.add(number)

    def _clear_elr(self, record: ClearElrRecord, offset: int) -> None:
        """Forget eligible leaders of one topic, or of all when the record names none."""
        for topic_id in [*self._topics, *(id for id in self._base.topics_by_id if id not in self._deleted)]:
            draft = self._draft(topic_id, record, offset)
            if record.topic_name not in ("", draft.name):
                continue
            for number, partition in enumerate(draft.partitions):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    draft.partitions[number] = partition._replace(eligible_leader_replicas=(), last_known_elr=())
                    draft.changed.add(number)

    def _remove_topic(self, record: RemoveTopicRecord, offset: int) -> None:
        draft = self._draft(record.topic_id, record, offset)
        del self._topics[record.topic_id]
        if draft.base is not None:
            self._deleted[record.topic_id] = draft.base
        self._ids[draft.name] = None
        resource = (TOPIC_RESOURCE, draft.name)
        if resource in self._base.configs or resource in self._configs:
            self._configs[resource] = {}

    # Configs and features.

    def _config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self._base.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _feature_level(self, record: FeatureLevelRecord, offset: int) -> None:
        if self._features is None:
            self._features = dict(self._base.features)
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level
        self._features_epoch = offset

    # Brokers.

    def _editable_brokers(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self._base.brokers)
        return self._brokers

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._editable_brokers()[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(EndpointImage(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=tuple(
                FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in record.features
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def _registration_change(self, record: BrokerRegistrationChangeRecord, offset: int) -> None:
        broker = self._known_broker(record.broker_id, record.broker_epoch, offset)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(log_dirs=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_log_dirs=tuple(record.cordoned_log_dirs))
        self._editable_brokers()[record.broker_id] = broker

    def _set_fenced(self, broker_id: int, epoch: int, offset: int, *, fenced: bool) -> None:
        broker = self._known_broker(broker_id, epoch, offset)
        self._editable_brokers()[broker_id] = broker._replace(fenced=fenced)

    def _known_broker(self, broker_id: int, epoch: int, offset: int) -> BrokerImage:
        broker = self._editable_brokers().get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise CorruptMetadata(f"record at offset {offset} names broker {broker_id} at unknown epoch {epoch}")
        return broker

    # Kinds that are only kept.

    def _keep(self, record: Record) -> None:
        identity = retained_identity(record)
        if self._retained is None:
            self._retained = dict(self._base.retained)
        if isinstance(record, RemoveDelegationTokenRecord):
            self._retained.pop(identity, None)
        else:
            self._retained[identity] = record


def merge_change(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Return a partition after a change record; naming a leader, even the same one, begins a new leader epoch."""
    elects = record.leader != NO_LEADER_CHANGE
    return PartitionImage(
        leader=record.leader if elects else partition.leader,
        leader_epoch=partition.leader_epoch + 1 if elects else partition.leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
        replicas=_changed(record.replicas, partition.replicas),
        isr=_changed(record.isr, partition.isr),
        directories=partition.directories if record.directories is None else tuple(record.directories),
        removing_replicas=_changed(record.removing_replicas, partition.removing_replicas),
        adding_replicas=_changed(record.adding_replicas, partition.adding_replicas),
        eligible_leader_replicas=_changed(record.eligible_leader_replicas, partition.eligible_leader_replicas),
        last_known_elr=_changed(record.last_known_elr, partition.last_known_elr),
        leader_recovery_state=partition.leader_recovery_state
        if record.leader_recovery_state < 0
        else record.leader_recovery_state,
    )


def _changed(new: Iterable[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def retained_identity(record: Record) -> RetainedKey:
    """Return what tells two kept records of one kind apart; a removal record has the identity of what it removes."""
    match record:
        case DelegationTokenRecord() | RemoveDelegationTokenRecord():
            return ("token", record.token_id)
        case RegisterControllerRecord():
            return ("controller", str(record.controller_id))
    raise CorruptMetadata(f"no rule to replay {type(record).__name__}")
