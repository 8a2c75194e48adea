from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
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


LOGGED = "tests.some.room"
UNKNOWN = "tests.no.room"
SUPPORTED = "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.fixture
def some_logger() -> Iterator[logging.Logger]:
    """Give a logger that nobody else has."""
    found = logging.getLogger(LOGGED)
    yield found
    found.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("1", (UNKNOWN, "DEBUG", SET), 40, f"Logger {UNKNOWN} does not exist!"),
        ("1", (UNKNOWN, None, DELETE), 40, f"Logger {UNKNOWN} does not exist!"),
        ("1", ("kafka.server", "DEBUG", APPEND), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("1", (LOGGED, "DEBUG", 9), 42, "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource"),
        *(
            (
                "1",
                (LOGGED, level, SET),
                40,
                f"Cannot set the log level of {LOGGED} to {level} as it is not a "
                f"supported log level. Valid log levels are {SUPPORTED}",
            )
            for level in ("debug", "LOUD", None)
        ),
        ("1", ("root", None, DELETE), 42, "Removing the log level of the root logger is not allowed"),
        ("", ("kafka.server", "DEBUG", SET), 42, "Node id must be an integer, but it is: "),
        ("7", ("kafka.server", "DEBUG", SET), 42, "Unexpected node id. Expected 1, but received 7"),
    ],
)
async def test_levels_that_loggers_may_not_have_are_refused(
    ask: Ask,
    api: AlterConfigsApi,
    some_logger: logging.Logger,
    name: str,
    change: tuple[str, str | None, int],
    code: int,
    message: str,
) -> None:
    request = IncrementalAlterConfigsRequest(resources=[single(LOGGER, name, (LOGGED, "DEBUG", SET), change)])
    assert answers(await ask(api, request, 1)) == [(LOGGER, name, code, message)]
    assert some_logger.level == logging.NOTSET, "all of a request or nothing"


async def test_levels_of_loggers_are_set_shown_and_taken_back(
    ask: Ask, api: AlterConfigsApi, controller: Controller, some_logger: logging.Logger
) -> None:
    describing = ConfigsApi(lambda: controller.image, LiveConfig(Resolver({}), NODE_ID).resolver, NODE_ID)

    async def shown() -> dict[str, tuple[str | None, int, bool]]:
        resource = DescribeConfigsResource(resource_type=LOGGER, resource_name=str(NODE_ID), configuration_keys=None)
        [result] = (await ask(describing, DescribeConfigsRequest(resources=[resource]), 4)).results
        return {row.name: (row.value, row.config_source, row.read_only) for row in result.configs}

    async def change(*changes: tuple[str, str | None, int], validate_only: bool = False) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=[single(LOGGER, str(NODE_ID), *changes)], validate_only=validate_only
        )
        assert answers(await ask(api, request, 1)) == [(LOGGER, str(NODE_ID), 0, None)]

    before = await shown()
    await change((LOGGED, "DEBUG", SET), validate_only=True)
    assert await shown() == before and before[LOGGED] == before["root"]
    await change(("tests.some", "ERROR", SET))
    assert (await shown())[LOGGED] == ("ERROR", 6, False), "a logger has the level of its package"
    await change((LOGGED, "TRACE", SET))
    assert some_logger.level == 5 and (await shown())[LOGGED] == ("TRACE", 6, False)
    await change((LOGGED, None, DELETE), ("tests.some", None, DELETE))
    assert await shown() == before
    await change(("root", "FATAL", SET))
    try:
        assert (await shown())["root"][0] == (await shown())[LOGGED][0] == "FATAL"
    finally:
        await change(("root", before["root"][0], SET))


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
