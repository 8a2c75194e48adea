"""Produce requests of the usual kind: the plain way answers as the long one, or steps aside."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.dispatch import Dispatcher
from broker.api.leaders import Leaders
from broker.api.produce import ProduceApi
from broker.api.route import LONG_WAY, Plain, RequestContext, Route
from broker.metrics.instruments import BrokerStats
from broker.net.connection import CloseConnection
from broker.quota.clients import ClientQuotas
from broker.quota.rates import Windows
from broker.runtime.pools import Pools
from config.views import LogConfig
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.errors import ErrorCode
from protocol.headers import request_header, response_prefix
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records.batch import LOG_APPEND_TIME_BIT, parse_header, patch_timestamps
from protocol.records.builder import build_batch
from protocol.records.compression import Codec
from tests.harness.hosted import LISTENER, NODE_ID, NOW_MS, OTHER_ID, Hosted, topic_id_of
from tests.harness.verifying import ScriptedVerifier

CLIENT = "test"


class Wire:
    """One connection's frames, executed inline by a dispatcher over real partitions."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.stats = BrokerStats()
        self.quotas = ClientQuotas(Windows(), Windows(), lambda: 0)
        self.pools = Pools()
        verifier = ScriptedVerifier(hosted.manager)
        leaders, internal = Leaders(hosted.image), frozenset({"__internal"})
        self.api = ProduceApi(hosted.manager, hosted.image, leaders, self.pools, verifier, internal)
        self.is_open = True  # the plain way
        self.taken = 0  # requests that went it
        (route,) = self.api.routes()
        assert route.plain is not None
        self.way = route.plain
        plain = Plain(self.read, self.serve)
        routes = {
            ApiKey.PRODUCE: replace(route, plain=plain),
            ApiKey.API_VERSIONS: Route(ApiKey.API_VERSIONS, 0, 4, self.api.produce),
        }
        self.dispatcher = Dispatcher(routes, self.stats, self.quotas, lambda: 0)
        self.context = RequestContext(1, LISTENER, "127.0.0.1")
        self.mutes: list[int] = []
        self.connection: Any = SimpleNamespace(context=self.context, mute=self.mutes.append)
        self.throttle_ms = 0  # of the last answer
        self.correlation_id = 0

    def read(self, frame: memoryview) -> Any:
        return self.way.read(frame) if self.is_open else None

    def serve(self, request: Any, context: RequestContext) -> Any:
        response = self.way.serve(request, context)
        self.taken += response is not LONG_WAY
        return response

    def execute(self, *batches: tuple[str, int, bytes], version: int = 9, acks: int = 1) -> bytes:
        """Send batches in one request, grouped by their topics; give the answer's bytes."""
        self.correlation_id += 1
        topics = [
            TopicProduceData(
                name=name,
                topic_id=topic_id_of(name),
                partition_data=[PartitionProduceData(index=index, records=batch) for _, index, batch in of_topic],
            )
            for name, of_topic in groupby(batches, lambda batch: batch[0])
        ]
        request = ProduceRequest(acks=acks, timeout_ms=100, topic_data=topics)
        header = request_header(ApiKey.PRODUCE, version, self.correlation_id, CLIENT)
        frame = bytearray(header + encode_bytes(request, version))
        done, pieces = self.dispatcher.execute(memoryview(frame), self.connection)
        assert done
        return b"".join(bytes(piece) for piece in pieces)  # type: ignore[union-attr]

    def send_all(
        self, *batches: tuple[str, int, bytes], version: int = 9, acks: int = 1
    ) -> list[PartitionProduceResponse]:
        """Send batches in one request and decode the answer strictly."""
        answer = self.execute(*batches, version=version, acks=acks)
        prefix = response_prefix(ApiKey.PRODUCE, version, self.correlation_id)
        assert answer[: 4 + len(prefix)] == struct.pack(">i", len(answer) - 4) + prefix
        response = decode(ProduceResponse, version, answer, 4 + len(prefix))
        assert encode_bytes(response, version) == answer[4 + len(prefix) :]
        self.throttle_ms = response.throttle_time_ms
        return [partition for topic in response.responses for partition in topic.partition_responses]

    def send(
        self, batch: bytes, *, topic: str = "t", index: int = 0, version: int = 9, acks: int = 1
    ) -> PartitionProduceResponse:
        """Send one batch."""
        (partition,) = self.send_all((topic, index, batch), version=version, acks=acks)
        return partition


def one(value: bytes = b"v", **options: Any) -> bytes:
    return bytes(build_batch([(b"k", value)], timestamp=NOW_MS, **options))


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    hosted = Hosted(tmp_path)
    hosted.create("t", 3)
    wire = Wire(hosted)
    yield wire
    wire.pools.close()


