from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.api.alter_configs import AlterConfigsApi
from broker.api.configs import ConfigsApi
from broker.metadata.controller.run import Controller
from broker.metadata.controller.topics import NewTopic
from broker.metadata.live_config import LiveConfig
from config.operations import Operation
from config.resolve import Resolver
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.broker.conftest import NODE_ID, Ask, Node

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = Operation


@pytest.fixture
async def controller(node: Node) -> AsyncIterator[Controller]:
    controller = await node.start()
    await controller.create_topics([NewTopic("t", 1, 1), NewTopic("u", 1, 1)])
    yield controller
    await controller.close()


@pytest.fixture
def api(controller: Controller) -> AlterConfigsApi:
    return AlterConfigsApi(controller, NODE_ID)


def single(kind: int, name: str, *changes: tuple[str, str | None, int]) -> Any:
    rows = [
        incremental_alter_configs.AlterableConfig(name=key, value=value, config_operation=operation)
        for key, value, operation in changes
    ]
    return incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)


def whole(kind: int, name: str, *values: tuple[str, str | None]) -> Any:
    rows = [alter_configs.AlterableConfig(name=key, value=value) for key, value in values]
    return alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)


def answers(response: Any) -> list[tuple[int, str, int, str | None]]:
    return [(row.resource_type, row.resource_name, row.error_code, row.error_message) for row in response.responses]


@pytest.mark.parametrize("version", [0, 1])
async def test_single_values_change_and_each_resource_has_its_answer(
    ask: Ask, api: AlterConfigsApi, controller: Controller, version: int
) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            single(TOPIC, "t", ("retention.ms", "abc", SET)),
            single(TOPIC, "u", ("retention.ms", "7", SET), ("cleanup.policy", "compact", APPEND)),
            single(BROKER, "1", ("log.retention.hours", "1", SET)),
            single(TOPIC, "no"),
        ]
    )
    assert answers(await ask(api, request, version)) == [
        (2, "t", 40, "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        (2, "u", 0, None),
        (4, "1", 42, "Cannot update these configs dynamically: [log.retention.hours]"),
        (2, "no", 3, "The topic 'no' does not exist."),
    ]
    assert controller.image.configs == {(TOPIC, "u"): {"retention.ms": "7", "cleanup.policy": "delete,compact"}}


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_all_values_are_replaced(ask: Ask, api: AlterConfigsApi, controller: Controller, version: int) -> None:
    first = whole(TOPIC, "t", ("compression.type", "gzip"), ("flush.ms", "100"))
    await ask(api, AlterConfigsRequest(resources=[first]), version)
    request = AlterConfigsRequest(
        resources=[
            whole(TOPIC, "t", ("compression.type", "gzip")),
            whole(TOPIC, "u", ("flush.ms", None)),
            whole(LOGGER, "1"),
            whole(99, "x"),
        ]
    )
    assert answers(await ask(api, request, version)) == [
        (2, "t", 0, None),
        (2, "u", 42, "Null value not supported for : flush.ms"),
        (8, "1", 42, "Unknown resource type 8"),
        (99, "x", 42, "Unknown resource type 99"),
    ]
    assert controller.image.configs == {(TOPIC, "t"): {"compression.type": "gzip"}}


async def test_validation_alone_changes_nothing(ask: Ask, api: AlterConfigsApi, controller: Controller) -> None:
    good, bad = single(TOPIC, "t", ("flush.ms", "1", SET)), single(TOPIC, "u", ("flush.ms", "x", SET))
    answer = await ask(api, IncrementalAlterConfigsRequest(resources=[good, bad], validate_only=True), 1)
    assert [row.error_code for row in answer.responses] == [0, 40]
    request = AlterConfigsRequest(resources=[whole(BROKER, "", ("log.retention.ms", "1"))], validate_only=True)
    assert [row.error_code for row in (await ask(api, request, 2)).responses] == [0]
    assert controller.image.configs == {}


async def test_the_order_of_the_request_is_kept_around_what_is_refused_here(ask: Ask, api: AlterConfigsApi) -> None:
    resources = [
        single(GROUP, "g", ("consumer.session.timeout.ms", "1", SET)),
        single(TOPIC, "t", ("flush.ms", "1", SET)),
        single(CLIENT_METRICS, "m"),
        single(TOPIC, "u", ("flush.ms", "x", SET)),
    ]
    answer = await ask(api, IncrementalAlterConfigsRequest(resources=resources), 1)
    assert [(row.resource_name, row.error_code) for row in answer.responses] == [
        ("g", 40),
        ("t", 0),
        ("m", 0),
        ("u", 40),
    ]


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("1", ("kafka.server", "DEBUG", SET), 40, "Logger kafka.server does not exist!"),
        ("1", ("kafka.server", "DEBUG", APPEND), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("", ("kafka.server", "DEBUG", SET), 42, "Node id must be an integer, but it is: "),
        ("7", ("kafka.server", "DEBUG", SET), 42, "Unexpected node id. Expected 1, but received 7"),
    ],
)
async def test_no_logger_is_known(
    ask: Ask, api: AlterConfigsApi, name: str, change: tuple[str, str, int], code: int, message: str
) -> None:
    answer = await ask(api, IncrementalAlterConfigsRequest(resources=[single(LOGGER, name, change)]), 1)
    assert answers(answer) == [(LOGGER, name, code, message)]


