"""DescribeQuorum, UpdateFeatures and UnregisterBroker over a real controller."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.api.cluster_admin import ClusterAdminApi
from broker.metadata.controller.run import Controller
from protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.conftest import DIRECTORY_ID, NODE_ID, Ask, Node

NOW_MS = 1_700_000_000_000


@pytest.fixture
async def controller(node: Node) -> AsyncIterator[Controller]:
    controller = await node.start()
    yield controller
    await controller.close()


@pytest.fixture
def api(controller: Controller) -> ClusterAdminApi:
    return ClusterAdminApi(controller, lambda: NOW_MS)


def asked(*partitions: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            RequestTopicData(
                topic_name=name, partitions=[RequestPartitionData(partition_index=number) for number in numbers]
            )
            for name, numbers in partitions
        ]
    )


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_quorum_is_this_node_alone(
    ask: Ask, api: ClusterAdminApi, controller: Controller, version: int
) -> None:
    response = await ask(api, asked(("__cluster_metadata", [0])), version)
    [topic] = response.topics
    [partition] = topic.partitions
    end = controller.image.end_offset
    assert (response.error_code, partition.error_code, partition.leader_id, partition.observers) == (0, 0, NODE_ID, [])
    assert (partition.leader_epoch, partition.high_watermark) == (controller.epoch, end)
    [voter] = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (NODE_ID, end)
    if version >= 1:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == NOW_MS
    if version >= 2:
        assert voter.replica_directory_id == DIRECTORY_ID
        [node] = response.nodes
        assert (node.node_id, [one.name for one in node.listeners]) == (NODE_ID, ["CONTROLLER"])


@pytest.mark.parametrize(
    "partitions",
    [
        [("__cluster_metadata", [1])],
        [("t", [0])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0]), ("t", [0])],
        [("__cluster_metadata", [0]), ("t", [])],
    ],
)
async def test_nothing_else_is_described(
    ask: Ask, api: ClusterAdminApi, partitions: list[tuple[str, list[int]]]
) -> None:
    response = await ask(api, asked(*partitions), 2)
    assert (response.error_code, response.nodes) == (0, [])
    told = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in response.topics]
    assert told == partitions
    assert {one.error_code for topic in response.topics for one in topic.partitions} == {3}


def update(name: str, level: int, kind: int = 1, *, down: bool = False) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=down)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_levels_are_set_all_or_none(ask: Ask, api: ClusterAdminApi, controller: Controller, version: int) -> None:
    request = UpdateFeaturesRequest(feature_updates=[update("metadata.version", 28, 2, down=True), update("x", 1)])
    response = await ask(api, request, version)
    assert response.error_code == 95 and response.results == []
    assert "feature x" in response.error_message
    assert controller.image.features["metadata.version"] == 29
    response = await ask(api, UpdateFeaturesRequest(feature_updates=request.feature_updates[:1]), version)
    assert (response.error_code, response.error_message) == (0, None)
    if version < 2:
        assert [(one.feature, one.error_code) for one in response.results] == [("metadata.version", 0)]
    assert controller.image.features["metadata.version"] == 28


async def test_the_oldest_version_goes_down_only_when_it_may(ask: Ask, api: ClusterAdminApi) -> None:
    response = await ask(api, UpdateFeaturesRequest(feature_updates=[update("metadata.version", 28)]), 0)
    assert response.error_code == 95


async def test_a_validation_changes_nothing(ask: Ask, api: ClusterAdminApi, controller: Controller) -> None:
    request = UpdateFeaturesRequest(feature_updates=[update("metadata.version", 28, 2)], validate_only=True)
    assert (await ask(api, request, 2)).error_code == 0
    assert controller.image.features["metadata.version"] == 29


async def test_brokers_that_are_unknown_or_needed_stay(ask: Ask, api: ClusterAdminApi) -> None:
    response = await ask(api, UnregisterBrokerRequest(broker_id=77), 0)
    assert (response.error_code, response.error_message) == (102, "Broker ID 77 is not currently registered")
    response = await ask(api, UnregisterBrokerRequest(broker_id=NODE_ID), 0)
    assert response.error_code == 42 and response.error_message
