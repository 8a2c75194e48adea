"""Which topics and partitions are meant, and what `odradek topics` and others do with brokers that lack something."""

from __future__ import annotations

import json

import pytest

from broker.cli.errors import CommandError
from broker.cli.topic_names import TopicFilter
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import VERSIONS
from protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from protocol.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from tests.harness import cli
from tests.harness.scripted_broker import ScriptedBroker


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ["a", "ab", "b.c"]),
        ("a", ["a"]),
        ("a.*", ["a", "ab"]),
        ("a, b.c", ["a", "b.c"]),
        ("'a'", ["a"]),
    ],
)
def test_an_expression_means_whole_names(text, names):
    wanted = TopicFilter(text)
    assert [name for name in ("a", "ab", "b.c") if wanted.matches(name)] == names


def test_what_is_no_expression_is_refused():
    with pytest.raises(CommandError, match="is not a regular expression"):
        TopicFilter("(")


def topic(name, *partitions, **values):
    rows = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=replicas, isr_nodes=isr)
        for index, (leader, replicas, isr) in enumerate(partitions)
    ]
    return MetadataResponseTopic(name=name, partitions=rows, **values)


@pytest.fixture
def old():
    """A broker of a time before DescribeTopicPartitions, with a topic in trouble that moves."""
    offered = {key: (row.first, row.last) for key, row in VERSIONS.items() if key != ApiKey.DESCRIBE_TOPIC_PARTITIONS}
    with ScriptedBroker(versions=offered) as peer:
        rows = [topic("t", (1, [1, 2], [1]), (-1, [1, 2], [2]), (1, [1, 2, 3], [1, 2]), topic_id=bytes(16))]
        peer.answers[ApiKey.METADATA] = lambda _: peer.metadata(rows)
        configs = [
            DescribeConfigsResourceResult(name="min.insync.replicas", value="2", config_source=1),
            DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=5),
        ]
        peer.answers[ApiKey.DESCRIBE_CONFIGS] = lambda _: DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=2, resource_name="t", configs=configs)]
        )
        moving = OngoingPartitionReassignment(partition_index=2, replicas=[1, 2, 3], adding_replicas=[3])
        peer.answers[ApiKey.LIST_PARTITION_REASSIGNMENTS] = lambda _: ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name="t", partitions=[moving])]
        )
        yield peer


def shown(old, *arguments):
    return cli.run("topics", "--describe", *arguments, bootstrap=old.address).splitlines()


def test_topics_are_described_by_brokers_that_tell_less(old):
    head, *rows = shown(old)
    assert head == "Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: min.insync.replicas=2"
    tail = "\tElr: N/A\tLastKnownElr: N/A"
    assert rows == [
        f"\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1{tail}",
        f"\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 1,2\tIsr: 2{tail}",
        f"\tTopic: t\tPartition: 2\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2"
        f"\tAdding Replicas: 3\tRemoving Replicas: {tail}",
    ]


@pytest.mark.parametrize(
    ("report", "partitions"),
    [
        ("--under-replicated-partitions", [0, 1]),  # what a move adds does not count before it is done
        ("--unavailable-partitions", [1]),
        ("--under-min-isr-partitions", [0, 1]),
        ("--at-min-isr-partitions", [2]),
    ],
)
def test_reports_show_only_the_partitions_they_are_about(old, report, partitions):
    assert [int(line.split("Partition: ")[1].split("\t")[0]) for line in shown(old, report)] == partitions


def test_a_topic_is_created_by_the_controller_and_a_refusal_has_the_brokers_words():
    results = [
        CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER),
        CreatableTopicResult(name="t", error_code=ErrorCode.POLICY_VIOLATION, error_message="Not on a Friday."),
    ]
    answers = iter(results)
    with ScriptedBroker({ApiKey.CREATE_TOPICS: lambda _: CreateTopicsResponse(topics=[next(answers)])}) as peer:
        said = cli.refusal("topics", "--create", "--topic", "t", "--config", "a=b=c", bootstrap=peer.address)
        assert said == "Not on a Friday."
        [config] = peer.requests(ApiKey.CREATE_TOPICS)[0].message.topics[0].configs
        assert (config.name, config.value) == ("a", "b=c")


@pytest.mark.parametrize(
    ("arguments", "partitions"),
    [
        ([], ["t:0", "t:1", "t:10", "t:11", "t:2", "t:3", "t:4", "t:5", "t:6", "t:7", "t:8", "t:9"]),
        (["--partitions", "1,11"], ["t:1", "t:11"]),
        (["--topic-partitions", "t:2-4"], ["t:2", "t:3"]),
        (["--topic-partitions", "t:-2,:11,u:5"], ["t:0", "t:1", "t:11"]),
        (["--topic-partitions", "t:10-"], ["t:10", "t:11"]),
    ],
)
def test_offsets_of_chosen_partitions_come_in_the_order_of_their_text(arguments, partitions):
    def answer(request):
        rows = [
            ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=7)
            for row in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=rows)])

    with ScriptedBroker({ApiKey.LIST_OFFSETS: answer}) as peer:
        peer.answers[ApiKey.METADATA] = lambda _: peer.metadata([topic("t", *[(1, [1], [1])] * 12)])
        lines = cli.run("get-offsets", *arguments, bootstrap=peer.address).splitlines()
    assert lines == [f"{partition}:7" for partition in partitions]


def test_a_partition_that_fails_is_skipped_with_a_word_and_the_others_are_printed():
    def answer(request):
        rows = [
            ListOffsetsPartitionResponse(
                partition_index=row.partition_index,
                error_code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if row.partition_index else 0,
                offset=7,
            )
            for row in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=rows)])

    with ScriptedBroker({ApiKey.LIST_OFFSETS: answer}) as peer:
        peer.answers[ApiKey.METADATA] = lambda _: peer.metadata([topic("t", (1, [1], [1]), (1, [1], [1]))])
        done = cli.attempt("get-offsets", bootstrap=peer.address)
    assert (done.code, done.out) == (0, "t:0:7\n")
    assert done.err.startswith("Skip getting offsets for topic-partition t-1 due to error: ")


def test_a_failed_directory_is_named_with_javas_error():
    results = [DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/d")]
    with ScriptedBroker({ApiKey.DESCRIBE_LOG_DIRS: lambda _: DescribeLogDirsResponse(results=results)}) as peer:
        answer = json.loads(cli.run("log-dirs", "--describe", "--json", bootstrap=peer.address))
    [directory] = answer["brokers"][0]["logDirs"]
    assert directory["error"] == "org.apache.kafka.common.errors.KafkaStorageException"


def test_versions_of_brokers_that_can_be_asked_are_printed_though_one_cannot():
    with ScriptedBroker() as peer:
        response = peer.metadata()
        response.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1, rack="r"))
        peer.answers[ApiKey.METADATA] = lambda _: response
        done = cli.attempt("api-versions", bootstrap=peer.address)
    assert done.code == 1
    assert f"{peer.address} (id: 1 rack: null isFenced: false) -> (" in done.out
    assert "127.0.0.1:1 (id: 2 rack: r isFenced: false) -> ERROR: cannot connect to 127.0.0.1:1" in done.out
