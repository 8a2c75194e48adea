"""What operators ask of transactional ids: which there are.

Source: TransactionStateManager.listTransactionStates; KIP-664, KIP-994, KIP-1152.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker.coordinator.regex import compiled
from broker.coordinator.transaction.state import STATES_BY_LABEL, Transaction


class Listed(NamedTuple):
    """One id as it is listed."""

    transactional_id: str
    transaction: Transaction


class TransactionFilter(NamedTuple):
    """Which ids are asked for; empty is every one."""

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    """Only transactions that began more than this long ago, -1 for all; ids that never had one began at -1."""

    def unknown_states(self) -> list[str]:
        """Give the names among the states that no state has."""
        return [label for label in self.states if label not in STATES_BY_LABEL]

    def select(self, all_ids: Iterable[Listed], *, now_ms: int) -> Iterator[Listed]:
        """Yield those that are asked for."""
        states = {STATES_BY_LABEL[label] for label in self.states if label in STATES_BY_LABEL}
        producer_ids = frozenset(self.producer_ids)
        for one in all_ids:
            transaction = one.transaction
            if (
                (not self.states or transaction.state in states)
                and (not producer_ids or transaction.producer_id in producer_ids)
                and (self.duration_ms < 0 or now_ms - transaction.started_ms > self.duration_ms)
            ):
                yield one


def matching(pattern: str, found: Sequence[Listed]) -> list[Listed]:
    """Give those whose whole id matches an expression. Raises: InvalidRegularExpression."""
    fullmatch = compiled(pattern, "Transaction ID pattern").fullmatch
    return [one for one in found if fullmatch(one.transactional_id) is not None]
