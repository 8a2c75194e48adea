"""Regular expressions that clients send to coordinators; many texts take a while, so they are matched beside the loop.

Source: TopicRegexResolver, TransactionStateManager.listTransactionStates; ADR 10.
"""

from __future__ import annotations

from typing import Any

from broker.coordinator.errors import InvalidRegularExpression
from config import regex


def compiled(expression: str, of_what: str) -> Any:
    """Compile an expression; a refusal says of what it is. Raises: InvalidRegularExpression."""
    try:
        return regex.compiled(expression)
    except regex.InvalidExpression as refusal:
        raise InvalidRegularExpression(
            f"{of_what} `{expression}` is not a valid regular expression: {refusal}."
        ) from None
