"""A peer that answers as a test says: a listening socket and a thread for each connection, no broker behind it.

    with ScriptedBroker({ApiKey.METADATA: lambda request: MetadataResponse(…)}) as broker:
        Client(broker.address)

An answer is a message, `RAW` bytes that go out as they are, or `HANG_UP`, which closes the connection.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.headers import UnsupportedVersion, decode_request_header, response_prefix
from protocol.messages import REQUESTS, VERSIONS
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.metadata import MetadataResponse, MetadataResponseBroker

HANG_UP = object()
SILENCE = object()


class Raw(NamedTuple):
    """Bytes instead of a frame."""

    data: bytes


class Asked(NamedTuple):
    """A request as it arrived."""

    api_key: ApiKey
    version: int
    message: Any


class ScriptedBroker:
    """Answers ApiVersions with all versions there are, Metadata with itself as the only broker, and what it is told."""

    def __init__(
        self,
        answers: Mapping[ApiKey, Callable[[Any], Any]] | None = None,
        *,
        versions: Mapping[ApiKey, tuple[int, int]] | None = None,
        node_id: int = 1,
    ) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.node_id = node_id
        self.asked: list[Asked] = []
        self.connections = 0
        offered = {key: (row.first, row.last) for key, row in VERSIONS.items()} if versions is None else versions
        rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in offered.items()]
        self.answers: dict[ApiKey, Callable[[Any], Any]] = {
            ApiKey.API_VERSIONS: lambda _: ApiVersionsResponse(api_keys=rows),
            ApiKey.METADATA: lambda _: self.metadata(),
            **(answers or {}),
        }
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def metadata(self, topics: Any = ()) -> MetadataResponse:
        """Return a Metadata response that names this broker."""
        me = MetadataResponseBroker(node_id=self.node_id, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[me], controller_id=self.node_id, topics=list(topics))

    def requests(self, api_key: ApiKey) -> list[Asked]:
        """Return the requests of one API that have arrived."""
        return [asked for asked in self.asked if asked.api_key == api_key]

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(peer)
            self._threads.append(threading.Thread(target=self._serve, args=(peer,), daemon=True))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer, peer.makefile("rb") as stream:
            while head := stream.read(4):
                answer = self._answer(stream.read(struct.unpack(">i", head)[0]))
                if answer is None:
                    return
                peer.sendall(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        try:
            header = decode_request_header(frame)
        except UnsupportedVersion as unknown:
            body = encode_bytes(ApiVersionsResponse(error_code=35), 0)
            return self._framed(struct.pack(">i", unknown.correlation_id) + body)
        message = decode(REQUESTS[header.api_key], header.api_version, frame, header.body_position)
        self.asked.append(Asked(header.api_key, header.api_version, message))
        answer = self.answers[header.api_key](message)
        if answer is HANG_UP:
            return None
        if answer is SILENCE:
            return b""
        if isinstance(answer, Raw):
            return answer.data
        prefix = response_prefix(header.api_key, header.api_version, header.correlation_id)
        is_oldest = header.api_key == ApiKey.API_VERSIONS and answer.error_code == 35
        return self._framed(prefix + encode_bytes(answer, 0 if is_oldest else header.api_version))

    @staticmethod
    def _framed(payload: bytes) -> bytes:
        return struct.pack(">i", len(payload)) + payload
