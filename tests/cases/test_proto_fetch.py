"""PROTO-12, PROTO-13 and PROTO-15: where a fetch begins, how much it returns, which tags an answer carries."""

import struct
import time

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, fetch_row, fetch_values, produce_values

PROPERTIES = {"message.max.bytes": "2000000"}


def _check_fetch_starts(client: RawClient, topic: str) -> None:
    for version in client.offered("fetch", 4, client.highest("fetch")):
        for offset, base in enumerate([0, 0, 2, 2]):
            result = client.fetch(topic, offset, version=version)
            assert result.error_code == 0
            first, *_ = batches.parse(result.records)
            assert first.base_offset == base, (version, offset)
            assert first.crc_is_right
        started = time.monotonic()
        at_end = client.fetch(topic, 4, version=version, max_wait_ms=300)
        assert (at_end.error_code, at_end.records) == (0, b"")
        assert 0.25 < time.monotonic() - started < 10
        assert client.fetch(topic, 5, version=version).error_code == 1


def test_proto_12_fetch_inside_a_batch_returns_the_whole_batch(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic, rolled = fresh(), fresh("rolled")
    now = int(time.time() * 1000)
    client.create_topic(topic)
    client.create_topic(rolled, segment_ms="1000")
    for name in (topic, rolled):
        client.append(name, batches.simple("a0", "a1", timestamp=now - 60000))
        client.append(name, batches.simple("b2", "b3", timestamp=now))
        _check_fetch_starts(client, name)
    segments = [file.name for file in (broker.data_directory / f"{rolled}-0").glob("*.log")]
    assert sorted(segments) == ["00000000000000000000.log", "00000000000000000002.log"]
    broker.restart()
    with RawClient(address(broker)) as later:
        for name in (topic, rolled):
            later.wait_for_topic(name, 1)
            _check_fetch_starts(later, name)


def _fetch_rows(client: RawClient, version: int, topics: dict[str, list[dict]], **limits: int):
    wanted = []
    for name, rows in topics.items():
        named = {"topic_id": client.topic(name).topic_id} if version >= 13 else {"topic": name}
        wanted.append({**named, "partitions": rows})
    answer = client.request("fetch", version, **fetch_values(wanted, version=version, **limits))
    return [row for entry in answer.responses for row in entry.partitions]


def test_proto_13_first_batch_comes_whole_whatever_the_limits(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 3)
    batch = batches.of_size(900_000)
    for partition in range(3):
        client.append(topic, batch, partition)
    for version in client.offered("fetch", 4, 11, 12, client.highest("fetch")):
        [alone] = _fetch_rows(client, version, {topic: [fetch_row(0, 0, partition_max_bytes=1)]}, max_bytes=1)
        assert alone.error_code == 0
        assert alone.records[21:] == batch[21:]
        rows = [fetch_row(partition, 0, partition_max_bytes=1) for partition in (2, 0, 1)]
        first, *others = _fetch_rows(client, version, {topic: rows}, max_bytes=1)
        assert (first.partition_index, first.error_code, len(first.records)) == (2, 0, 900_000)
        assert [(row.partition_index, row.error_code, row.records) for row in others] == [(0, 0, b""), (1, 0, b"")]


@pytest.mark.slow
def test_proto_13_total_limit_over_many_partitions(client: RawClient, fresh) -> None:
    topic, partitions, each = fresh(), 100, 100
    client.create_topic(topic, partitions)
    batch = batches.of_size(10_000)
    for _ in range(each):
        values = produce_values(topic, dict.fromkeys(range(partitions), batch))
        rows = client.request("produce", 9, **values).responses[0].partition_responses
        assert {row.error_code for row in rows} == {0}
    position = dict.fromkeys(range(partitions), 0)
    while any(offset < each for offset in position.values()):
        rows = [fetch_row(p, o, partition_max_bytes=1_000_000) for p, o in position.items() if o < each]
        answered = _fetch_rows(client, 11, {topic: rows}, max_bytes=5_000_000)
        total = 0
        for row in answered:
            assert row.error_code == 0
            total += len(row.records)
            whole = batches.parse(row.records)
            assert whole or not row.records, "a cut-off batch without a complete one before it"
            for found in whole:
                assert found.base_offset == position[row.partition_index]
                position[row.partition_index] = found.next_offset
        assert 0 < total <= 5_000_000 + 10_000
    assert set(position.values()) == {each}


def _all_answers(client: RawClient, topic: str) -> None:
    for version in client.offered("fetch", 4, 11, 12, 13, 15, 16, client.highest("fetch")):
        rows = _fetch_rows(client, version, {topic: [fetch_row(0, 0), fetch_row(77, 0)]})
        assert [row.error_code for row in rows] == [0, 3]
        for row in rows:
            assert row.seen_tags == []
        failed = rows[1]
        assert (failed.high_watermark, failed.last_stable_offset, failed.records) == (-1, -1, b"")
    for version in client.offered("produce", 3, 8, 9, 10, 12):
        values = produce_values(topic, {0: batches.simple("v"), 77: batches.simple("v")})
        rows = client.request("produce", version, **values).responses[0].partition_responses
        assert [(row.index, row.error_code) for row in rows] == [(0, 0), (77, 3)]
        if version >= 9:
            assert all(row.seen_tags == [] for row in rows)
    for version in client.offered("metadata"):
        assert [row.error_code for row in client.metadata([topic, "missing"], version=version).topics] == [0, 3]


def test_proto_15_answers_carry_only_tags_of_their_version(broker_factory, fresh) -> None:
    # Every answer is parsed to its last byte; an undefined or misplaced tag fails in the parser.
    broker = broker_factory({"auto.create.topics.enable": "false"})
    with RawClient(address(broker)) as client:
        topic = fresh()
        client.create_topic(topic)
        client.append(topic, batches.simple("v"))
        _all_answers(client, topic)
        for version in client.offered("api_versions"):
            names = {"client_software_name": "probe", "client_software_version": "1.0"} if version >= 3 else {}
            assert client.request("api_versions", version, **names).error_code == 0


def test_proto_15_unknown_request_tags_are_skipped(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    answer = client.request(
        "metadata",
        9,
        header_tags={999: b"abc"},
        topics=[{"name": topic, "extra_tags": {999: b"xyz"}}],
        extra_tags={999: b"123"},
        allow_auto_topic_creation=False,
    )
    assert [(row.name, row.error_code) for row in answer.topics] == [(topic, 0)]


def test_proto_15_fetch_errors_name_the_leader_only_from_v16(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    epoch = client.topic(topic).partitions[0].leader_epoch
    for version in client.offered("fetch", 12, 15, 16, client.highest("fetch")):
        [row] = _fetch_rows(client, version, {topic: [fetch_row(0, 0, current_leader_epoch=epoch + 100)]})
        assert row.error_code == 75
        assert row.seen_tags == []


def test_proto_15_trailing_bytes_after_a_request_body_are_ignored(client: RawClient) -> None:
    correlation_id, data = client.frame("metadata", 1, topics=[])
    longer = struct.pack(">i", len(data) - 4 + 5) + data[4:] + b"extra"
    client.socket.sendall(longer)
    assert client.receive("metadata", 1)[0] == correlation_id
