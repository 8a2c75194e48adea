"""PROTO-16 to PROTO-18: offsets by timestamp, special timestamps, offsets by leader epoch."""

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, TopicPartition

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient
from tests.harness.transacting import RawProducer, wait_until_decided

NONE = (-1, -1)
TIMES = {0: 2000, 1: 4000, 2: 6000, 3: 8000, 4: 1000, 5: 9500, 6: 10000, 7: 30000, 8: 20000}


def _append_at(client: RawClient, topic: str, *timestamps: int) -> None:
    client.append(topic, batches.build([Record(b"v", timestamp=timestamp) for timestamp in timestamps]))


def _check_times(client: RawClient, topic: str, answers: dict[int, int | None]) -> None:
    for version in client.offered("list_offsets"):
        for timestamp, offset in answers.items():
            result = client.list_offset(topic, timestamp, version=version)
            wanted = NONE if offset is None else (offset, TIMES[offset])
            assert (result.error_code, result.offset, result.timestamp) == (0, *wanted), (version, timestamp)
            if version >= 4:
                assert result.leader_epoch == (-1 if offset is None else 0)


FIRST = {1: 0, 3000: 1, 4000: 1, 9000: None}
SECOND = {1: 0, 8500: 5, 9500: 5, 9501: None}
THIRD = {15000: 7, 30001: None}


async def _check_clients(bootstrap: str, topic: str) -> None:
    for timestamp, offset in {4000: 1, 9500: 5, 15000: 7, 30001: None}.items():
        python = KafkaConsumer(bootstrap_servers=bootstrap)
        found = python.offsets_for_times({TopicPartition(topic, 0): timestamp})[TopicPartition(topic, 0)]
        assert (found and (found.offset, found.timestamp)) == (None if offset is None else (offset, TIMES[offset]))
        python.close()
        confluent = ConfluentConsumer({"bootstrap.servers": bootstrap, "group.id": "times"})
        [row] = confluent.offsets_for_times([ConfluentTopicPartition(topic, 0, timestamp)], timeout=10)
        assert row.offset == (-1 if offset is None else offset)
        confluent.close()
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            partition = AioTopicPartition(topic, 0)
            row = (await consumer.offsets_for_times({partition: timestamp}))[partition]
            assert (row and row.offset) == offset


@pytest.mark.parametrize("configs", [{}, {"segment_ms": "1500"}], ids=["one segment", "many segments"])
async def test_proto_16_offsets_by_timestamp(broker: BrokerProcess, client: RawClient, fresh, configs: dict) -> None:
    topic = fresh()
    client.create_topic(topic, **configs, retention_ms="-1")
    for timestamp in (2000, 4000, 6000, 8000):
        _append_at(client, topic, timestamp)
    _check_times(client, topic, FIRST)
    _append_at(client, topic, 1000)
    _append_at(client, topic, 9500)
    _check_times(client, topic, SECOND)
    _append_at(client, topic, 10000, 30000, 20000)
    _check_times(client, topic, THIRD | {9000: 5})
    segments = list((broker.data_directory / f"{topic}-0").glob("*.log"))
    assert len(segments) > 2 if configs else len(segments) == 1
    broker.restart()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, 1)
        _check_times(later, topic, {1: 0, 3000: 1, 4000: 1, 9000: 5, **{9500: 5, 9501: 6}, **THIRD})
    await _check_clients(broker.bootstrap, topic)


def test_proto_17_same_partition_twice(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    rows = [{"partition_index": 0, "timestamp": timestamp} for timestamp in (-2, -1)]
    for version in client.offered("list_offsets"):
        answer = client.request("list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": rows}])
        assert {row.partition_index for row in answer.topics[0].partitions} == {0}
        assert {row.error_code for row in answer.topics[0].partitions} == {42}


SPECIAL_SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -99: 1000}


@pytest.mark.parametrize("timestamp", SPECIAL_SINCE)
def test_proto_17_special_timestamps_exist_from_their_version(client: RawClient, fresh, timestamp: int) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("v"))
    for version in client.offered("list_offsets"):
        wanted = 0 if version >= SPECIAL_SINCE[timestamp] else 35
        assert client.list_offset(topic, timestamp, version=version).error_code == wanted, version


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_proto_17_open_transaction_bounds_read_committed(client: RawClient, fresh, is_commit: bool) -> None:
    topic = fresh()
    client.create_topic(topic)
    _append_at(client, topic, 1000, 2000, 3000, 4000, 5000)
    producer = RawProducer(client, fresh("txn")).init()
    assert producer.add(topic, 0) == [0]
    batch = batches.build(
        [Record(b"t", timestamp=timestamp) for timestamp in (6000, 7000, 8000)],
        attributes=batches.TRANSACTIONAL,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
    )
    assert producer.produce(topic, batch).error_code == 0

    def latest(isolation: int) -> list[int]:
        found = (
            client.list_offset(topic, -1, version=version, isolation=isolation)
            for version in client.offered("list_offsets", *range(2, 12))
        )
        return sorted({row.offset for row in found})

    def at_5500(isolation: int) -> tuple[int, int, int]:
        found = client.list_offset(topic, 5500, isolation=isolation)
        return found.error_code, found.offset, found.timestamp

    assert (latest(0), latest(1)) == ([8], [5])
    assert (at_5500(0), at_5500(1)) == ((0, 5, 6000), (0, -1, -1))
    assert producer.finish(commit=is_commit) == 0
    assert wait_until_decided(client, topic) == 9
    assert (latest(0), latest(1)) == ([9], [9])
    assert at_5500(0) == at_5500(1) == (0, 5, 6000)


def _end_of_epoch(
    client: RawClient,
    version: int,
    topic: str,
    leader_epoch: int,
    *,
    current: int = -1,
    replica: int = -1,
    partition: int = 0,
):
    row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": leader_epoch}
    replica_id = {"replica_id": replica} if version >= 3 else {}
    answer = client.request(
        "offset_for_leader_epoch", version, topics=[{"topic": topic, "partitions": [row]}], **replica_id
    )
    [[result]] = [entry.partitions for entry in answer.topics]
    assert result.partition == partition
    return result.error_code, result.leader_epoch, result.end_offset


def test_proto_18_offset_for_leader_epoch(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("a", "b", "c"))
    current = client.topic(topic).partitions[0].leader_epoch
    for version in client.offered("offset_for_leader_epoch"):
        for replica in (-1, -2) if version >= 3 else (-1,):
            for known in (-1, current):

                def ask(epoch: int, known: int = known, replica: int = replica, version: int = version):
                    return _end_of_epoch(client, version, topic, epoch, current=known, replica=replica)

                assert ask(current) == (0, current, 3)
                assert ask(-1) == (0, -1, -1)
                assert ask(current + 100) == (0, -1, -1)
            too_new = _end_of_epoch(client, version, topic, current, current=current + 100, replica=replica)
            assert too_new == (75, -1, -1)
        assert _end_of_epoch(client, version, topic, current, partition=7) == (3, -1, -1)
        assert _end_of_epoch(client, version, "missing", current) == (3, -1, -1)


def test_proto_18_leader_epoch_grows_over_a_restart(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("a", "b", "c"))
    old = client.topic(topic).partitions[0].leader_epoch
    broker.restart()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, 1)
        new = later.topic(topic).partitions[0].leader_epoch
        assert new > old
        assert _end_of_epoch(later, 3, topic, old, current=old) == (74, -1, -1)
        later.append(topic, batches.simple("d"))
        assert _end_of_epoch(later, 3, topic, old, current=new) == (0, old, 3)
        assert _end_of_epoch(later, 3, topic, new, current=new) == (0, new, 4)
