from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.api.configs import ConfigsApi
from broker.metadata.image import ClusterImage, TopicImage
from config.keys import TOPIC_KEYS
from config.resolve import Resolver
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.harness.hosted import broker_image
from tests.unit.broker.conftest import Ask

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
IMAGE = ClusterImage(
    "c",
    topics_by_name={"t": TopicImage("t", bytes(16), ())},
    brokers={1: broker_image(1), 2: broker_image(2)._replace(fenced=True)},
    configs={
        (TOPIC, "t"): {"retention.ms": "1000"},
        (GROUP, "g"): {"consumer.session.timeout.ms": "50000"},
        (CLIENT_METRICS, "m"): {"metrics": "a."},
    },
)


@pytest.fixture
def api() -> ConfigsApi:
    resolver = Resolver({})
    return ConfigsApi(lambda: IMAGE, lambda image: resolver, node_id=1)


async def describe(ask: Ask, api: ConfigsApi, kind: int, name: str, version: int = 4, **options: Any) -> Any:
    keys = options.pop("keys", None)
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    answer = await ask(api, DescribeConfigsRequest(resources=[resource], **options), version)
    result = answer.results[0]
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_a_topic_shows_every_key_and_its_own_override(ask: Ask, api: ConfigsApi, version: int) -> None:
    result = await describe(ask, api, TOPIC, "t", version)
    entries = {entry.name: entry for entry in result.configs}
    assert {name for name, row in TOPIC_KEYS.items() if not row.internal} == set(entries)
    assert (entries["retention.ms"].value, entries["retention.ms"].config_source) == ("1000", 1)
    assert entries["cleanup.policy"].config_source == 5
    assert not entries["retention.ms"].read_only
    assert entries["retention.ms"].synonyms == []
    if version >= 3:
        assert entries["retention.ms"].config_type == 5
        assert entries["retention.ms"].documentation is None


async def test_keys_are_filtered_and_unknown_ones_left_out(ask: Ask, api: ConfigsApi) -> None:
    result = await describe(ask, api, TOPIC, "t", keys=["retention.ms", "cleanup.policy", "no.such"])
    assert sorted(entry.name for entry in result.configs) == ["cleanup.policy", "retention.ms"]
    result = await describe(ask, api, TOPIC, "t", keys=["no.such"])
    assert (result.error_code, result.configs) == (0, [])


async def test_synonyms_and_documentation_when_asked(ask: Ask, api: ConfigsApi) -> None:
    result = await describe(
        ask, api, TOPIC, "t", keys=["retention.ms"], include_synonyms=True, include_documentation=True
    )
    entry = result.configs[0]
    assert (entry.synonyms[0].name, entry.synonyms[0].value, entry.synonyms[0].source) == ("retention.ms", "1000", 1)
    assert entry.documentation


async def test_the_broker_shows_its_own_keys(ask: Ask, api: ConfigsApi) -> None:
    result = await describe(ask, api, BROKER, "1")
    entries = {entry.name: entry for entry in result.configs}
    assert entries["num.partitions"].read_only
    assert all(entry.value is None for entry in entries.values() if entry.is_sensitive)
    assert any(entry.is_sensitive for entry in entries.values())


async def test_the_empty_broker_name_shows_dynamic_defaults_alone(ask: Ask) -> None:
    resolver = Resolver({}, dynamic_default={"log.retention.ms": "7"})
    api = ConfigsApi(lambda: IMAGE, lambda image: resolver, node_id=1)
    result = await describe(ask, api, BROKER, "")
    assert [(e.name, e.value, e.config_source) for e in result.configs] == [("log.retention.ms", "7", 3)]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "no", 3),
        (TOPIC, "a b", 17),
        (BROKER, "999", 42),
        (BROKER, "x", 42),
        (LOGGER, "", 42),
        (LOGGER, "999", 42),
        (GROUP, "", 42),
        (CLIENT_METRICS, "", 42),
        (99, "x", 42),
    ],
)
async def test_refused_resources(ask: Ask, api: ConfigsApi, kind: int, name: str, code: int) -> None:
    result = await describe(ask, api, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


async def test_others_get_their_turn_between_the_resources_of_a_request(ask: Ask, api: ConfigsApi) -> None:
    turns = []

    async def other() -> None:
        for turn in range(9):
            turns.append(turn)
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    resources = [DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)] * 9
    answer = await ask(api, DescribeConfigsRequest(resources=resources), 4)
    assert len(answer.results) == 9
    assert len(turns) >= 8
    await task


async def test_the_text_about_a_foreign_broker_is_the_references(ask: Ask, api: ConfigsApi) -> None:
    result = await describe(ask, api, BROKER, "7")
    assert result.error_message == "Unexpected broker id, expected 1 or empty string, but received 7"


async def test_a_group_shows_what_it_would_inherit(ask: Ask, api: ConfigsApi) -> None:
    result = await describe(ask, api, GROUP, "any")
    assert "consumer.session.timeout.ms" in [entry.name for entry in result.configs]
    metrics = await describe(ask, api, CLIENT_METRICS, "any")
    assert [(entry.name, entry.value, entry.config_source) for entry in metrics.configs] == [
        ("interval.ms", "300000", 5),
        ("match", "", 5),
        ("metrics", "", 5),
    ]
    assert (await describe(ask, api, LOGGER, "1")).error_code == 0


async def test_one_refused_resource_does_not_hold_up_the_others(ask: Ask, api: ConfigsApi) -> None:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in ("no", "t")
    ]
    answer = await ask(api, DescribeConfigsRequest(resources=resources), 4)
    assert [result.error_code for result in answer.results] == [3, 0]


async def test_a_group_and_a_subscription_show_their_own_values(ask: Ask, api: ConfigsApi) -> None:
    [entry] = (
        await describe(ask, api, GROUP, "g", keys=["consumer.session.timeout.ms"], include_synonyms=True)
    ).configs
    assert (entry.value, entry.config_source) == ("50000", 8)
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        (entry.name, "50000", 8),
        (f"group.{entry.name}", "45000", 5),
    ]
    [entry] = (await describe(ask, api, CLIENT_METRICS, "m", keys=["metrics"])).configs
    assert (entry.value, entry.config_source, entry.config_type) == ("a.", 7, 7)


ALL = [("t", TOPIC), ("1", BROKER), ("1", LOGGER), ("m", CLIENT_METRICS), ("g", GROUP)]


@pytest.mark.parametrize(
    ("kinds", "code", "listed"),
    [
        ([], 0, ALL),
        ([GROUP, TOPIC], 0, [("g", GROUP), ("t", TOPIC)]),
        ([BROKER, BROKER], 0, [("1", BROKER)]),
        ([TOPIC, 99], 35, []),
        ([0], 35, []),
        ([-1], 35, []),
    ],
)
async def test_resources_are_listed_by_kind(
    ask: Ask, api: ConfigsApi, kinds: list[int], code: int, listed: list[tuple[str, int]]
) -> None:
    answer = await ask(api, ListConfigResourcesRequest(resource_types=kinds), 1)
    assert answer.error_code == code
    assert [(one.resource_name, one.resource_type) for one in answer.config_resources] == listed


async def test_the_oldest_list_is_that_of_client_metrics(ask: Ask, api: ConfigsApi) -> None:
    answer = await ask(api, ListConfigResourcesRequest(), 0)
    assert [one.resource_name for one in answer.config_resources] == ["m"]
