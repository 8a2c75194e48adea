"""The plain way of Produce requests and answers says what the codec says, or nothing."""

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.fast.produce import PlainRequest, read_plain, write_answer
from protocol.headers import decode_request_header, request_header, response_prefix
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import HEADER_SIZE

versions = st.integers(3, 13)
names = st.text(max_size=20)
ids = st.binary(min_size=16, max_size=16)
batch_sizes = st.one_of(
    st.integers(HEADER_SIZE, 300),
    st.sampled_from([126, 127, 128, 129, 16382, 16383, 16384, 16385, (1 << 21) - 2, (1 << 21) - 1, 1 << 21]),
)
usual_sizes = st.integers(HEADER_SIZE, 200)
indexes = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-1, 2**63 - 1)


def topics_of(sizes: st.SearchStrategy[int], max_partitions: int = 4) -> st.SearchStrategy[list[TopicProduceData]]:
    """Topics with a few partitions each."""
    partition = st.builds(PartitionProduceData, index=indexes, records=st.builds(bytes, sizes))
    partitions = st.lists(partition, min_size=1, max_size=max_partitions)
    topic = st.builds(TopicProduceData, name=names, topic_id=ids, partition_data=partitions)
    return st.lists(topic, min_size=1, max_size=3)


def request_of(topics: list[TopicProduceData], acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics)


def frame_of(version: int, request: ProduceRequest, client_id: str = "client", correlation_id: int = 99) -> bytearray:
    header = request_header(ApiKey.PRODUCE, version, correlation_id, client_id)
    return bytearray(header + encode_bytes(request, version))


def assert_means_the_same(plain: PlainRequest, frame: bytes | bytearray) -> None:
    """Hold what was read against the codec, which must not refuse it."""
    version, correlation_id, client_id, acks, topics = plain
    header = decode_request_header(memoryview(frame))
    assert header[:4] == (ApiKey.PRODUCE, version, correlation_id, client_id)
    request = decode(ProduceRequest, version, frame, header.body_position)
    assert (request.acks, request.transactional_id) == (acks, None)
    assert len(request.topic_data) == len(topics)
    for topic, (name, topic_id, _, batches) in zip(request.topic_data, topics, strict=True):
        assert (topic.name, topic.topic_id) == (name, topic_id)
        assert [(data.index, bytes(data.records or b"")) for data in topic.partition_data] == [
            (index, bytes(records)) for index, records in batches
        ]


@given(versions, names, topics_of(batch_sizes), st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=100)
def test_a_usual_request_is_read_whatever_its_topics_and_partitions(
    version: int, client_id: str, topics: list[TopicProduceData], acks: int, correlation_id: int
) -> None:
    frame = frame_of(version, request_of(topics, acks), client_id, correlation_id)
    plain = read_plain(memoryview(frame))
    assert plain is not None
    assert_means_the_same(plain, frame)


@given(versions, st.sampled_from([1, 126, 127, 128, 129, 300]))
@settings(max_examples=40)
def test_many_partitions_are_read(version: int, count: int) -> None:
    data = [PartitionProduceData(index=index, records=bytes(HEADER_SIZE)) for index in range(count)]
    frame = frame_of(version, request_of([TopicProduceData(name="topic", partition_data=data)]))
    plain = read_plain(memoryview(frame))
    assert plain is not None
    assert_means_the_same(plain, frame)


@given(versions, topics_of(st.integers(0, 80)), st.one_of(st.none(), names))
@settings(max_examples=100)
def test_transactions_and_what_is_no_batch_are_left_to_the_codec(
    version: int, topics: list[TopicProduceData], transactional_id: str | None
) -> None:
    frame = frame_of(version, request_of(topics, transactional_id=transactional_id))
    sizes = [len(data.records or b"") for topic in topics for data in topic.partition_data]
    is_usual = transactional_id is None and min(sizes) >= HEADER_SIZE
    assert (read_plain(memoryview(frame)) is not None) == is_usual


@given(versions, topics_of(usual_sizes), st.data())
@settings(max_examples=300)
def test_a_changed_frame_is_either_left_to_the_codec_or_means_the_same_to_it(
    version: int, topics: list[TopicProduceData], data: Any
) -> None:
    frame = frame_of(version, request_of(topics))
    change = data.draw(st.sampled_from(["byte", "byte", "byte", "cut", "append", "insert"]))
    at = data.draw(st.integers(0, len(frame) - 1))
    if change == "byte":
        # What precedes the records matters; they begin after some dozens of bytes.
        at = data.draw(st.one_of(st.integers(0, min(len(frame), 90) - 1), st.just(at), st.just(len(frame) - 1)))
        frame[at] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])))
    elif change == "cut":
        del frame[at:]
    elif change == "append":
        frame += data.draw(st.binary(min_size=1, max_size=5))
    else:
        frame[at:at] = data.draw(st.binary(min_size=1, max_size=3))
    plain = read_plain(memoryview(frame))
    if plain is not None:
        assert_means_the_same(plain, frame)


@given(st.binary(max_size=200), versions, st.integers(0, 60))
@settings(max_examples=200)
def test_noise_is_left_to_the_codec_or_means_the_same_to_it(noise: bytes, version: int, kept: int) -> None:
    data = [PartitionProduceData(index=3, records=bytes(HEADER_SIZE))]
    frame = frame_of(version, request_of([TopicProduceData(name="topic", partition_data=data)]))[:kept] + noise
    plain = read_plain(memoryview(frame))
    if plain is not None:
        assert_means_the_same(plain, frame)


@given(versions, topics_of(usual_sizes, max_partitions=6), st.integers(-(2**31), 2**31 - 1), st.data())
@settings(max_examples=100)
def test_the_answer_is_what_the_codec_writes(
    version: int, topics: list[TopicProduceData], correlation_id: int, data: Any
) -> None:
    plain = read_plain(memoryview(frame_of(version, request_of(topics))))
    assert plain is not None
    count = sum(len(topic.partition_data) for topic in topics)
    drawn = st.lists(st.tuples(int64s, int64s, int64s), min_size=count, max_size=count)
    results = [(base, base, append_time, start, False) for base, append_time, start in data.draw(drawn)]
    following = iter(results)
    responses = []
    for topic in topics:
        answers = []
        for partition in topic.partition_data:
            base_offset, _, append_time, log_start, _ = next(following)
            answers.append(
                PartitionProduceResponse(
                    index=partition.index,
                    base_offset=base_offset,
                    log_append_time_ms=append_time,
                    log_start_offset=log_start,
                )
            )
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    body = encode_bytes(ProduceResponse(responses=responses), version)
    body = response_prefix(ApiKey.PRODUCE, version, correlation_id) + body
    assert write_answer(version, correlation_id, plain[4], results) == struct.pack(">i", len(body)) + body
