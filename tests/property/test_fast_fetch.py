"""The short way of a Fetch reads and writes what the codec does, or leaves it to the codec."""

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.api_keys import ApiKey
from protocol.codec import decode, encode, encode_bytes
from protocol.errors import ProtocolError
from protocol.fast.fetch import Found, fetch_answer, read_fetch
from protocol.headers import response_prefix
from protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from storage.segment.region import MemoryRegion

versions = st.integers(4, 18)
names = st.text(max_size=200)
ids = st.binary(min_size=16, max_size=16)
int32s = st.integers(-1, 2**31 - 1)
int64s = st.integers(-1, 2**63 - 1)
partitions = st.builds(
    FetchPartition,
    partition=int32s,
    current_leader_epoch=int32s,
    fetch_offset=int64s,
    last_fetched_epoch=int32s,
    log_start_offset=int64s,
    partition_max_bytes=int32s,
)
requests = st.builds(
    FetchRequest,
    replica_id=st.just(-1),
    max_wait_ms=int32s,
    min_bytes=int32s,
    max_bytes=int32s,
    isolation_level=st.sampled_from([0, 1]),
    session_id=int32s,
    session_epoch=int32s,
    topics=st.lists(
        st.builds(FetchTopic, topic=names, topic_id=ids, partitions=st.lists(partitions, max_size=200)), max_size=3
    ),
    forgotten_topics_data=st.lists(
        st.builds(ForgottenTopic, topic=names, topic_id=ids, partitions=st.lists(int32s, max_size=200)), max_size=3
    ),
    rack_id=names,
)


def meaning_of(request: FetchRequest, version: int) -> tuple[Any, ...]:
    """Write down what the broker looks at in a decoded request."""
    uses_ids = version >= 13
    return (
        (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level),
        (request.session_id, request.session_epoch),
        [
            (
                topic.topic_id if uses_ids else topic.topic,
                [
                    (
                        one.partition,
                        one.current_leader_epoch,
                        one.fetch_offset,
                        one.last_fetched_epoch,
                        one.partition_max_bytes,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        [
            (topic.topic_id if uses_ids else topic.topic, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ],
    )


def short_meaning_of(data: bytes, position: int, version: int) -> tuple[Any, ...] | None:
    asked = read_fetch(data, position, version)
    if asked is None:
        return None
    limits = (asked.max_wait_ms, asked.min_bytes, asked.max_bytes, asked.isolation_level)
    return limits, (asked.session_id, asked.session_epoch), asked.topics, asked.forgotten


@given(versions, requests)
@settings(max_examples=150)
def test_a_request_means_what_the_codec_says(version: int, request: FetchRequest) -> None:
    data = b"head" + encode_bytes(request, version)
    assert short_meaning_of(data, 4, version) == meaning_of(decode(FetchRequest, version, data, 4), version)


@given(versions, requests, st.data())
@settings(max_examples=200)
def test_a_damaged_request_means_what_the_codec_says_or_is_left_to_it(
    version: int, request: FetchRequest, data: Any
) -> None:
    damaged = bytearray(encode_bytes(request, version))
    change = data.draw(st.sampled_from(["byte", "cut", "append"]))
    if change == "byte":
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    elif change == "cut":
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]
    else:
        damaged += data.draw(st.binary(min_size=1, max_size=5))
    short = short_meaning_of(bytes(damaged), 0, version)
    if short is None:
        return
    try:
        decoded = decode(FetchRequest, version, bytes(damaged))
    except ProtocolError as error:
        raise AssertionError("read what cannot be decoded") from error
    assert short == meaning_of(decoded, version)


found_rows = st.lists(
    st.tuples(
        st.integers(0, 2),
        int32s,
        int64s,
        int64s,
        int64s,
        st.none() | st.lists(st.tuples(int64s, int64s), max_size=150),
        st.none() | st.sampled_from([1, 126, 127, 128, 20000]),
    ),
    max_size=6,
)


@given(versions, st.integers(-(2**31), 2**31 - 1), int32s, found_rows, st.lists(names, min_size=3, max_size=3))
@settings(max_examples=150)
def test_an_answer_is_what_the_codec_writes(
    version: int, correlation_id: int, session_id: int, rows: list[Any], topic_names: list[str]
) -> None:
    topics: list[FetchableTopicResponse] = []
    found: list[Found] = []
    last = None
    for number, index, high_watermark, stable, start, aborted, size in rows:
        topic_id = bytes([number]) * 16
        key: str | bytes = topic_id if version >= 13 else topic_names[number]
        records = MemoryRegion(b"r" * size, 0) if size is not None else None
        found.append((key, index, high_watermark, stable, start, aborted, records))
        if key != last:
            last = key
            topics.append(FetchableTopicResponse(topic=topic_names[number], topic_id=topic_id, partitions=[]))
        topics[-1].partitions.append(
            PartitionData(
                partition_index=index,
                error_code=0,
                high_watermark=high_watermark,
                last_stable_offset=stable,
                log_start_offset=start,
                aborted_transactions=None
                if aborted is None
                else [
                    AbortedTransaction(producer_id=producer_id, first_offset=offset) for producer_id, offset in aborted
                ],
                preferred_read_replica=-1,
                records=records if records is not None else b"",
            )
        )
    body = response_prefix(ApiKey.FETCH, version, correlation_id) + joined(
        encode(FetchResponse(session_id=session_id, responses=topics), version)
    )
    assert joined(fetch_answer(version, correlation_id, session_id, found)) == struct.pack(">i", len(body)) + body


def joined(pieces: list[Any]) -> bytes:
    return b"".join(piece.data if isinstance(piece, MemoryRegion) else piece for piece in pieces)
