"""GetTelemetrySubscriptions (key 71) and PushTelemetry (72). Served: 0.

- What clients push is exported with the broker's own metrics, within bounds; nothing is wanted of a client unless a
  subscription says so.
- Difference from the reference: both are offered without a plugin, which the reference needs to do anything with them.

Source: KIP-714; ClientMetricsManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from broker.api.route import RequestContext, Route
from broker.metadata.image import CLIENT_METRICS_RESOURCE, ClusterImage
from broker.runtime.pools import Pools
from broker.telemetry.otlp import Malformed, Point, read_points
from broker.telemetry.store import ClientMetricsStore
from broker.telemetry.subscriptions import ACCEPTED_CODECS, RESERVED_IDS, Client, Refused, Subscriptions
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.records.compression import decompress
from protocol.records.errors import RecordsError

MAX_RATIO = 20
"""What a push may inflate to, in multiples of what it may have: metrics are mostly names."""


class TelemetryApi:
    """Tells clients what to measure, and takes it in."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        subscriptions: Subscriptions,
        store: ClientMetricsStore,
        pools: Pools,
        now_ms: Callable[[], float],
        max_bytes: int,
    ) -> None:
        self._image = image
        self._subscriptions = subscriptions
        self._store = store
        self._pools = pools
        self._now_ms = now_ms
        self._max_bytes = max_bytes
        # The configs looked at last, an image keeps what it does not change, and what the subscriptions were made of.
        self._seen: object = None
        self._wanted: dict[str, Mapping[str, str]] = {}

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, self.get_telemetry_subscriptions),
            Route(ApiKey.PUSH_TELEMETRY, 0, 0, self.push_telemetry),
        )

    async def get_telemetry_subscriptions(
        self, request: GetTelemetrySubscriptionsRequest, context: RequestContext
    ) -> GetTelemetrySubscriptionsResponse:
        """Tell a client what to push."""
        self._follow_configs()
        instance = self._subscriptions.instance(request.client_instance_id, _client(context))
        try:
            instance.ask(self._now_ms())
        except Refused as refusal:
            return GetTelemetrySubscriptionsResponse(error_code=refusal.code)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance.instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(ACCEPTED_CODECS),
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=self._max_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.metrics),
        )

    async def push_telemetry(self, request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
        """Take in what a client has measured."""
        if request.client_instance_id in RESERVED_IDS:
            return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
        self._follow_configs()
        instance = self._subscriptions.instance(request.client_instance_id, _client(context))
        try:
            instance.push(
                request.subscription_id,
                request.compression_type,
                len(request.metrics),
                self._now_ms(),
                max_bytes=self._max_bytes,
                terminating=request.terminating,
            )
        except Refused as refusal:
            return PushTelemetryResponse(error_code=refusal.code)
        if request.metrics:
            read = partial(_read, request.compression_type, bytes(request.metrics), self._max_bytes * MAX_RATIO)
            try:
                points = await self._pools.cpu(read)
            except (RecordsError, Malformed):
                instance.last_error = ErrorCode.INVALID_RECORD
                return PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD)
            self._store.put(instance.name, instance.client.client_id, points)
        return PushTelemetryResponse()

    def _follow_configs(self) -> None:
        configs = self._image().configs
        if configs is self._seen:
            return
        self._seen = configs
        wanted = {name: values for (kind, name), values in configs.items() if kind == CLIENT_METRICS_RESOURCE}
        if wanted != self._wanted:
            self._wanted = wanted
            self._subscriptions.update(wanted.values())


def _client(context: RequestContext) -> Client:
    return Client(
        context.client_id,
        context.software_name,
        context.software_version,
        context.client_host,
        context.client_port,
    )


def _read(codec: int, payload: bytes, max_bytes: int) -> list[Point]:
    """Inflate and read a push. Blocking: cpu."""
    return read_points(decompress(codec, payload, max_size=max_bytes) if codec else payload)
