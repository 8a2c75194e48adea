"""One connection to one broker: requests go out, answers come back in the same order.

The first question on it is which versions the broker offers (KIP-35): in the newest layout, and where the broker does
not know that one, once more in what it says it knows. Every other request goes out in the newest version that both
sides speak, or below the bound that the caller sets.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Any, NamedTuple

from broker.client.errors import ClientError, ConnectionFailed, UnsupportedApi, check
from broker.client.settings import Settings
from broker.version import VERSION
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode
from protocol.compile_decode import read_tags
from protocol.errors import ErrorCode, ProtocolError
from protocol.frame import SIZE_BYTES, unpack_size
from protocol.headers import request_header
from protocol.messages import RESPONSES, VERSIONS
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CORRELATION_ID_BYTES = 4
LAST_CORRELATION_ID = (1 << 31) - 1
SOFTWARE = "odradek"


class Expected(NamedTuple):
    """A request whose answer is still to come."""

    api_key: ApiKey
    version: int
    correlation_id: int


class Connection:
    """A connected socket and the versions agreed on. Not for several threads."""

    def __init__(self, host: str, port: int, settings: Settings) -> None:
        """Connect and agree on versions. Raises: ConnectionFailed. Blocking: network."""
        self.host = host
        self.port = port
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._settings = settings
        self._socket = _connect(host, port, self.name, settings.connect_timeout_s)
        self._correlation_id = 0  # of the newest request; changed by send
        self._expected: deque[Expected] = deque()  # answers to come, in order; changed by send and receive
        self.requests = 0  # sent after the versions were agreed on; changed by send
        self.offered: dict[int, tuple[int, int]] = {}
        try:
            rows = self._agree().api_keys
        except BaseException:
            self.close()
            raise
        self.offered = {row.api_key: (row.min_version, row.max_version) for row in rows}
        self.requests = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def version_of(self, api_key: ApiKey, at_most: int | None = None) -> int:
        """Return the newest version of an API that both sides speak. Raises: UnsupportedApi."""
        ours = VERSIONS[api_key]
        low, high = self.offered.get(api_key, (0, -1))
        version = min(high, ours.last if at_most is None else min(ours.last, at_most))
        if version < max(low, ours.first):
            raise UnsupportedApi(f"{self.name} offers no version of {api_key.name} that this tool speaks")
        return version

    def ask(self, message: Any, *, at_most: int | None = None, timeout_s: float | None = None) -> Any:
        """Send a request and return the answer to it. Raises: ConnectionFailed, UnsupportedApi."""
        self.send(message, at_most=at_most)
        return self.receive(timeout_s=timeout_s)

    def send(self, message: Any, *, at_most: int | None = None, is_answered: bool = True) -> None:
        """Send a request whose answer `receive` will return; a produce request with acks=0 gets none."""
        api_key: ApiKey = message.API_KEY
        self._send(message, self.version_of(api_key, at_most), is_answered)

    def receive(self, *, timeout_s: float | None = None) -> Any:
        """Return the answer to the oldest request that has none yet. Raises: ConnectionFailed."""
        expected = self._expected.popleft()
        frame = self._receive_frame(self._settings.request_timeout_s if timeout_s is None else timeout_s)
        return self._decode(frame, expected)

    # --- versions

    def _agree(self) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=VERSION)
        version = VERSIONS[ApiKey.API_VERSIONS].last
        frame = self._first_answer(request, version)
        answer = self._decode(frame, self._expected.popleft())
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            rows = [row for row in answer.api_keys if row.api_key == ApiKey.API_VERSIONS]
            version = min(version, rows[0].max_version) if rows else 0
            frame = self._first_answer(request, version)
            answer = self._decode(frame, self._expected.popleft())
        check(answer.error_code)
        assert isinstance(answer, ApiVersionsResponse), "what was asked for"
        return answer

    def _first_answer(self, request: ApiVersionsRequest, version: int) -> bytearray:
        """Whoever hangs up at the first request, or answers in another language, is no broker that can be spoken to."""
        self._send(request, version, is_answered=True)
        try:
            return self._receive_frame(self._settings.request_timeout_s)
        except ConnectionFailed as failure:
            hint = "is this a listener without TLS and SASL?"
            raise ConnectionFailed(f"{failure.message} before any answer ({hint})") from failure

    # --- frames

    def _send(self, message: Any, version: int, is_answered: bool) -> None:
        self._correlation_id = self._correlation_id % LAST_CORRELATION_ID + 1
        header = request_header(message.API_KEY, version, self._correlation_id, self._settings.client_id)
        # The size comes first and is known last.
        try:
            chunks: list[Any] = encode(message, version, bytes(SIZE_BYTES) + header)
        except struct.error as error:
            raise ClientError(f"a number is out of its range in {message.API_KEY.name}: {error}") from error
        size = sum(map(len, chunks)) - SIZE_BYTES
        chunks[0][:SIZE_BYTES] = size.to_bytes(SIZE_BYTES, "big")
        self._socket.settimeout(self._settings.request_timeout_s)
        try:
            for chunk in chunks:
                self._socket.sendall(chunk)
        except OSError as error:
            raise ConnectionFailed(f"{self.name} went away: {_reason(error)}") from error
        self.requests += 1
        if is_answered:
            self._expected.append(Expected(message.API_KEY, version, self._correlation_id))

    def _receive_frame(self, timeout_s: float) -> bytearray:
        """Read one answer whole, within one deadline."""
        deadline_s = self._settings.now_s() + timeout_s
        (size,) = unpack_size(self._receive(SIZE_BYTES, deadline_s, timeout_s))
        if not CORRELATION_ID_BYTES <= size <= self._settings.max_response_bytes:
            raise ConnectionFailed(f"{self.name} does not speak the Kafka protocol: an answer of {size} bytes")
        return self._receive(size, deadline_s, timeout_s)

    def _receive(self, size: int, deadline_s: float, timeout_s: float) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        received = 0
        while received < size:
            left_s = deadline_s - self._settings.now_s()
            try:
                self._socket.settimeout(max(left_s, 0.001))
                count = self._socket.recv_into(view[received:])
            except TimeoutError as error:
                raise ConnectionFailed(f"{self.name} did not answer within {timeout_s:g} s") from error
            except OSError as error:
                raise ConnectionFailed(f"{self.name} went away: {_reason(error)}") from error
            if not count:
                raise ConnectionFailed(f"{self.name} closed the connection")
            received += count
        return data

    def _decode(self, frame: bytearray, expected: Expected) -> Any:
        correlation_id = int.from_bytes(frame[:CORRELATION_ID_BYTES], "big", signed=True)
        if correlation_id != expected.correlation_id:
            raise ConnectionFailed(f"{self.name} answered another request than the one that was next")
        position = CORRELATION_ID_BYTES
        version = expected.version
        try:
            if expected.api_key == ApiKey.API_VERSIONS:
                # A broker that does not know the version answers in the oldest layout, and says so first.
                code = int.from_bytes(frame[position : position + 2], "big", signed=True)
                version = 0 if code == ErrorCode.UNSUPPORTED_VERSION else version
            elif version >= VERSIONS[expected.api_key].flexible_since:
                position = read_tags(frame, position, len(frame))[1]
            return decode(RESPONSES[expected.api_key], version, frame, position)
        except (ProtocolError, IndexError) as error:
            raise ConnectionFailed(f"{self.name} sent an answer that cannot be read: {error}") from error


def _connect(host: str, port: int, name: str, timeout_s: float) -> socket.socket:
    try:
        connected = socket.create_connection((host, port), timeout=timeout_s)
    except TimeoutError as error:
        raise ConnectionFailed(f"cannot connect to {name}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise ConnectionFailed(f"cannot connect to {name}: {_reason(error)}") from error
    except UnicodeError as error:
        raise ClientError(f"cannot connect to {name}: not a host name") from error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
