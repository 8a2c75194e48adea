"""Rows of our own family about scheduled delivery: what is held back, until when, and how late it is let go."""

from __future__ import annotations

from functools import partial

from broker.metrics.catalog.row import Family, Kind, Metric

_row = partial(Metric, Family.ODRADEK)

_PARTITION = ("topic", "partition")

WATERMARK = _row(
    "odradek_delivery_watermark",
    Kind.GAUGE,
    "Of partitions of scheduled topics: the first offset that is held back, the end of the log where none is",
    _PARTITION,
)
PENDING = _row(
    "odradek_delivery_pending_records",
    Kind.GAUGE,
    "Of partitions of scheduled topics: offsets from the delivery watermark to the end of the log",
    _PARTITION,
)
NEXT = _row(
    "odradek_delivery_next_timestamp_seconds",
    Kind.GAUGE,
    "Of partitions of scheduled topics: when the delivery watermark is to move on; no series where nothing is pending, "
    "or while that is not known",
    _PARTITION,
)
LATENESS = _row(
    "odradek_delivery_activation_lateness_seconds",
    Kind.HISTOGRAM,
    "How long after its time and the clock's uncertainty a batch became visible, of those that were seen to be pending",
)
WAKEUPS = _row(
    "odradek_delivery_scheduler_wakeups", Kind.COUNTER, "Passes of the scheduler that releases what has come due"
)
CLOCK_UNCERTAINTY = _row(
    "odradek_delivery_clock_uncertainty_seconds",
    Kind.GAUGE,
    "odradek.log.delivery.clock.uncertainty.ms: how long after its time a batch becomes visible at the earliest",
)
