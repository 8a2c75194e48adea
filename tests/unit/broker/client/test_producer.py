"""The producer against a peer that keeps, refuses or loses what it is sent."""

from __future__ import annotations

import pytest

from broker.client.client import Client
from broker.client.errors import Refused
from broker.client.producer import Producer, ProducerSettings
from broker.client.settings import Settings
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from protocol.records.batch import parse_header
from protocol.records.record import iter_records
from tests.harness.scripted_broker import HANG_UP, SILENCE, ScriptedBroker

SMALL = ProducerSettings(batch_size_bytes=60, now_ms=lambda: 1000)


class Log(ScriptedBroker):
    """Appends batches in the order of their sequences, as a broker does, unless a plan says otherwise.

    `plan` holds what happens to the next requests: an error code, HANG_UP, or "lost" for an append without an answer.
    """

    def __init__(self, *plan, partitions=1, max_batch_bytes=1 << 20):
        self.plan = list(plan)
        self.log = {index: [] for index in range(partitions)}
        self.expected = {}
        self.max_batch_bytes = max_batch_bytes
        self.ids = 0
        super().__init__({ApiKey.PRODUCE: self.produce, ApiKey.INIT_PRODUCER_ID: self.new_id})
        rows = [MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(partitions)]
        topic = MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=rows)
        self.answers[ApiKey.METADATA] = lambda _: self.metadata([topic])

    def new_id(self, _):
        self.ids += 1
        return InitProducerIdResponse(producer_id=self.ids, producer_epoch=0)

    def produce(self, request):
        step = self.plan.pop(0) if self.plan else 0
        if step is HANG_UP:
            return HANG_UP
        rows = []
        for row in request.topic_data[0].partition_data:
            code = self.append(row.index, bytes(row.records)) if step in (0, "lost") else step
            rows.append(PartitionProduceResponse(index=row.index, error_code=code))
        if step == "lost":
            return HANG_UP
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=b"t" * 16, partition_responses=rows)])

    def append(self, partition, data):
        header = parse_header(data)
        if len(data) > self.max_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        if header.producer_id >= 0:
            expected = self.expected.setdefault((partition, header.producer_id), 0)
            if header.base_sequence < expected:
                return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            if header.base_sequence > expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.expected[partition, header.producer_id] += header.record_count
        self.log[partition] += [record.value for record in iter_records(data)]
        return 0


def values(count):
    return [f"value-{number:04}".encode() for number in range(count)]


def send(log, count=20, settings=SMALL, **client):
    instant = Settings(sleep=lambda _: None, **client)
    with Client(log.address, instant) as client:
        producer = Producer(client, "t", settings)
        for value in values(count):
            producer.add(None, value)
        producer.flush()
        return producer


def test_records_arrive_in_order_with_several_requests_under_way():
    with Log() as log:
        producer = send(log, 100)
    assert log.log[0] == values(100)
    assert (producer.sent, producer.failed) == (100, 0)
    assert len(log.requests(ApiKey.PRODUCE)) > 40


@pytest.mark.parametrize(
    "trouble",
    [
        [ErrorCode.NOT_LEADER_OR_FOLLOWER],
        [0, 0, ErrorCode.NOT_ENOUGH_REPLICAS, 0, ErrorCode.REQUEST_TIMED_OUT],
        [HANG_UP],
        [0, HANG_UP, HANG_UP],
        ["lost"],
        [0, 0, "lost", ErrorCode.KAFKA_STORAGE_ERROR, "lost"],
    ],
)
def test_nothing_is_lost_or_doubled_or_out_of_order_after_trouble_that_passes(trouble):
    with Log(*trouble) as log:
        producer = send(log, 30)
        assert log.plan == []
    assert log.log[0] == values(30)
    assert (producer.sent, producer.failed) == (30, 0)
    assert log.ids == 1, "what failed goes out under its old numbers"


