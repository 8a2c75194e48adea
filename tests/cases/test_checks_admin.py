"""Conformance checks 111, 112, 115, 123 and 127. 113 is CONF-02, 114 is RET-03, 126 is among the checks of topics."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.admin import (
    APPEND,
    DEFAULT_SOURCE,
    DELETE,
    SET,
    STATIC_BROKER_SOURCE,
    SUBTRACT,
    TOPIC,
    TOPIC_SOURCE,
    change_configs,
    described,
)
from tests.harness.raw import RawClient, eventually

INVALID_CONFIG, UNSUPPORTED_VERSION, INVALID_REQUEST, SECURITY_DISABLED, NOT_NEEDED = 40, 35, 42, 54, 84
BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 4, 8, 16, 32


def test_check_111_a_topics_own_value_comes_before_the_brokers_and_goes_again(
    client: RawClient, fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic)

    def layers() -> list[tuple[str, str, int]]:
        resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["max.message.bytes"]}
        [result] = client.request("describe_configs", 4, resources=[resource], include_synonyms=True).results
        [row] = result.configs
        return [(layer.name, layer.value, layer.source) for layer in row.synonyms]

    below = layers()
    assert [source for _, _, source in below] in ([DEFAULT_SOURCE], [STATIC_BROKER_SOURCE, DEFAULT_SOURCE])
    assert change_configs(client, topic, [("max.message.bytes", SET, "5000")]).error_code == 0
    own = ("max.message.bytes", "5000", TOPIC_SOURCE)
    eventually(lambda: layers() == [own, *below], what="the topic's own value")
    assert described(client, topic, "max.message.bytes")["max.message.bytes"] == ("5000", TOPIC_SOURCE)
    assert change_configs(client, topic, [("max.message.bytes", DELETE, None)]).error_code == 0
    eventually(lambda: layers() == below, what="the value below it")


def test_check_112_lists_are_appended_to_and_nothing_else(client: RawClient, fresh: Callable[..., str]) -> None:
    topic = fresh()
    client.create_topic(topic)

    def policy() -> str | None:
        return described(client, topic, "cleanup.policy")["cleanup.policy"][0]

    assert change_configs(client, topic, [("cleanup.policy", APPEND, "compact")]).error_code == 0
    eventually(lambda: policy() == "delete,compact", what="both policies")
    assert change_configs(client, topic, [("cleanup.policy", SUBTRACT, "delete")]).error_code == 0
    eventually(lambda: policy() == "compact", what="one policy")
    for changes, code in (
        ([("retention.ms", APPEND, "1000")], INVALID_CONFIG),
        ([("no.such.key", SET, "1")], INVALID_CONFIG),
        ([("retention.ms", SET, "1000"), ("retention.ms", SET, "2000")], INVALID_REQUEST),
    ):
        refused = change_configs(client, topic, changes)
        assert refused.error_code == code, changes
        assert refused.error_message, changes
    row = {"name": "retention.ms", "config_operation": SET, "value": "1000"}
    twice = [{"resource_type": TOPIC, "resource_name": topic, "configs": [row]}] * 2
    answer = client.request("incremental_alter_configs", 1, resources=twice, validate_only=False)
    assert {one.error_code for one in answer.responses} == {INVALID_REQUEST}
    assert described(client, topic, "retention.ms")["retention.ms"][1] != TOPIC_SOURCE


@pytest.mark.parametrize("version", range(3))
def test_check_115_leaders_that_are_preferred_are_not_elected(
    client: RawClient, fresh: Callable[..., str], version: int
) -> None:
    topic = fresh()
    client.create_topic(topic, 2)
    kind = {"election_type": 0} if version >= 1 else {}
    named = [{"topic": topic, "partitions": [0, 1]}]
    answer = client.request("elect_leaders", version, topic_partitions=named, timeout_ms=15_000, **kind)
    [row] = answer.replica_election_results
    assert [(one.partition_id, one.error_code) for one in row.partition_result] == [(0, NOT_NEEDED), (1, NOT_NEEDED)]
    assert all(one.error_message for one in row.partition_result)
    everything = client.request("elect_leaders", version, topic_partitions=None, timeout_ms=15_000, **kind)
    assert [row.partition_result for row in everything.replica_election_results if row.partition_result] == []


def test_check_123_rules_need_an_authorizer(client: RawClient) -> None:
    rule = {
        **{"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a"},
        **{"host": "*", "operation": 3, "permission_type": 3},
    }
    created = client.request("create_acls", 3, creations=[rule])
    assert [row.error_code for row in created.results] == [SECURITY_DISABLED]
    every = {
        **{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1},
        **{"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1},
    }
    deleted = client.request("delete_acls", 3, filters=[every])
    shown = client.request("describe_acls", 3, **every)
    assert [row.error_code for row in deleted.filter_results] == [SECURITY_DISABLED]
    assert shown.error_code == SECURITY_DISABLED
    for message in (created.results[0].error_message, deleted.filter_results[0].error_message, shown.error_message):
        assert "authorizer" in message.lower()


def test_check_127_config_resources_are_listed_by_kind(client: RawClient, fresh: Callable[..., str]) -> None:
    topic, subscription, group = fresh(), fresh("metrics"), fresh("group")
    client.create_topic(topic)
    changed = ("interval.ms", SET, "7000"), ("consumer.session.timeout.ms", SET, "50000")
    assert change_configs(client, subscription, [changed[0]], kind=CLIENT_METRICS).error_code == 0
    assert change_configs(client, group, [changed[1]], kind=GROUP).error_code == 0

    def listed(*kinds: int) -> set[tuple[int, str]]:
        answer = client.request("list_config_resources", 1, resource_types=list(kinds))
        assert answer.error_code == 0
        return {(row.resource_type, row.resource_name) for row in answer.config_resources}

    wanted = {(TOPIC, topic), (CLIENT_METRICS, subscription), (GROUP, group), (BROKER, "1"), (BROKER_LOGGER, "1")}
    eventually(lambda: listed() >= wanted, what="all kinds")
    for kind, name in wanted:
        assert (kind, name) in listed(kind)
        assert {found for found, _ in listed(kind)} == {kind}
    refused = client.request("list_config_resources", 1, resource_types=[99])
    assert (refused.error_code, refused.config_resources) == (UNSUPPORTED_VERSION, [])
