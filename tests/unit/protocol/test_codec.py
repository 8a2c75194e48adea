"""The codec's own promises: records without copies, Blobs as chunks, prefixes, bounds, and golden bytes."""

import tracemalloc

import pytest

from protocol.codec import decode, encode, encode_bytes
from protocol.errors import ProtocolError
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.stored.consumer_group import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue


class Region:
    """A Blob: it has a length and no bytes."""

    def __len__(self) -> int:
        return 300


def produce_request(records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=1, records=records)
    return ProduceRequest(acks=-1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def test_golden_produce_request_v9() -> None:
    expected = bytes.fromhex("00 ffff 00000005 02 02 74 02 00000001 04 616263 00 00 00")
    assert encode_bytes(produce_request(b"abc"), 9) == expected


def test_golden_api_versions_response_v0() -> None:
    response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    assert encode_bytes(response, 0) == bytes.fromhex("0023 00000001 0012 0000 0004")


def test_golden_metadata_request_null_topics() -> None:
    assert encode_bytes(MetadataRequest(topics=None, allow_auto_topic_creation=True), 4) == bytes.fromhex("ffffffff 01")


def test_records_are_a_view_of_the_frame() -> None:
    frame = bytearray(b"head" + encode_bytes(produce_request(b"abcdef"), 9))
    decoded = decode(ProduceRequest, 9, memoryview(frame), 4)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"abcdef")] = ord("X")
    assert bytes(records) == b"Xbcdef"
    assert not records.readonly


def test_large_frames_are_decoded_in_place() -> None:
    request = produce_request(b"r" * 10_000)
    frame = bytearray(encode_bytes(request, 13))
    assert (
        decode(ProduceRequest, 13, frame).topic_data[0].partition_data[0].records
        == request.topic_data[0].partition_data[0].records
    )


def test_a_blob_is_a_chunk_of_its_own_between_the_bytes_around_it() -> None:
    region = Region()
    partitions = [PartitionData(partition_index=0, records=region), PartitionData(partition_index=1, records=b"x")]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    chunks = encode(response, 12, b"prefix")
    assert len(chunks) == 3
    assert chunks[1] is region
    whole = bytes(chunks[0]) + b"z" * len(region) + bytes(chunks[2])
    decoded = decode(FetchResponse, 12, whole, len(b"prefix"))
    assert whole.startswith(b"prefix")
    assert [bytes(partition.records) for partition in decoded.responses[0].partitions] == [b"z" * 300, b"x"]


def test_a_response_that_ends_in_a_blob_has_no_empty_chunk_behind_it() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=Region())])])
    assert [len(chunk) for chunk in encode(response, 4)][1:] == [300]


def test_a_tag_at_its_default_is_left_out() -> None:
    partition = PartitionProduceResponse(index=1)
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
    without = encode_bytes(response, 10)
    partition.current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    assert len(encode_bytes(response, 10)) == len(without) + len(b"\x00\x09") + 9


def test_fields_of_other_versions_are_dropped_and_read_as_defaults() -> None:
    data = encode_bytes(FetchRequest(rack_id="r", session_epoch=3), 7)
    assert decode(FetchRequest, 7, data).rack_id == ""
    assert decode(FetchRequest, 7, data).session_epoch == 3


def test_bytes_behind_the_message_are_ignored() -> None:
    assert decode(MetadataRequest, 1, b"\0\0\0\0trailing") == MetadataRequest(topics=[])


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("7fffffff"),  # plain array longer than the frame
        bytes.fromhex("000f4241") + bytes(1_100_000),  # one element more than any array may have
        bytes.fromhex("00000001 7fff"),  # plain string longer than the frame
        bytes.fromhex("00000001 ffff"),  # null where version 1 has none
    ],
)
def test_plain_lengths_are_bounded(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 1, data)


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("ffffffff0f") + bytes(90),  # compact array of 2**32 - 2 elements
        bytes.fromhex("8080808080 01") + bytes(90),  # varint of six bytes
        bytes.fromhex("ffffffff1f") + bytes(90),  # varint above 32 bits
        bytes.fromhex("02") + bytes(16) + bytes.fromhex("81 80 02") + bytes(40_000),  # compact string above 32767 bytes
        bytes.fromhex("01 01 01 91 4e") + bytes(40_000),  # 10001 tagged fields
        bytes.fromhex("01 01 01 02 03 00 03 00"),  # the same tag twice
        bytes.fromhex("01 01 01 01 00 7f"),  # tag longer than the frame
    ],
)
def test_compact_lengths_are_bounded(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 12, data)


def test_a_known_tag_must_fill_its_size() -> None:
    body = encode_bytes(ApiVersionsResponse(), 3)[:-1]
    assert (
        decode(ApiVersionsResponse, 3, body + bytes.fromhex("01 01 08 0000000000000005")).finalized_features_epoch == 5
    )
    with pytest.raises(ProtocolError):
        decode(ApiVersionsResponse, 3, body + bytes.fromhex("01 01 09 0000000000000005 00"))


def test_a_claimed_length_allocates_nothing() -> None:
    decode(MetadataRequest, 12, encode_bytes(MetadataRequest(), 12))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(MetadataRequest, 12, bytes.fromhex("ffffffff07") + bytes(95))
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_a_version_the_schema_lacks_is_a_callers_mistake() -> None:
    with pytest.raises(ValueError, match="no version 2"):
        decode(ProduceRequest, 2, b"")


def test_null_where_it_is_not_allowed_is_refused_on_the_way_out() -> None:
    with pytest.raises((AttributeError, TypeError)):
        encode_bytes(ApiVersionsRequest(client_software_name=None), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("classic", "tail"),
    [
        (ClassicMemberMetadata(), "00"),
        (None, "01 00 01 00"),
        (ClassicMemberMetadata(session_timeout_ms=5), "01 00 07 01 00000005 01 00"),
    ],
)
def test_golden_nullable_struct_in_a_tag(classic: ClassicMemberMetadata | None, tail: str) -> None:
    # Captured from Kafka 4.2.1's generated class: null is 0 here, while it is -1 outside of tags.
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
    data = encode_bytes(value, 0)
    assert data == bytes.fromhex("01 01 01 01 01 01 ffffffff 01" + tail)
    assert decode(ConsumerGroupMemberMetadataValue, 0, data) == value
