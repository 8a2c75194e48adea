"""Records with a time to come, as `odradek produce --delay-ms` sends them, and which topics show them only then."""

from __future__ import annotations

import sys
from collections.abc import Callable

from broker.cli.errors import CommandError
from broker.cli.options import whole_number
from broker.client.client import Client
from broker.client.errors import ClientError
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

LAST_TIMESTAMP_MS = (1 << 63) - 1
MODE = "delivery.mode"
MOST_AHEAD = "message.timestamp.after.max.ms"
TOPIC_RESOURCE = 2


def clock_ahead(now_ms: Callable[[], int], delay_text: str) -> Callable[[], int]:
    """Return a clock that is ahead; it ends with the last timestamp there is, which never comes due."""
    delay_ms = whole_number(delay_text)
    if delay_ms is None:
        raise CommandError(f"Invalid value {delay_text} for --delay-ms: expected a number of milliseconds, at least 0")
    return lambda: min(now_ms() + delay_ms, LAST_TIMESTAMP_MS)


def warn_if_nothing_is_delayed(client: Client, topic: str) -> None:
    """Say on standard error that a topic delays nothing: an easy mistake, which no refusal gives as its reason."""
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[MODE])
    try:
        response = client.ask(DescribeConfigsRequest(resources=[resource]))
    except ClientError:
        return  # what became of the records is told all the same
    modes = [row.value for result in response.results if not result.error_code for row in result.configs]
    if modes != ["scheduled"]:
        print(
            f"odradek: topic {topic} does not have {MODE}=scheduled, so its records are visible at once, "
            f"or refused if they are further ahead than {MOST_AHEAD}",
            file=sys.stderr,
        )
