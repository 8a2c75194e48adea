"""The client against a peer that answers as it is told."""

from __future__ import annotations

import itertools
import socket

import pytest

from broker.client.client import GROUP, Client
from broker.client.cluster import TopicPartition
from broker.client.errors import ClientError, ConnectionFailed, MissingPartition, UnsupportedApi, only
from broker.client.fetching import fetch
from broker.client.settings import Settings, parse_bootstrap, settings_of
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from tests.harness.scripted_broker import HANG_UP, SILENCE, Raw, ScriptedBroker

T0 = TopicPartition("t", 0)


class Time:
    """Seconds that pass only where somebody waits."""

    def __init__(self):
        self.now_s = 0.0
        self.pauses = []

    def sleep(self, pause_s):
        self.pauses.append(pause_s)
        self.now_s += pause_s

    def settings(self, **changes):
        return Settings(now_s=lambda: self.now_s, sleep=self.sleep)._replace(**changes)


def in_turn(*answers):
    """Give one answer after the other, and the last one from then on."""
    rest = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda _: next(rest)


def topic(leader, partitions=1, **values):
    rows = [MetadataResponsePartition(partition_index=index, leader_id=leader) for index in range(partitions)]
    return MetadataResponseTopic(name="t", partitions=rows, **values)


def offset_of(code, offset=7):
    row = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])


def offsets_in(response):
    return [
        (TopicPartition(found.name, row.partition_index), row.error_code, row.offset)
        for found in response.topics
        for row in found.partitions
    ]


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionFailed) as failed:
        Client(f"127.0.0.1:{port}").metadata()
    assert failed.value.message == f"cannot connect to 127.0.0.1:{port}: connection refused"


def test_the_next_bootstrap_server_is_tried():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with ScriptedBroker() as broker, Client(f"127.0.0.1:{port},{broker.address}") as client:
        assert list(client.metadata().brokers) == [1]
        assert broker.connections == 1, "the way in is the connection to the broker that advertises this address"
        assert client.connection(1) is client.connection()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (HANG_UP, "{} closed the connection before any answer (is this a listener without TLS and SASL?)"),
        (Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak the Kafka protocol"),
        (Raw(b"\0\0\0\1x"), "does not speak the Kafka protocol"),
        (Raw(b"\0\0\0\4\0\0\0\x63"), "{} answered another request than the one that was next"),
        (Raw(b"\0\0\0\6\0\0\0\1\0\0"), "{} sent an answer that cannot be read"),
    ],
)
def test_what_is_no_broker_is_told_from_one(answer, message):
    with ScriptedBroker({ApiKey.API_VERSIONS: lambda _: answer}) as peer, Client(peer.address) as client:
        with pytest.raises(ConnectionFailed) as failed:
            client.ask(DescribeClusterRequest())
        assert message.format(peer.address) in failed.value.message and "\n" not in failed.value.message


def test_an_answer_larger_than_the_bound_is_not_read():
    settings = Settings(max_response_bytes=4000)
    too_much = Raw((4001).to_bytes(4, "big"))
    with (
        ScriptedBroker({ApiKey.METADATA: lambda _: too_much}) as peer,
        Client(peer.address, settings) as client,
        pytest.raises(ConnectionFailed, match="an answer of 4001 bytes"),
    ):
        client.metadata()


def test_no_answer_within_the_time_is_said_and_not_asked_again():
    settings = Settings(request_timeout_s=0.05)
    with ScriptedBroker({ApiKey.METADATA: lambda _: SILENCE}) as peer, Client(peer.address, settings) as client:
        client.connection()
        with pytest.raises(ConnectionFailed) as failed:
            client.metadata()
        assert failed.value.message == f"{peer.address} did not answer within 0.05 s"
        assert len(peer.requests(ApiKey.METADATA)) == 1


def test_versions_are_the_newest_that_both_speak():
    versions = {ApiKey.API_VERSIONS: (0, 9), ApiKey.METADATA: (0, 4), ApiKey.LIST_GROUPS: (0, 99)}
    answers = {ApiKey.LIST_GROUPS: lambda _: ListGroupsResponse()}
    with ScriptedBroker(answers, versions=versions) as peer, Client(peer.address) as client:
        client.metadata()
        client.ask(ListGroupsRequest())
        client.ask(ListGroupsRequest(), at_most=2)
        asked = [(request.api_key, request.version) for request in peer.asked[1:]]
        assert asked == [(ApiKey.METADATA, 4), (ApiKey.LIST_GROUPS, 5), (ApiKey.LIST_GROUPS, 2)]
        with pytest.raises(UnsupportedApi, match="offers no version of DESCRIBE_CLUSTER"):
            client.ask(DescribeClusterRequest())


