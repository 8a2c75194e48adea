"""What administrators change is said in the log, within bounds, and nothing that is to be hidden."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.metadata.apply import MetadataDraft
from broker.metadata.change_log import MAX_LINES, ChangeLog
from broker.metadata.image import ClusterImage, full_delta
from protocol.stored.cluster import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from protocol.uuids import format_uuid

A = bytes([1]) * 16
ID = format_uuid(A)
TOPIC, BROKER = 2, 4
USER = [EntityData(entity_type="client-id", entity_name=None), EntityData(entity_type="user", entity_name="ann")]


class Rig:
    """A log of changes and the image it follows."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.caplog = caplog
        self.image = ClusterImage("c")
        self.log = ChangeLog(self.image)

    def after(self, *records: Any) -> list[str]:
        """Commit a step of these records and return its lines."""
        draft = MetadataDraft(self.image)
        for position, record in enumerate(records, self.image.end_offset):
            draft.replay(record, position)
        self.image, delta = draft.finish(end_offset=position + 1, epoch=1, timestamp_ms=7)
        self.caplog.clear()
        self.log.publish(delta, self.image)
        return [record.getMessage() for record in self.caplog.records]


@pytest.fixture
def rig(caplog: pytest.LogCaptureFixture) -> Rig:
    return Rig(caplog)


def partition(number: int, topic_id: bytes = A) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number, topic_id=topic_id, replicas=[1], isr=[1], leader=1, directories=[bytes(16)]
    )


def config(name: str, value: str | None, *, kind: int = TOPIC, of: str = "t") -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=of, name=name, value=value)


def test_topics_come_grow_and_go(rig: Rig) -> None:
    assert rig.after(TopicRecord(name="t", topic_id=A), partition(0)) == [f"topic created topic=t id={ID} partitions=1"]
    assert rig.after(partition(1), partition(2)) == [f"partitions added topic=t id={ID} partitions=3"]
    assert rig.after(RemoveTopicRecord(topic_id=A)) == [f"topic deleted topic=t id={ID}"]


def test_settings_are_said_with_what_they_are_now(rig: Rig) -> None:
    assert rig.after(config("retention.ms", "5"), config("cleanup.policy", "compact")) == [
        "configs changed topic=t retention.ms=5, cleanup.policy=compact"
    ]
    assert rig.after(config("retention.ms", "5"), config("cleanup.policy", None)) == [
        "configs changed topic=t cleanup.policy (removed)"
    ]
    assert rig.after(config("retention.ms", "5")) == []


def test_values_that_describe_configs_hides_are_hidden(rig: Rig) -> None:
    assert rig.after(
        config("ssl.key.password", "secret", kind=BROKER, of=""),
        config("some.plugin.key", "secret", kind=BROKER, of=""),
    ) == ["configs changed broker=(default) ssl.key.password=[hidden], some.plugin.key=[hidden]"]


def test_the_levels_that_a_new_cluster_begins_with_are_no_change(rig: Rig) -> None:
    assert rig.after(FeatureLevelRecord(name="group.version", feature_level=1)) == []


def test_features_quotas_credentials_and_acls(rig: Rig) -> None:
    rig.after(FeatureLevelRecord(name="group.version", feature_level=1))
    acl = {
        "id": A, "resource_type": 2, "resource_name": "t", "pattern_type": 3, "principal": "User:ann",
        "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    password = {"salt": b"pepper", "stored_key": b"one", "server_key": b"two", "iterations": 4096}
    assert rig.after(
        FeatureLevelRecord(name="group.version", feature_level=0),
        ClientQuotaRecord(entity=USER, key="producer_byte_rate", value=1024.0, remove=False),
        UserScramCredentialRecord(name="ann", mechanism=1, **password),
        AccessControlEntryRecord(**acl),
    ) == [
        "feature changed feature=group.version level=0 before=1",
        "quotas changed client-id=(default) user=ann producer_byte_rate=1024",
        "credential set user=ann mechanism=1",
        f"acl added {next(iter(rig.image.access.acls.values()))}",
    ]
    assert rig.after(
        ClientQuotaRecord(entity=USER, key="producer_byte_rate", value=0.0, remove=True),
        RemoveUserScramCredentialRecord(name="ann", mechanism=1),
        RemoveAccessControlEntryRecord(id=A),
    )[:2] == ["quotas changed client-id=(default) user=ann (removed)", "credential removed user=ann mechanism=1"]


def test_a_step_leaves_so_many_lines_and_the_number_of_the_others(rig: Rig) -> None:
    lines = rig.after(*(config("retention.ms", "5", of=f"t{number}") for number in range(MAX_LINES + 7)))
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "more changes of the cluster count=7"


def test_what_was_there_at_the_start_is_no_change(rig: Rig) -> None:
    rig.after(TopicRecord(name="t", topic_id=A), partition(0), config("retention.ms", "5"))
    rig.caplog.clear()
    ChangeLog(rig.image).publish(full_delta(rig.image), rig.image)
    assert rig.caplog.records == []
