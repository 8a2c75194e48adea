"""AlterPartitionReassignments and ListPartitionReassignments over a real controller."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.api.reassignments import ReassignmentsApi
from broker.metadata.controller.run import Controller
from broker.metadata.controller.topics import NewTopic
from broker.metadata.image import ClusterImage, PartitionImage, TopicImage
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.broker.conftest import Ask, Node


@pytest.fixture
async def controller(node: Node) -> AsyncIterator[Controller]:
    controller = await node.start()
    await controller.create_topics([NewTopic("t", 2, 1)])
    yield controller
    await controller.close()


def asked(name: str, *targets: tuple[int, list[int] | None]) -> ReassignableTopic:
    return ReassignableTopic(
        name=name, partitions=[ReassignablePartition(partition_index=at, replicas=replicas) for at, replicas in targets]
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_each_partition_has_its_result_in_request_order(ask: Ask, controller: Controller, version: int) -> None:
    api = ReassignmentsApi(controller, lambda: controller.image)
    topics = [asked("t", (1, [1]), (0, None), (7, [1]), (0, [])), asked("none", (0, [1])), asked("t", (0, [2]))]
    response = await ask(api, AlterPartitionReassignmentsRequest(topics=topics), version)
    assert (response.error_code, response.error_message) == (0, None)
    assert [
        (topic.name, [(one.partition_index, one.error_code, one.error_message is None) for one in topic.partitions])
        for topic in response.responses
    ] == [
        ("t", [(1, 0, True), (0, 85, True), (7, 3, False), (0, 39, False)]),
        ("none", [(0, 3, False)]),
        ("t", [(0, 39, False)]),
    ]


async def test_the_answer_repeats_whether_the_factor_may_change(ask: Ask, controller: Controller) -> None:
    api = ReassignmentsApi(controller, lambda: controller.image)
    for may in (True, False):
        request = AlterPartitionReassignmentsRequest(topics=[asked("t", (0, [1]))], allow_replication_factor_change=may)
        assert (await ask(api, request, 1)).allow_replication_factor_change is may


async def test_nothing_asked_is_answered_as_the_reference_does(ask: Ask, controller: Controller) -> None:
    api = ReassignmentsApi(controller, lambda: controller.image)
    response = await ask(api, AlterPartitionReassignmentsRequest(topics=[]), 1)
    assert (response.error_code, response.error_message, response.responses) == (0, "", [])


async def test_a_controller_that_is_gone_fails_the_whole_request(ask: Ask, controller: Controller) -> None:
    api = ReassignmentsApi(controller, lambda: controller.image)
    await controller.close()
    response = await ask(api, AlterPartitionReassignmentsRequest(topics=[asked("t", (0, [1]))]), 1)
    assert (response.error_code, response.responses) == (41, [])


async def test_what_is_under_way_is_listed_with_its_replicas(ask: Ask, controller: Controller) -> None:
    api = ReassignmentsApi(controller, lambda: controller.image)
    topics = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])]
    for wanted in (None, [], topics):
        response = await ask(api, ListPartitionReassignmentsRequest(topics=wanted), 0)
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])
    still, moving = (
        PartitionImage(1, 0, 0, (1,), (1,), (bytes(16),)),
        PartitionImage(1, 0, 0, (2, 1), (1,), (bytes(16),) * 2, removing_replicas=(1,), adding_replicas=(2,)),
    )
    image = ClusterImage("c", topics_by_name={"t": TopicImage("t", bytes(16), (still, moving))})
    api = ReassignmentsApi(controller, lambda: image)
    for wanted in (None, topics):
        [topic] = (await ask(api, ListPartitionReassignmentsRequest(topics=wanted), 0)).topics
        [one] = topic.partitions
        assert (topic.name, one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas) == (
            *("t", 1, [2, 1]),
            *([2], [1]),
        )
