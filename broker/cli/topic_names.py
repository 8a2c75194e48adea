"""Which topics an option means: a regular expression for the whole name, or several with commas between them."""

from __future__ import annotations

import re

from broker.cli.errors import CommandError
from broker.client.client import Client
from broker.client.cluster import Cluster


class TopicFilter:
    """The topics whose whole name an expression matches; without an expression all of them."""

    def __init__(self, text: str | None) -> None:
        """Take the text of an option. Raises: CommandError for what is no expression."""
        pattern = ".*" if text is None else text.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._expression = re.compile(pattern)
        except re.error as error:
            raise CommandError(f"{text} is not a regular expression: {error}") from error

    def matches(self, topic: str) -> bool:
        """Tell whether a topic is meant."""
        return self._expression.fullmatch(topic) is not None


def matching(cluster: Cluster, text: str | None, *, with_internal: bool = True) -> list[str]:
    """Return the topics that an option means, sorted."""
    wanted = TopicFilter(text)
    rows = cluster.topics.values()
    names = (row.name for row in rows if row.name and (with_internal or not row.is_internal))
    return sorted(filter(wanted.matches, names))


def existing(client: Client, text: str | None, *, with_internal: bool = True, may_be_none: bool = False) -> list[str]:
    """Return the topics that an option means. Raises: CommandError when none of that name exists."""
    names = matching(client.metadata(), text, with_internal=with_internal)
    if text and not names and not may_be_none:
        raise CommandError(f"Topic '{text}' does not exist as expected")
    return names