async def test_more_than_one_command_may_do_is_refused_for_every_resource(
    ask: Ask, api: AlterConfigsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.metadata.controller.configs.MAX_RECORDS_PER_COMMAND", 1)
    resources = [single(TOPIC, name, ("flush.ms", "1", SET)) for name in ("t", "u")]
    answer = await ask(api, IncrementalAlterConfigsRequest(resources=resources), 1)
    assert [row.error_code for row in answer.responses] == [44, 44]


async def test_a_change_is_described_as_soon_as_it_is_answered(
    ask: Ask, api: AlterConfigsApi, controller: Controller
) -> None:
    live = LiveConfig(Resolver({}), NODE_ID)
    describing = ConfigsApi(lambda: controller.image, live.resolver, NODE_ID)

    async def described(kind: int, name: str, key: str) -> list[tuple[str | None, int, list[tuple[str, int]]]]:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
        answer = await ask(describing, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
        return [
            (row.value, row.config_source, [(one.value, one.source) for one in row.synonyms])
            for row in answer.results[0].configs
        ]

    async def alter(kind: int, name: str, *change: Any) -> None:
        answer = await ask(api, IncrementalAlterConfigsRequest(resources=[single(kind, name, change)]), 1)
        assert answers(answer) == [(kind, name, 0, None)]

    await alter(BROKER, "", "message.max.bytes", "3000", SET)
    assert await described(TOPIC, "t", "max.message.bytes") == [("3000", 3, [("3000", 3), ("1048588", 5)])]
    await alter(BROKER, "1", "message.max.bytes", "2000", SET)
    assert await described(TOPIC, "t", "max.message.bytes") == [("2000", 2, [("2000", 2), ("3000", 3), ("1048588", 5)])]
    await alter(TOPIC, "t", "max.message.bytes", "1000", SET)
    assert (await described(TOPIC, "t", "max.message.bytes"))[0][:2] == ("1000", 1)
    assert await described(BROKER, "", "message.max.bytes") == [("3000", 3, [("3000", 3)])]
    await alter(BROKER, "1", "my.own.key", "x", SET)
    assert await described(BROKER, "1", "my.own.key") == [(None, 2, [(None, 2)])]
    await alter(TOPIC, "t", "max.message.bytes", None, DELETE)
    assert (await described(TOPIC, "t", "max.message.bytes"))[0][:2] == ("2000", 2)
