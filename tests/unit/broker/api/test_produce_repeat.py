"""Produce requests that come again on one connection: the short way answers as the long one, or steps aside."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.dispatch import Dispatcher
from broker.api.leaders import Leaders
from broker.api.produce import ProduceApi
from broker.api.route import RequestContext, Route
from broker.metrics.instruments import BrokerStats
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
        api = ProduceApi(hosted.manager, hosted.image, leaders, self.pools, verifier, internal)
        routes = {route.api_key: route for route in (*api.routes(), Route(ApiKey.API_VERSIONS, 0, 4, api.produce))}
        self.dispatcher = Dispatcher(routes, self.stats, self.quotas, lambda: 0)
        self.context = RequestContext(1, LISTENER, "127.0.0.1")
        self.mutes: list[int] = []
        self.connection: Any = SimpleNamespace(context=self.context, mute=self.mutes.append)
        self.throttle_ms = 0  # of the last answer
        self.correlation_id = 0

    def send(
        self, batch: bytes, *, topic: str = "t", index: int = 0, version: int = 9, acks: int = 1
    ) -> PartitionProduceResponse:
        """Send one batch and decode the answer strictly."""
        self.correlation_id += 1
        data = TopicProduceData(
            name=topic,
            topic_id=topic_id_of(topic),
            partition_data=[PartitionProduceData(index=index, records=batch)],
        )
        request = ProduceRequest(acks=acks, timeout_ms=100, topic_data=[data])
        header = request_header(ApiKey.PRODUCE, version, self.correlation_id, CLIENT)
        frame = bytearray(header + encode_bytes(request, version))
        done, pieces = self.dispatcher.execute(memoryview(frame), self.connection)
        assert done
        answer = b"".join(bytes(piece) for piece in pieces)  # type: ignore[union-attr]
        prefix = response_prefix(ApiKey.PRODUCE, version, self.correlation_id)
        assert answer[: 4 + len(prefix)] == struct.pack(">i", len(answer) - 4) + prefix
        response = decode(ProduceResponse, version, answer, 4 + len(prefix))
        assert encode_bytes(response, version) == answer[4 + len(prefix) :]
        self.throttle_ms = response.throttle_time_ms
        ((partition,),) = [one.partition_responses for one in response.responses]
        return partition

    def is_prepared(self) -> bool:
        return self.context.repeat is not None


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
def test_repetitions_are_appended_in_order_whatever_their_partition(wire: Wire, version: int) -> None:
    answers = [wire.send(one(b"%d" % i), index=i % 3, version=version) for i in range(9)]
    assert wire.is_prepared()
    assert [(a.index, a.error_code, a.base_offset) for a in answers] == [(i % 3, 0, i // 3) for i in range(9)]
    assert {a.log_append_time_ms for a in answers} == {-1}
    assert wire.stats.of("produce").received_bytes > 0
    assert sum(wire.stats.of("produce").latency.counts) == 9


def test_the_short_way_needs_two_requests_in_a_row_to_one_topic(wire: Wire) -> None:
    wire.hosted.create("u")
    for topic in ("t", "u", "t", "u"):
        wire.send(one(), topic=topic)
    assert not wire.is_prepared()
    wire.send(one(), topic="u")
    assert wire.is_prepared()
    assert wire.send(one(), topic="t").base_offset == 2
    assert wire.send(one(), topic="u").base_offset == 3


def prepare(wire: Wire, **options: Any) -> None:
    wire.send(one(), **options)
    wire.send(one(), **options)
    assert wire.is_prepared()


def test_a_refused_batch_gets_the_error_of_the_long_way_and_leaves_nothing(wire: Wire) -> None:
    prepare(wire)
    damaged = bytearray(one())
    damaged[-1] ^= 1
    assert wire.send(bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert wire.send(b"short").error_code == ErrorCode.INVALID_RECORD
    assert wire.send(one(base_offset=5)).error_code == ErrorCode.INVALID_RECORD
    assert wire.send(one(is_transactional=True)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert wire.send(one()).base_offset == 2


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
    for is_prepared in (False, True):
        wire.context.repeat = None
        for sequence in range(2):
            wire.send(one(producer_id=5, producer_epoch=1, base_sequence=sequence))
        assert wire.is_prepared()
        if not is_prepared:
            wire.context.repeat = None
        sequence = 2
        answer = send()
        answers.append((answer.error_code, answer.error_message, len(answer.record_errors)))
        wire.hosted.delete("t")
        wire.hosted.create("t", 3)
    assert answers[0] == answers[1]


def test_a_deleted_topic_a_missing_partition_and_a_new_incarnation_are_seen(wire: Wire) -> None:
    prepare(wire, version=13)
    assert wire.send(one(), index=7, version=13).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wire.hosted.delete("t")
    assert wire.send(one(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    wire.hosted.create("t", incarnation=2)
    assert wire.send(one(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert wire.hosted.manager.get("t", 0).log.log_end_offset == 0


def test_leadership_that_went_away_is_seen(wire: Wire) -> None:
    prepare(wire)
    wire.hosted.lead("t", leader=2, epoch=5)
    assert wire.send(one()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_changed_settings_hold_for_the_next_repetition(wire: Wire) -> None:
    prepare(wire)
    wire.hosted.configure("t", LogConfig(max_message_bytes=50))
    assert wire.send(one()).error_code == ErrorCode.MESSAGE_TOO_LARGE
    wire.hosted.configure("t", LogConfig(message_timestamp_type="LogAppendTime"))
    assert wire.send(one()).log_append_time_ms == NOW_MS
    assert wire.is_prepared()
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
    found = log.read(offset, max_bytes=1, bound=offset + 1, min_one_batch=True)
    assert found.region is not None
    codec = parse_header(found.region.read()).codec
    found.region.release()
    return codec


def test_a_raised_minimum_of_replicas_holds_for_the_next_repetition(wire: Wire) -> None:
    wire.hosted.create("u", replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
    prepare(wire, topic="u", acks=-1)
    wire.hosted.configure("u", LogConfig(min_insync_replicas=2))
    assert wire.send(one(), topic="u", acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert wire.send(one(), topic="u", acks=1).error_code == ErrorCode.NONE
    wire.hosted.configure("u", LogConfig())
    assert wire.send(one(), topic="u", acks=-1).error_code == ErrorCode.NONE


def test_a_duplicate_is_answered_with_its_first_offset(wire: Wire) -> None:
    batches = [one(producer_id=7, producer_epoch=0, base_sequence=i) for i in range(4)]
    assert [wire.send(batch).base_offset for batch in batches] == [0, 1, 2, 3]
    assert wire.is_prepared()
    assert wire.send(batches[3]).base_offset == 3
    assert wire.send(one(producer_id=7, producer_epoch=0, base_sequence=9)).error_code == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )


def test_internal_topics_and_unanswered_requests_never_take_the_short_way(wire: Wire) -> None:
    wire.hosted.create("__internal")
    for _ in range(3):
        assert wire.send(one(), topic="__internal").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not wire.is_prepared()


@pytest.mark.parametrize("version", range(3, 14))
def test_a_repetition_is_held_to_the_quota_of_its_client(wire: Wire, version: int) -> None:
    prepare(wire, version=version)
    size = wire.stats.of("produce").received_bytes // 2
    wire.quotas.follow({(("client-id", CLIENT),): {"producer_byte_rate": size / 10}})
    wire.context.client_id = "another request of the connection"
    answers = [(wire.send(one(), version=version).base_offset, wire.throttle_ms) for _ in range(3)]
    assert answers == [(2, 0), (3, 10_000), (4, 20_000)]
    assert wire.mutes == [10_000, 20_000]
    wire.quotas.follow({})
    wire.send(one(), version=version)
    assert wire.throttle_ms == 0
