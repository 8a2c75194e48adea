"""From a frame to its answer: header → route → decode → handler → encode. Or hang up.

What cannot be understood gets no answer, as in Kafka: undecodable bytes, unknown keys, versions out of range. The one
exception is ApiVersions in a version we do not know: it is answered in its oldest layout, so that any client can find
out what we speak.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from broker.api.route import LONG_WAY, EncodedResponse, Plain, RequestContext, Route
from broker.metrics.instruments import BrokerStats, RequestStats
from broker.net.connection import CloseConnection
from broker.partition.purgatory import Parked
from broker.quota.clients import ClientQuotas, RequestMeter
from broker.runtime.failures import unexplained
from broker.runtime.tasks import start_inline
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode
from protocol.errors import ErrorCode, ProtocolError
from protocol.frame import SIZE_BYTES, pack_size_into
from protocol.headers import UnsupportedVersion, decode_request_header, response_prefix
from protocol.messages import REQUESTS
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.told_errors import Finder, compile_finder

logger: Final = logging.getLogger(__name__)

SIZE_GAP: Final = bytes(SIZE_BYTES)
"""Kept free in front of a response until its size is known."""


class Peer(Protocol):
    """What is asked of a connection while a request of it is executed."""

    context: RequestContext

    def mute(self, throttle_ms: int) -> None:
        """Execute nothing more for so long."""

    def answer_parked(self, pieces: list[Any]) -> None:
        """Answer a request that has waited without a task."""

    def fail_parked(self, reason: CloseConnection) -> None:
        """Hang up on a request that has waited without a task and cannot be answered."""


class _Served:
    """A route and what is looked up once for it."""

    __slots__ = (
        "api_key",
        "find_errors",
        "first_version",
        "handler",
        "is_exempt",
        "last_version",
        "request_type",
        "stats",
    )

    def __init__(self, route: Route, stats: RequestStats) -> None:
        self.api_key = route.api_key
        self.first_version = route.first_served_version
        self.last_version = route.max_version
        self.handler = route.handler
        self.is_exempt = route.is_exempt
        self.request_type: type[Any] | None = None  # loaded with the first request
        self.find_errors: Finder | None = None  # compiled with the first response
        self.stats = stats


class Dispatcher:
    """Runs requests against the handler table."""

    def __init__(
        self, routes: dict[ApiKey, Route], stats: BrokerStats, quotas: ClientQuotas, monotonic_ns: Callable[[], int]
    ) -> None:
        self._stats = stats
        self._quotas = quotas
        self.monotonic_ns = monotonic_ns
        versions = routes[ApiKey.API_VERSIONS]
        self._own_versions = versions.min_version, versions.max_version
        self._served = {int(key): _Served(route, stats.of(key.name.lower())) for key, route in routes.items()}
        self._plain = {
            int(key): (route.plain, self._served[key]) for key, route in routes.items() if route.plain is not None
        }
        """By the low byte of the API key, which is looked at before anything is decoded."""

    def execute(
        self, frame: memoryview, connection: Peer
    ) -> tuple[bool, list[Any] | Coroutine[Any, Any, list[Any]] | Parked]:
        """Run one request: (True, pieces), or (False, what waits) when it does.

        Raises: ProtocolError, CloseConnection.
        """
        started_ns = self.monotonic_ns()
        plain = self._plain.get(frame[1]) if len(frame) > 1 else None
        if plain is not None:
            response = self._run_plain(plain, frame, connection, started_ns)
            if response is not None:
                return type(response) is list, response
        try:
            api_key, version, correlation_id, client_id, body_position = decode_request_header(frame)
        except UnsupportedVersion as unsupported:
            return True, self._unsupported(unsupported)
        except ProtocolError:
            self._stats.refused_frames += 1
            raise
        served = self._served.get(api_key)
        if served is None or not served.first_version <= version <= served.last_version:
            return True, self._unsupported(UnsupportedVersion(api_key, version, correlation_id))
        stats = served.stats
        stats.received_bytes += len(frame)
        context = connection.context
        context.begin(served.api_key, version, correlation_id, client_id or "")
        request_type = served.request_type
        if request_type is None:
            request_type = served.request_type = REQUESTS[served.api_key]
        try:
            request = decode(request_type, version, frame, body_position)
        except ProtocolError:
            stats.malformed += 1
            raise
        work = served.handler(request, context)
        if self._quotas.is_active and self._quotas.holds(context.principal, context.client_id):
            meter = self._meter(served, context, len(frame), started_ns)
            if self._quotas.measures_time:
                work = meter.timed(work)
        try:
            done, outcome = start_inline(work)
            if done:
                pieces = self._answer(served, connection, outcome)
                stats.latency.observe((self.monotonic_ns() - started_ns) / 1e9)
                return True, pieces
        except Exception as failure:
            raise self._failed(served, context, failure) from failure
        return False, self._finish(served, connection, outcome, started_ns, self.monotonic_ns())

    def _run_plain(
        self, plain: tuple[Plain, _Served], frame: memoryview, connection: Peer, started_ns: int
    ) -> list[Any] | Parked | None:
        """Have a request served from its frame; None when it has to take the long way."""
        way, served = plain
        request = way.read(frame)
        if request is None:
            return None
        context = connection.context
        context.begin(served.api_key, request[0], request[1], request[2])
        if self._quotas.is_active and self._quotas.holds(context.principal, context.client_id):
            self._meter(served, context, len(frame), started_ns)
        try:
            response = way.serve(request, context)
            if response is LONG_WAY:
                context.meter = None
                return None
            if type(response) is list:
                pieces = response
            elif isinstance(response, Parked):
                served.stats.received_bytes += len(frame)
                self._begin_parked(response, served, connection, started_ns)
                return response
            else:
                pieces = [response] if type(response) is bytes else self._answer(served, connection, response)
        except Exception as failure:
            raise self._failed(served, context, failure) from failure
        stats = served.stats
        stats.received_bytes += len(frame)
        stats.latency.observe((self.monotonic_ns() - started_ns) / 1e9)
        return pieces

    def _begin_parked(self, parked: Parked, served: _Served, connection: Peer, started_ns: int) -> None:
        """Bring the answer of a parked request to its connection."""
        parked_ns = self.monotonic_ns()
        worked = (parked_ns - started_ns) / 1e9

        def failed(failure: Exception) -> None:
            served.stats.observe_wait(worked, (self.monotonic_ns() - parked_ns) / 1e9)
            connection.fail_parked(self._failed(served, connection.context, failure))

        def answered(answer: Any) -> None:
            try:
                pieces: list[Any] = answer if type(answer) is list else self._answer(served, connection, answer)
            except Exception as failure:
                failed(failure)
                return
            served.stats.observe_wait(worked, (self.monotonic_ns() - parked_ns) / 1e9)
            connection.answer_parked(pieces)

        parked.begin(answered, failed)

    async def _finish(
        self, served: _Served, connection: Peer, work: Coroutine[Any, Any, Any], started_ns: int, parked_ns: int
    ) -> list[Any]:
        """Carry on a request that waits."""
        try:
            return self._answer(served, connection, await work)
        except Exception as failure:
            raise self._failed(served, connection.context, failure) from failure
        finally:
            served.stats.observe_wait((parked_ns - started_ns) / 1e9, (self.monotonic_ns() - parked_ns) / 1e9)

    def _answer(self, served: _Served, connection: Peer, response: Any) -> list[Any]:
        """Encode what the handler gave."""
        context = connection.context
        if context.meter is not None:
            return self._answer_metered(context.meter, served, connection, response)
        if context.close_after:
            raise CloseConnection("the request asked for no answer and failed")
        if response is None:
            return []
        prefix = SIZE_GAP + response_prefix(served.api_key, context.api_version, context.correlation_id)
        if isinstance(response, EncodedResponse):
            return _framed([bytearray(prefix + response.body)])
        self._count_errors(served, response)
        return _framed(encode(response, context.api_version, prefix))

    def _count_errors(self, served: _Served, response: Any) -> None:
        """Count the error codes that a response tells; the plain way has none to tell."""
        find = served.find_errors
        if find is None:
            find = served.find_errors = compile_finder(type(response))
        codes: list[int] = []
        find(response, codes)
        if codes:
            served.stats.count_errors(codes)

    def _answer_metered(self, meter: RequestMeter, served: _Served, connection: Peer, response: Any) -> list[Any]:
        """Close a request's account; what it has to wait is told in its response, where there is a place for it."""
        context = connection.context
        context.meter = None
        throttle_ms = meter.settle()
        if throttle_ms and not context.close_after:
            connection.mute(throttle_ms)
            response = _throttled(response, throttle_ms)
        pieces = self._answer(served, connection, response)
        meter.finish()
        return pieces

    def _meter(self, served: _Served, context: RequestContext, request_bytes: int, started_ns: int) -> RequestMeter:
        """Have a request counted by the quotas of its client."""
        meter = context.meter = self._quotas.meter(context.principal, context.client_id, request_bytes, started_ns)
        if served.is_exempt:
            meter.exempt()
        return meter

    def _failed(self, served: _Served, context: RequestContext, failure: Exception) -> CloseConnection:
        """Count a request that gets no answer, and report it unless hanging up is what the protocol asks for."""
        served.stats.failed += 1
        if isinstance(failure, CloseConnection):
            return failure
        logger.error(
            "request failed api=%s version=%d reason=%s",
            served.api_key.name, context.api_version, failure, exc_info=unexplained(failure),
        )  # fmt: skip
        return CloseConnection("the request could not be answered")

    def _unsupported(self, unsupported: UnsupportedVersion) -> list[Any]:
        self._stats.refused_frames += 1
        if unsupported.api_key != ApiKey.API_VERSIONS:
            raise CloseConnection(f"api key {unsupported.api_key} version {unsupported.api_version} is not served")
        self._stats.of(ApiKey.API_VERSIONS.name.lower()).count_errors([ErrorCode.UNSUPPORTED_VERSION])
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(
                    api_key=ApiKey.API_VERSIONS,
                    min_version=self._own_versions[0],
                    max_version=self._own_versions[1],
                )
            ],
        )
        prefix = SIZE_GAP + response_prefix(ApiKey.API_VERSIONS, 0, unsupported.correlation_id)
        return _framed(encode(response, 0, prefix))


def _throttled(response: Any, throttle_ms: int) -> Any:
    if isinstance(response, EncodedResponse):
        return response.throttled(throttle_ms)
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    return response


def _framed(pieces: list[Any]) -> list[Any]:
    """Write the size into the gap in front of an encoded response."""
    size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
    pack_size_into(pieces[0], 0, size - SIZE_BYTES)
    return pieces
