"""PROTO-19 to PROTO-25: what a produced batch may look like, and how it is stored and returned."""

import itertools
import os
import time
from collections.abc import Iterable

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer

from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually, produce_values

NOW = int(time.time() * 1000)
THREE = [Record(b"one", timestamp=NOW), Record(b"two", timestamp=NOW + 1), Record(b"three", timestamp=NOW + 2)]
GOOD = batches.build(THREE)


def _overrunning_record() -> bytes:
    section = b"".join(batches.encode_record(record, delta, NOW) for delta, record in enumerate(THREE))
    return batches.varint(batches.read_varint(section, 0)[0] + 200) + section[1:]


def _one_bit_off() -> bytes:
    damaged = bytearray(GOOD)
    damaged[17] ^= 1
    return bytes(damaged)


# name: (records, error code; None = any but 0)
MALFORMED: dict[str, tuple[bytes, int | None]] = {
    "crc off by one bit": (_one_bit_off(), 2),
    "two batches": (GOOD + GOOD, 87),
    "count 5 with 3 records": (batches.build(THREE, count=5), 87),
    "last offset delta 9": (batches.build(THREE, last_offset_delta=9), 87),
    "count 0": (batches.build(THREE, count=0), 87),
    "control bit": (batches.build(THREE, attributes=batches.CONTROL), 87),
    "producer without sequence": (batches.build(THREE, producer_id=7, producer_epoch=0), 87),
    "magic 1": (batches.old_message(b"old", magic=1, timestamp=NOW), 87),
    "record past the end": (batches.build(THREE, section=_overrunning_record()), None),
    "gzip of noise": (batches.build(THREE, codec=batches.GZIP, section=bytes(range(90))), None),
    "empty": (b"", None),
    "cut 10 bytes short": (GOOD[:-10], None),
}


@pytest.mark.parametrize("compression", ["producer", "gzip"])
def test_proto_19_malformed_batches_are_refused_without_side_effects(
    client: RawClient, fresh, compression: str
) -> None:
    topic = fresh()
    client.create_topic(topic, 2, compression_type=compression)
    for version in client.offered("produce", 3, 8, 9, 12):
        for name, (data, code) in MALFORMED.items():
            values = produce_values(topic, {0: data, 1: GOOD})
            rows = client.request("produce", version, **values).responses[0].partition_responses
            found = {row.index: row for row in rows}
            assert found[1].error_code == 0, name
            bad = found[0]
            assert bad.error_code != 0 if code is None else bad.error_code == code, (name, bad)
            assert bad.base_offset == -1, name
    assert client.end_offset(topic, 0) == 0
    assert client.append(topic, GOOD, 0) == 0


