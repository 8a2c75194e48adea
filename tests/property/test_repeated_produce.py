"""The short way of a repeated Produce request says what the codec says, or nothing."""

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.errors import ProtocolError
from protocol.fast.produce import RepeatedProduce
from protocol.headers import decode_request_header, request_header, response_prefix
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

versions = st.integers(3, 13)
names = st.text(max_size=20)
sizes = st.one_of(
    st.integers(0, 300),
    st.sampled_from([124, 125, 126, 127, 128, 129, 16380, 16381, 16382, 16383, 16384, 16385, 16386, 40000]),
)
indexes = st.integers(0, 2**31 - 1)


def request_of(topic: str, topic_id: bytes, acks: int, timeout_ms: int, index: int, records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def frame_of(version: int, correlation_id: int, client_id: str, request: ProduceRequest) -> bytes:
    return request_header(ApiKey.PRODUCE, version, correlation_id, client_id) + encode_bytes(request, version)


def answer_of(topic: str, topic_id: bytes, index: int, *result: int) -> ProduceResponse:
    base_offset, append_time, log_start = result
    data = PartitionProduceResponse(
        index=index, base_offset=base_offset, log_append_time_ms=append_time, log_start_offset=log_start
    )
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[data])])


def learned(version: int, client_id: str, topic: str, topic_id: bytes, acks: int, timeout_ms: int) -> RepeatedProduce:
    request = request_of(topic, topic_id, acks, timeout_ms, 7, b"first")
    return RepeatedProduce(version, client_id, request, answer_of(topic, topic_id, 7, 1, 2, 3))


@given(versions, names, names, st.binary(min_size=16, max_size=16), st.sampled_from([1, -1]), indexes, sizes)
@settings(max_examples=150)
def test_a_repetition_is_recognised_with_its_partition_and_records(
    version: int, client_id: str, topic: str, topic_id: bytes, acks: int, index: int, size: int
) -> None:
    known = learned(version, client_id, topic, topic_id, acks, 1000)
    records = bytes(i & 0xFF for i in range(size))
    frame = frame_of(version, 99, client_id, request_of(topic, topic_id, acks, 1000, index, records))
    matched = known.match(memoryview(frame))
    assert matched is not None
    assert (matched[0], bytes(matched[1])) == (index, records)


@given(versions, names, indexes, st.tuples(*[st.integers(-1, 2**63 - 1)] * 3), st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=100)
def test_the_answer_is_what_the_codec_writes(
    version: int, topic: str, index: int, result: tuple[int, int, int], correlation_id: int
) -> None:
    known = learned(version, "c", topic, bytes(16), 1, 1000)
    frame = frame_of(version, correlation_id, "c", request_of(topic, bytes(16), 1, 1000, index, b"x"))
    body = response_prefix(ApiKey.PRODUCE, version, correlation_id) + encode_bytes(
        answer_of(topic, bytes(16), index, *result), version
    )
    assert known.answer(memoryview(frame), index, *result) == struct.pack(">i", len(body)) + body


@given(versions, sizes, st.data())
@settings(max_examples=300)
def test_a_changed_frame_is_either_not_recognised_or_means_the_same_to_the_codec(
    version: int, size: int, data: Any
) -> None:
    known = learned(version, "client", "topic", bytes(range(16)), 1, 1000)
    frame = bytearray(frame_of(version, 5, "client", request_of("topic", bytes(range(16)), 1, 1000, 3, b"r" * size)))
    change = data.draw(st.sampled_from(["byte", "cut", "append"]))
    if change == "byte":
        frame[data.draw(st.integers(0, min(len(frame), 100) - 1))] = data.draw(st.integers(0, 255))
    elif change == "cut":
        del frame[data.draw(st.integers(0, len(frame) - 1)) :]
    else:
        frame += data.draw(st.binary(min_size=1, max_size=5))
    matched = known.match(memoryview(frame))
    if matched is None:
        return
    header = decode_request_header(memoryview(frame))
    assert (header.api_key, header.api_version, header.client_id) == (ApiKey.PRODUCE, version, "client")
    request = decode(ProduceRequest, version, frame, header.body_position)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (request.acks, request.timeout_ms, request.transactional_id) == (1, 1000, None)
    assert (topic.name if version < 13 else topic.topic_id) == ("topic" if version < 13 else bytes(range(16)))
    assert isinstance(partition.records, memoryview)
    assert (partition.index, bytes(partition.records)) == (matched[0], bytes(matched[1]))


@given(st.binary(max_size=60), versions)
def test_arbitrary_bytes_are_not_recognised(noise: bytes, version: int) -> None:
    known = learned(version, "client", "topic", bytes(16), 1, 1000)
    assert known.match(memoryview(noise)) is None
    prefix = frame_of(version, 5, "client", request_of("topic", bytes(16), 1, 1000, 3, b""))[:20]
    matched = known.match(memoryview(prefix + noise))
    if matched is not None:
        try:
            header = decode_request_header(memoryview(prefix + noise))
            decode(ProduceRequest, version, prefix + noise, header.body_position)
        except ProtocolError as error:
            raise AssertionError("recognised what cannot be decoded") from error
