from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker.api.cluster import MAX_LISTINGS, ClusterApi
from broker.api.route import EncodedResponse, RequestContext
from broker.metadata.controller.run import Controller
from broker.metadata.controller.topics import NewTopic, TopicToDelete
from broker.quota.clients import ClientQuotas
from broker.quota.rates import Windows
from config.views import BrokerConfig, ListenerConfig
from protocol.codec import decode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor, TopicRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from storage.types import TopicPartition
from tests.unit.broker.conftest import CLUSTER_ID, NODE_ID, PLAIN, Ask, Node

NOT_ASKED = -(2**31)


@pytest.fixture
async def controller(node: Node) -> AsyncIterator[Controller]:
    controller = await node.start()
    await controller.create_topics([NewTopic("a", 3, 1), NewTopic("b", 2, 1)])
    yield controller
    await controller.close()


@pytest.fixture
def api(node: Node, controller: Controller) -> ClusterApi:
    return ClusterApi(controller, node.config)


def named(*names: str, create: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


@pytest.mark.parametrize("version", range(1, 14))
async def test_null_means_all_topics_and_empty_none(ask: Ask, api: ClusterApi, version: int) -> None:
    answer = await ask(api, MetadataRequest(topics=None), version)
    assert sorted(t.name for t in answer.topics) == ["a", "b"]
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(NODE_ID, "127.0.0.1", 9092)]
    assert answer.controller_id == NODE_ID
    if version >= 2:
        assert answer.cluster_id == CLUSTER_ID
    assert (await ask(api, MetadataRequest(topics=[]), version)).topics == []


async def test_v0_empty_means_all_topics(ask: Ask, api: ClusterApi) -> None:
    answer = await ask(api, MetadataRequest(topics=[]), 0)
    assert sorted(t.name for t in answer.topics) == ["a", "b"]


async def test_a_partition_is_told_whole(ask: Ask, api: ClusterApi) -> None:
    topic = (await ask(api, named("a"), 12)).topics[0]
    assert [
        (p.error_code, p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
        for p in topic.partitions
    ] == [(0, n, NODE_ID, 0, [NODE_ID], [NODE_ID], []) for n in range(3)]
    assert not topic.is_internal


async def test_a_partition_of_a_failed_directory_has_no_leader_and_an_offline_replica(
    ask: Ask, api: ClusterApi, controller: Controller, node: Node
) -> None:
    await ask(api, named("a"), 12)  # what was told before is not told again
    lost = bytes([9]) * 16
    await controller.directories_offline([lost], {TopicPartition("a", 1): lost})
    topic = (await ask(api, named("a"), 12)).topics[0]
    assert [(p.error_code, p.leader_id, p.leader_epoch, p.isr_nodes, p.offline_replicas) for p in topic.partitions] == [
        (0, NODE_ID, 0, [NODE_ID], []),
        (5, -1, 1, [NODE_ID], [NODE_ID]),
        (0, NODE_ID, 0, [NODE_ID], []),
    ]
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")], response_partition_limit=10)
    described = (await ask(api, request, 0)).topics[0]
    assert [(p.error_code, p.leader_id, p.offline_replicas) for p in described.partitions] == [
        (0, NODE_ID, []),
        (0, -1, [NODE_ID]),
        (0, NODE_ID, []),
    ]


async def test_a_missing_topic_is_created_complete_or_not_there(ask: Ask, api: ClusterApi, node: Node) -> None:
    topic = (await ask(api, named("new"), 12)).topics[0]
    assert (topic.error_code, len(topic.partitions)) == (0, node.config.num_partitions)
    assert (await ask(api, named("nope", create=False), 12)).topics[0].error_code == 3
    assert (await ask(api, named("old-client"), 3)).topics[0].error_code == 0


async def test_illegal_and_colliding_names_are_not_created(ask: Ask, api: ClusterApi, controller: Controller) -> None:
    await controller.create_topics([NewTopic("m.n", 1, 1)])
    names = ["a b", "", ".", "..", "x" * 250, "naïve", "sl/ash"]
    answer = await ask(api, named(*names, "m_n", "__cluster_metadata"), 4)
    assert {t.name: t.error_code for t in answer.topics} == dict.fromkeys(names, 17) | {
        "m_n": 3,
        "__cluster_metadata": 3,
    }
    assert sorted(controller.image.topics_by_name) == ["a", "b", "m.n"]


async def test_auto_creation_can_be_switched_off(ask: Ask, controller: Controller) -> None:
    api = ClusterApi(controller, BrokerConfig(node_id=NODE_ID, auto_create_topics_enable=False))
    assert (await ask(api, named("nope"), 12)).topics[0].error_code == 3
    assert "nope" not in controller.image.topics_by_name


async def test_the_internal_topic_is_made_its_own_way_and_marked(ask: Ask, api: ClusterApi) -> None:
    topic = (await ask(api, named("__consumer_offsets"), 12)).topics[0]
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 3)


