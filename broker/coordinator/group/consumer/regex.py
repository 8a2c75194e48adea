"""Regular expressions over topic names, in RE2's syntax as clients of the consumer protocol write them.

RE2 matches in time linear in the text, whatever the expression, and its memory is bounded here; still a large cluster
takes a while, so resolving runs beside the loop.
Source: TopicRegexResolver; ADR 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from broker.coordinator.errors import InvalidRegularExpression

MAX_MEMORY_BYTES = 1024 * 1024
"""Of one compiled expression; what does not fit is refused as invalid."""


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.log_errors = False
    return options


def compiled(expression: str) -> Any:
    """Compile an expression. Raises: InvalidRegularExpression."""
    # Loaded with the first expression: most brokers never see one.
    import re2

    try:
        return re2.compile(expression, _options())
    except re2.error as refusal:
        reason = refusal.args[0].decode("utf-8", "replace") if isinstance(refusal.args[0], bytes) else refusal.args[0]
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason}."
        ) from None


def matching_topics(expressions: Iterable[str], topics: Sequence[str]) -> dict[str, frozenset[str]]:
    """Give the topics each expression matches as a whole; one that does not compile (any more) matches none."""
    matches: dict[str, frozenset[str]] = {}
    for expression in expressions:
        try:
            fullmatch = compiled(expression).fullmatch
        except InvalidRegularExpression:
            matches[expression] = frozenset()
        else:
            matches[expression] = frozenset(topic for topic in topics if fullmatch(topic) is not None)
    return matches
