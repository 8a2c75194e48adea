"""A controller listener: administrators ask the controller there, and clients are not served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import tool_host
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.ports import free_port
from tests.harness.raw import ConnectionClosed, RawClient

MISMATCHED_ENDPOINT_TYPE = 114
BROKERS, CONTROLLERS = 1, 2


class Combined:
    """A broker with the listeners of a combined node."""

    def __init__(self, broker_factory: BrokerFactory) -> None:
        self.port = free_port()
        self.broker: BrokerProcess = broker_factory(
            {
                "process.roles": "broker,controller",
                "controller.quorum.voters": f"1@127.0.0.1:{self.port}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            start=False,
        )
        listeners = self.broker.properties["listeners"]
        self.broker.properties["listeners"] = f"{listeners},CONTROLLER://127.0.0.1:{self.port}"
        self.broker.start()


@pytest.fixture
def combined(broker_factory: BrokerFactory) -> Combined:
    if reference_wanted():
        pytest.skip("the reference's ports are chosen by its harness")
    return Combined(broker_factory)


@pytest.fixture
def controller(combined: Combined) -> Iterator[RawClient]:
    with RawClient((combined.broker.host, combined.port)) as client:
        yield client


def test_it_offers_what_administrators_ask_of_a_controller(controller: RawClient) -> None:
    offered = {key.api_key for key in controller.request("api_versions", 0).api_keys}
    assert {18, 19, 20, 32, 37, 44, 55, 57, 60} <= offered
    assert not {0, 1, 2, 3, 10} & offered, "produce, fetch, list offsets, metadata, find coordinator"


def test_clients_are_not_served(controller: RawClient) -> None:
    with pytest.raises(ConnectionClosed):
        controller.request("metadata", 9, topics=None)


def test_it_lists_controllers_where_the_others_list_brokers(combined: Combined, controller: RawClient) -> None:
    described = controller.request("describe_cluster", 1, endpoint_type=CONTROLLERS)
    assert [(one.broker_id, one.host, one.port) for one in described.brokers] == [(1, "127.0.0.1", combined.port)]
    assert (described.controller_id, described.endpoint_type) == (1, CONTROLLERS)
    refused = controller.request("describe_cluster", 1, endpoint_type=BROKERS)
    assert refused.error_code == MISMATCHED_ENDPOINT_TYPE
    with RawClient((combined.broker.host, combined.broker.port)) as client:
        assert client.request("describe_cluster", 1, endpoint_type=BROKERS).cluster_id == described.cluster_id
        nodes = client.metadata([]).brokers
        assert [node.port for node in nodes] == [combined.broker.port]


def test_topics_can_be_created_there(combined: Combined, controller: RawClient) -> None:
    topics = [{"name": "t", "num_partitions": 2, "replication_factor": 1}]
    assert controller.request("create_topics", 7, topics=topics, timeout_ms=15_000).topics[0].error_code == 0
    with RawClient((combined.broker.host, combined.broker.port)) as client:
        client.wait_for_topic("t", 2)


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("kafka-metadata-quorum", ("describe", "--status"), "LeaderId:               1"),
        ("kafka-features", ("describe",), "Feature: metadata.version"),
        ("kafka-configs", ("--describe", "--entity-type", "brokers", "--entity-name", "1"), "Dynamic configs for"),
        ("kafka-cluster", ("cluster-id",), "Cluster ID: "),
    ],
)
def test_kafkas_tools_work_by_the_controller(
    combined: Combined, tool: str, arguments: tuple[str, ...], expected: str
) -> None:
    where = ("--bootstrap-controller", f"127.0.0.1:{combined.port}")
    words = (*arguments, *where) if tool == "kafka-cluster" else (*where, *arguments)
    done = tool_host.attempt(tool, *words)
    assert done.code == 0, done.text
    assert expected in done.out
