"""What a request handler is: its route, and what it is told beside the request.

A handler is `async (request, context) -> response | None`. The connection drives it itself: one that never suspends
runs inline, without a task. Views into the request (`records`) are valid until the handler's first suspension;
whoever needs them longer copies them before.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from broker.quota.clients import RequestMeter
from config.views import ListenerConfig
from protocol.api_keys import ApiKey

_THROTTLE_TIME: Final = Struct(">i")


@dataclass(slots=True)
class RequestContext:
    """Who asked, over which listener, and in which version.

    One object a connection: it serves request after request, which is safe because a connection runs one at a time.
    """

    connection_id: int
    listener: ListenerConfig
    client_host: str
    api_key: int = -1
    api_version: int = -1
    correlation_id: int = -1
    client_id: str = ""
    client_port: int = -1
    software_name: str = "unknown"
    software_version: str = "unknown"
    """What the client has said about itself in its ApiVersions request."""
    principal: str = "User:ANONYMOUS"
    close_after: bool = False
    """Set by a handler that must end the connection instead of answering (a failed acks=0 produce)."""
    outlives_peer: bool = False
    """Set by a handler before it waits in the middle of a change: it is carried through though the peer has gone."""
    meter: RequestMeter | None = None
    """What the request is counted by, while some client has a quota; gone with its answer."""

    def begin(self, api_key: int, api_version: int, correlation_id: int, client_id: str) -> None:
        """Take up the next request."""
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.close_after = self.outlives_peer = False


class EncodedResponse(NamedTuple):
    """A response a handler has encoded before, in the version that was asked: everything after the header."""

    body: bytes
    throttle_time_at: int | None = None
    """Where a throttle time stands in the body, if the version has one."""

    def throttled(self, throttle_time_ms: int) -> EncodedResponse:
        """Return the same with a throttle time in it."""
        at = self.throttle_time_at
        if at is None:
            return self
        after = at + _THROTTLE_TIME.size
        return self._replace(body=self.body[:at] + _THROTTLE_TIME.pack(throttle_time_ms) + self.body[after:])


Handler = Callable[[Any, RequestContext], Coroutine[Any, Any, Any]]

LONG_WAY: Final = object()
"""What `Plain.serve` returns where it leaves a request, untouched, to the handler."""


class Plain(NamedTuple):
    """The way of the most usual requests of an API, which costs neither objects nor a coroutine."""

    read: Callable[[memoryview], tuple[Any, ...] | None]
    """Read a frame: version, correlation id and client id, then what `serve` needs; None for other requests."""
    serve: Callable[[Any, RequestContext], Any]
    """Serve it: gives the answer's bytes or its pieces, or what a handler may return, or LONG_WAY.

    What has to wait gives a Parked (broker.partition.purgatory).
    """


@dataclass(frozen=True, slots=True)
class Route:
    """One API as it is served: the advertised range, the served range, and the handler.

    A request that other brokers send is never throttled: it `is_exempt`.

    `served_from` differs from `min_version` for Produce alone: versions 0 to 2 are advertised, since librdkafka before
    2.11.1 reads codec support from the minimum, and refused when used.
    """

    api_key: ApiKey
    min_version: int
    max_version: int
    handler: Handler
    plain: Plain | None = None
    served_from: int = -1
    is_exempt: bool = False

    @property
    def first_served_version(self) -> int:
        """The lowest version that is executed."""
        return self.min_version if self.served_from < 0 else self.served_from

    def serves(self, version: int) -> bool:
        """Tell whether a request of this version is executed."""
        return self.first_served_version <= version <= self.max_version
