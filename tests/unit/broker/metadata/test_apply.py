from typing import Any

import pytest

from broker.metadata.access import AccessImage
from broker.metadata.apply import MetadataDraft
from broker.metadata.errors import CorruptMetadata
from broker.metadata.image import ClusterImage, Delta
from protocol.stored.cluster import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

A, B = bytes([1]) * 16, bytes([2]) * 16
EMPTY = ClusterImage("cluster")


def replay(base: ClusterImage, *records: Any, offset: int = 0) -> tuple[ClusterImage, Delta]:
    draft = MetadataDraft(base)
    for position, record in enumerate(records, offset):
        draft.replay(record, position)
    return draft.finish(end_offset=offset + len(records), epoch=1, timestamp_ms=7)


def partition(number: int, topic_id: bytes = A, **fields: Any) -> PartitionRecord:
    values = {
        "replicas": [1],
        "isr": [1],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [bytes(16)],
    }
    return PartitionRecord(partition_id=number, topic_id=topic_id, **(values | fields))


def topic(name: str = "t", topic_id: bytes = A, partitions: int = 2) -> list[Any]:
    return [TopicRecord(name=name, topic_id=topic_id), *(partition(p, topic_id) for p in range(partitions))]


def test_a_created_topic_is_found_by_name_and_id_and_reported() -> None:
    image, delta = replay(EMPTY, *topic())
    assert image.topics_by_name["t"] is image.topics_by_id[A]
    assert [p.leader_epoch for p in image.topics_by_name["t"].partitions] == [0, 0]
    assert [t.name for t in delta.created_topics] == ["t"]
    assert [p.topic_partition for p in delta.created_partitions] == [("t", 0), ("t", 1)]
    assert not delta.changed_partitions
    assert EMPTY.topics_by_name == {}


def test_an_image_is_not_changed_by_later_records() -> None:
    before, _ = replay(EMPTY, *topic(), ConfigRecord(resource_type=2, resource_name="t", name="k", value="1"))
    after, _ = replay(
        before,
        PartitionChangeRecord(partition_id=0, topic_id=A, leader=1),
        ConfigRecord(resource_type=2, resource_name="t", name="k", value="2"),
    )
    assert before.topics_by_name["t"].partitions[0].leader_epoch == 0
    assert before.topic_config("t") == {"k": "1"}
    assert after.topics_by_name["t"].partitions[0].leader_epoch == 1
    assert after.topic_config("t") == {"k": "2"}


def test_what_no_record_touches_is_shared_between_images() -> None:
    before, _ = replay(EMPTY, *topic())
    after, delta = replay(before, NoOpRecord())
    assert after.topics_by_name is before.topics_by_name
    assert after.configs is before.configs
    assert delta == Delta()


def test_naming_a_leader_raises_the_leader_epoch_and_any_change_the_partition_epoch() -> None:
    base, _ = replay(EMPTY, *topic())
    image, delta = replay(
        base,
        PartitionChangeRecord(partition_id=0, topic_id=A, leader=1),
        PartitionChangeRecord(partition_id=1, topic_id=A, directories=[B]),
    )
    first, second = image.topics_by_name["t"].partitions
    assert (first.leader, first.leader_epoch, first.partition_epoch) == (1, 1, 1)
    assert (second.leader_epoch, second.partition_epoch, second.directories) == (0, 1, (B,))
    assert [p.partition for p in delta.changed_partitions] == [0, 1]


def test_an_added_partition_is_created_not_changed() -> None:
    base, _ = replay(EMPTY, *topic())
    _, delta = replay(base, partition(2))
    assert [p.partition for p in delta.created_partitions] == [2]
    assert not delta.created_topics
    assert not delta.changed_partitions


def test_removing_a_topic_takes_its_configs_along() -> None:
    base, _ = replay(EMPTY, *topic(), ConfigRecord(resource_type=2, resource_name="t", name="k", value="1"))
    image, delta = replay(base, RemoveTopicRecord(topic_id=A))
    assert image.topics_by_name == {}
    assert image.topics_by_id == {}
    assert image.configs == {}
    assert [p.topic_partition for p in delta.deleted_partitions] == [("t", 0), ("t", 1)]
    assert delta.changed_configs == {(2, "t")}


def test_a_name_may_go_and_come_again_in_one_delta() -> None:
    base, _ = replay(EMPTY, *topic(topic_id=A))
    image, delta = replay(base, RemoveTopicRecord(topic_id=A), *topic(topic_id=B, partitions=1))
    assert image.topics_by_name["t"].topic_id == B
    assert list(image.topics_by_id) == [B]
    assert [t.topic_id for t in delta.deleted_topics] == [A]
    assert [t.topic_id for t in delta.created_topics] == [B]


def test_a_topic_that_comes_and_goes_leaves_no_trace() -> None:
    image, delta = replay(EMPTY, *topic(), RemoveTopicRecord(topic_id=A))
    assert image.topics_by_name == {}
    assert not delta.created_topics
    assert not delta.deleted_topics


def test_config_features_and_producer_ids() -> None:
    image, delta = replay(
        EMPTY,
        ConfigRecord(resource_type=4, resource_name="", name="k", value="1"),
        FeatureLevelRecord(name="metadata.version", feature_level=29),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ProducerIdsRecord(next_producer_id=1000),
    )
    assert image.configs == {(4, ""): {"k": "1"}}
    assert image.features == {"metadata.version": 29}
    assert image.features_epoch == 3
    assert image.next_producer_id == 1000
    assert delta.features_changed
    image, _ = replay(image, ConfigRecord(resource_type=4, resource_name="", name="k", value=None))
    assert image.configs == {}