def test_what_is_given_up_is_counted_and_the_rest_goes_on_under_another_id():
    with Log(0, ErrorCode.INVALID_RECORD) as log:
        producer = send(log, 10)
    assert producer.failed == 2 and producer.sent == 8
    assert producer.reason == "The broker refused a record of the batch. (INVALID_RECORD)"
    assert log.log[0] == values(2) + values(10)[4:]
    assert log.ids == 2


def test_batches_that_a_topic_does_not_take_are_cut():
    with Log(max_batch_bytes=110) as log:
        producer = send(log, 50, ProducerSettings(batch_size_bytes=1000))
    assert log.log[0] == values(50)
    assert producer.failed == 0 and log.ids == 1


def test_trying_again_ends_after_so_many_times():
    with Log(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 50) as log:
        producer = send(log, 2, SMALL._replace(retries=3))
        assert len(log.requests(ApiKey.PRODUCE)) == 4
    assert producer.failed == 2 and "NOT_ENOUGH_REPLICAS" in producer.reason


def test_trying_again_ends_when_a_batch_is_too_old():
    times = iter(range(0, 10_000))
    with Log(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 5000) as log:
        producer = send(log, 2, SMALL._replace(delivery_timeout_s=200), now_s=lambda: float(next(times)))
    assert producer.failed == 2 and "NOT_ENOUGH_REPLICAS" in producer.reason


def test_records_without_keys_fill_one_partition_after_the_other_and_keys_stay_where_they_belong():
    with Log(partitions=3) as log:
        send(log, 60)
        assert all(log.log.values())
        with Client(log.address) as client, Producer(client, "t", SMALL) as producer:
            for _ in range(10):
                producer.add(b"foobar", b"keyed")
    assert [partition for partition, found in log.log.items() if b"keyed" in found] == [(-790332482 & 0x7FFFFFFF) % 3]


def test_headers_and_compression_travel():
    with Log() as log, Client(log.address) as client:
        with Producer(client, "t", ProducerSettings(codec=1, now_ms=lambda: 1234)) as producer:
            producer.add(b"k", None, [("h", b"1"), ("n", None)])
        [request] = log.requests(ApiKey.PRODUCE)
        data = bytes(request.message.topic_data[0].partition_data[0].records)
    [record] = iter_records(data)
    assert (record.key, record.value, record.headers, record.timestamp) == (
        b"k",
        None,
        (("h", b"1"), ("n", None)),
        1234,
    )
    assert parse_header(data).codec == 1


def test_without_acknowledgements_nobody_waits():
    with Log() as log:
        log.answers[ApiKey.PRODUCE] = lambda request: log.produce(request) and SILENCE
        producer = send(log, 10, SMALL._replace(acks=0))
        with Client(log.address) as client:
            client.metadata()
    assert producer.sent == 10 and log.ids == 0


def test_a_record_above_the_bound_fails_alone():
    settings = ProducerSettings(max_request_size_bytes=100)
    with Log() as log, Client(log.address) as client, Producer(client, "t", settings) as producer:
        producer.add(None, b"x" * 100)
        producer.add(None, b"y")
        producer.flush()
    assert log.log[0] == [b"y"]
    assert producer.failed == 1 and "larger than max.request.size" in producer.reason


def test_a_topic_that_is_not_there_is_waited_for():
    with Log() as log:
        there = log.answers[ApiKey.METADATA]
        missing = [MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        answers = iter([log.metadata(missing), log.metadata(missing)])
        log.answers[ApiKey.METADATA] = lambda request: next(answers, None) or there(request)
        assert send(log, 3).sent == 3
        assert log.requests(ApiKey.METADATA)[0].message.allow_auto_topic_creation


def test_a_topic_that_never_comes_is_refused_by_name():
    with Log() as log:
        missing = [MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        log.answers[ApiKey.METADATA] = lambda _: log.metadata(missing)
        times = iter(range(0, 1000))
        with pytest.raises(Refused, match=r"Topic t: .*UNKNOWN_TOPIC_OR_PARTITION"):
            send(log, 3, SMALL._replace(max_block_s=5), now_s=lambda: float(next(times)))