def test_a_broker_that_does_not_know_the_newest_layout_is_asked_in_one_it_knows():
    rows = [ApiVersion(api_key=18, min_version=0, max_version=2), ApiVersion(api_key=3, min_version=0, max_version=1)]
    old = in_turn(ApiVersionsResponse(error_code=35, api_keys=rows), ApiVersionsResponse(api_keys=rows))
    with ScriptedBroker({ApiKey.API_VERSIONS: old}) as peer, Client(peer.address) as client:
        assert client.connection().version_of(ApiKey.METADATA) == 1
        assert [request.version for request in peer.asked] == [4, 2]


def test_a_kept_connection_that_was_closed_meanwhile_is_made_anew():
    cluster = in_turn(DescribeClusterResponse(cluster_id="a"), HANG_UP, DescribeClusterResponse(cluster_id="b"))
    with ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: cluster}) as peer, Client(peer.address) as client:
        assert client.ask(DescribeClusterRequest()).cluster_id == "a"
        assert client.ask(DescribeClusterRequest()).cluster_id == "b"
        assert peer.connections == 2


def test_a_new_connection_that_is_closed_is_a_failure():
    with ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: lambda _: HANG_UP}) as peer, Client(peer.address) as client:
        with pytest.raises(ConnectionFailed, match="closed the connection"):
            client.ask(DescribeClusterRequest())
        assert peer.connections == 1


def test_errors_that_pass_are_tried_again_with_growing_pauses():
    time = Time()
    late = [DescribeClusterResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 6
    answers = in_turn(*late, DescribeClusterResponse(cluster_id="a"))
    with ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: answers}) as peer, Client(peer.address, time.settings()) as client:
        assert client.ask_retrying(DescribeClusterRequest()).cluster_id == "a"
    assert time.pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_trying_again_ends_with_the_time_of_the_call_and_at_once_for_errors_that_stay():
    time = Time()
    answer = in_turn(
        DescribeClusterResponse(error_code=ErrorCode.INVALID_REQUEST), DescribeClusterResponse(error_code=15)
    )
    with ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: answer}) as peer, Client(peer.address, time.settings()) as client:
        assert client.ask_retrying(DescribeClusterRequest()).error_code == ErrorCode.INVALID_REQUEST
        assert time.pauses == []
        assert client.ask_retrying(DescribeClusterRequest()).error_code == 15
    assert 58 < time.now_s <= 60


def test_partitions_are_asked_of_their_leaders_and_again_after_they_moved():
    time = Time()
    with ScriptedBroker({}, node_id=2) as second, ScriptedBroker({}, node_id=1) as first:

        def metadata(leader):
            both = [
                MetadataResponseBroker(node_id=peer.node_id, host="127.0.0.1", port=peer.port)
                for peer in (first, second)
            ]
            response = first.metadata([topic(leader)])
            response.brokers = both
            return response

        first.answers[ApiKey.METADATA] = in_turn(metadata(1), metadata(-1), metadata(2))
        first.answers[ApiKey.LIST_OFFSETS] = lambda _: offset_of(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        second.answers[ApiKey.LIST_OFFSETS] = lambda _: offset_of(0, 42)
        with Client(first.address, time.settings()) as client:
            done = client.ask_leaders([T0], lambda partitions: ListOffsetsRequest(), offsets_in)
        assert done == {T0: (None, 42)}
        assert time.pauses == [0.1, 0.2]
        assert (len(first.requests(ApiKey.LIST_OFFSETS)), len(second.requests(ApiKey.LIST_OFFSETS))) == (1, 1)


def test_a_partition_that_is_not_there_is_no_reason_to_wait():
    time = Time()
    with ScriptedBroker() as peer, Client(peer.address, time.settings()) as client:
        done = client.ask_leaders([T0], lambda partitions: ListOffsetsRequest(), offsets_in)
    refused, _ = done[T0]
    assert isinstance(refused, MissingPartition) and refused.message == "There is no partition t-0."
    assert time.pauses == []


def test_an_error_of_a_partition_that_stays_is_handed_over():
    with ScriptedBroker({ApiKey.LIST_OFFSETS: lambda _: offset_of(ErrorCode.OFFSET_OUT_OF_RANGE)}) as peer:
        peer.answers[ApiKey.METADATA] = lambda _: peer.metadata([topic(1)])
        with Client(peer.address) as client:
            refused, _ = client.ask_leaders([T0], lambda partitions: ListOffsetsRequest(), offsets_in)[T0]
    assert refused is not None and refused.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_partition_that_an_answer_is_silent_about_is_refused():
    answers = {ApiKey.LIST_OFFSETS: lambda _: ListOffsetsResponse(topics=[])}
    with ScriptedBroker(answers) as broker, Client(broker.address) as client:
        broker.answers[ApiKey.METADATA] = lambda _: broker.metadata([topic(1)])
        refused, _ = client.ask_leaders([T0], lambda partitions: ListOffsetsRequest(), offsets_in)[T0]
    assert refused is not None and refused.message == "broker 1 said nothing about it"


def test_a_fetch_of_what_was_not_asked_for_is_no_answer():
    row = PartitionData(partition_index=7, high_watermark=0, records=None)
    answers = {ApiKey.FETCH: lambda _: FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])}
    with ScriptedBroker(answers) as broker, Client(broker.address) as client:
        broker.answers[ApiKey.METADATA] = lambda _: broker.metadata([topic(1)])
        with pytest.raises(ClientError, match="answered for t-7, which it was not asked for"):
            fetch(client, {T0: 0}, max_wait_ms=0)


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_for_one_thing_has_one_row(count):
    with pytest.raises(ClientError, match=f"answered for {count}"):
        only([None] * count)
    assert only(["row"]) == "row"


