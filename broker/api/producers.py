"""InitProducerId (key 22). Served: 0 to 5.

- v2 flexible; v3 an existing producer id and epoch to go on with; v4 PRODUCER_FENCED, which older clients are told as
  INVALID_PRODUCER_EPOCH; v5 transactions of KIP-890.
- Without a transactional id: a fresh producer id at epoch 0. With one: what its coordinator says.
- v6 belongs to two-phase commits, which the reference does not offer to clients by default either.

Source: KafkaApis, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from broker.api.route import RequestContext, Route
from broker.api.transactions import code_for
from broker.coordinator.errors import CoordinatorError
from broker.coordinator.producer_ids import ProducerIds
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.state import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Producer
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIRST_WITH_PRODUCER_FENCED = 4


class ProducersApi:
    """Tells producers who they are."""

    def __init__(self, producer_ids: ProducerIds, coordinator: TransactionCoordinator) -> None:
        self._producer_ids = producer_ids
        self._coordinator = coordinator

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.INIT_PRODUCER_ID, 0, 5, self.init_producer_id),)

    async def init_producer_id(self, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
        """Give a producer its id and epoch."""
        has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
        if has_id != has_epoch:
            return _refused(ErrorCode.INVALID_REQUEST)
        try:
            if request.transactional_id is None:
                producer = Producer(await self._producer_ids.take(), 0)
            else:
                producer = await self._coordinator.initialize(
                    request.transactional_id,
                    request.transaction_timeout_ms,
                    Producer(request.producer_id, request.producer_epoch) if has_id else None,
                )
        except CoordinatorError as refusal:
            return _refused(code_for(refusal, context.api_version, FIRST_WITH_PRODUCER_FENCED))
        return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
