"""PROTO-01 to PROTO-07: negotiation, acks=0, hostile frames, decompression bombs."""

import contextlib
import random
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator

import pytest
import zstandard
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from tests.harness import batches, wire
from tests.harness.broker import BrokerProcess
from tests.harness.raw import ConnectionClosed, RawClient, eventually, produce_values

MEBIBYTE = 1 << 20
# To build what such a request announces would take minutes.
READ_WITHIN_S = 10.0
TLS_CLIENT_HELLO = bytes.fromhex("160301007a010000760303") + bytes(111)


def test_proto_01_api_versions_at_an_unknown_version_is_answered_in_v0_layout(client: RawClient) -> None:
    low, high = client.versions()[18]
    body = b"\x06probe\x041.0\x00"
    correlation_id, data = client.custom_frame(18, 127, body, flexible=True)
    client.socket.sendall(data)
    answered, answer = client.receive("api_versions", 0)
    assert answered == correlation_id
    assert answer.error_code == 35
    assert [(row.min_version, row.max_version) for row in answer.api_keys if row.api_key == 18] == [(low, high)]
    later = client.request("api_versions", high, client_software_name="probe", client_software_version="1.0")
    assert later.error_code == 0


@pytest.mark.parametrize("version", [3, 4])
def test_proto_02_api_versions_answer_has_the_old_header(client: RawClient, version: int) -> None:
    if not client.offers("api_versions", version):
        pytest.skip("version not offered")
    # decode_answer expects no tag section between the correlation id and the error, and consumes the frame exactly.
    answer = client.request("api_versions", version, client_software_name="probe", client_software_version="1.0")
    keys = [row.api_key for row in answer.api_keys]
    assert answer.error_code == 0
    assert len(keys) == len(set(keys)) > 0
    assert all(row.min_version <= row.max_version for row in answer.api_keys)


async def test_proto_02_stock_clients_connect_with_defaults(broker: BrokerProcess) -> None:
    assert AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=15).brokers
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.list_topics()
    admin.close()
    aio = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await aio.start()
    await aio.list_topics()
    await aio.close()


def test_proto_03_client_software_name_and_version_are_validated(client: RawClient) -> None:
    for name in ("bad name!", "", "-x"):
        answer = client.request("api_versions", 3, client_software_name=name, client_software_version="1.0")
        assert answer.error_code == 42, name
    good = client.request("api_versions", 3, client_software_name="probe-1.0", client_software_version="2.3.0-rc1")
    assert good.error_code == 0


