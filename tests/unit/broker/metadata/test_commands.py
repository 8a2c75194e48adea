"""What commands plan on an image, without a log."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller.brokers import Registration, broker_record, plan_liveness, register
from broker.metadata.controller.directories import plan_assign_directories, plan_elections_at_start
from broker.metadata.controller.features import (
    bootstrap_records,
    check_metadata_version,
    finalized_features,
    record_version,
    transaction_version,
)
from broker.metadata.controller.partitions import (
    NewPartitions,
    plan_create_partitions,
)
from broker.metadata.controller.producer_ids import plan_allocate_block
from broker.metadata.controller.topics import (
    NewTopic,
    TopicRules,
    TopicToDelete,
    internal_topic,
    plan_create_topics,
    plan_delete_topics,
)
from broker.metadata.errors import (
    InvalidConfiguration,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedMetadataVersion,
)
from broker.metadata.image import ClusterImage, EndpointImage, FeatureRange
from config.resolve import Resolver
from config.views import BrokerConfig, GroupConfig
from protocol.stored.cluster import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from storage.types import TopicPartition

DIR, OTHER_DIR = bytes([9]) * 16, bytes([8]) * 16
_RESOLVER = Resolver({})
RULES = TopicRules(BrokerConfig(num_partitions=3), GroupConfig(offsets_topic_num_partitions=5), lambda image: _RESOLVER)


def ids() -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: bytes([next(numbers)]) * 16


def image_with(*topics: NewTopic, log_dirs: tuple[bytes, ...] = (DIR,)) -> ClusterImage:
    draft = MetadataDraft(ClusterImage("cluster"))
    endpoint = EndpointImage("PLAINTEXT", "127.0.0.1", 9092, 0)
    registration = Registration(1, bytes(16), (endpoint,), None, log_dirs)
    draft.replay(broker_record(register(registration, 0)._replace(fenced=False)), 0)
    image, _ = draft.finish(end_offset=1, epoch=1, timestamp_ms=0)
    return after(image, plan_create_topics(image, topics, RULES, ids()).records)


def after(image: ClusterImage, records: list[Any]) -> ClusterImage:
    draft = MetadataDraft(image)
    for offset, record in enumerate(records, image.end_offset):
        draft.replay(record, offset)
    return draft.finish(end_offset=image.end_offset + len(records), epoch=1, timestamp_ms=0)[0]


def refusal(topic: NewTopic, image: ClusterImage | None = None) -> Exception | None:
    plan = plan_create_topics(image or image_with(), [topic], RULES, ids())
    assert len(plan.result) == 1
    assert bool(plan.records) == (plan.result[0].error is None)
    return plan.result[0].error


def test_a_topic_is_written_before_its_configs_and_those_before_its_partitions() -> None:
    plan = plan_create_topics(image_with(), [NewTopic("t", 2, 1, configs=(("retention.ms", "5"),))], RULES, ids())
    assert [type(record) for record in plan.records] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    topic = plan.result[0].topic
    assert topic is not None
    assert [(p.leader, p.leader_epoch, p.replicas, p.directories) for p in topic.partitions] == [
        (1, 0, (1,), (DIR,))
    ] * 2


def test_defaults_come_from_the_broker() -> None:
    result = plan_create_topics(image_with(), [NewTopic("t")], RULES, ids()).result[0]
    assert result.topic is not None
    assert len(result.topic.partitions) == 3


def test_with_several_log_dirs_the_directory_stays_open() -> None:
    image = image_with(NewTopic("t", 1, 1), log_dirs=(DIR, OTHER_DIR))
    assert image.topics_by_name["t"].partitions[0].directories == (bytes(16),)


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        (NewTopic("__cluster_metadata"), InvalidRequest, "prohibited"),
        (NewTopic(""), InvalidTopic, "empty"),
        (NewTopic("a/b"), InvalidTopic, "ASCII"),
        (NewTopic("a_b", 1, 3), TopicAlreadyExists, "Topic 'a_b' already exists."),
        (NewTopic("a.b", 1, 1), InvalidTopic, "collides with existing topic: a_b"),
        (NewTopic("x", 1, 3), InvalidReplicationFactor, r"because only 1 broker\(s\) are registered"),
        (NewTopic("x", 1, 0), InvalidReplicationFactor, "larger than 0"),
        (NewTopic("x", 0, 1), InvalidPartitions, "non-positive"),
        (NewTopic("x", -5, 1), InvalidPartitions, "non-positive"),
        (NewTopic("x", configs=(("foo", "1"),)), InvalidConfiguration, "Unknown topic config name: foo"),
        (NewTopic("x", configs=(("retention.ms", "abc"),)), InvalidConfiguration, "retention.ms"),
        (NewTopic("x", configs=(("cleanup.policy", "foo"),)), InvalidConfiguration, "cleanup.policy"),
        (NewTopic("x", configs=(("retention.ms", None),)), InvalidConfiguration, "Null value not supported"),
        (NewTopic("x", 10_001, 1), PolicyViolation, "Excessively large"),
        (NewTopic("x", -1, 1, ((0, (1,)),)), InvalidRequest, "replication factor was not set"),
        (NewTopic("x", 1, -1, ((0, (1,)),)), InvalidRequest, "numPartitions was not set"),
        (NewTopic("x", assignments=((0, (1,)), (2, (1,)))), InvalidReplicaAssignment, "consecutive"),
        (NewTopic("x", assignments=((0, (1,)), (0, (1,)))), InvalidReplicaAssignment, "multiple manual"),
        (NewTopic("x", assignments=((0, ()),)), InvalidReplicaAssignment, "empty"),
        (NewTopic("x", assignments=((0, (99,)),)), InvalidReplicaAssignment, "broker 99"),
        (NewTopic("x", assignments=((0, (1, 1)),)), InvalidReplicaAssignment, "more than once"),
    ],
)
def test_a_refused_topic_says_why(topic: NewTopic, error: type[Exception], text: str) -> None:
    found = refusal(topic, image_with(NewTopic("a_b", 1, 1)))
    assert type(found) is error
    with pytest.raises(error, match=text):
        raise found


def test_exactly_ten_thousand_partitions_are_allowed() -> None:
    assert refusal(NewTopic("x", 10_000, 1)) is None


def test_a_name_that_stands_twice_is_refused_once_and_its_neighbours_are_created() -> None:
    plan = plan_create_topics(
        image_with(), [NewTopic("dup", 1, 1), NewTopic("ok", 1, 1), NewTopic("dup")], RULES, ids()
    )
    assert [(r.name, str(r.error)) for r in plan.result] == [("dup", "Duplicate topic name."), ("ok", "None")]
    assert [r.name for r in plan.records if isinstance(r, TopicRecord)] == ["ok"]


def test_two_new_topics_of_one_request_may_not_collide() -> None:
    plan = plan_create_topics(image_with(), [NewTopic("a.b", 1, 1), NewTopic("a_b", 1, 1)], RULES, ids())
    assert [type(r.error) for r in plan.result] == [type(None), InvalidTopic]


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    result = plan_create_topics(image_with(), [NewTopic("t", assignments=((1, (1,)), (0, (1,))))], RULES, ids()).result[
        0
    ]
    assert result.topic is not None
    assert len(result.topic.partitions) == 2


def test_internal_topics_have_their_own_settings() -> None:
    offsets = internal_topic("__consumer_offsets", RULES)
    assert offsets is not None
    assert (offsets.num_partitions, offsets.replication_factor) == (5, 1)
    assert dict(offsets.configs)["cleanup.policy"] == "compact"
    assert internal_topic("t", RULES) is None
    for name in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        topic = internal_topic(name, RULES)
        assert topic is not None
        assert refusal(topic) is None


def test_deleting_by_name_and_by_id() -> None:
    image = image_with(NewTopic("a", 1, 1), NewTopic("b", 1, 1))
    a, b = image.topics_by_name["a"], image.topics_by_name["b"]
    plan = plan_delete_topics(image, [TopicToDelete("a"), TopicToDelete(None, b.topic_id)])
    assert plan.records == [RemoveTopicRecord(topic_id=a.topic_id), RemoveTopicRecord(topic_id=b.topic_id)]
    assert [(r.name, r.topic_id, r.error) for r in plan.result] == [("a", a.topic_id, None), ("b", b.topic_id, None)]


def test_refused_deletions() -> None:
    image = image_with(NewTopic("a", 1, 1))
    a, unknown = image.topics_by_name["a"].topic_id, bytes([77]) * 16

    def errors(*topics: TopicToDelete) -> list[type]:
        plan = plan_delete_topics(image, topics)
        assert not plan.records
        return [type(result.error) for result in plan.result]

    assert errors(TopicToDelete("no")) == [UnknownTopicOrPartition]
    assert errors(TopicToDelete(None, unknown)) == [UnknownTopicId]
    assert errors(TopicToDelete("a", a)) == [InvalidRequest]
    assert errors(TopicToDelete(None)) == [InvalidRequest]
    assert errors(TopicToDelete("a"), TopicToDelete("a")) == [InvalidRequest]
    assert errors(TopicToDelete(None, a), TopicToDelete(None, a)) == [InvalidRequest]
    assert errors(TopicToDelete("a"), TopicToDelete(None, a)) == [InvalidRequest, InvalidRequest]


def test_extending_a_topic_keeps_what_is_there() -> None:
    image = image_with(NewTopic("t", 1, 1))
    plan = plan_create_partitions(image, [NewPartitions("t", 3)])
    assert [record.partition_id for record in plan.records] == [1, 2]
    extended = after(image, plan.records).topics_by_name["t"]
    assert extended.partitions[0] is image.topics_by_name["t"].partitions[0]


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        (NewPartitions("t", 2), InvalidPartitions, r"Topic already has 2 partition\(s\)\."),
        (NewPartitions("t", 1), InvalidPartitions, "would not be an increase"),
        (NewPartitions("no", 3), UnknownTopicOrPartition, "does not host"),
        (NewPartitions("t", 4, ((1,),)), InvalidReplicaAssignment, r"only 1 assignment\(s\)"),
        (NewPartitions("t", 3, ((7,),)), InvalidReplicaAssignment, "broker 7"),
        (NewPartitions("t", 3, ((1, 1),)), InvalidReplicaAssignment, "more than once"),
        (NewPartitions("t", 20_000), PolicyViolation, "large"),
    ],
)
def test_refused_extensions(request_: NewPartitions, error: type[Exception], text: str) -> None:
    plan = plan_create_partitions(image_with(NewTopic("t", 2, 1)), [request_])
    assert not plan.records
    with pytest.raises(error, match=text):
        raise plan.result[0].error or AssertionError


def test_a_topic_extended_twice_in_one_request_is_refused() -> None:
    plan = plan_create_partitions(image_with(NewTopic("t", 1, 1)), [NewPartitions("t", 2), NewPartitions("t", 3)])
    assert [type(r.error) for r in plan.result] == [InvalidRequest]


def test_a_start_elects_the_broker_in_every_partition_once() -> None:
    image = image_with(NewTopic("a", 2, 1), NewTopic("b", 1, 1))
    assert {type(r) for r in plan_elections_at_start(image, 1, {})} == {PartitionChangeRecord}
    elected = after(image, list(plan_elections_at_start(image, 1, {})))
    assert [p.leader_epoch for t in elected.topics_by_name.values() for p in t.partitions] == [1, 1, 1]


def test_a_partition_a_kafka_node_gave_up_when_it_stopped_is_led_again() -> None:
    image = image_with(NewTopic("a", 1, 1))
    topic_id = image.topics_by_name["a"].topic_id
    left = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, leader=-1, isr=[], eligible_leader_replicas=[1], last_known_elr=[1]
    )
    stopped = after(image, [left])
    again = after(stopped, list(plan_elections_at_start(stopped, 1, {}))).topics_by_name["a"].partitions[0]
    assert (again.leader, again.isr, again.eligible_leader_replicas, again.leader_epoch) == (1, (1,), (), 2)


def test_only_directories_that_are_news_are_recorded() -> None:
    image = image_with(NewTopic("t", 2, 1))
    image = replace(image, brokers={1: image.brokers[1]._replace(log_dirs=(DIR, OTHER_DIR))})
    report = {TopicPartition("t", 0): DIR, TopicPartition("t", 1): OTHER_DIR, TopicPartition("gone", 0): DIR}
    plan = plan_assign_directories(image, 1, report)
    assert [(r.partition_id, r.directories) for r in plan.records] == [(1, [OTHER_DIR])]
    changed = after(image, plan.records).topics_by_name["t"].partitions[1]
    assert (changed.directories, changed.leader_epoch) == ((OTHER_DIR,), 0)


def test_blocks_of_producer_ids_follow_each_other() -> None:
    image = image_with()
    first = plan_allocate_block(image, 1)
    second = plan_allocate_block(after(image, first.records), 1)
    assert (first.result.first, second.result.first) == (0, first.result.size)


def test_only_this_broker_stays_alive() -> None:
    image = image_with()
    other = image.brokers[1]._replace(broker_id=2, epoch=9)
    image = replace(image, brokers={1: image.brokers[1]._replace(fenced=True), 2: other})
    assert [(r.broker_id, r.fenced) for r in plan_liveness(image, 1)] == [(1, -1), (2, 1)]


def test_metadata_version_leads_and_nothing_unimplemented_is_finalized() -> None:
    assert [(r.name, r.feature_level) for r in bootstrap_records()] == [
        ("metadata.version", 29),
        ("group.version", 1),
        ("transaction.version", 2),
    ]
    image = ClusterImage(
        "c", features={"metadata.version": 29, "transaction.version": 2, "group.version": 1, "share.version": 1}
    )
    implemented = [("group.version", 1), ("metadata.version", 29), ("transaction.version", 2)]
    assert finalized_features(image) == implemented
    assert finalized_features(replace(image, kraft_version=1)) == sorted([("kraft.version", 1), *implemented])


def test_a_log_that_says_nothing_of_transactions_is_at_level_0() -> None:
    assert transaction_version(ClusterImage("c", features={"metadata.version": 29})) == 0
    assert transaction_version(ClusterImage("c", features={"transaction.version": 1})) == 1
    assert transaction_version(ClusterImage("c", features={"transaction.version": 9})) == 2


def test_a_log_of_an_unknown_metadata_version_is_refused() -> None:
    for level in (7, 29, 30):
        check_metadata_version({"metadata.version": level})
    for level in (6, 31):
        with pytest.raises(UnsupportedMetadataVersion, match=str(level)):
            check_metadata_version({"metadata.version": level})


@pytest.mark.parametrize(
    ("level", "versions"), [(7, (0, 1, 1, None)), (17, (1, 3, 2, None)), (29, (2, 3, 2, None)), (30, (2, 4, 3, None))]
)
def test_records_are_written_in_the_version_of_the_level(level: int, versions: tuple[int | None, ...]) -> None:
    kinds = (PartitionRecord(), RegisterBrokerRecord(), BrokerRegistrationChangeRecord(), TopicRecord())
    assert tuple(record_version(record, level) for record in kinds) == versions


def test_a_registration_carries_the_supported_features() -> None:
    record = broker_record(register(Registration(1, bytes(16), (), "r", (DIR,)), 12))
    assert record.broker_epoch == 12
    assert record.fenced
    assert FeatureRange("metadata.version", 7, 30) in [
        FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in record.features
    ]


CORDONED = RULES._replace(takes_replicas=lambda image: False)
NO_ROOM = "All brokers are currently fenced, or have all their log directories cordoned."


@pytest.mark.parametrize("factor", [-1, 1, 2])
def test_a_broker_without_room_is_left_out_of_new_topics(factor: int) -> None:
    [result] = plan_create_topics(image_with(), [NewTopic("t", 1, factor)], CORDONED, ids()).result
    assert isinstance(result.error, InvalidReplicationFactor)
    assert str(result.error) == f"Unable to replicate the partition {abs(factor)} time(s): {NO_ROOM}"


def test_a_broker_without_room_takes_what_a_client_assigns_to_it() -> None:
    assigned = NewTopic("t", assignments=((0, (1,)),))
    [result] = plan_create_topics(image_with(), [assigned], CORDONED, ids()).result
    assert result.error is None


def test_a_broker_without_room_is_left_out_of_new_partitions_but_those_a_client_assigns_to_it() -> None:
    image = image_with(NewTopic("t", 1, 1), NewTopic("u", 1, 1))
    wanted = [NewPartitions("t", 2), NewPartitions("u", 2, ((1,),))]
    refused, accepted = plan_create_partitions(image, wanted, CORDONED.full_brokers(image)).result
    assert isinstance(refused.error, InvalidReplicationFactor)
    assert str(refused.error) == NO_ROOM
    assert accepted.error is None


def test_a_factor_above_the_number_of_brokers_cannot_be_reached() -> None:
    error = refusal(NewTopic("t", 1, 2))
    assert isinstance(error, InvalidReplicationFactor)
    assert str(error) == (
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
        "only 1 broker(s) are registered or some brokers have all their log directories cordoned."
    )
