"""Keys of client metrics subscriptions: what clients are to measure, how often, and which clients.

Source: org.apache.kafka.server.metrics.ClientMetricsConfigs.
"""

from __future__ import annotations

from config.key import ConfigKey
from config.keys.rows import INT, LIST, client_metrics

KEYS: tuple[ConfigKey, ...] = (
    client_metrics("interval.ms", INT, 300_000, None, "Time between two pushes of a client, 100 ms to one hour."),
    client_metrics(
        "match",
        LIST,
        (),
        None,
        "Clients the subscription is for, as name=regular expression, all of which must match; empty = all clients.",
    ),
    client_metrics(
        "metrics", LIST, (), None, "Prefixes of the names of metrics that are wanted; * = all, empty = none."
    ),
)
