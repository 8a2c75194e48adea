"""DescribeTransactions (key 65). Served: 0. ListTransactions (key 66). Served: 0 to 2.

- ListTransactions: v1 a filter by how long ago the transaction began; v2 by a regular expression for the id.
- An id keeps the time at which its last transaction began until it begins another one, so both APIs show it, and the
  filter goes by it, after the end as well; -1 stands for an id without any transaction since it was initialized.

Source: KafkaApis, TransactionStateManager; KIP-664, KIP-994, KIP-1152.
"""

from __future__ import annotations

from broker.api.errors import known_code
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.listing import TransactionFilter
from broker.coordinator.transaction.records import by_topic
from protocol.api_keys import ApiKey
from protocol.messages import describe_transactions as describing
from protocol.messages import list_transactions as listing


class TransactionAdminApi:
    """What operators ask about transactions."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, self.describe_transactions),
            Route(ApiKey.LIST_TRANSACTIONS, 0, 2, self.list_transactions),
        )

    async def describe_transactions(
        self, request: describing.DescribeTransactionsRequest, context: RequestContext
    ) -> describing.DescribeTransactionsResponse:
        """Describe the transaction of each id."""
        states = [self._describe(transactional_id) for transactional_id in request.transactional_ids]
        return describing.DescribeTransactionsResponse(transaction_states=states)

    def _describe(self, transactional_id: str) -> describing.TransactionState:
        try:
            found = self._coordinator.describe(transactional_id)
        except CoordinatorError as refusal:
            return describing.TransactionState(transactional_id=transactional_id, error_code=known_code(refusal))
        return describing.TransactionState(
            transactional_id=transactional_id,
            transaction_state=found.state.label,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.started_ms,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            topics=[
                describing.TopicData(topic=topic, partitions=partitions)
                for topic, partitions in by_topic(found.partitions).items()
            ],
        )

    async def list_transactions(
        self, request: listing.ListTransactionsRequest, context: RequestContext
    ) -> listing.ListTransactionsResponse:
        """List transactional ids."""
        wanted = TransactionFilter(
            request.state_filters,
            request.producer_id_filters,
            request.duration_filter,
        )
        try:
            states = [
                listing.TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.transaction.producer_id,
                    transaction_state=one.transaction.state.label,
                )
                for one in await self._coordinator.list(wanted, request.transactional_id_pattern or "")
            ]
        except CoordinatorError as refusal:
            return listing.ListTransactionsResponse(error_code=known_code(refusal))
        return listing.ListTransactionsResponse(
            unknown_state_filters=wanted.unknown_states(), transaction_states=states
        )