async def test_lookup_by_id(ask: Ask, api: ClusterApi, controller: Controller) -> None:
    known, unknown = controller.image.topics_by_name["a"].topic_id, bytes([7]) * 16
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=known, name=None),
            MetadataRequestTopic(topic_id=unknown, name=None),
            MetadataRequestTopic(name="b"),
        ]
    )
    answer = await ask(api, request, 12)
    assert [(t.error_code, t.name, t.topic_id) for t in answer.topics] == [(0, "a", known), (100, None, unknown)]


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_and_null_names_are_not_for_older_versions(ask: Ask, api: ClusterApi, version: int) -> None:
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes([7]) * 16, name="a")])
    nameless = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    for request in (by_id, nameless):
        assert [t.error_code for t in (await ask(api, request, version)).topics] == [42]


async def test_authorized_operations_are_told_when_asked_for(ask: Ask, api: ClusterApi) -> None:
    asked = replace(named("a"), include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    answer = await ask(api, asked, 8)
    assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (3576, 8096)
    answer = await ask(api, named("a"), 8)
    assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (
        NOT_ASKED,
        NOT_ASKED,
    )


async def test_addresses_are_those_of_the_listener(ask: Ask, api: ClusterApi) -> None:
    external = ListenerConfig("EXT", "PLAINTEXT", "127.0.0.1", 9093, "localhost", 9094)
    for listener, address in (
        (PLAIN, ("127.0.0.1", 9092)),
        (external, ("localhost", 9094)),
        (PLAIN, ("127.0.0.1", 9092)),
    ):
        answer = await ask(api, MetadataRequest(topics=[]), 12, listener)
        assert [(b.host, b.port) for b in answer.brokers] == [address]
        answer = await ask(api, DescribeClusterRequest(), 2, listener)
        assert [(b.host, b.port) for b in answer.brokers] == [address]


async def test_what_is_kept_about_topics_follows_the_image(ask: Ask, api: ClusterApi, controller: Controller) -> None:
    first = (await ask(api, named("a"), 12)).topics[0].topic_id
    await controller.delete_topics([TopicToDelete("a")])
    assert (await ask(api, named("a", create=False), 12)).topics[0].error_code == 3
    await controller.create_topics([NewTopic("a", 1, 1)])
    topic = (await ask(api, named("a"), 12)).topics[0]
    assert topic.topic_id != first
    assert len(topic.partitions) == 1


async def test_the_listing_of_all_topics_is_encoded_once_an_image(api: ClusterApi, controller: Controller) -> None:
    async def listing(version: int, listener: ListenerConfig = PLAIN) -> object:
        context = RequestContext(1, listener, "127.0.0.1", 3, version, 7, "test")
        return await api.metadata(MetadataRequest(topics=None), context)

    first = await listing(12)
    assert await listing(12) is first
    assert await listing(11) is not first
    assert await listing(12, PLAIN._replace(advertised_port=1)) is not first
    await controller.create_topics([NewTopic("c", 1, 1)])
    assert await listing(12) is not first
    for version in range(14):
        await listing(version)
    assert len(api._listings) <= MAX_LISTINGS


async def test_describe_cluster(ask: Ask, api: ClusterApi) -> None:
    for version in range(3):
        answer = await ask(api, DescribeClusterRequest(include_cluster_authorized_operations=True), version)
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, CLUSTER_ID, NODE_ID)
        assert answer.cluster_authorized_operations == 8096
    assert (await ask(api, DescribeClusterRequest(endpoint_type=2), 1)).error_code == 114
    assert (await ask(api, DescribeClusterRequest(endpoint_type=9), 1)).error_code == 115