def test_proto_20_header_fields_the_broker_overwrites(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    epoch = client.topic(topic).partitions[0].leader_epoch
    sent = [batches.build(THREE, partition_leader_epoch=value) for value in (0, 7, -1)]
    sent.append(batches.build(THREE, producer_id=-5))
    for number, batch in enumerate(sent):
        assert client.append(topic, batch) == 3 * number
    stored = client.fetch_all(topic)
    for number, (batch, found) in enumerate(zip(sent, batches.parse(stored), strict=True)):
        assert (found.base_offset, found.partition_leader_epoch) == (3 * number, epoch)
        assert found.crc_is_right
        assert found.raw[8:12] == batch[8:12]
        assert found.raw[16:] == batch[16:]
    assert (broker.data_directory / f"{topic}-0" / f"{0:020}.log").read_bytes()[: len(stored)] == stored
    # Unlike the epoch, a base offset other than 0 is refused by the reference, although it would be overwritten.
    assert client.produce(topic, batches.build(THREE, base_offset=12345)).error_code == 87


def _null_and_empty(keys: Iterable[bytes | None]) -> list[Record]:
    headers = ((b"h", None), (b"h", b""), (b"", b"x"), (b"h", b"2"))
    found = [Record(value, key, headers) for key, value in itertools.product(keys, (None, b"", b"v"))]
    many = tuple((b"k%d" % number, b"%d" % number) for number in range(1000))
    found += [Record(b"many", b"key", many), Record(b"none", b"key", ())]
    for delta, record in enumerate(found):
        record.timestamp = NOW + delta
    return found


@pytest.mark.parametrize("time_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("compression", ["producer", "gzip", "lz4"])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_proto_21_null_and_empty_come_back_as_sent(
    client: RawClient, fresh, compression: str, time_type: str, policy: str
) -> None:
    topic = fresh()
    client.create_topic(topic, compression_type=compression, message_timestamp_type=time_type, cleanup_policy=policy)
    sent = _null_and_empty((b"", b"k") if policy == "compact" else (None, b"", b"k"))
    started = int(time.time() * 1000)
    client.append(topic, batches.build(sent))
    [stored] = batches.parse(client.fetch_all(topic))
    assert stored.crc_is_right
    assert stored.codec == batches.CODECS.get(compression, batches.NONE)
    for wanted, found in zip(sent, stored.records(), strict=True):
        assert (found.key, found.value, found.headers) == (wanted.key, wanted.value, wanted.headers)
        if time_type == "CreateTime":
            assert found.timestamp == wanted.timestamp
        else:
            assert started <= found.timestamp <= time.time() * 1000


PIECES = [Record(os.urandom(1000) + bytes(1000), timestamp=NOW) for _ in range(50)]
PLAIN = b"".join(batches.encode_record(record, delta, NOW) for delta, record in enumerate(PIECES))
SNAPPY_SECTIONS = {
    "raw": batches.raw_snappy(PLAIN),
    "32 KiB chunks": batches.xerial_snappy(PLAIN),
    "1 byte chunks": batches.xerial_snappy(PLAIN, 1),
    "64 KiB chunks": batches.xerial_snappy(PLAIN, 65536),
}


@pytest.mark.parametrize("compression", ["producer", "gzip", "snappy"])
async def test_proto_22_snappy_in_both_framings(
    broker: BrokerProcess, client: RawClient, fresh, compression: str
) -> None:
    topic = fresh()
    client.create_topic(topic, compression_type=compression, max_message_bytes="2000000")
    sent = []
    for section in SNAPPY_SECTIONS.values():
        sent.append(batches.build(PIECES, codec=batches.SNAPPY, section=section))
        client.append(topic, sent[-1])
    found = batches.parse(client.fetch_all(topic))
    for batch, stored in zip(sent, found, strict=True):
        assert stored.codec == (batches.GZIP if compression == "gzip" else batches.SNAPPY)
        if compression != "gzip":
            assert stored.section == batch[batches.HEADER_SIZE :]
        assert [record.value for record in stored.records()] == [record.value for record in PIECES]
    values = [record.value for record in PIECES] * len(sent)
    assert _read_by_kafka_python(broker.bootstrap, topic, len(values)) == values
    assert _read_by_confluent(broker.bootstrap, topic, len(values)) == values
    assert await _read_by_aiokafka(broker.bootstrap, topic, len(values)) == values


def _read_by_kafka_python(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=15000
    )
    found = [message.value for message in itertools.islice(consumer, count)]
    consumer.close()
    return found


def _read_by_confluent(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = ConfluentConsumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []

    def enough() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            found.append(message.value())
        return len(found) >= count

    eventually(enough, what="all records")
    consumer.close()
    return found


async def _read_by_aiokafka(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        return [(await consumer.getone()).value for _ in range(count)]


def test_proto_23_old_message_formats_are_refused_cleanly(client: RawClient, connect, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    for version in (0, 1, 2):
        # No schema exists any more for these: acks, timeout, one topic, one partition, a wrapper with an old frame.
        inner = batches.old_message(b"v", magic=min(version, 1))
        frame = batches.lz4_frame(inner, old_checksum=version < 2)
        wrapper = batches.old_message(frame, magic=min(version, 1), attributes=batches.LZ4)
        old = connect()
        name = len(topic).to_bytes(2, "big") + topic.encode()
        body = b"\x00\x01\x00\x00\x10\x00\x00\x00\x00\x01" + name + b"\x00\x00\x00\x01\x00\x00\x00\x00"
        body += len(wrapper).to_bytes(4, "big") + wrapper
        _, data = old.custom_frame(0, version, body, flexible=False)
        old.socket.sendall(data)
        old.expect_close()
    assert client.end_offset(topic) == 0


def test_proto_23_old_frame_checksum_in_a_v2_batch_is_refused(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    plain = b"".join(batches.encode_record(record, delta, NOW) for delta, record in enumerate(THREE))
    wrong = batches.lz4_frame(plain, old_checksum=True)
    assert wrong[:7] != batches.lz4_frame(plain)[:7]
    for version in client.offered("produce", 9, 12):
        result = client.produce(topic, batches.build(THREE, codec=batches.LZ4, section=wrong), version=version)
        assert result.error_code != 0
    assert client.end_offset(topic) == 0
    client.append(topic, batches.build(THREE, codec=batches.LZ4))


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_proto_24_zstd_and_old_versions(client: RawClient, fresh, compression: str) -> None:
    topic = fresh()
    client.create_topic(topic, compression_type=compression)
    batch = batches.build(THREE, codec=batches.ZSTD)
    for version in client.offered("produce", 3, 6):
        assert client.produce(topic, batch, version=version).error_code == 76
    assert client.end_offset(topic) == 0
    assert client.append(topic, batch, version=7) == 0
    # The reference no longer answers 76 to old fetches: every version gets the stored batch.
    for version in client.offered("fetch", 4, 9, 10):
        [stored] = batches.parse(client.fetch(topic, 0, version=version).records)
        assert stored.codec == batches.ZSTD
        assert [record.value for record in stored.records()] == [record.value for record in THREE]


def test_proto_25_max_message_bytes_boundary(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 2, max_message_bytes="50000")
    assert client.append(topic, batches.of_size(50_000)) == 0
    assert client.produce(topic, batches.of_size(50_001)).error_code == 10
    well_packed = batches.build([Record(bytes(200_000), timestamp=NOW)], codec=batches.GZIP)
    assert len(well_packed) < 2000
    assert client.append(topic, well_packed) == 1
    values = produce_values(topic, {0: batches.of_size(50_001), 1: batches.simple("small")})
    rows = client.request("produce", 9, **values).responses[0].partition_responses
    assert {row.index: row.error_code for row in rows} == {0: 10, 1: 0}
    assert client.end_offset(topic) == 2
