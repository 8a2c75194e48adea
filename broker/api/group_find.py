"""FindCoordinator (key 10). Served: 0 to 6.

- v1 key types and an error message; v3 flexible; v4 many keys, each with its own error; v6 share keys, which only
  brokers may ask for.
- Differences from the reference: the topic of the coordinator's state is created before the answer, so a first request
  is not sent away with COORDINATOR_NOT_AVAILABLE unless that failed. With one broker, every coordinator is this one.

Source: KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from typing import Protocol

from broker.api.route import RequestContext, Route
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

FIRST_BATCHED_VERSION = 4

GROUP_KEY = 0
TRANSACTION_KEY = 1


class Locatable(Protocol):
    """A coordinator, as far as finding it goes."""

    async def ensure_topic(self) -> bool:
        """Create the topic of its state unless it exists; tells whether it is served."""

    def is_led(self, key: str, /) -> bool:
        """Tell whether this broker is the coordinator of a key."""


class GroupFindApi:
    """Tells clients where their coordinator is."""

    def __init__(self, groups: Locatable, transactions: Locatable, node_id: int) -> None:
        self._coordinators = {GROUP_KEY: groups, TRANSACTION_KEY: transactions}
        self._node_id = node_id

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.FIND_COORDINATOR, 0, 6, self.find_coordinator),)

    async def find_coordinator(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        """Give the coordinator of each key."""
        error = await self._error_for(request.key_type)
        message = error.text
        if error is ErrorCode.INVALID_REQUEST:
            known = f"{GROUP_KEY} (a group) and {TRANSACTION_KEY} (a transactional id)"
            message = f"Key type {request.key_type} has no coordinator here; {known} have one."
        if context.api_version >= FIRST_BATCHED_VERSION:
            coordinators = [
                self._coordinator_of(key, request.key_type, error, message, context) for key in request.coordinator_keys
            ]
            return FindCoordinatorResponse(coordinators=coordinators)
        one = self._coordinator_of(request.key, request.key_type, error, message, context)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    async def _error_for(self, key_type: int) -> ErrorCode:
        coordinator = self._coordinators.get(key_type)
        if coordinator is None:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE if await coordinator.ensure_topic() else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _coordinator_of(
        self, key: str, key_type: int, error: ErrorCode, message: str, context: RequestContext
    ) -> Coordinator:
        if error is ErrorCode.NONE and not self._coordinators[key_type].is_led(key):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE  # the partition of the key is led by nobody
            message = error.text
        if error is not ErrorCode.NONE:
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
        listener = context.listener
        return Coordinator(
            key=key,
            node_id=self._node_id,
            host=listener.advertised_host,
            port=listener.advertised_port,
            error_message=None,
        )
