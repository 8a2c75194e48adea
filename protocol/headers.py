"""Request and response headers, and which version of each an API version uses.

A request header is v2 (with a tagged section) in flexible versions, v1 otherwise; the client id is a string with int16
length in both. A response header is v1 in flexible versions, v0 otherwise, and always v0 for ApiVersions: the client
reads that answer before it knows what the broker speaks. For the same reason nothing after the correlation id is read
of a version this broker does not know: its header may be one that it has never seen.
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from protocol.api_keys import ApiKey
from protocol.compile_decode import read_tags
from protocol.errors import ProtocolError
from protocol.messages import VERSIONS

_FIXED: Final = Struct(">hhih")
_START: Final = Struct(">hhi")
_CORRELATION_ID: Final = Struct(">i")

_FLEXIBLE_REQUEST_SINCE: dict[int, int] = {int(key): versions.flexible_since for key, versions in VERSIONS.items()}
_FLEXIBLE_RESPONSE_SINCE: dict[int, int] = {**_FLEXIBLE_REQUEST_SINCE}
del _FLEXIBLE_RESPONSE_SINCE[ApiKey.API_VERSIONS]
_KNOWN: dict[tuple[int, int], tuple[ApiKey, bool]] = {
    (int(key), version): (key, version >= versions.flexible_since)
    for key, versions in VERSIONS.items()
    for version in range(versions.first, versions.last + 1)
}


class UnsupportedVersion(ProtocolError):
    """The header names an API or a version that the schemas do not define."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"api key {api_key} version {api_version} is not supported")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class RequestHeader(NamedTuple):
    """What precedes the body of every request."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int
    """Where in the frame the body begins."""


_new_header: Final = tuple.__new__  # a third of the price of calling the class


def decode_request_header(frame: bytes | bytearray | memoryview) -> RequestHeader:
    """Decode the header of a frame (without its size).

    Raises: UnsupportedVersion for an unknown key or version, ProtocolError when the bytes are no header.
    """
    try:
        api_key, api_version, correlation_id = _START.unpack_from(frame)
        known = _KNOWN.get((api_key, api_version))
        if known is None:
            raise UnsupportedVersion(api_key, api_version, correlation_id)
        length = _FIXED.unpack_from(frame)[3]
        position = _FIXED.size
        client_id = None
        if length >= 0:
            position += length
            client_id = str(frame[_FIXED.size : position], "utf-8")
        if known[1]:
            if frame[position]:
                position = read_tags(frame, position, len(frame))[1]
            else:
                position += 1
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise ProtocolError(f"malformed request header: {error}") from error
    if position > len(frame):
        raise ProtocolError("the frame ends within its header")
    return _new_header(RequestHeader, (known[0], api_version, correlation_id, client_id, position))


def request_header(api_key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    """Return the header a client puts before the body of a request."""
    name = client_id.encode()
    header = _FIXED.pack(api_key, version, correlation_id, len(name)) + name
    return header + b"\0" if version >= _FLEXIBLE_REQUEST_SINCE[api_key] else header


def response_prefix(api_key: int, version: int, correlation_id: int) -> bytes:
    """Return the header that precedes the body of a response."""
    prefix = _CORRELATION_ID.pack(correlation_id)
    flexible_since = _FLEXIBLE_RESPONSE_SINCE.get(api_key)
    return prefix if flexible_since is None or version < flexible_since else prefix + b"\0"
