"""PROTO-26 and PROTO-27: bounds of produced timestamps, and what LogAppendTime does to a batch."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, TopicPartition

from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually, produce_values

HOUR_MS = 3_600_000
INVALID_TIMESTAMP = 32
TYPE_LOG_APPEND_TIME = 1


def _now() -> int:
    return int(time.time() * 1000)


def _three(second: int, codec: int = batches.NONE) -> bytes:
    """Build a batch whose second record alone has another time than now."""
    now = _now()
    records = [Record(b"v", timestamp=timestamp) for timestamp in (now, second, now)]
    # A client's batch names the largest of its timestamps as its maximum.
    return batches.build(records, codec=codec, max_timestamp=max(now, second))


def _out_of_bounds() -> dict[str, int]:
    return {
        "two hours late": _now() - 2 * HOUR_MS,
        "two hours early": _now() + 2 * HOUR_MS,
        "seconds instead of milliseconds": 1_700_000_000,
    }


@pytest.mark.parametrize("codec", [batches.NONE, batches.LZ4], ids=["uncompressed", "lz4"])
def test_proto_26_a_record_out_of_bounds_refuses_its_batch(client: RawClient, fresh, codec: int) -> None:
    topic = fresh()
    bounds = {"message_timestamp_before_max_ms": str(HOUR_MS), "message_timestamp_after_max_ms": str(HOUR_MS)}
    client.create_topic(topic, **bounds)
    for version in client.offered("produce", *range(3, 13)):
        for name, timestamp in _out_of_bounds().items():
            batch = _three(timestamp, codec)
            values = produce_values(topic, {0: batch})
            [result] = client.request("produce", version, **values).responses[0].partition_responses
            assert (result.error_code, result.base_offset) == (INVALID_TIMESTAMP, -1), (version, name)
            if version >= 8:
                assert [row.batch_index for row in result.record_errors] == [1], (version, name)
                assert result.error_message
    assert client.end_offset(topic) == 0
    client.append(topic, _three(-1, codec))
    client.append(topic, _three(_now() - HOUR_MS + 60_000, codec))
    client.append(topic, _three(_now() + HOUR_MS - 60_000, codec))

    set_configs(client, topic, message_timestamp_type="LogAppendTime")
    eventually(lambda: client.produce(topic, _three(_now(), codec)).log_append_time_ms != -1, what="the new type")
    for timestamp in (*_out_of_bounds().values(), -1):
        assert client.produce(topic, _three(timestamp, codec)).error_code == 0


def _sent(codec: int) -> bytes:
    return batches.build([Record(b"v%d" % number, timestamp=5 + number) for number in range(3)], codec=codec)


@pytest.mark.parametrize("codec", [batches.NONE, batches.GZIP], ids=["uncompressed", "gzip"])
async def test_proto_27_log_append_time_is_answered_stored_and_looked_up(
    broker: BrokerProcess, client: RawClient, fresh, codec: int
) -> None:
    topic = fresh()
    client.create_topic(topic, message_timestamp_type="LogAppendTime", retention_ms="-1")
    result = client.produce(topic, _sent(codec))
    assert (result.error_code, result.base_offset) == (0, 0)
    appended = result.log_append_time_ms
    assert abs(_now() - appended) < 5000
    [stored] = batches.parse(client.fetch_all(topic))
    assert stored.attributes == codec | batches.LOG_APPEND_TIME
    assert (stored.max_timestamp, stored.crc_is_right) == (appended, True)
    assert [record.value for record in stored.records()] == [b"v0", b"v1", b"v2"]
    for timestamp in (0, 5, appended):
        found = client.list_offset(topic, timestamp)
        assert (found.error_code, found.offset, found.timestamp) == (0, 0, appended), timestamp
    assert client.list_offset(topic, appended + 1).offset == -1
    assert await _times_clients_report(broker.bootstrap, topic) == [(appended, TYPE_LOG_APPEND_TIME)] * 9


@pytest.mark.parametrize("codec", [batches.NONE, batches.GZIP], ids=["uncompressed", "gzip"])
async def test_proto_27_create_time_keeps_what_was_sent(
    broker: BrokerProcess, client: RawClient, fresh, codec: int
) -> None:
    topic = fresh()
    client.create_topic(topic, message_timestamp_type="CreateTime", retention_ms="-1")
    result = client.produce(topic, _sent(codec))
    assert (result.error_code, result.log_append_time_ms) == (0, -1)
    [stored] = batches.parse(client.fetch_all(topic))
    assert (stored.attributes, stored.max_timestamp, stored.crc_is_right) == (codec, 7, True)
    found = client.list_offset(topic, 6)
    assert (found.offset, found.timestamp) == (1, 6)
    assert await _times_clients_report(broker.bootstrap, topic) == [(5, 0), (6, 0), (7, 0)] * 3


async def _times_clients_report(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """Read three records by each client; return their timestamps and types (0 CreateTime, 1 LogAppendTime)."""
    python = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=10000)
    python.assign([TopicPartition(topic, 0)])
    python.seek_to_beginning()
    found = [(record.timestamp, record.timestamp_type) for _, record in zip(range(3), python, strict=False)]
    python.close()

    confluent = ConfluentConsumer({"bootstrap.servers": bootstrap, "group.id": "times"})
    confluent.assign([ConfluentTopicPartition(topic, 0, 0)])
    for message in confluent.consume(3, timeout=10):
        kind, timestamp = message.timestamp()
        found.append((timestamp, kind - 1))  # 0 means "not available" there
    confluent.close()

    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as aio:
        aio.assign([AioTopicPartition(topic, 0)])
        await aio.seek_to_beginning()
        for _ in range(3):
            record = await asyncio.wait_for(aio.getone(), 10)
            found.append((record.timestamp, record.timestamp_type))
    return found
