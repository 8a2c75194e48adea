"""Conformance checks 1 to 15: negotiation, frames, order of answers, idle connections."""

import itertools
import struct
import subprocess
import time

import pytest

from tests.cases.conftest import address
from tests.harness import batches, tool_host, wire
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, fetch_row, fetch_values, produce_values

GONE = {4, 5, 6, 7}
NOT_OFFERED = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}
IMPLEMENTED = {
    "produce": (0, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "metadata": (0, 13),
    "offset_commit": (2, 10),
    "offset_fetch": (1, 10),
    "find_coordinator": (0, 6),
    "join_group": (0, 9),
    "heartbeat": (0, 4),
    "leave_group": (0, 5),
    "sync_group": (0, 5),
    "describe_groups": (0, 6),
    "list_groups": (0, 5),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "describe_configs": (1, 4),
    "create_partitions": (0, 3),
    "describe_cluster": (0, 2),
    "describe_topic_partitions": (0, 0),
}


def test_check_01_api_versions_v0_lists_the_ranges_in_order(client: RawClient) -> None:
    answer = client.request("api_versions", 0)
    keys = [row.api_key for row in answer.api_keys]
    assert answer.error_code == 0
    assert keys == sorted(set(keys))
    assert not (GONE | NOT_OFFERED) & set(keys)
    ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert {api: ranges.get(wire.API_KEYS[api]) for api in IMPLEMENTED} == IMPLEMENTED


def _features(client: RawClient, version: int) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    answer = client.request("api_versions", version, client_software_name="x", client_software_version="1")
    assert answer.error_code == 0
    supported = {row["name"] if isinstance(row, dict) else row.name: row for row in answer.supported_features}
    finalized = {row.name: row.max_version_level for row in answer.finalized_features}
    assert answer.finalized_features_epoch >= 0
    return {name: (row.min_version, row.max_version) for name, row in supported.items()}, finalized


def test_check_02_api_versions_v4_carries_features(client: RawClient) -> None:
    supported, finalized = _features(client, 4)
    assert supported["metadata.version"][0] >= 1
    assert finalized["metadata.version"] >= 1
    for name, level in finalized.items():
        assert 0 < level <= supported[name][1]
    if client.offers("end_txn", 5):
        assert finalized["transaction.version"] == 2


def test_check_03_api_versions_v3_hides_features_with_minimum_zero(client: RawClient) -> None:
    supported, _ = _features(client, 3)
    assert all(low > 0 for low, _ in supported.values())
    assert "metadata.version" in supported


def test_check_04_api_versions_v99_with_garbage_is_answered_in_v0(client: RawClient) -> None:
    # The header must be a sound v2 header; only the body may be anything.
    correlation_id, data = client.custom_frame(18, 99, b"\xff" * 20, flexible=True)
    client.socket.sendall(data)
    answered, answer = client.receive("api_versions", 0)
    assert (answered, answer.error_code) == (correlation_id, 35)
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
    assert client.request("api_versions", 4, client_software_name="x", client_software_version="1").error_code == 0


def test_check_05_api_versions_v3_with_a_bad_software_name(client: RawClient) -> None:
    answer = client.request("api_versions", 3, client_software_name="bad name!", client_software_version="1")
    assert (answer.error_code, answer.api_keys) == (42, [])


UNSUPPORTED = {
    "api key 999": (999, 0, False),
    "api key 4": (4, 0, False),
    "Metadata v14": (3, 14, True),
    "Produce v2": (0, 2, False),
    "Fetch v3": (1, 3, False),
    "AlterPartition": (56, 3, True),
}


@pytest.mark.parametrize("request_of", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_check_06_unsupported_requests_close(client: RawClient, connect, request_of: tuple[int, int, bool]) -> None:
    key, version, flexible = request_of
    bad = connect()
    bad.socket.sendall(bad.custom_frame(key, version, bytes(20), flexible=flexible)[1])
    bad.expect_close()


@pytest.mark.parametrize("size", [-1, 104857601, 0])
def test_check_07_impossible_sizes_close(client: RawClient, connect, size: int) -> None:
    bad = connect()
    bad.socket.sendall(struct.pack(">i", size))
    bad.expect_close()


def test_check_08_one_byte_per_segment(client: RawClient) -> None:
    correlation_id, data = client.frame("metadata", 12, topics=[])
    for byte in data:
        client.socket.sendall(bytes([byte]))
        time.sleep(0.001)
    assert client.receive("metadata", 12)[0] == correlation_id


def test_check_09_fifty_mixed_requests_in_one_send(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    wanted = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    kinds = [
        ("metadata", 12, {"topics": [{"name": topic}], "allow_auto_topic_creation": False}),
        ("list_offsets", 5, {"replica_id": -1, "topics": [wanted]}),
        ("produce", 9, produce_values(topic, {0: batches.simple("v")})),
    ]
    sent = [
        (api, version, *client.frame(api, version, **values))
        for api, version, values in itertools.islice(itertools.cycle(kinds), 50)
    ]
    client.socket.sendall(b"".join(data for *_, data in sent))
    ends, bases = [], []
    for api, version, correlation_id, _ in sent:
        answered, body = client.receive(api, version)
        assert answered == correlation_id
        if api == "list_offsets":
            ends.append(body.topics[0].partitions[0].offset)
        elif api == "produce":
            bases.append(body.responses[0].partition_responses[0].base_offset)
    # In order means: each lookup sees the appends before it and none after.
    assert bases == list(range(16))
    assert ends == list(range(17))


def test_check_10_request_behind_a_waiting_fetch_waits(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    values = fetch_values([{"topic": topic, "partitions": [fetch_row(0, 0)]}], version=11, max_wait_ms=2000)
    started = time.monotonic()
    fetch = client.send("fetch", 11, **values)
    metadata = client.send("metadata", 12, topics=[])
    assert client.receive("fetch", 11)[0] == fetch
    assert 1.9 <= time.monotonic() - started < 10
    assert client.receive("metadata", 12)[0] == metadata


def test_check_11_null_client_id_and_unknown_tags(client: RawClient, connect) -> None:
    tags = {70: b"a", 71: b"", 72: b"ccc"}
    nameless = connect(client_id=None)
    answer = nameless.request("metadata", 9, header_tags=tags, topics=[], extra_tags=tags)
    assert answer.brokers


def test_check_12_compact_array_of_two_billion_is_closed(broker: BrokerProcess, client, connect, is_reference) -> None:
    before = broker.resident_bytes()
    bad = connect()
    _, data = bad.frame("metadata", 9, body=wire.uvarint(2**31 - 1) + bytes(70))
    bad.socket.sendall(data)
    bad.expect_close()
    if not is_reference:
        assert broker.resident_bytes() - before < 20 << 20


def test_check_13_idle_connections_close_and_waiting_ones_do_not(broker_factory, is_reference: bool) -> None:
    broker = broker_factory({"connections.max.idle.ms": "3000"})
    with RawClient(address(broker)) as idle, RawClient(address(broker)) as waiting:
        waiting.create_topic("t")
        values = fetch_values([{"topic": "t", "partitions": [fetch_row(0, 0)]}], version=11, max_wait_ms=5000)
        began = time.monotonic()
        idle.metadata([])
        correlation_id = waiting.send("fetch", 11, **values)
        idle.expect_close()
        assert 2.9 <= time.monotonic() - began <= 12
        if is_reference:
            return  # it counts a waiting connection as idle and closes it too
        assert waiting.receive("fetch", 11)[0] == correlation_id
        assert time.monotonic() - began >= 4.9


@pytest.mark.jvm
def test_check_14_broker_api_versions_tool_knows_every_key(broker: BrokerProcess) -> None:
    said = tool_host.run("kafka-broker-api-versions", "--bootstrap-server", broker.bootstrap)
    lines = [line for line in said.splitlines() if line.startswith("\t")]
    for key in {wire.API_KEYS[api] for api in IMPLEMENTED}:
        [line] = [line for line in lines if f"({key}):" in line]
        assert "UNSUPPORTED" not in line
        assert "UNKNOWN" not in line


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_check_15_kcat_compresses(broker: BrokerProcess, client: RawClient, fresh, kcat: str, codec: str) -> None:
    topic = fresh()
    client.create_topic(topic)
    lines = "".join(f"{'line' * 20}{number}\n" for number in range(100))
    command = [kcat, "-P", "-b", broker.bootstrap, "-t", topic, "-z", codec]
    subprocess.run(command, input=lines, text=True, check=True, timeout=30)
    stored = batches.parse(client.fetch_all(topic))
    assert {batch.codec for batch in stored} == {batches.CODECS[codec]}
    assert "".join(f"{record.value.decode()}\n" for batch in stored for record in batch.records()) == lines
