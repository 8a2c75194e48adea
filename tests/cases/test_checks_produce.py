"""Conformance checks 29 to 49: produce, validation, idempotence."""

import time

import pytest

from tests.cases.conftest import address
from tests.harness import batches, tool_host
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually, produce_values

NOW = int(time.time() * 1000)
HOUR_MS = 3_600_000


def _records(*values: bytes) -> list[Record]:
    return [Record(value, timestamp=NOW) for value in values]


def test_check_29_base_offsets_are_contiguous(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    for version in client.offered("produce", 3, 5, 8, 9, 11, 12):
        end = client.end_offset(topic)
        for number in range(3):
            result = client.produce(topic, batches.simple("a", "b"), acks=1, version=version)
            assert (result.error_code, result.base_offset, result.log_append_time_ms) == (0, end + 2 * number, -1)
            if version >= 5:
                assert result.log_start_offset == 0
            if version >= 8:
                assert (result.record_errors, result.error_message) == ([], None)


def test_check_29_produce_v13_addresses_topics_by_id(client: RawClient, fresh) -> None:
    topic = fresh()
    topic_id = client.create_topic(topic)
    stranger = b"\x07" * 16
    rows = [
        {"topic_id": which, "partition_data": [{"index": 0, "records": batches.simple("v")}]}
        for which in (topic_id, stranger)
    ]
    answer = client.request("produce", 13, transactional_id=None, acks=-1, timeout_ms=1000, topic_data=rows)
    found = {row.topic_id: row.partition_responses[0] for row in answer.responses}
    assert (found[topic_id].error_code, found[topic_id].base_offset) == (0, 0)
    assert (found[stranger].error_code, found[stranger].base_offset) == (100, -1)


def test_check_30_acks_0_is_silent(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.send("produce", 9, **produce_values(topic, {0: batches.simple("v")}, acks=0))
    correlation_id = client.send("metadata", 12, topics=[])
    assert client.receive("metadata", 12)[0] == correlation_id
    client.expect_silence(for_s=0.2)
    assert client.end_offset(topic) == 1


def test_check_31_acks_0_to_a_missing_topic_closes(client: RawClient, connect) -> None:
    bad = connect()
    bad.send("produce", 9, **produce_values("missing", {0: batches.simple("v")}, acks=0))
    bad.expect_close()


def test_check_32_acks_2(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 2)
    values = produce_values(topic, {0: batches.simple("v"), 1: batches.simple("v")}, acks=2)
    rows = client.request("produce", 9, **values).responses[0].partition_responses
    assert [(row.index, row.error_code, row.base_offset) for row in rows] == [(0, 21, -1), (1, 21, -1)]


def test_check_33_damaged_bytes(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    flipped = bytearray(batches.simple("value"))
    flipped[-3] ^= 0xFF
    assert client.produce(topic, bytes(flipped)).error_code == 2
    section = bytearray(batches.lz4_frame(bytes(200)))
    section[8:12] = b"\xff\xff\xff\xff"
    damaged = batches.build(_records(b"v"), codec=batches.LZ4, section=bytes(section))
    # The reference says -1 where its decompressor fails in a way that it did not foresee.
    assert client.produce(topic, damaged).error_code in (2, -1)
    assert client.end_offset(topic) == 0


GOOD = batches.build(_records(b"a", b"b"))
INVALID = {
    "two batches": GOOD + GOOD,
    "base offset 5": batches.build(_records(b"a", b"b"), base_offset=5),
    "count 3 with 2 records": batches.build(_records(b"a", b"b"), count=3, last_offset_delta=2),
    "magic 1": batches.old_message(b"v", magic=1, timestamp=NOW),
    "control": batches.build(_records(b"a"), attributes=batches.CONTROL),
}


@pytest.mark.parametrize("name", INVALID)
def test_check_34_invalid_batches(client: RawClient, fresh, name: str) -> None:
    topic = fresh()
    client.create_topic(topic)
    assert client.produce(topic, INVALID[name]).error_code == 87
    assert client.end_offset(topic) == 0


def test_check_35_record_of_two_megabytes(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    assert client.produce(topic, batches.simple(bytes(2_000_000))).error_code == 10


def test_check_36_null_key_on_a_compacted_topic(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, cleanup_policy="compact")
    records = [Record(b"v", key, timestamp=NOW) for key in (b"k", None, b"k")]
    for codec in (batches.NONE, batches.LZ4):
        result = client.produce(topic, batches.build(records, codec=codec))
        assert result.error_code == 87
        assert [row.batch_index for row in result.record_errors] == [1]
        assert result.error_message.startswith("One or more records have been rejected")
        assert client.produce(topic, batches.build(records, codec=codec), version=7).error_code == 87
    assert client.end_offset(topic) == 0
    assert client.append(topic, batches.build([Record(b"v", b"", timestamp=NOW)])) == 0


def test_check_37_timestamp_in_the_future(client: RawClient, fresh) -> None:
    topic, lenient = fresh(), fresh()
    client.create_topic(topic)
    client.create_topic(lenient, message_timestamp_after_max_ms=str(2**63 - 1))
    records = [Record(b"v", timestamp=int(time.time() * 1000) + shift) for shift in (0, 2 * HOUR_MS)]
    result = client.produce(topic, batches.build(records))
    assert result.error_code == 32
    assert [row.batch_index for row in result.record_errors] == [1]
    assert client.append(lenient, batches.build(records)) == 0


def test_check_38_log_append_time(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    records = [Record(b"v", timestamp=stamp) for stamp in (5, 6, 7)]
    for codec in (batches.NONE, batches.GZIP):
        result = client.produce(topic, batches.build(records, codec=codec))
        assert result.error_code == 0
        assert before <= result.log_append_time_ms <= time.time() * 1000
        stored = batches.parse(client.fetch_all(topic))[-1]
        assert stored.crc_is_right
        assert stored.attributes & batches.LOG_APPEND_TIME
        assert (
            {record.timestamp for record in stored.records()} == {stored.max_timestamp} == {result.log_append_time_ms}
        )


@pytest.mark.jvm
@pytest.mark.parametrize("codec", list(batches.CODECS))
def test_check_39_recompressed_batches_reach_the_java_client(
    broker: BrokerProcess, client: RawClient, fresh, codec: str
) -> None:
    topic = fresh()
    client.create_topic(topic, compression_type="lz4")
    lines = [f"{codec} line {number} " + "pad" * 50 for number in range(2000)]
    sent = batches.build([Record(line.encode(), timestamp=NOW) for line in lines], codec=batches.CODECS[codec])
    client.append(topic, sent)
    said = tool_host.run(
        "kafka-console-consumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(len(lines)), "--timeout-ms", "30000"),
    )
    assert said.splitlines() == lines


def test_check_40_zstd_below_v7(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    batch = batches.build(_records(b"v"), codec=batches.ZSTD)
    assert client.produce(topic, batch, version=6).error_code == 76
    client.append(topic, batch, version=7)
    [stored] = batches.parse(client.fetch(topic, 0, version=4).records)
    assert stored.codec == batches.ZSTD


def test_check_41_internal_topics_take_records_from_admin_clients_only(client: RawClient, connect) -> None:
    eventually(lambda: client.request("find_coordinator", 1, key="g", key_type=0).error_code == 0)
    batch = batches.build([Record(b"v", b"\x00\x63", timestamp=NOW)])
    assert client.produce("__consumer_offsets", batch).error_code == 17
    admin = connect(client_id="__admin_client")
    assert admin.produce("__consumer_offsets", batch).error_code == 0


def test_check_42_min_insync_replicas(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, min_insync_replicas="2")
    # The effective minimum is never more than the replicas a partition has, so one node accepts acks=all.
    codes = {acks: client.produce(topic, batches.simple("v"), acks=acks).error_code for acks in (-1, 1)}
    assert codes == {-1: 0, 1: 0}
    assert client.end_offset(topic) == 2


class Producer:
    """Builds idempotent batches of one producer id."""

    def __init__(self, client: RawClient, topic: str):
        self.client = client
        self.topic = topic
        self.producer_id = client.producer_id()

    def send(self, sequence: int, count: int = 1, epoch: int = 0, client: RawClient | None = None) -> tuple[int, int]:
        values = [Record(b"%d" % (sequence + delta), timestamp=NOW) for delta in range(count)]
        batch = batches.build(values, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence)
        result = (client or self.client).produce(self.topic, batch)
        return result.error_code, result.base_offset


@pytest.fixture
def producer(client: RawClient, fresh) -> Producer:
    topic = fresh("idempotent")
    client.create_topic(topic)
    return Producer(client, topic)


def test_check_43_the_same_batch_twice(client: RawClient, producer: Producer) -> None:
    assert [producer.send(0, 10), producer.send(0, 10)] == [(0, 0), (0, 0)]
    assert client.end_offset(producer.topic) == 10


def test_check_44_a_gap(client: RawClient, producer: Producer) -> None:
    assert [producer.send(0, 10), producer.send(20, 10)] == [(0, 0), (45, -1)]
    assert client.end_offset(producer.topic) == 10


def test_check_45_an_older_epoch(producer: Producer) -> None:
    assert [producer.send(0, epoch=1), producer.send(0, epoch=0)] == [(0, 0), (47, -1)]


def test_check_46_a_new_epoch_begins_at_zero(producer: Producer) -> None:
    assert [producer.send(0, 5), producer.send(3, epoch=1)] == [(0, 0), (45, -1)]
    assert producer.send(0, epoch=1) == (0, 5)


def test_check_47_only_five_batches_are_remembered(client: RawClient, producer: Producer) -> None:
    assert [producer.send(number) for number in range(7)] == [(0, number) for number in range(7)]
    assert [producer.send(number) for number in range(2, 7)] == [(0, number) for number in range(2, 7)]
    assert producer.send(1)[0] in (45, 46)
    assert producer.send(0)[0] in (45, 46)
    assert client.end_offset(producer.topic) == 7


def test_check_48_sequences_wrap(client: RawClient, producer: Producer) -> None:
    assert producer.send(2**31 - 2, 4) == (0, 0)
    assert producer.send(2, 2) == (0, 4)
    assert producer.send(2**31 - 2, 4) == (0, 0)
    assert producer.send(3)[0] == 45
    assert client.end_offset(producer.topic) == 6


def test_check_49_kill_between_two_batches(broker: BrokerProcess, producer: Producer) -> None:
    assert [producer.send(0, 5), producer.send(5, 5)] == [(0, 0), (0, 5)]
    broker.kill()
    broker.start()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(producer.topic, 1)
        assert producer.send(5, 5, client=later) == (0, 5)
        assert later.end_offset(producer.topic) == 10
        assert producer.send(10, 5, client=later) == (0, 10)