def test_a_broker_registers_and_is_unfenced() -> None:
    image, delta = replay(
        EMPTY,
        RegisterBrokerRecord(broker_id=1, broker_epoch=0, rack="r", log_dirs=[A]),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1),
    )
    assert not image.brokers[1].fenced
    assert image.brokers[1].log_dirs == (A,)
    assert [broker.broker_id for broker in image.active_brokers()] == [1]
    assert delta.brokers_changed
    with pytest.raises(CorruptMetadata, match="unknown epoch"):
        replay(image, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1))


def test_cordoned_directories_are_those_told_last() -> None:
    image, _ = replay(EMPTY, RegisterBrokerRecord(broker_id=1, broker_epoch=0, log_dirs=[A]))
    assert image.brokers[1].cordoned_log_dirs is None
    for told, known in (([A], (A,)), (None, (A,)), ([], ())):
        change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, cordoned_log_dirs=told)
        image, _ = replay(image, change)
        assert image.brokers[1].cordoned_log_dirs == known
    assert image.brokers[1].log_dirs == (A,)
    image, _ = replay(image, RegisterBrokerRecord(broker_id=1, broker_epoch=8, log_dirs=[A]))
    assert image.brokers[1].cordoned_log_dirs is None, "a broker that registers anew tells anew"


def test_a_transaction_counts_when_it_ends() -> None:
    draft = MetadataDraft(EMPTY)
    draft.replay(BeginTransactionRecord(), 3)
    for offset, record in enumerate(topic(), 4):
        draft.replay(record, offset)
    assert draft.transaction_start_offset == 3
    unfinished, _ = draft.finish(end_offset=7, epoch=1, timestamp_ms=0)
    assert unfinished.topics_by_name == {}
    image, _ = replay(EMPTY, BeginTransactionRecord(), *topic(), EndTransactionRecord())
    assert list(image.topics_by_name) == ["t"]
    image, _ = replay(EMPTY, BeginTransactionRecord(), *topic(), AbortTransactionRecord(), NoOpRecord())
    assert image.topics_by_name == {}


def test_clearing_eligible_leaders() -> None:
    base, _ = replay(
        EMPTY, TopicRecord(name="t", topic_id=A), partition(0, eligible_leader_replicas=[1], last_known_elr=[1])
    )
    image, _ = replay(base, ClearElrRecord(topic_name="other"))
    assert image.topics_by_name["t"].partitions[0].eligible_leader_replicas == (1,)
    image, _ = replay(base, ClearElrRecord(topic_name=""))
    assert image.topics_by_name["t"].partitions[0].eligible_leader_replicas == ()
    assert image.topics_by_name["t"].partitions[0].last_known_elr == ()


def test_kinds_without_a_rule_of_their_own_are_kept_until_removed() -> None:
    token, controller = DelegationTokenRecord(token_id="t", owner="User:x"), RegisterControllerRecord(controller_id=1)
    image, _ = replay(EMPTY, token, controller)
    assert list(image.retained.values()) == [token, controller]
    image, _ = replay(image, RemoveDelegationTokenRecord(token_id="t"))
    assert list(image.retained.values()) == [controller]


def test_acls_quotas_and_credentials_come_and_go() -> None:
    entity = [EntityData(entity_type="user", entity_name=None), EntityData(entity_type="client-id", entity_name="c")]
    image, _ = replay(
        EMPTY,
        AccessControlEntryRecord(id=A, resource_name="t", principal="User:x"),
        ClientQuotaRecord(entity=entity, key="k", value=1.0),
        ClientQuotaRecord(entity=entity[::-1], key="l", value=2.0),
        UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", iterations=4096),
    )
    assert [acl.principal for acl in image.access.acls.values()] == ["User:x"]
    assert image.access.quotas == {(("client-id", "c"), ("user", None)): {"k": 1.0, "l": 2.0}}
    assert image.access.credentials["u", 1].iterations == 4096
    after, _ = replay(image, ClientQuotaRecord(entity=entity, key="k", remove=True))
    assert after.access.quotas == {(("client-id", "c"), ("user", None)): {"l": 2.0}}
    assert after.access.acls is image.access.acls
    after, _ = replay(
        after,
        RemoveAccessControlEntryRecord(id=A),
        ClientQuotaRecord(entity=entity, key="l", remove=True),
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
    )
    assert after.access == AccessImage()
    untouched, _ = replay(image, TopicRecord(name="t", topic_id=A), partition(0))
    assert untouched.access is image.access


@pytest.mark.parametrize(
    "records",
    [
        [partition(0)],
        [TopicRecord(name="t", topic_id=A), partition(1)],
        [*topic(), PartitionChangeRecord(partition_id=2, topic_id=A)],
        [*topic(), TopicRecord(name="t", topic_id=B)],
        [RemoveTopicRecord(topic_id=A)],
        [EndTransactionRecord()],
        [BeginTransactionRecord(), BeginTransactionRecord()],
    ],
)
def test_records_that_contradict_each_other_are_refused(records: list[Any]) -> None:
    with pytest.raises(CorruptMetadata):
        replay(EMPTY, *records)