def page(answer) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    cursor = answer.next_cursor
    topics = [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def pages(limit: int, *names: str, at: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if at is None else RequestCursor(topic_name=at[0], partition_index=at[1]),
    )


@pytest.mark.parametrize("names", [(), ("b", "a")])
async def test_partitions_are_listed_page_by_page(ask: Ask, api: ClusterApi, names: tuple[str, ...]) -> None:
    assert page(await ask(api, pages(2, *names), 0)) == ([("a", [0, 1])], ("a", 2))
    assert page(await ask(api, pages(2, *names, at=("a", 2)), 0)) == ([("a", [2]), ("b", [0])], ("b", 1))
    assert page(await ask(api, pages(2, *names, at=("b", 1)), 0)) == ([("b", [1])], None)
    assert page(await ask(api, pages(3, *names), 0)) == ([("a", [0, 1, 2])], ("b", 0))
    assert page(await ask(api, pages(0, *names), 0)) == ([("a", [0])], ("a", 1))
    assert page(await ask(api, pages(2000, *names), 0)) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


async def test_a_listing_goes_on_when_the_topic_of_its_cursor_is_gone(ask: Ask, api: ClusterApi) -> None:
    assert page(await ask(api, pages(9, at=("aa", 4)), 0)) == ([("b", [0, 1])], None)


async def test_unknown_topics_and_senseless_cursors(ask: Ask, api: ClusterApi, controller: Controller) -> None:
    answer = await ask(api, pages(9, "zz", "a b", "a"), 0)
    assert [(t.name, t.error_code) for t in answer.topics] == [("a", 0), ("a b", 17), ("zz", 3)]
    assert answer.topics[0].topic_authorized_operations == 3576
    for request in (pages(9, "a", at=("b", 0)), pages(9, "a", at=("a", -1))):
        assert [t.error_code for t in (await ask(api, request, 0)).topics] == [42]
    assert "zz" not in controller.image.topics_by_name


async def test_listing_five_thousand_partitions_builds_each_topic_once(
    ask: Ask, api: ClusterApi, controller: Controller
) -> None:
    await controller.create_topics([NewTopic(f"big{i}", 50, 1) for i in range(100)])
    listing = api._listing
    first = listing.all_topics(controller.image, with_operations=False)
    again = listing.all_topics(controller.image, with_operations=False)
    assert all(x is y for x, y in zip(first, again, strict=True))
    await controller.create_topics([NewTopic("one-more", 1, 1)])
    after = {t.name: t for t in listing.all_topics(controller.image, with_operations=False)}
    assert all(after[t.name] is t for t in first)


async def test_topics_created_on_the_way_are_charged_and_not_made_over_the_quota(ask: Ask, api: ClusterApi) -> None:
    quotas = ClientQuotas(Windows(), Windows(), lambda: 0)
    quotas.follow({(("client-id", None),): {"controller_mutation_rate": 0.1}})
    meter = quotas.meter("User:ann", "app", 0, 0)
    answer = await ask(api, named("n1", "n2"), 12, meter=meter)
    assert [topic.error_code for topic in answer.topics] == [0, 3]
    assert meter.settle() == 0, "the request itself has changed nothing"


@pytest.mark.parametrize("version", range(14))
async def test_a_listing_of_all_topics_knows_where_its_throttle_time_stands(api: ClusterApi, version: int) -> None:
    context = RequestContext(1, PLAIN, "127.0.0.1", 3, version)
    listing = await api.metadata(MetadataRequest(topics=None if version else []), context)
    assert isinstance(listing, EncodedResponse)
    told = decode(MetadataResponse, version, listing.throttled(77).body)
    assert told.throttle_time_ms == (77 if version >= 3 else 0)
    assert replace(told, throttle_time_ms=0) == decode(MetadataResponse, version, listing.body)
