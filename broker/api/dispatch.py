"""From a frame to its answer: header → route → decode → handler → encode. Or hang up.

What cannot be understood gets no answer, as in Kafka: undecodable bytes, unknown keys, versions out of range. The one
exception is ApiVersions in a version we do not know: it is answered in its oldest layout, so that any client can find
out what we speak.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from broker.api.route import EncodedResponse, RequestContext, Route
from broker.metrics.instruments import BrokerStats, RequestStats
from broker.net.connection import CloseConnection, Connection
from broker.runtime.tasks import start_inline
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode
from protocol.errors import ErrorCode, ProtocolError
from protocol.frame import pack_size
from protocol.headers import UnsupportedVersion, decode_request_header, response_prefix
from protocol.messages import REQUESTS
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

logger = logging.getLogger(__name__)


class _Served:
    """A route and what is looked up once for it."""

    __slots__ = ("request_type", "route", "stats")

    def __init__(self, route: Route, stats: RequestStats) -> None:
        self.route = route
        self.request_type: type[Any] | None = None  # loaded with the first request
        self.stats = stats


class Dispatcher:
    """Runs requests against the handler table."""

    def __init__(self, routes: dict[ApiKey, Route], stats: BrokerStats, monotonic_ns: Callable[[], int]) -> None:
        self._stats = stats
        self._monotonic_ns = monotonic_ns
        self._served = {int(key): _Served(route, stats.of(key.name.lower())) for key, route in routes.items()}

    def execute(
        self, frame: memoryview, connection: Connection
    ) -> tuple[bool, list[Any] | Coroutine[Any, Any, list[Any]]]:
        """Run one request: (True, pieces), or (False, coroutine) when it waits.

        Raises: ProtocolError, CloseConnection.
        """
        started_ns = self._monotonic_ns()
        try:
            header, body_position = decode_request_header(frame)
        except UnsupportedVersion as unsupported:
            return True, self._unsupported(unsupported)
        except ProtocolError:
            self._stats.refused_frames += 1
            raise
        served = self._served.get(header.api_key)
        version = header.api_version
        if served is None or not served.route.serves(version):
            return True, self._unsupported(UnsupportedVersion(header.api_key, version, header.correlation_id))
        served.stats.received_bytes += len(frame)
        request_type = served.request_type
        if request_type is None:
            request_type = served.request_type = REQUESTS[served.route.api_key]
        try:
            request = decode(request_type, version, frame, body_position)
        except ProtocolError:
            served.stats.malformed += 1
            raise
        context = RequestContext(
            connection.id,
            connection.listener,
            connection.client_host,
            header.api_key,
            version,
            header.correlation_id,
            header.client_id or "",
        )
        work = self._run(served, request, context, started_ns)
        return start_inline(work)

    async def _run(self, served: _Served, request: Any, context: RequestContext, started_ns: int) -> list[Any]:
        try:
            response = await served.route.handler(request, context)
            if context.close_after:
                raise CloseConnection("the request asked for no answer and failed")
            if response is None:
                return []
            prefix = response_prefix(served.route.api_key, context.api_version, context.correlation_id)
            if isinstance(response, EncodedResponse):
                return _framed([prefix + response.body])
            return _framed(encode(response, context.api_version, prefix))
        except CloseConnection:
            served.stats.failed += 1
            raise
        except Exception as failure:
            served.stats.failed += 1
            logger.exception("request failed api=%s version=%d", served.route.api_key.name, context.api_version)
            raise CloseConnection("the request could not be answered") from failure
        finally:
            served.stats.latency.observe((self._monotonic_ns() - started_ns) / 1e9)

    def _unsupported(self, unsupported: UnsupportedVersion) -> list[Any]:
        self._stats.refused_frames += 1
        served = self._served.get(ApiKey.API_VERSIONS)
        if unsupported.api_key != ApiKey.API_VERSIONS or served is None:
            raise CloseConnection(f"api key {unsupported.api_key} version {unsupported.api_version} is not served")
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(
                    api_key=ApiKey.API_VERSIONS,
                    min_version=served.route.min_version,
                    max_version=served.route.max_version,
                )
            ],
        )
        return _framed(encode(response, 0, response_prefix(ApiKey.API_VERSIONS, 0, unsupported.correlation_id)))


def _framed(pieces: list[Any]) -> list[Any]:
    """Put the size in front of an encoded response."""
    if len(pieces) == 1:
        body = pieces[0]
        return [pack_size(len(body)) + body]
    return [pack_size(sum(map(len, pieces))), *pieces]
