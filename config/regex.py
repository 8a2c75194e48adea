"""Regular expressions that clients and operators send, in RE2's syntax.

RE2 matches in time linear in the text, whatever the expression, and the memory of one is bounded: what does not fit is
refused as invalid. Source: ADR 10.
"""

from __future__ import annotations

from functools import cache
from typing import Any

MAX_MEMORY_BYTES = 1024 * 1024


class InvalidExpression(Exception):
    """Not an expression in RE2's syntax, or one that is too large; the message says which."""


@cache
def _options(max_memory_bytes: int) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = max_memory_bytes
    options.log_errors = False
    return options


def compiled(expression: str, max_memory_bytes: int = MAX_MEMORY_BYTES) -> Any:
    """Compile an expression; it has the methods of a pattern of `re`. Raises: InvalidExpression."""
    # Loaded with the first expression: most brokers never see one.
    import re2

    try:
        return re2.compile(expression, _options(max_memory_bytes))
    except re2.error as refusal:
        reason = refusal.args[0].decode("utf-8", "replace") if isinstance(refusal.args[0], bytes) else refusal.args[0]
        raise InvalidExpression(reason) from None
