"""Conformance checks 50 to 65: fetch, sessions, epochs, ListOffsets."""

import os
import threading
import time

import pytest

from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.raw import RawClient, fetch_row, fetch_values, produce_values


def _fetch(client: RawClient, rows: dict[str, list[dict]], version: int = 11, **options):
    topics = [{"topic": name, "partitions": partitions} for name, partitions in rows.items()]
    return client.request("fetch", version, **fetch_values(topics, version=version, **options))


def _parts(answer) -> list[tuple[str, int]]:
    return [(entry.topic, row.partition_index) for entry in answer.responses for row in entry.partitions]


def test_check_50_first_batch_whatever_the_limits(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.of_size(500_000))
    result = client.fetch(topic, 0, max_bytes=1000, partition_max_bytes=1000)
    assert len(result.records) == 500_000


def test_check_51_second_partition_beyond_the_limit_is_empty(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 2)
    for partition in range(2):
        client.append(topic, batches.of_size(500_000), partition)
    rows = _fetch(client, {topic: [fetch_row(0, 0), fetch_row(1, 0)]}, max_bytes=600_000).responses[0].partitions
    whole = [len(batches.parse(row.records)) for row in rows]
    assert whole == [1, 0]
    assert [row.error_code for row in rows] == [0, 0]


def test_check_52_offset_inside_a_batch(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple(*(str(number) for number in range(10))))
    [batch] = batches.parse(client.fetch(topic, 7).records)
    assert (batch.base_offset, batch.next_offset) == (0, 10)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_check_53_fetch_at_the_end_waits(client: RawClient, fresh, version: int) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("v"))
    started = time.monotonic()
    result = client.fetch(topic, 1, version=version, max_wait_ms=500)
    assert 0.45 <= time.monotonic() - started < 10
    assert (result.error_code, result.records) == (0, b"")
    assert (result.high_watermark, result.last_stable_offset) == (1, 1)


def test_check_54_produce_wakes_a_waiting_fetch(client: RawClient, connect, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    other = connect()
    appended: list[float] = []

    def produce() -> None:
        other.append(topic, batches.simple("late"))
        appended.append(time.monotonic())

    timer = threading.Timer(0.1, produce)
    timer.start()
    result = client.fetch(topic, 0, max_wait_ms=20000)
    answered = time.monotonic()
    timer.join()
    assert [record.value for record in batches.records_of(result.records)] == [b"late"]
    assert answered - appended[0] < 10  # half of what it would have waited


def test_check_54_min_bytes_is_waited_for(client: RawClient, connect, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("small"))
    started = time.monotonic()
    result = client.fetch(topic, 0, max_wait_ms=400, min_bytes=100_000)
    assert 0.35 <= time.monotonic() - started < 10
    assert len(batches.parse(result.records)) == 1


@pytest.mark.parametrize("version", [4, 7, 11, 12, 17])
def test_check_55_fetch_beyond_the_end(client: RawClient, fresh, version: int) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("v"))
    result = client.fetch(topic, 2, version=version)
    assert (result.error_code, result.high_watermark, result.last_stable_offset, result.records) == (1, -1, -1, b"")
    if version >= 5:
        assert result.log_start_offset == -1


def _session(client: RawClient, topic: str, version: int = 11):
    rows = [fetch_row(partition, 0) for partition in range(3)]
    return _fetch(client, {topic: rows}, version, session_id=0, session_epoch=0)


@pytest.fixture
def three(client: RawClient, fresh) -> str:
    """Give a topic of three partitions of which the second has data."""
    topic = fresh("three")
    client.create_topic(topic, 3)
    client.append(topic, batches.simple("v"), 1)
    return topic


def test_check_56_full_fetch_opens_a_session(client: RawClient, three: str) -> None:
    answer = _session(client, three)
    assert answer.error_code == 0
    assert answer.session_id != 0
    assert sorted(_parts(answer)) == [(three, 0), (three, 1), (three, 2)]
    assert {row.partition_index for row in answer.responses[0].partitions if row.records} == {1}


def test_check_57_incremental_fetch_returns_only_news(client: RawClient, three: str) -> None:
    session = _session(client, three).session_id
    moved = {three: [fetch_row(1, 1)]}
    answer = _fetch(client, moved, session_id=session, session_epoch=1)
    assert (answer.error_code, answer.session_id, _parts(answer)) == (0, session, [])
    client.append(three, batches.simple("w"), 2)
    answer = _fetch(client, {}, session_id=session, session_epoch=2)
    assert _parts(answer) == [(three, 2)]
    forgotten = [{"topic": three, "partitions": [2]}]
    answer = _fetch(client, {}, session_id=session, session_epoch=3, forgotten_topics_data=forgotten)
    assert _parts(answer) == []
    rows = {three: [fetch_row(0, 77)]}
    for epoch in (4, 5):  # an error is repeated in every answer
        answer = _fetch(client, rows if epoch == 4 else {}, session_id=session, session_epoch=epoch)
        assert [(row.partition_index, row.error_code) for row in answer.responses[0].partitions] == [(0, 1)]


