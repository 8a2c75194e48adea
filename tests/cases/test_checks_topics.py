"""Conformance checks 16 to 28 and 126: metadata and topics."""

import os

import pytest

from tests.cases.conftest import address
from tests.harness import batches, tool_host
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually, fetch_row, fetch_values

NO_OPERATIONS = -2147483648


def _create(client: RawClient, name: str, *, version: int = 7, validate_only: bool = False, **fields):
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1} | fields
    [result] = client.request(
        "create_topics", version, topics=[topic], timeout_ms=15000, validate_only=validate_only
    ).topics
    assert result.name == name
    return result


def test_check_16_metadata_forms(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    assert topic in {row.name for row in client.metadata(None, version=1).topics}
    assert client.metadata([], version=1).topics == []
    assert topic in {row.name for row in client.metadata([], version=0).topics}


def test_check_17_auto_creation_answers_unknown_or_complete(client: RawClient, fresh) -> None:
    topic = fresh()

    def ask():
        [row] = client.metadata([topic], create=True).topics
        assert row.error_code in (0, 3, 5)
        assert row.partitions or row.error_code != 0, "error 0 without partitions"
        return row if row.error_code == 0 and row.partitions[0].error_code == 0 else None

    found = eventually(ask)
    assert len(found.partitions) == 1
    assert found.topic_id != bytes(16)


def test_check_18_no_auto_creation_without_the_flag(client: RawClient, fresh) -> None:
    topic = fresh()
    for _ in range(3):
        assert client.metadata([topic], create=False).topics[0].error_code == 3
    assert topic not in client.topic_names()


def test_check_19_metadata_by_unknown_id(client: RawClient) -> None:
    stranger = os.urandom(16)
    [row] = client.request("metadata", 12, topics=[{"topic_id": stranger, "name": None}]).topics
    assert (row.error_code, row.name, row.topic_id, row.partitions) == (100, None, stranger, [])


def test_check_19_metadata_by_id_and_name(client: RawClient, fresh) -> None:
    topic, other = fresh(), fresh()
    topic_id = client.create_topic(topic)
    client.create_topic(other)
    answer = client.request("metadata", 12, topics=[{"topic_id": topic_id, "name": None}])
    assert [(row.error_code, row.name) for row in answer.topics] == [(0, topic)]
    mixed = [{"topic_id": topic_id, "name": None}, {"topic_id": bytes(16), "name": other}]
    assert [row.name for row in client.request("metadata", 12, topics=mixed).topics] == [topic]


@pytest.mark.parametrize("version", [10, 11])
def test_check_20_metadata_with_null_name_before_v12(client: RawClient, version: int) -> None:
    [row] = client.request("metadata", version, topics=[{"topic_id": bytes(16), "name": None}]).topics
    assert row.error_code == 42


@pytest.mark.jvm
def test_check_21_kafka_topics_creates_and_describes(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    common = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    tool_host.run("kafka-topics", "--create", "--partitions", "3", *common)
    said = tool_host.run("kafka-topics", "--describe", *common)
    head, *rows = [line for line in said.splitlines() if line.strip()]
    fields = dict(part.split(": ", 1) for part in head.split("\t") if ": " in part)
    assert len(fields["TopicId"]) == 22
    assert fields["PartitionCount"].strip() == "3"
    assert len(rows) == 3
    for row in rows:
        assert "Leader: 1\tReplicas: 1\tIsr: 1" in row


def test_check_22_names_that_collide(client: RawClient, fresh) -> None:
    dotted = fresh("a.b")
    assert _create(client, dotted).error_code == 0
    second = _create(client, dotted.replace(".", "_"))
    assert second.error_code == 17
    assert dotted in second.error_message


def test_check_23_creation_errors(client: RawClient, fresh) -> None:
    topic = fresh()
    assert _create(client, topic).error_code == 0
    assert _create(client, topic).error_code == 36
    assert _create(client, fresh(), replication_factor=2).error_code == 38
    assert _create(client, fresh(), num_partitions=0).error_code == 37
    assert _create(client, fresh(), replication_factor=0).error_code == 38
    unknown = _create(client, fresh(), configs=[{"name": "foo", "value": "1"}])
    assert (unknown.error_code, unknown.error_message) == (40, "Unknown topic config name: foo")
    assert _create(client, "a b").error_code == 17
    assert _create(client, "x" * 250).error_code == 17
    assert _create(client, "__cluster_metadata").error_code == 42


ASSIGNMENTS = {
    "hole": ({0: [1], 2: [1]}, 39),
    "no replica": ({0: []}, 39),
    "unknown broker": ({0: [99]}, 39),
    "broker twice": ({0: [1, 1]}, 39),
    "good": ({0: [1], 1: [1]}, 0),
}


@pytest.mark.parametrize("case", ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_check_24_assignments(client: RawClient, fresh, case: tuple[dict[int, list[int]], int]) -> None:
    wanted, code = case
    rows = [{"partition_index": index, "broker_ids": brokers} for index, brokers in wanted.items()]
    assert _create(client, fresh(), num_partitions=-1, replication_factor=-1, assignments=rows).error_code == code
    assert _create(client, fresh(), num_partitions=-1, replication_factor=1, assignments=rows).error_code == 42


@pytest.mark.parametrize("version", [5, 7])
def test_check_25_validate_only_answers_in_full_and_creates_nothing(client: RawClient, fresh, version: int) -> None:
    topic = fresh()
    rows = [{"name": "retention.ms", "value": "5"}]
    result = _create(client, topic, version=version, validate_only=True, num_partitions=-1, configs=rows)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)
    configs = {row.name: (row.value, row.config_source) for row in result.configs}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["cleanup.policy"] == ("delete", 5)
    assert topic not in client.topic_names()


def test_check_26_recreation_under_a_fetch_session(client: RawClient, connect, fresh) -> None:
    topic, version = fresh(), 17
    old_id = client.create_topic(topic)
    client.append(topic, batches.simple("old"))
    poller = connect()

    def poll(session_id: int, epoch: int, topic_id: bytes | None, wait_ms: int = 0):
        rows = [] if topic_id is None else [{"topic_id": topic_id, "partitions": [fetch_row(0, 0 if topic_id else 1)]}]
        values = fetch_values(rows, version=version, session_id=session_id, session_epoch=epoch, max_wait_ms=wait_ms)
        return poller.request("fetch", version, **values)

    opened = poll(0, 0, old_id)
    assert opened.session_id != 0
    assert batches.records_of(opened.responses[0].partitions[0].records)[0].value == b"old"
    client.delete_topic(topic)
    new_id = client.create_topic(topic)
    client.append(topic, batches.simple("new"))
    assert new_id != old_id
    stale = poll(opened.session_id, 1, None)
    assert stale.responses[0].partitions[0].error_code in (100, 103)
    renewed = poll(0, 0, new_id)
    assert [record.value for record in batches.records_of(renewed.responses[0].partitions[0].records)] == [b"new"]


def test_check_26_deleting_a_topic_wakes_a_waiting_fetch(client: RawClient, connect, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    waiting = connect()
    values = fetch_values([{"topic": topic, "partitions": [fetch_row(0, 0)]}], version=11, max_wait_ms=25000)
    correlation_id = waiting.send("fetch", 11, **values)
    client.delete_topic(topic)
    waiting.socket.settimeout(10)
    answered, answer = waiting.receive("fetch", 11)
    assert answered == correlation_id
    assert answer.responses[0].partitions[0].error_code in (3, 6, 100)


def test_check_27_create_partitions(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 3)
    client.append(topic, batches.simple("kept"), 2)

    def grow(name: str, count: int) -> tuple[int, str | None]:
        wanted = [{"name": name, "count": count, "assignments": None}]
        [row] = client.request("create_partitions", 3, topics=wanted, timeout_ms=15000).results
        return row.error_code, row.error_message

    assert grow(topic, 3) == (37, "Topic already has 3 partition(s).")
    assert grow(topic, 2)[0] == 37
    assert grow(topic, 5)[0] == 0
    assert grow("missing", 5)[0] == 3
    client.wait_for_topic(topic, 5)
    assert client.end_offset(topic, 2) == 1


def test_check_28_describe_topic_partitions_in_pages(client: RawClient, fresh) -> None:
    first, second = fresh("a"), fresh("b")
    client.create_topic(second, 2)
    client.create_topic(first, 3)

    def page(cursor):
        wanted = [{"name": second}, {"name": first}]
        answer = client.request(
            "describe_topic_partitions", 0, topics=wanted, response_partition_limit=2, cursor=cursor
        )
        found = [(row.name, part.partition_index) for row in answer.topics for part in row.partitions]
        following = answer.next_cursor
        return found, following and (following.topic_name, following.partition_index)

    found, cursor = page(None)
    assert (found, cursor) == ([(first, 0), (first, 1)], (first, 2))
    found, cursor = page({"topic_name": first, "partition_index": 2})
    assert (found, cursor) == ([(first, 2), (second, 0)], (second, 1))
    found, cursor = page({"topic_name": second, "partition_index": 1})
    assert (found, cursor) == ([(second, 1)], None)


def test_check_126_describe_cluster_endpoint_types(client: RawClient) -> None:
    assert client.request("describe_cluster", 1, endpoint_type=2).error_code == 114
    assert client.request("describe_cluster", 1, endpoint_type=9).error_code == 115
    for version in client.offered("describe_cluster"):
        answer = client.request("describe_cluster", version, include_cluster_authorized_operations=version > 0)
        assert (answer.error_code, answer.controller_id, [row.broker_id for row in answer.brokers]) == (0, 1, [1])
        assert len(answer.cluster_id) == 22
        assert answer.cluster_authorized_operations == (8096 if version > 0 else NO_OPERATIONS)


def test_check_16_authorized_operations_only_when_asked(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    for version in client.offered("metadata", 8, 10, 12):
        options = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
        if version <= 10:
            options["include_cluster_authorized_operations"] = True
        answer = client.request("metadata", version, topics=[{"name": topic}], **options)
        assert answer.topics[0].topic_authorized_operations == 3576
        if version <= 10:
            assert answer.cluster_authorized_operations == 8096
        assert client.metadata([topic], version=version).topics[0].topic_authorized_operations == NO_OPERATIONS


def test_check_16_cluster_id_stays(broker: BrokerProcess, client: RawClient) -> None:
    before = client.metadata([]).cluster_id
    broker.restart()
    with RawClient(address(broker)) as later:
        assert later.metadata([]).cluster_id == before
