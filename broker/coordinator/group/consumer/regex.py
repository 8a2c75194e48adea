"""Regular expressions over topic names, as clients of the consumer protocol write them.

Source: TopicRegexResolver; ADR 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from broker.coordinator import regex
from broker.coordinator.errors import InvalidRegularExpression


def compiled(expression: str) -> Any:
    """Compile an expression. Raises: InvalidRegularExpression."""
    return regex.compiled(expression, "SubscribedTopicRegex")


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
