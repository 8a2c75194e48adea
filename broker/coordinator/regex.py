"""Regular expressions that clients send, in RE2's syntax.

RE2 matches in time linear in the text, whatever the expression, and its memory is bounded here; still many texts and a
large expression take a while, so matching runs beside the loop.
Source: TopicRegexResolver, TransactionStateManager.listTransactionStates; ADR 10.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from broker.coordinator.errors import InvalidRegularExpression

RunAside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call beside the loop."""

MAX_MEMORY_BYTES = 1024 * 1024
"""Of one compiled expression; what does not fit is refused as invalid."""


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.log_errors = False
    return options


def compiled(expression: str, of_what: str) -> Any:
    """Compile an expression; a refusal says of what it is. Raises: InvalidRegularExpression."""
    # Loaded with the first expression: most brokers never see one.
    import re2

    try:
        return re2.compile(expression, _options())
    except re2.error as refusal:
        reason = refusal.args[0].decode("utf-8", "replace") if isinstance(refusal.args[0], bytes) else refusal.args[0]
        raise InvalidRegularExpression(
            f"{of_what} `{expression}` is not a valid regular expression: {reason}."
        ) from None