def test_a_leader_that_cannot_be_reached_is_named_with_its_address_once_the_time_is_up():
    time = Time()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with ScriptedBroker() as peer:
        response = peer.metadata([topic(5)])
        response.brokers.append(MetadataResponseBroker(node_id=5, host="127.0.0.1", port=port))
        peer.answers[ApiKey.METADATA] = lambda _: response
        with (
            Client(peer.address, time.settings(total_timeout_s=2)) as client,
            pytest.raises(ConnectionFailed) as failed,
        ):
            client.ask_leaders([T0], lambda partitions: ListOffsetsRequest(), offsets_in)
    assert failed.value.message == (
        f"cannot connect to 127.0.0.1:{port}: connection refused (as broker 5 advertises itself)"
    )
    assert len(time.pauses) > 2


@pytest.mark.parametrize("newest", [3, 6])
def test_a_coordinator_is_looked_up_once_and_anew_when_it_moved(newest):
    time = Time()

    def found(_):
        if newest < 4:
            return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=peer.port)
        return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="127.0.0.1", port=peer.port)])

    moved = in_turn(ListGroupsResponse(error_code=ErrorCode.NOT_COORDINATOR), ListGroupsResponse())
    versions = {ApiKey.FIND_COORDINATOR: (0, newest), ApiKey.LIST_GROUPS: (0, 5), ApiKey.METADATA: (0, 12)}
    answers = {ApiKey.FIND_COORDINATOR: found, ApiKey.LIST_GROUPS: moved}
    with ScriptedBroker(answers, versions=versions) as peer, Client(peer.address, time.settings()) as client:
        for _ in range(2):
            assert client.ask_coordinator(GROUP, "g", ListGroupsRequest()).error_code == 0
        assert len(peer.requests(ApiKey.FIND_COORDINATOR)) == 2
        asked = peer.requests(ApiKey.FIND_COORDINATOR)[0].message
        assert asked.key == "g" if newest < 4 else asked.coordinator_keys == ["g"]
    assert time.pauses == [0.1]


def test_the_only_broker_is_reached_by_the_way_in_whatever_it_advertises():
    with ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: lambda _: DescribeClusterResponse(cluster_id="a")}) as peer:
        response = peer.metadata()
        response.brokers[0].host = "nowhere.invalid"
        peer.answers[ApiKey.METADATA] = lambda _: response
        with Client(peer.address) as client:
            assert client.ask(DescribeClusterRequest(), broker=1).cluster_id == "a"


def test_a_broker_that_does_not_exist_is_refused_with_those_that_do():
    with (
        ScriptedBroker() as peer,
        Client(peer.address) as client,
        pytest.raises(ClientError, match="there is no broker 7; the brokers are 1"),
    ):
        client.ask(DescribeClusterRequest(), broker=7)


def test_bootstrap_servers_are_lists_of_hosts_and_ports():
    assert parse_bootstrap(" a:1, b ,[::1]:3,[::1]") == [("a", 1), ("b", 9092), ("::1", 3), ("::1", 9092)]
    for text in ("", ",", "a:b", "a:0", "a:65536", ":9092"):
        with pytest.raises(ClientError, match="bootstrap server"):
            parse_bootstrap(text)


def test_settings_are_those_of_a_java_client():
    settings = settings_of({"client.id": "x", "request.timeout.ms": "1500", "default.api.timeout.ms": "2000", "a": "b"})
    assert (settings.client_id, settings.request_timeout_s, settings.total_timeout_s) == ("x", 1.5, 2.0)
    with pytest.raises(
        ClientError, match=r"security\.protocol=SASL_SSL is not supported by this tool: only PLAINTEXT is"
    ):
        settings_of({"security.protocol": "SASL_SSL"})
    with pytest.raises(ClientError, match=r"Invalid value soon for configuration request\.timeout\.ms"):
        settings_of({"request.timeout.ms": "soon"})


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "2147483648", "9" * 5000])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(ClientError, match=r"request\.timeout\.ms: expected milliseconds"):
        settings_of({"request.timeout.ms": text})


def test_a_number_that_does_not_fit_is_refused_before_it_is_sent():
    out_of_range = pytest.raises(ClientError, match="out of its range in FETCH")
    with ScriptedBroker() as broker, Client(broker.address) as client, out_of_range:
        client.ask(FetchRequest(max_wait_ms=1 << 40, topics=[]))