@pytest.mark.parametrize("version", range(3, 14))
def test_batches_are_appended_in_order_whatever_their_topic_and_partition(wire: Wire, version: int) -> None:
    wire.hosted.create("u")
    for i in range(3):
        answers = wire.send_all(
            *(("t", index, one(b"%d" % i)) for index in (2, 0, 1)), ("u", 0, one()), version=version
        )
        assert [(a.index, a.error_code, a.base_offset) for a in answers] == [(index, 0, i) for index in (2, 0, 1, 0)]
        assert {(a.log_append_time_ms, a.log_start_offset) for a in answers} == {(-1, 0 if version >= 5 else -1)}
    assert wire.taken == 3
    assert wire.stats.of("produce").received_bytes > 0
    assert sum(wire.stats.of("produce").latency.counts) == 3


def test_two_batches_for_one_partition_get_offsets_in_their_order(wire: Wire) -> None:
    answers = wire.send_all(("t", 0, one()), ("t", 1, one()), ("t", 0, one()))
    assert [answer.base_offset for answer in answers] == [0, 0, 1]
    assert wire.taken == 1


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_batch_that_is_refused_in_the_middle_leaves_its_neighbours_appended_once(wire: Wire, version: int) -> None:
    damaged = bytearray(one())
    damaged[-1] ^= 1
    answers = wire.send_all(("t", 0, one()), ("t", 1, bytes(damaged)), ("t", 2, one()), version=version)
    assert [(a.index, a.error_code, a.base_offset) for a in answers] == [
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.CORRUPT_MESSAGE, -1),
        (2, ErrorCode.NONE, 0),
    ]
    assert wire.taken == 1
    assert [wire.hosted.manager.get("t", index).log.log_end_offset for index in range(3)] == [1, 0, 1]


@pytest.mark.parametrize("is_open", [False, True], ids=["long way", "plain way"])
def test_a_time_that_a_scheduled_topic_does_not_take_is_refused_alone(wire: Wire, is_open: bool) -> None:
    wire.is_open = is_open
    wire.hosted.configure("t", LogConfig(delivery_mode="scheduled", delivery_max_delay_ms=1000))
    due, far = (bytes(build_batch([(b"k", b"v")], timestamp=NOW_MS + ms)) for ms in (1000, 1001))
    answers = wire.send_all(("t", 0, due), ("t", 1, far), ("t", 2, due), version=9)
    assert [answer.error_code for answer in answers] == [0, ErrorCode.INVALID_TIMESTAMP, 0]
    assert "delivery.max.delay.ms" in (answers[1].error_message or "") and not answers[1].record_errors
    assert [wire.hosted.manager.get("t", index).log.log_end_offset for index in range(3)] == [1, 0, 1]
    assert (wire.taken, len(wire.hosted.deliveries)) == (int(is_open), 3)


def test_a_request_that_has_to_take_the_long_way_is_appended_once(wire: Wire) -> None:
    answers = wire.send_all(("t", 0, one()), ("unknown", 0, one()), ("t", 1, one()))
    assert [answer.error_code for answer in answers] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert wire.taken == 0
    assert [wire.hosted.manager.get("t", index).log.log_end_offset for index in range(2)] == [1, 1]


def test_a_partition_led_elsewhere_names_its_leader_beside_one_that_took_its_batch(wire: Wire) -> None:
    wire.hosted.create("u", leader=OTHER_ID, epoch=5, isr=(OTHER_ID,), replicas=(NODE_ID, OTHER_ID))
    taken, refused = wire.send_all(("t", 0, one()), ("u", 0, one()), version=12)
    assert (taken.error_code, taken.current_leader.leader_id) == (ErrorCode.NONE, -1)
    assert (refused.error_code, refused.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, OTHER_ID)
    assert wire.taken == 1


def test_acks_0_is_never_answered_and_a_failure_ends_the_connection(wire: Wire) -> None:
    assert wire.execute(("t", 0, one()), ("t", 1, one()), acks=0) == b""
    assert wire.taken == 1
    wire.hosted.lead("t", leader=2, epoch=5)
    with pytest.raises(CloseConnection):
        wire.execute(("t", 0, one()), acks=0)
    assert wire.taken == 2
    assert wire.hosted.manager.get("t", 0).log.log_end_offset == 1


