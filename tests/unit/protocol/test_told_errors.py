"""The walk over a response finds every error code that it tells, wherever it stands."""

from __future__ import annotations

from protocol.message import field_specs
from protocol.messages import RESPONSES
from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.told_errors import compile_finder


def told(response: object) -> list[int]:
    found: list[int] = []
    compile_finder(type(response))(response, found)
    return found


def test_codes_are_found_at_every_depth_and_zeros_are_not() -> None:
    topic = MetadataResponseTopic(
        error_code=3,
        name="t",
        partitions=[MetadataResponsePartition(error_code=code) for code in (0, 5, 5)],
    )
    assert told(MetadataResponse(topics=[topic, MetadataResponseTopic(name="u")])) == [3, 5, 5]
    rows = [OffsetCommitResponsePartition(partition_index=index, error_code=25 * index) for index in range(3)]
    assert told(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=rows)])) == [25, 50]


def test_a_walk_is_made_for_every_response() -> None:
    for response_type in (RESPONSES[key] for key in RESPONSES):
        response = response_type()
        assert told(response) == []
        if "error_code" in field_specs(response_type):
            response.error_code = 42
            assert told(response) == [42], response_type
