"""ElectLeaders over a real controller: which partitions are told about, in every version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.api.elections import ElectionsApi
from broker.metadata.controller.run import Controller
from broker.metadata.controller.topics import NewTopic
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.unit.broker.conftest import Ask, Node


@pytest.fixture
async def controller(node: Node) -> AsyncIterator[Controller]:
    controller = await node.start()
    await controller.create_topics([NewTopic("t", 2, 1)])
    yield controller
    await controller.close()


def rows(response: Any) -> list[tuple[str, list[tuple[int, int, str | None]]]]:
    return [
        (topic.topic, [(one.partition_id, one.error_code, one.error_message) for one in topic.partition_result])
        for topic in response.replica_election_results
    ]


NOT_NEEDED = "Leader election not needed for topic partition."


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_each_partition_has_its_result(ask: Ask, controller: Controller, version: int) -> None:
    asked = [TopicPartitions(topic="t", partitions=[1, 5]), TopicPartitions(topic="u", partitions=[0])]
    response = await ask(ElectionsApi(controller), ElectLeadersRequest(topic_partitions=asked), version)
    assert response.error_code == 0
    assert rows(response) == [
        ("t", [(1, 84, NOT_NEEDED), (5, 3, "No such partition as t-5")]),
        ("u", [(0, 3, "No such topic as u")]),
    ]


@pytest.mark.parametrize("kind", [0, 1])
async def test_of_all_partitions_only_those_that_need_one_are_told(ask: Ask, controller: Controller, kind: int) -> None:
    request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
    response = await ask(ElectionsApi(controller), request, 2)
    assert (response.error_code, rows(response)) == (0, [("t", [])])


async def test_an_unknown_type_is_told_of_the_whole_and_of_each(ask: Ask, controller: Controller) -> None:
    api = ElectionsApi(controller)
    asked = [TopicPartitions(topic="t", partitions=[0, 1])]
    response = await ask(api, ElectLeadersRequest(election_type=2, topic_partitions=asked), 1)
    message = "Unknown election type 2"
    assert (response.error_code, rows(response)) == (42, [("t", [(0, 42, message), (1, 42, message)])])
    response = await ask(api, ElectLeadersRequest(election_type=2, topic_partitions=None), 2)
    assert (response.error_code, rows(response)) == (42, [])
    response = await ask(api, ElectLeadersRequest(election_type=2, topic_partitions=[]), 2)
    assert (response.error_code, rows(response)) == (0, [])


async def test_a_controller_that_is_gone_elects_nobody(ask: Ask, controller: Controller) -> None:
    await controller.close()
    api = ElectionsApi(controller)
    response = await ask(api, ElectLeadersRequest(topic_partitions=None), 2)
    assert response.error_code == 41
    response = await ask(api, ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])]), 2)
    assert [row[1][0][1] for row in rows(response)] == [41]