def test_proto_04_acks_0_is_never_answered(client: RawClient, connect: Callable[..., RawClient], fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    batch = batches.simple("v")
    other = connect()
    sent = bytearray()
    for _ in range(1000):
        sent += other.frame("produce", 9, **produce_values(topic, {0: batch}, acks=0))[1]
    row = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    listing, data = other.frame("list_offsets", 5, replica_id=-1, topics=[row])
    metadata, more = other.frame("metadata", 12, topics=[])
    other.socket.sendall(bytes(sent) + data + more)
    answered, offsets = other.receive("list_offsets", 5)
    assert answered == listing
    assert offsets.topics[0].partitions[0].offset == 1000
    assert other.receive("metadata", 12)[0] == metadata
    other.expect_silence(for_s=0.2)


def test_proto_04_failed_acks_0_closes_only_its_connection(client: RawClient, connect, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    bad = connect()
    bad.send("produce", 9, **produce_values(topic, {99: batches.simple("v")}, acks=0))
    bad.expect_close()
    assert client.end_offset(topic) == 0


@pytest.mark.parametrize("codec", [batches.NONE, batches.GZIP])
def test_proto_04_what_was_sent_with_acks_0_before_a_close_is_stored(
    client: RawClient, connect, fresh, codec: int
) -> None:
    topic = fresh()
    client.create_topic(topic)
    count = 1000 if codec == batches.NONE else 5
    size = 20 if codec == batches.NONE else 2000
    batch = batches.simple(random.Random(4).randbytes(size), codec=codec)
    other = connect()
    frames = [other.frame("produce", 9, **produce_values(topic, {0: batch}, acks=0))[1] for _ in range(count)]
    other.socket.sendall(b"".join(frames))
    other.close()
    eventually(lambda: client.end_offset(topic) == count, what=f"{count} records")


def test_proto_04_acks_2_is_refused(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    assert client.produce(topic, batches.simple("v"), acks=2).error_code == 21
    assert client.end_offset(topic) == 0


HOSTILE_BYTES = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "largest length": struct.pack(">i", 0x7FFFFFFF),
    "negative length": struct.pack(">i", -1),
    "zero length": struct.pack(">i", 0),
    "one byte over the limit": struct.pack(">i", 104857600 + 1),
    "TLS": TLS_CLIENT_HELLO,
    "unknown api key": struct.pack(">ihhih", 10, 9999, 0, 1, -1),
}


@pytest.mark.parametrize("data", HOSTILE_BYTES.values(), ids=HOSTILE_BYTES)
def test_proto_05_frames_that_are_not_kafka_are_closed_at_once(client: RawClient, connect, data: bytes) -> None:
    bad = connect()
    bad.socket.sendall(data)
    assert client.request("metadata", 12, topics=[]).brokers
    bad.expect_close()
    assert client.request("metadata", 12, topics=[]).brokers


def test_proto_05_hostile_lengths_take_no_memory(
    broker: BrokerProcess, client: RawClient, connect, is_reference
) -> None:
    before = broker.resident_bytes()
    for data in list(HOSTILE_BYTES.values()) * 5:
        bad = connect()
        bad.socket.sendall(data)
        bad.expect_close()
    if not is_reference:  # a JVM's heap grows as it likes
        assert broker.resident_bytes() - before < 20 * MEBIBYTE


def test_proto_05_slow_but_correct_frame_is_answered(client: RawClient, connect) -> None:
    slow = connect()
    correlation_id, data = slow.frame("api_versions", 0)
    for byte in data:
        slow.socket.sendall(bytes([byte]))
        time.sleep(0.05)  # the case's own pace
        assert client.request("metadata", 12, topics=[]).brokers
    answered, answer = slow.receive("api_versions", 0)
    assert (answered, answer.error_code) == (correlation_id, 0)


HUGE_COUNT = wire.uvarint(2**31)
ANNOUNCING_FRAMES = {
    "metadata v1": ("metadata", 1, struct.pack(">i", 0x7FFFFFFF)),
    "metadata v9": ("metadata", 9, HUGE_COUNT),
    "produce v9": ("produce", 9, b"\x00" + struct.pack(">hi", 1, 1000) + HUGE_COUNT),
    "string": ("offset_fetch", 1, struct.pack(">h", 0x7FFF) + b"abc"),
    # 2^31 itself is read as a negative int32 by the reference, which then sees no tags.
    "tags": ("metadata", 9, b"\x01\x00\x00\x00" + wire.uvarint(2**31 - 1)),
}


@pytest.mark.parametrize("frame", ANNOUNCING_FRAMES.values(), ids=ANNOUNCING_FRAMES)
def test_proto_06_tiny_frames_that_announce_huge_collections_are_closed(
    broker: BrokerProcess, client: RawClient, connect, frame: tuple[str, int, bytes], is_reference: bool
) -> None:
    api, version, body = frame
    before = broker.resident_bytes()
    bad = connect()
    _, data = bad.frame(api, version, body=body)
    assert len(data) < 60
    bad.socket.sendall(data)
    bad.expect_close(within_s=READ_WITHIN_S)
    if not is_reference:
        assert broker.resident_bytes() - before < 50 * MEBIBYTE


def test_proto_06_batch_that_announces_huge_record_count_is_refused(client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    started = time.monotonic()
    bad = batches.build([batches.Record(b"v", timestamp=1_700_000_000_000)], count=0x7FFFFFFF)
    assert client.produce(topic, bad, version=3).error_code != 0
    assert time.monotonic() - started < READ_WITHIN_S
    assert client.end_offset(topic) == 0


BOMB_BYTES = 512 * MEBIBYTE


def _bomb(codec: int) -> bytes:
    """One record with a value of 512 MiB of zeros, compressed piece by piece."""
    body = b"\0\0\0" + batches.varint(-1) + batches.varint(BOMB_BYTES)
    head = batches.varint(len(body) + BOMB_BYTES + 1) + body
    packer = (
        zlib.compressobj(9, zlib.DEFLATED, 31) if codec == batches.GZIP else zstandard.ZstdCompressor().compressobj()
    )
    section = bytearray(packer.compress(head))
    for _ in range(512):
        section += packer.compress(bytes(MEBIBYTE))
    section += packer.compress(b"\0") + packer.flush()
    now = int(time.time() * 1000)
    return batches.build(
        [], codec=codec, section=bytes(section), count=1, last_offset_delta=0, base_timestamp=now, max_timestamp=now
    )


@contextlib.contextmanager
def _second_client(connection: RawClient, topic: str) -> Iterator[list[float]]:
    """Do 20 small produce and fetch round trips a second; yields the list of their durations."""
    waits: list[float] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            started = time.monotonic()
            offset = connection.append(topic, batches.simple("ping"))
            assert connection.fetch(topic, offset).records
            waits.append(time.monotonic() - started)

    thread = threading.Thread(target=work)
    thread.start()
    yield waits
    stop.set()
    thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("codec", [batches.GZIP, batches.ZSTD], ids=["gzip", "zstd"])
@pytest.mark.parametrize("compression", ["producer", "uncompressed"])
def test_proto_07_decompression_bomb_is_bounded(
    broker: BrokerProcess, client: RawClient, connect, fresh, codec: int, compression: str, is_reference: bool
) -> None:
    if is_reference and compression == "uncompressed":
        pytest.skip("the reference inflates the whole batch into its heap")
    topic, small = fresh("bomb"), fresh("small")
    client.create_topic(topic, compression_type=compression)
    client.create_topic(small)
    before = broker.resident_bytes()
    peak = before
    with _second_client(connect(), small) as waits:
        sender = connect(timeout_s=60)
        sender.send("produce", 9, **produce_values(topic, {0: _bomb(codec)}))
        answered = threading.Event()
        codes: list[int] = []

        def receive() -> None:
            with contextlib.suppress(ConnectionClosed):
                _, answer = sender.receive("produce", 9)
                codes.append(answer.responses[0].partition_responses[0].error_code)
            answered.set()

        thread = threading.Thread(target=receive)
        thread.start()
        while not answered.wait(0.01):
            peak = max(peak, broker.resident_bytes())
        thread.join()
        eventually(lambda: len(waits) > 3)
    assert max(waits) < 2.0
    if not is_reference:
        assert peak - before < 256 * MEBIBYTE
    if compression == "uncompressed":
        assert codes == [10]