def test_check_58_wrong_epoch_and_unknown_session(client: RawClient, three: str) -> None:
    session = _session(client, three).session_id
    assert _fetch(client, {three: [fetch_row(1, 1)]}, session_id=session, session_epoch=1).error_code == 0
    repeated = _fetch(client, {}, session_id=session, session_epoch=1)
    assert (repeated.error_code, repeated.session_id, repeated.responses) == (71, 0, [])
    unknown = _fetch(client, {}, session_id=12345, session_epoch=1)
    assert (unknown.error_code, unknown.session_id, unknown.responses) == (70, 0, [])


def test_check_59_names_and_ids_do_not_mix_in_a_session(client: RawClient, three: str) -> None:
    session = _session(client, three, 12).session_id
    answer = client.request("fetch", 13, **fetch_values([], version=13, session_id=session, session_epoch=1))
    assert (answer.error_code, answer.responses) == (106, [])


def test_check_60_session_is_closed_by_epoch_minus_one(client: RawClient, three: str) -> None:
    session = _session(client, three).session_id
    answer = _fetch(client, {three: [fetch_row(1, 0)]}, session_id=session, session_epoch=-1)
    assert (answer.error_code, answer.session_id, _parts(answer)) == (0, 0, [(three, 1)])
    assert _fetch(client, {}, session_id=session, session_epoch=1).error_code == 70


def test_check_60_session_without_partitions_ends(client: RawClient, three: str) -> None:
    session = _session(client, three).session_id
    forgotten = [{"topic": three, "partitions": [0, 1, 2]}]
    answer = _fetch(client, {}, session_id=session, session_epoch=1, forgotten_topics_data=forgotten)
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
    assert _fetch(client, {}, session_id=session, session_epoch=2).error_code == 70


def test_check_61_leader_epochs_are_fenced(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    epoch = client.topic(topic).partitions[0].leader_epoch
    for version in client.offered("fetch", 9, 11, 12):
        higher = client.fetch(topic, 0, version=version, current_leader_epoch=epoch + 1)
        assert (higher.error_code, higher.high_watermark, higher.records) == (75, -1, b"")
        assert client.fetch(topic, 0, version=version, current_leader_epoch=epoch).error_code == 0
    for version in client.offered("list_offsets", 4, 9):
        row = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch + 1}
        answer = client.request("list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": [row]}])
        assert answer.topics[0].partitions[0].error_code == 75


def test_check_62_unknown_topic_id(client: RawClient, fresh) -> None:
    stranger = os.urandom(16)
    rows = [{"topic_id": stranger, "partitions": [fetch_row(0, 0)]}]
    answer = client.request("fetch", 13, **fetch_values(rows, version=13))
    assert (answer.responses[0].topic_id, answer.responses[0].partitions[0].error_code) == (stranger, 100)


def _lookup(client: RawClient, topic: str, timestamp: int, version: int = 7) -> tuple[int, int, int]:
    result = client.list_offset(topic, timestamp, version=version)
    return result.error_code, result.offset, result.timestamp


@pytest.fixture
def times(client: RawClient, fresh) -> str:
    """Give a topic with timestamps 5, 9, 7."""
    topic = fresh("times")
    client.create_topic(topic, retention_ms="-1")
    client.append(topic, batches.build([Record(b"v", timestamp=stamp) for stamp in (5, 9, 7)]))
    return topic


def test_check_63_special_timestamps(client: RawClient, times: str) -> None:
    for version in client.offered("list_offsets", 7, 8, 9, 10, 11):
        assert _lookup(client, times, -1, version) == (0, 3, -1)
        assert _lookup(client, times, -2, version) == (0, 0, -1)
        assert _lookup(client, times, -3, version) == (0, 1, 9)
        if version >= 8:
            assert _lookup(client, times, -4, version) == (0, 0, -1)
        if version >= 9:
            assert _lookup(client, times, -5, version) == (0, -1, -1)


def test_check_64_lookups_by_time(client: RawClient, times: str, fresh) -> None:
    empty = fresh("empty")
    client.create_topic(empty)
    assert _lookup(client, times, 6) == (0, 1, 9)
    assert _lookup(client, times, 10) == (0, -1, -1)
    assert _lookup(client, empty, 0) == (0, -1, -1)
    assert [_lookup(client, empty, special) for special in (-1, -2, -3)] == [(0, 0, -1), (0, 0, -1), (0, -1, -1)]


def test_check_65_list_offsets_refusals(client: RawClient, times: str) -> None:
    assert _lookup(client, times, -3, 6)[0] == 35
    rows = [{"partition_index": 0, "timestamp": stamp} for stamp in (-1, -2)]
    answer = client.request("list_offsets", 7, replica_id=-1, topics=[{"name": times, "partitions": rows}])
    assert {row.error_code for row in answer.topics[0].partitions} == {42}
    assert client.list_offset("missing", -1).error_code == 3
    assert client.list_offset(times, -1, 9).error_code == 3


def test_check_57_same_partition_twice_in_one_produce_keeps_the_broker_sane(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    rows = [{"index": 0, "records": batches.simple("v")}] * 2
    values = produce_values(topic, {}) | {"topic_data": [{"name": topic, "partition_data": rows}]}
    client.send("produce", 9, **values)
    client.receive_frame()
    assert client.end_offset(topic) in (0, 1, 2)
