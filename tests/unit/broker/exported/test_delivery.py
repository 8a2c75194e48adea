"""What is exported of scheduled topics, from the first pending record to the last, and that it goes with them."""

from __future__ import annotations

import pytest

from config.views import LogConfig, MetricsConfig
from storage.errors import StorageFailure
from tests.harness.exported import ExportedParts
from tests.harness.hosted import NOW_MS, OTHER_ID

E_MS = LogConfig().delivery_clock_uncertainty_ms
OF_PARTITION = (
    "odradek_delivery_watermark",
    "odradek_delivery_pending_records",
    "odradek_delivery_next_timestamp_seconds",
)
LATENESS = "odradek_delivery_activation_lateness_seconds"


def shown(exported: ExportedParts, topic: str = "later") -> list[float | None]:
    return [exported.value(name, topic=topic, partition="0") for name in OF_PARTITION]


def pass_ms(exported: ExportedParts, ms: int) -> None:
    exported.hosted.timers.pass_ms(ms)


def test_what_is_held_back_is_shown_and_until_when(exported: ExportedParts) -> None:
    exported.schedule(-E_MS, 5_000, 6_000)
    assert shown(exported) == [1, 2, (NOW_MS + 5_000 + E_MS) / 1000]
    pass_ms(exported, 5_000 + E_MS)
    assert shown(exported) == [2, 1, (NOW_MS + 6_000 + E_MS) / 1000]
    pass_ms(exported, 1_000)
    assert shown(exported) == [3, 0, None]


def test_a_record_for_the_end_of_days_is_a_number_like_any_other(exported: ExportedParts) -> None:
    exported.schedule(2**63 - 1 - NOW_MS)
    assert shown(exported) == [0, 1, pytest.approx(9.2e15, rel=0.01)]


def test_topics_that_are_not_scheduled_have_no_series(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    assert shown(exported, "t") == [None, None, None]


def test_the_series_go_with_the_topic(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    exported.hosted.delete("later")
    assert shown(exported) == [None, None, None]


def test_the_series_go_with_the_leadership(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    exported.hosted.lead("later", OTHER_ID, 1)
    assert shown(exported) == [None, None, None]


def test_the_series_go_with_the_directory(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    hosted = exported.hosted
    hosted.manager.fail_dir_of(StorageFailure("I/O error", hosted.logs.dirs[0].path))
    assert shown(exported) == [None, None, None]


def test_the_series_go_and_come_with_the_mode(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    exported.hosted.configure("later", LogConfig())
    assert shown(exported) == [None, None, None]
    exported.hosted.configure("later", LogConfig(delivery_mode="scheduled"))
    assert shown(exported) == [0, 1, None]  # nobody has looked yet
    pass_ms(exported, 1)
    assert shown(exported) == [0, 1, (NOW_MS + 5_000 + E_MS) / 1000]


def test_a_batch_that_was_waited_for_is_nearly_in_time(exported: ExportedParts) -> None:
    exported.schedule(-E_MS, 0, 5_000)
    pass_ms(exported, E_MS)
    assert exported.value(f"{LATENESS}_count") == 1
    assert exported.value(f"{LATENESS}_bucket", le="0.005") == 1
    assert exported.value(f"{LATENESS}_bucket", le="30.0") == 1


def test_passes_of_the_scheduler_are_counted_while_something_is_scheduled(exported: ExportedParts) -> None:
    name = "odradek_delivery_scheduler_wakeups_total"
    pass_ms(exported, 10_000)
    assert exported.value(name) == 0
    exported.schedule(60_000)
    pass_ms(exported, 10_000)
    assert exported.value(name) == 10


def test_the_uncertainty_is_shown_in_seconds(exported: ExportedParts) -> None:
    assert exported.value("odradek_delivery_clock_uncertainty_seconds") == 0.25


def test_series_of_partitions_can_be_left_out_and_so_can_the_family(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    exported.config = MetricsConfig(per_partition=False)
    assert shown(exported) == [None, None, None]
    assert exported.value(f"{LATENESS}_count") == 0
    exported.config = MetricsConfig(families=("jmx", "kafka_exporter"))
    assert exported.value(f"{LATENESS}_count") is None


def test_the_end_under_kafka_exporter_s_name_is_the_one_that_consumers_find(exported: ExportedParts) -> None:
    partition = exported.schedule(-E_MS, 5_000)
    exported.coordinators.image = exported.hosted.current
    assert partition.log.high_watermark == 2
    name = "kafka_topic_partition_current_offset"
    assert exported.value(name, topic="later", partition="0") == 1
    pass_ms(exported, 5_000 + E_MS)
    assert exported.value(name, topic="later", partition="0") == 2
