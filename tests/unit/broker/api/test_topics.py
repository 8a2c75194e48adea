from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from broker.api.topics import TopicsApi
from broker.metadata.controller.run import Controller
from broker.metadata.controller.topics import NewTopic
from broker.quota.clients import ClientQuotas, RequestMeter
from broker.quota.rates import Windows
from config.dynamic import describe_topic
from config.resolve import Resolver
from config.views import BrokerConfig
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.broker.conftest import Ask, Node


@pytest.fixture
async def controller(node: Node) -> AsyncIterator[Controller]:
    controller = await node.start()
    yield controller
    await controller.close()


@pytest.fixture
def api(controller: Controller) -> TopicsApi:
    return family(controller)


def family(controller: Controller) -> TopicsApi:
    return TopicsApi(controller, partial(describe_topic, Resolver({})))


def topic(name: str, partitions: int = -1, factor: int = -1, **configs: str | None) -> CreatableTopic:
    pairs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=pairs)


@pytest.mark.parametrize("version", range(2, 8))
async def test_each_topic_of_a_request_has_its_own_result(ask: Ask, api: TopicsApi, node: Node, version: int) -> None:
    await ask(api, CreateTopicsRequest(topics=[topic("a_b", 1, 1)]), version)
    wanted = {
        "ok1": (topic("ok1"), 0),
        "rf3": (topic("rf3", 1, 3), 38),
        "p0": (topic("p0", 0, 1), 37),
        "pneg": (topic("pneg", -5, 1), 37),
        "a_b": (topic("a_b", 1, 3), 36),
        "a.b": (topic("a.b", 1, 1), 17),
        "": (topic("", 1, 1), 17),
        "a/b": (topic("a/b", 1, 1), 17),
        "cfg1": (topic("cfg1", 1, 1, no_such_key="1"), 40),
        "cfg2": (topic("cfg2", 1, 1, retention_ms="abc"), 40),
        "cfg4": (topic("cfg4", 1, 1, retention_ms=None), 40),
    }
    answer = await ask(api, CreateTopicsRequest(topics=[request for request, _ in wanted.values()]), version)
    assert {t.name: t.error_code for t in answer.topics} == {name: code for name, (_, code) in wanted.items()}
    assert all((t.error_message is None) == (t.error_code == 0) for t in answer.topics)


async def test_a_created_topic_is_described_with_its_effective_configs(
    ask: Ask, api: TopicsApi, controller: Controller
) -> None:
    answer = await ask(api, CreateTopicsRequest(topics=[topic("t", 2, 1, retention_ms="5")]), 7)
    created = answer.topics[0]
    assert created.topic_id == controller.image.topics_by_name["t"].topic_id
    assert (created.num_partitions, created.replication_factor) == (2, 1)
    configs = {config.name: (config.value, config.config_source) for config in created.configs}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["cleanup.policy"] == ("delete", 5)


async def test_a_refused_topic_has_no_counts(ask: Ask, api: TopicsApi) -> None:
    refused = (await ask(api, CreateTopicsRequest(topics=[topic("a b")]), 7)).topics[0]
    assert (refused.num_partitions, refused.replication_factor, refused.configs) == (-1, -1, [])


async def test_a_duplicate_is_one_result(ask: Ask, api: TopicsApi, controller: Controller) -> None:
    answer = await ask(api, CreateTopicsRequest(topics=[topic("dup"), topic("dup")]), 7)
    assert [(t.error_code, t.error_message) for t in answer.topics] == [(42, "Duplicate topic name.")]
    assert "dup" not in controller.image.topics_by_name


async def test_validate_only_creates_nothing(ask: Ask, api: TopicsApi, controller: Controller) -> None:
    request = CreateTopicsRequest(topics=[topic("new1"), topic("rf3", 1, 3)], validate_only=True)
    answer = await ask(api, request, 7)
    assert [(t.name, t.error_code) for t in answer.topics] == [("new1", 0), ("rf3", 38)]
    assert answer.topics[0].configs
    assert controller.image.topics_by_name == {}


