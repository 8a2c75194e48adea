"""Groups, brokers and partitions under the names of kafka_exporter, as they are and as they vanish."""

from __future__ import annotations

import re

from prometheus_client.exposition import generate_latest

from tests.harness.exported import ExportedParts
from tests.harness.hosted import NOW_MS


def test_groups_show_what_the_latest_look_came_to(exported: ExportedParts) -> None:
    group, topic = {"consumergroup": "g"}, {"consumergroup": "g", "topic": "t"}
    partition = {**topic, "partition": "0"}
    assert exported.value("kafka_consumergroup_current_offset", **partition) == 11
    assert exported.value("kafka_consumergroup_current_offset_sum", **topic) == 11
    assert exported.value("kafka_consumergroup_lag", **partition) == 5
    assert exported.value("kafka_consumergroup_lag_sum", **topic) == 5
    assert exported.value("kafka_consumergroup_members", **group) == 2
    assert exported.value("odradek_consumer_group_lag_seconds", **partition) == 0.5
    assert exported.value("odradek_consumer_group_max_lag_seconds", **group) == 0.5
    assert exported.value("odradek_consumer_group_max_lag", **group) == 5
    assert exported.value("odradek_consumer_group_state", **group, type="classic", state="Stable") == 1
    assert exported.value("odradek_consumer_group_epoch", **group) == 7
    assert exported.value("odradek_consumer_group_last_commit_timestamp_seconds", **group) == NOW_MS / 1000
    assert exported.value("odradek_consumer_group_series_left_out", of="partitions") == 3
    assert exported.value("odradek_log_oldest_timestamp_seconds", topic="t", partition="0") == NOW_MS / 1000


def test_brokers_and_partitions_are_shown_as_a_client_sees_them(exported: ExportedParts) -> None:
    assert exported.value("kafka_brokers") == 2
    assert exported.value("kafka_broker_info", id="1", address="host1:9001") == 1
    assert exported.value("kafka_topic_partitions", topic="t") == 2
    of_first = {"topic": "t", "partition": "0"}
    expected = {"current_offset": 2, "oldest_offset": 1, "leader": 1, "replicas": 1, "in_sync_replica": 1}
    expected |= {"leader_is_preferred": 1, "under_replicated_partition": 0}
    for name, value in expected.items():
        assert exported.value(f"kafka_topic_partition_{name}", **of_first) == value, name


def test_a_partition_that_nobody_leads_shows_its_replicas_but_no_leader_and_no_offsets(exported: ExportedParts) -> None:
    exported.hosted.lead("t", -1, 1, isr=())
    exported.coordinators.image = exported.hosted.current
    of_first = {"topic": "t", "partition": "0"}
    for name in ("leader", "current_offset", "oldest_offset"):
        assert exported.value(f"kafka_topic_partition_{name}", **of_first) is None, name
    expected = {"replicas": 1, "in_sync_replica": 0, "leader_is_preferred": 0, "under_replicated_partition": 1}
    for name, value in expected.items():
        assert exported.value(f"kafka_topic_partition_{name}", **of_first) == value, name


def test_the_series_of_a_deleted_topic_vanish(exported: ExportedParts) -> None:
    exported.hosted.delete("t")
    exported.coordinators.image = exported.hosted.current
    text = generate_latest(exported.registry).decode()
    assert 'kafka_topic_partition_replicas{partition="0",topic="t"}' not in text
    assert not re.search(r'^kafka_topic_.*topic="t"', text, re.MULTILINE)