@pytest.mark.parametrize("acks", [-2, 2])
def test_acks_that_mean_nothing_are_left_to_the_long_way(wire: Wire, acks: int) -> None:
    assert wire.send(one(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert wire.taken == 0


def test_a_partition_whose_appends_wait_is_left_to_the_long_way(wire: Wire) -> None:
    usual, waiting = (
        (12, 1, CLIENT, 1, [(topic, bytes(16), b"", [(0, memoryview(bytearray(one())))])]) for topic in ("t", "u")
    )
    wire.hosted.create("u", config=LogConfig(flush_messages=1))
    assert wire.serve(waiting, wire.context) is LONG_WAY
    assert wire.serve(usual, wire.context) is not LONG_WAY
    assert wire.hosted.manager.get("u", 0).log.log_end_offset == 0


def test_a_refused_batch_gets_the_error_of_the_long_way_and_leaves_nothing(wire: Wire) -> None:
    damaged = bytearray(one())
    damaged[-1] ^= 1
    assert wire.send(bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert wire.send(b"short").error_code == ErrorCode.INVALID_RECORD
    assert wire.send(one(base_offset=5)).error_code == ErrorCode.INVALID_RECORD
    assert wire.send(one(is_transactional=True)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert wire.send(one()).base_offset == 0


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME_BIT], ids=["own time", "taken time"])
@pytest.mark.parametrize("fault", ["too large for a segment", "out of order", "old epoch", "no fault"])
def test_a_refusal_is_the_same_on_both_ways(wire: Wire, timestamp_type: str, attributes: int, fault: str) -> None:
    def send() -> PartitionProduceResponse:
        size = 2000 if fault == "too large for a segment" else 1
        batch = bytearray(
            build_batch(
                [(b"k", b"v" * size)],
                timestamp=NOW_MS,
                producer_id=5,
                producer_epoch=0 if fault == "old epoch" else 1,
                base_sequence=7 if fault == "out of order" else sequence,
            )
        )
        patch_timestamps(batch, 0, parse_header(batch), attributes, NOW_MS)
        return wire.send(bytes(batch))

    wire.hosted.configure("t", LogConfig(message_timestamp_type=timestamp_type, segment_bytes=1000))
    answers = []
    for is_open in (False, True):
        wire.is_open = is_open
        for sequence in range(2):
            wire.send(one(producer_id=5, producer_epoch=1, base_sequence=sequence))
        sequence = 2
        answer = send()
        answers.append((answer.error_code, answer.error_message, len(answer.record_errors)))
        wire.hosted.delete("t")
        wire.hosted.create("t", 3)
    assert answers[0] == answers[1]


def test_a_deleted_topic_a_missing_partition_and_a_new_incarnation_are_seen(wire: Wire) -> None:
    assert wire.send(one(), version=13).error_code == ErrorCode.NONE
    assert wire.send(one(), index=7, version=13).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wire.hosted.delete("t")
    assert wire.send(one(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    wire.hosted.create("t", incarnation=2)
    assert wire.send(one(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert wire.hosted.manager.get("t", 0).log.log_end_offset == 0


def test_leadership_that_went_away_is_seen(wire: Wire) -> None:
    assert wire.send(one()).error_code == ErrorCode.NONE
    wire.hosted.lead("t", leader=2, epoch=5)
    assert wire.send(one()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_changed_settings_hold_for_the_next_request(wire: Wire) -> None:
    wire.hosted.configure("t", LogConfig(max_message_bytes=50))
    assert wire.send(one()).error_code == ErrorCode.MESSAGE_TOO_LARGE
    wire.hosted.configure("t", LogConfig(message_timestamp_type="LogAppendTime"))
    assert wire.send(one()).log_append_time_ms == NOW_MS
    wire.hosted.configure("t", LogConfig(compression_type="zstd"))
    answer = wire.send(one())
    assert (answer.error_code, answer.log_append_time_ms) == (ErrorCode.NONE, -1)
    assert stored_codec(wire, answer.base_offset) == Codec.ZSTD
    wire.hosted.configure("t", LogConfig(cleanup_policy=frozenset({"compact"})))
    keyless = bytes(build_batch([(None, b"v")], timestamp=NOW_MS))
    assert wire.send(keyless).error_code == ErrorCode.INVALID_RECORD
    wire.hosted.configure("t", LogConfig(message_timestamp_after_max_ms=0))
    early = bytes(build_batch([(b"k", b"v")], timestamp=NOW_MS + 1))
    assert wire.send(early).error_code == ErrorCode.INVALID_TIMESTAMP
    assert wire.send(one()).error_code == ErrorCode.NONE


def stored_codec(wire: Wire, offset: int) -> int:
    """Give the codec of the batch at an offset."""
    log = wire.hosted.manager.get("t", 0).log
    found = log.read(offset, max_bytes=1, bound=log.log_end_offset, min_one_batch=True)
    assert found.region is not None
    codec = parse_header(found.region.read()).codec
    found.region.release()
    return codec


def test_a_raised_minimum_of_replicas_holds_for_the_next_request(wire: Wire) -> None:
    wire.hosted.create("u", replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
    wire.hosted.configure("u", LogConfig(min_insync_replicas=2))
    assert wire.send(one(), topic="u", acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert wire.send(one(), topic="u", acks=1).error_code == ErrorCode.NONE
    wire.hosted.configure("u", LogConfig())
    assert wire.send(one(), topic="u", acks=-1).error_code == ErrorCode.NONE


def test_a_duplicate_is_answered_with_its_first_offset(wire: Wire) -> None:
    batches = [one(producer_id=7, producer_epoch=0, base_sequence=i) for i in range(4)]
    assert [wire.send(batch).base_offset for batch in batches] == [0, 1, 2, 3]
    assert wire.send(batches[3]).base_offset == 3
    assert wire.send(one(producer_id=7, producer_epoch=0, base_sequence=9)).error_code == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )


def test_internal_topics_are_left_to_the_long_way(wire: Wire) -> None:
    wire.hosted.create("__internal")
    answers = wire.send_all(("t", 0, one()), ("__internal", 0, one()))
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert wire.taken == 0


@pytest.mark.parametrize("version", range(3, 14))
def test_a_request_is_held_to_the_quota_of_its_client(wire: Wire, version: int) -> None:
    assert [wire.send(one(), version=version).base_offset for _ in range(2)] == [0, 1]
    size = wire.stats.of("produce").received_bytes // 2
    wire.quotas.follow({(("client-id", CLIENT),): {"producer_byte_rate": size / 10}})
    wire.context.client_id = "another request of the connection"
    answers = [(wire.send(one(), version=version).base_offset, wire.throttle_ms) for _ in range(3)]
    assert answers == [(2, 0), (3, 10_000), (4, 20_000)]
    assert wire.mutes == [10_000, 20_000]
    wire.quotas.follow({})
    wire.send(one(), version=version)
    assert wire.throttle_ms == 0
    assert wire.taken == 6


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_compressed_batches_are_unpacked_on_the_loop(wire: Wire, codec: Codec, timestamp_type: str) -> None:
    wire.hosted.configure("t", LogConfig(message_timestamp_type=timestamp_type))
    stamp = -1 if timestamp_type == "CreateTime" else NOW_MS
    batch = bytes(build_batch([(b"k", bytes(range(256)) * 4)] * 30, timestamp=NOW_MS, codec=codec))
    answers = wire.send_all(*(("t", index, batch) for index in range(3)))
    assert [(a.error_code, a.base_offset, a.log_append_time_ms) for a in answers] == [(0, 0, stamp)] * 3
    assert wire.taken == 1
    assert stored_codec(wire, 0) == codec


def test_a_fault_within_a_compressed_batch_is_that_batch_s_alone(wire: Wire) -> None:
    wire.hosted.configure("t", LogConfig(cleanup_policy=frozenset({"compact"})))
    keyless = bytes(build_batch([(None, b"v")] * 9, timestamp=NOW_MS, codec=Codec.LZ4))
    good, bad = wire.send_all(("t", 0, one(codec=Codec.LZ4)), ("t", 1, keyless))
    assert (good.error_code, bad.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_RECORD)
    assert len(bad.record_errors) == 9
    assert wire.taken == 1


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_sends_its_request_the_long_way_and_leaves_the_frame_as_it_was(wire: Wire, codec: Codec) -> None:
    wire.hosted.configure("t", LogConfig(message_timestamp_type="LogAppendTime"))
    bomb = bytes(build_batch([(b"k", bytes(20 << 20))], timestamp=NOW_MS, codec=codec))
    frame = bytearray(one(codec=codec) + bomb)
    small = len(one(codec=codec))
    batches = [(0, memoryview(frame)[:small]), (1, memoryview(frame)[small:])]
    assert wire.serve((12, 1, CLIENT, 1, [("t", bytes(16), b"", batches)]), wire.context) is LONG_WAY
    assert frame == one(codec=codec) + bomb
    assert [wire.hosted.manager.get("t", index).log.log_end_offset for index in range(2)] == [0, 0]


def test_what_must_be_compressed_for_the_log_goes_the_long_way_unless_it_is_small(wire: Wire) -> None:
    wire.hosted.configure("t", LogConfig(compression_type="gzip"))
    assert wire.send(one()).error_code == ErrorCode.NONE
    assert wire.taken == 1
    for batch in (one(b"v" * 5000), one(codec=Codec.LZ4)):
        request = (12, 1, CLIENT, 1, [("t", bytes(16), b"", [(0, memoryview(bytearray(batch)))])])
        assert wire.serve(request, wire.context) is LONG_WAY