async def test_manual_assignments(ask: Ask, api: TopicsApi) -> None:
    def assigned(**partitions: list[int]) -> CreatableTopic:
        rows = [CreatableReplicaAssignment(partition_index=int(p[1:]), broker_ids=b) for p, b in partitions.items()]
        return CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=rows)

    for request, code in (
        (assigned(p0=[1], p2=[1]), 39),
        (assigned(p0=[]), 39),
        (assigned(p0=[99]), 39),
        (assigned(p0=[1, 1]), 39),
        (assigned(p0=[1], p1=[1]), 0),
    ):
        answer = await ask(api, CreateTopicsRequest(topics=[request]), 7)
        assert answer.topics[0].error_code == code


@pytest.mark.parametrize("version", range(1, 6))
async def test_deleting_by_name(ask: Ask, api: TopicsApi, controller: Controller, version: int) -> None:
    await controller.create_topics([NewTopic("t", 1, 1)])
    answer = await ask(api, DeleteTopicsRequest(topic_names=["t", "no"]), version)
    assert {r.name: r.error_code for r in answer.responses} == {"t": 0, "no": 3}
    assert "t" not in controller.image.topics_by_name


async def test_deleting_by_id(ask: Ask, api: TopicsApi, controller: Controller) -> None:
    created = await controller.create_topics([NewTopic("t", 1, 1), NewTopic("u", 1, 1)])
    t, u = (result.topic.topic_id for result in created if result.topic is not None)
    unknown = bytes([5]) * 16
    states = [
        DeleteTopicState(topic_id=t),
        DeleteTopicState(name="u", topic_id=u),
        DeleteTopicState(topic_id=unknown),
        DeleteTopicState(),
    ]
    answer = await ask(api, DeleteTopicsRequest(topics=states), 6)
    assert [(r.name, r.topic_id, r.error_code) for r in answer.responses] == [
        ("t", t, 0),
        ("u", u, 42),
        (None, unknown, 100),
        (None, bytes(16), 42),
    ]
    assert list(controller.image.topics_by_name) == ["u"]


@pytest.mark.parametrize(("version", "code"), [(1, 42), (2, 42), (3, 73), (6, 73)])
async def test_deletion_switched_off(ask: Ask, node: Node, version: int, code: int) -> None:
    node.config = BrokerConfig(node_id=1, delete_topic_enable=False)
    controller = await node.start()
    request = DeleteTopicsRequest(topic_names=["t"], topics=[DeleteTopicState(name="t")])
    answer = await ask(family(controller), request, version)
    assert [(r.name, r.error_code) for r in answer.responses] == [("t", code)]
    await controller.close()


@pytest.mark.parametrize("version", range(4))
async def test_extending_topics(ask: Ask, api: TopicsApi, controller: Controller, version: int) -> None:
    await controller.create_topics([NewTopic("t", 3, 1)])

    async def extend(name: str, count: int, *, validate_only: bool = False, brokers: list[int] | None = None) -> int:
        assignments = None if brokers is None else [CreatePartitionsAssignment(broker_ids=brokers)]
        row = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        answer = await ask(api, CreatePartitionsRequest(topics=[row], validate_only=validate_only), version)
        assert [result.name for result in answer.results] == [name]
        return answer.results[0].error_code

    assert await extend("t", 3) == 37
    assert await extend("t", 2) == 37
    assert await extend("no", 2) == 3
    assert await extend("t", 6, validate_only=True) == 0
    assert await extend("t", 4, brokers=[9]) == 39
    assert await extend("t", 5) == 0
    assert len(controller.image.topics_by_name["t"].partitions) == 5


