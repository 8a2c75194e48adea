"""Request headers v1 and v2, response headers v0 and v1, and what ApiVersions does differently."""

import struct

import pytest

from protocol.api_keys import ApiKey
from protocol.errors import ProtocolError
from protocol.headers import RequestHeader, UnsupportedVersion, decode_request_header, response_prefix

START = struct.Struct(">hhi")


def header(api_key: int, version: int, rest: bytes) -> bytes:
    return START.pack(api_key, version, 7) + rest


def test_header_v1_holds_a_client_id_and_no_tags() -> None:
    frame = header(ApiKey.METADATA, 8, b"\0\x03abc") + b"body"
    decoded = decode_request_header(memoryview(frame))
    assert decoded == RequestHeader(ApiKey.METADATA, 8, 7, "abc", len(frame) - len(b"body"))
    assert frame[decoded.body_position :] == b"body"


def test_header_v2_keeps_the_int16_client_id_and_ends_with_tags() -> None:
    frame = header(ApiKey.METADATA, 9, b"\0\x03abc\0") + b"body"
    decoded = decode_request_header(memoryview(frame))
    assert decoded.client_id == "abc"
    assert frame[decoded.body_position :] == b"body"


def test_null_client_id_and_unknown_tags_are_accepted() -> None:
    frame = (
        header(ApiKey.METADATA, 12, b"\xff\xff" + b"\x03" + b"\x00\x01x" + b"\x05\x00" + b"\x80\x01\x02yz") + b"body"
    )
    decoded = decode_request_header(memoryview(frame))
    assert decoded.client_id is None
    assert frame[decoded.body_position :] == b"body"


@pytest.mark.parametrize("tags", [b"\x02\x01\x00\x01\x00", b"\x02\x02\x00\x01\x00", b"\xff\xff\x7f", b"\x01\x00\x05x"])
def test_tags_out_of_order_or_beyond_the_frame_are_malformed(tags: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(header(ApiKey.METADATA, 12, b"\xff\xff" + tags))


def test_a_header_cut_anywhere_is_malformed() -> None:
    frame = header(ApiKey.FETCH, 12, b"\0\x03abc\x01\x00\x01x")
    for length in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode_request_header(memoryview(frame)[:length])


def test_a_client_id_that_is_not_utf8_is_malformed() -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(header(ApiKey.METADATA, 8, b"\0\x01\xff"))


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.API_VERSIONS, 99),
        (ApiKey.API_VERSIONS, -1),
        (ApiKey.PRODUCE, 2),
        (ApiKey.METADATA, 14),
        (4, 0),
        (999, 0),
    ],
)
def test_unknown_keys_and_versions_are_named_without_reading_on(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion) as raised:
        decode_request_header(header(api_key, version, b"\xde\xad\xbe"))
    assert (raised.value.api_key, raised.value.api_version, raised.value.correlation_id) == (api_key, version, 7)


@pytest.mark.parametrize(
    ("api_key", "version", "expected"),
    [
        (ApiKey.FETCH, 11, b"\0\0\0\x09"),
        (ApiKey.FETCH, 12, b"\0\0\0\x09\0"),
        (ApiKey.SASL_HANDSHAKE, 1, b"\0\0\0\x09"),
        (ApiKey.API_VERSIONS, 0, b"\0\0\0\x09"),
        (ApiKey.API_VERSIONS, 4, b"\0\0\0\x09"),
    ],
)
def test_response_headers_grow_tags_in_flexible_versions_except_for_api_versions(
    api_key: ApiKey, version: int, expected: bytes
) -> None:
    assert response_prefix(api_key, version, 9) == expected
