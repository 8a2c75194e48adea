"""Requests against API families as the dispatcher makes them, encoded and decoded on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.api.route import EncodedResponse, RequestContext
from config.views import ListenerConfig
from protocol.codec import decode, encode_bytes
from protocol.messages import RESPONSES

PLAIN = ListenerConfig("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
def ask() -> Ask:
    """Send a request in a version to the family that serves it and return the response as a client reads it."""

    async def call(family: Any, request: Any, version: int, listener: ListenerConfig = PLAIN) -> Any:
        route = next(route for route in family.routes() if route.api_key == request.API_KEY)
        assert route.serves(version)
        context = RequestContext(1, listener, "127.0.0.1", int(request.API_KEY), version, 7, "test")
        received = decode(type(request), version, encode_bytes(request, version))
        response = await route.handler(received, context)
        body = response.body if isinstance(response, EncodedResponse) else encode_bytes(response, version)
        return decode(RESPONSES[request.API_KEY], version, body)

    return call