async def test_a_stopped_controller_answers_not_controller(ask: Ask, node: Node) -> None:
    controller = await node.start()
    await controller.close()
    api = family(controller)
    assert (await ask(api, CreateTopicsRequest(topics=[topic("t")]), 7)).topics[0].error_code == 41
    assert (await ask(api, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)).responses[0].error_code == 41
    row = CreatePartitionsTopic(name="t", count=2)
    assert (await ask(api, CreatePartitionsRequest(topics=[row]), 3)).results[0].error_code == 41


# --- quotas ---


class Allowed:
    """A client that may change two partitions a second, twenty-two at once."""

    def __init__(self) -> None:
        self.quotas = ClientQuotas(Windows(), Windows(), lambda: 0)
        self.quotas.follow({(("user", "ANONYMOUS"),): {"controller_mutation_rate": 2.0}})

    def meter(self) -> RequestMeter:
        return self.quotas.meter("User:ANONYMOUS", "test", 0, 0)


async def test_new_versions_refuse_what_exceeds_the_quota_topic_by_topic(
    ask: Ask, api: TopicsApi, controller: Controller
) -> None:
    allowed = Allowed()
    meter = allowed.meter()
    topics = [topic("a", 20, 1), topic("b", 12, 1), topic("c", 1, 1), topic("d d", 1, 1), topic("e", 1, 1)]
    answer = await ask(api, CreateTopicsRequest(topics=topics), 6, meter=meter)
    assert [(t.name, t.error_code, t.error_message) for t in answer.topics if t.name != "d d"] == [
        ("a", 0, None),
        ("b", 0, None),
        ("c", 89, None),
        ("e", 89, None),
    ]
    assert [t.error_code for t in answer.topics if t.name == "d d"] == [17], "what is wrong anyway is told as such"
    assert meter.settle() == 5_000
    assert set(controller.image.topics_by_name) == {"a", "b"}
    answer = await ask(api, DeleteTopicsRequest(topic_names=["a", "x"]), 5, meter=allowed.meter())
    assert [(t.error_code, t.error_message is None) for t in answer.responses] == [(89, True), (3, False)]
    wanted = [CreatePartitionsTopic(name=name, count=21, assignments=None) for name in ("a", "x")]
    answer = await ask(api, CreatePartitionsRequest(topics=wanted), 3, meter=allowed.meter())
    assert [t.error_code for t in answer.results] == [89, 3]
    assert len(controller.image.topics_by_name["a"].partitions) == 20


@pytest.mark.parametrize("validate_only", [False, True])
async def test_old_versions_carry_everything_out_and_throttle(
    ask: Ask, api: TopicsApi, controller: Controller, validate_only: bool
) -> None:
    allowed = Allowed()
    meter = allowed.meter()
    request = CreateTopicsRequest(topics=[topic("a", 30, 1), topic("b", 2, 1)], validate_only=validate_only)
    answer = await ask(api, request, 5, meter=meter)
    assert [t.error_code for t in answer.topics] == [0, 0]
    assert meter.settle() == 5_000, "what is only checked is charged all the same"
    if validate_only:
        return
    meter = allowed.meter()
    wanted = [CreatePartitionsTopic(name="b", count=4, assignments=None)]
    answer = await ask(api, CreatePartitionsRequest(topics=wanted), 2, meter=meter)
    assert [t.error_code for t in answer.results] == [0]
    assert meter.settle() == 6_000
    meter = allowed.meter()
    answer = await ask(api, DeleteTopicsRequest(topic_names=["b"]), 4, meter=meter)
    assert [t.error_code for t in answer.responses] == [0] and meter.settle() == 8_000


async def test_a_client_without_a_quota_is_charged_nothing(ask: Ask, api: TopicsApi) -> None:
    meter = Allowed().quotas.meter("User:other", "test", 0, 0)
    answer = await ask(api, CreateTopicsRequest(topics=[topic("a", 100, 1)]), 7, meter=meter)
    assert answer.topics[0].error_code == 0 and meter.settle() == 0
