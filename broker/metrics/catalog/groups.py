"""Rows of our own family about groups: how long they have been behind, and whether they work."""

from __future__ import annotations

from functools import partial

from broker.metrics.catalog.row import Family, Kind, Metric

_row = partial(Metric, Family.ODRADEK)

_GROUP = ("consumergroup",)

LAG_SECONDS = _row(
    "odradek_consumer_group_lag_seconds",
    Kind.GAUGE,
    "How long the first record that the group has not committed has been waiting; 0 where there is none",
    ("consumergroup", "topic", "partition"),
)
MAX_LAG_SECONDS = _row(
    "odradek_consumer_group_max_lag_seconds",
    Kind.GAUGE,
    "The largest odradek_consumer_group_lag_seconds of the group, those without a series included",
    _GROUP,
)
MAX_LAG = _row(
    "odradek_consumer_group_max_lag",
    Kind.GAUGE,
    "The largest kafka_consumergroup_lag of the group, those without a series included",
    _GROUP,
)
STATE = _row(
    "odradek_consumer_group_state",
    Kind.GAUGE,
    "1 for the state each group is in, with its kind",
    ("consumergroup", "type", "state"),
)
EPOCH = _row(
    "odradek_consumer_group_epoch",
    Kind.GAUGE,
    "Generation of a classic group, epoch of a consumer group: rises with every rebalance",
    _GROUP,
)
LAST_COMMIT = _row(
    "odradek_consumer_group_last_commit_timestamp_seconds",
    Kind.GAUGE,
    "When the group last committed an offset, of those that are kept",
    _GROUP,
)
LEFT_OUT = _row(
    "odradek_consumer_group_series_left_out",
    Kind.GAUGE,
    "Groups, topics of groups and partitions of groups without series, for there are more than 5,000 or 20,000 of them",
    ("of",),
)
