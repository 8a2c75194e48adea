"""FindCoordinator (key 10). Served: 0 to 6.

- v1 key types and an error message; v3 flexible; v4 many keys, each with its own error; v6 share keys, which only
  brokers may ask for.
- Differences from the reference: the offsets topic is created before the answer, so a first request is not sent away
  with COORDINATOR_NOT_AVAILABLE unless that failed. With one broker, every coordinator is this one.

Source: KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from broker.api.route import RequestContext, Route
from broker.coordinator.group.coordinator import GroupCoordinator
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

FIRST_BATCHED_VERSION = 4

GROUP_KEY = 0
TRANSACTION_KEY = 1


class GroupFindApi:
    """Tells clients where their coordinator is."""

    def __init__(self, coordinator: GroupCoordinator, node_id: int) -> None:
        self._coordinator = coordinator
        self._node_id = node_id

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.FIND_COORDINATOR, 0, 6, self.find_coordinator),)

    async def find_coordinator(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        """Give the coordinator of each key."""
        error = await self._error_for(request.key_type)
        if context.api_version >= FIRST_BATCHED_VERSION:
            coordinators = [
                self._coordinator_of(key, request.key_type, error, context) for key in request.coordinator_keys
            ]
            return FindCoordinatorResponse(coordinators=coordinators)
        one = self._coordinator_of(request.key, request.key_type, error, context)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    async def _error_for(self, key_type: int) -> ErrorCode:
        if key_type == TRANSACTION_KEY:
            return ErrorCode.NONE
        if key_type != GROUP_KEY:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE if await self._coordinator.ensure_topic() else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _coordinator_of(self, key: str, key_type: int, error: ErrorCode, context: RequestContext) -> Coordinator:
        if error is ErrorCode.NONE and key_type == GROUP_KEY and not self._coordinator.is_led(key):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE  # the partition of the offsets topic is led by nobody
        if error is not ErrorCode.NONE:
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=error.text)
        listener = context.listener
        return Coordinator(
            key=key,
            node_id=self._node_id,
            host=listener.advertised_host,
            port=listener.advertised_port,
            error_message=None,
        )
