"""InitProducerId (key 22). Served: 0 to 5.

- v2 flexible; v3 an existing producer id and epoch to go on with; v4 PRODUCER_FENCED; v5 transactions of KIP-890.
- Without a transactional id: a fresh producer id at epoch 0. Ids come in blocks of which only the end is logged, so no
  id is given out twice, whatever happens in between.
- Difference from the reference: there is no transaction coordinator yet. A transactional id is answered
  UNSUPPORTED_VERSION, which no client takes for a passing state: it fails at once instead of asking until its timeout.

Source: TransactionCoordinator.handleInitProducerId, ProducerIdManager.
"""

from __future__ import annotations

import asyncio

from broker.api.route import RequestContext, Route
from broker.metadata.controller.run import Controller
from broker.metadata.errors import ControllerClosed
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class ProducersApi:
    """Hands out producer ids."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        # The rest of the current block: next id to give, and the first one beyond. Moved by _next_id alone.
        self._next = 0
        self._end = 0
        # Set while a block is on its way; whoever needs an id meanwhile waits for it.
        self._refill: asyncio.Event | None = None

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.INIT_PRODUCER_ID, 0, 5, self.init_producer_id),)

    async def init_producer_id(self, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
        """Give an idempotent producer its id."""
        has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
        if request.transactional_id == "" or has_id != has_epoch:
            return _refused(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            return _refused(ErrorCode.UNSUPPORTED_VERSION)
        try:
            producer_id = await self._next_id()
        except ControllerClosed:
            return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def _next_id(self) -> int:
        while self._next >= self._end:
            if self._refill is not None:
                await self._refill.wait()
            else:
                await self._fetch_block()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _fetch_block(self) -> None:
        refill = self._refill = asyncio.Event()
        try:
            block = await self._controller.allocate_producer_ids()
            self._next, self._end = block.first, block.first + block.size
        finally:
            # Whoever waited looks again, and fetches a block itself when this attempt failed.
            self._refill = None
            refill.set()


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
