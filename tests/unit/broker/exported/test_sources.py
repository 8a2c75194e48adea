"""Every row of the catalog is exported, once, under the name Prometheus expects."""

from __future__ import annotations

import re

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from broker.background.cleaner.stats import LastPass
from broker.exported.sources import broker_state
from broker.metrics.catalog import METRICS
from broker.metrics.catalog.row import Family, Kind
from broker.metrics.instruments import LATENCY_BOUNDS_SECONDS, Histogram
from config.views import MetricsConfig
from storage.errors import StorageFailure
from tests.harness.exported import ExportedParts


def test_every_row_is_exported_once_with_its_kind_labels_and_help(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    families = {family.name: family for family in exported.registry.collect()}
    assert len(families) == len(METRICS)
    for metric in METRICS:
        family = families[metric.name]
        assert (family.type, family.documentation) == (metric.kind.value, metric.help)
        assert family.samples, metric.name
        assert set(family.samples[-1].labels) - {"le"} == set(metric.labels)


def test_names_are_legal_and_counters_end_in_total(exported: ExportedParts) -> None:
    exported.schedule(5_000)
    names = {
        sample.name
        for family in text_string_to_metric_families(generate_latest(exported.registry).decode())
        for sample in family.samples
    }
    for metric in METRICS:
        assert re.fullmatch(r"(kafka|odradek)_[a-z0-9_]+", metric.name)
        assert not metric.name.endswith("_total"), "the exporter adds it"
        expected = f"{metric.name}_bucket" if metric.kind is Kind.HISTOGRAM else metric.exported_name
        assert expected in names


def test_uncleanable_logs_are_counted_by_directory(exported: ExportedParts) -> None:
    directory = exported.hosted.logs.dirs[0].path
    name = "kafka_log_logcleanermanager_uncleanable"
    assert exported.value(f"{name}_partitions_count", logDirectory=directory) == 0
    log = exported.hosted.manager.get("t", 1).log
    exported.cleaner.troubles.mark_uncleanable(log, "bad batch")
    assert exported.value(f"{name}_partitions_count", logDirectory=directory) == 1
    assert exported.value(f"{name}_bytes", logDirectory=directory) == log.size_bytes


def test_a_cleaning_under_way_shows_how_far_it_is(exported: ExportedParts) -> None:
    labels = {"topic": "t", "partition": "1"}
    assert exported.value("odradek_log_cleaning_read_bytes", **labels) == 70
    assert exported.value("odradek_log_cleaning_left_bytes", **labels) == 30
    assert exported.value("odradek_log_cleaner_running") == 1


def test_syncs_are_shown_by_directory(exported: ExportedParts) -> None:
    directory = exported.hosted.logs.dirs[0].path
    assert exported.value("odradek_log_dir_sync_seconds_count", dir=directory) == 0


def test_the_recopied_share_is_of_what_was_read_for_copying(exported: ExportedParts) -> None:
    exported.cleaner.stats.count(LastPass(read_bytes=300, copy_read_bytes=200, written_bytes=150), 0)
    assert exported.value("kafka_log_logcleaner_cleaner_recopy_percent") == 75


def test_a_buffer_filled_to_its_load_factor_shows_it_whatever_the_fraction_of_a_slot(exported: ExportedParts) -> None:
    slots = 5_592_405
    exported.cleaner.stats.count(LastPass(map_utilization=int(slots * 0.9) / slots), 0)
    assert exported.value("kafka_log_logcleaner_max_buffer_utilization_percent") == 90


def test_partitions_are_summed_by_topic_and_shown_by_log(exported: ExportedParts) -> None:
    assert exported.value("kafka_server_brokertopicmetrics_messagesin_total", topic="t") == 3
    sizes = [one.log.size_bytes for one in exported.hosted.manager]
    assert exported.value("kafka_server_brokertopicmetrics_bytesin_total", topic="t") == sum(sizes)
    for index, size in enumerate(sizes):
        assert exported.value("kafka_log_log_size", topic="t", partition=str(index)) == size
    assert exported.value("kafka_log_log_logstartoffset", topic="t", partition="0") == 1
    assert exported.value("kafka_log_log_logendoffset", topic="t", partition="0") == 2
    assert exported.value("kafka_log_log_numlogsegments", topic="t", partition="0") == 1


def test_directories_show_their_logs_their_room_and_whether_they_are_offline(exported: ExportedParts) -> None:
    logs, path = exported.hosted.logs, exported.hosted.logs.dirs[0].path
    assert exported.value("odradek_log_dir_logs", dir=path) == 2
    assert exported.value("odradek_log_dir_size_bytes", dir=path) == sum(log.size_bytes for log in logs.logs.values())
    assert exported.value("odradek_log_dir_total_bytes", dir=path) == 900
    assert exported.value("odradek_log_dir_usable_bytes", dir=path) == 400
    assert exported.value("odradek_log_dir_cordoned", dir=path) == 0
    logs.cordoned = frozenset({path})
    assert exported.value("odradek_log_dir_cordoned", dir=path) == 1
    assert exported.value("kafka_log_logmanager_offlinelogdirectorycount") == 0
    assert exported.value("kafka_log_logmanager_logdirectoryoffline", logDirectory=path) == 0
    exported.hosted.manager.fail_dir_of(StorageFailure("I/O error", path))
    assert exported.value("kafka_log_logmanager_offlinelogdirectorycount") == 1
    assert exported.value("kafka_log_logmanager_logdirectoryoffline", logDirectory=path) == 1
    assert exported.value("kafka_server_replicamanager_offlinereplicacount") == 2
    assert exported.value("odradek_log_dir_size_bytes", dir=path) is None, "nobody knows"


def test_single_numbers_come_from_the_parts(exported: ExportedParts) -> None:
    assert exported.value("kafka_server_kafkaserver_brokerstate") == 3
    assert exported.value("kafka_server_socketservermetrics_connection_count", listener="PLAINTEXT") == 2
    assert exported.value("kafka_server_socketservermetrics_connection_creation_total") == 9
    assert exported.value("kafka_server_replicamanager_partitioncount") == 2
    assert exported.value("kafka_server_replicamanager_leadercount") == 2
    assert exported.value("kafka_server_replicamanager_offlinereplicacount") == 0
    assert exported.value("kafka_server_fetchsessioncache_numincrementalfetchsessions") == 3
    assert exported.value("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached") == 30
    assert exported.value("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total") == 1
    assert exported.value("kafka_coordinator_group_groupmetadatamanager_numgroups", state="Stable") == 2
    assert exported.value("odradek_transaction_transactional_ids", state="Ongoing") == 3
    assert exported.value("odradek_transaction_completing") == 5
    assert exported.value("odradek_transaction_markers_waiting") == 2
    assert exported.value("odradek_transaction_timed_out_total") == 7
    assert exported.value("odradek_log_recovery_seconds") == 0
    assert exported.value("odradek_log_retention_run_seconds") == 0.25
    assert exported.value("kafka_log_logmanager_remaininglogstorecover", dir=exported.hosted.logs.dirs[0].path) == 0
    assert exported.value("odradek_network_refused_frames_total") == 2


def test_coordinators_show_what_they_serve_and_how_long_it_takes(exported: ExportedParts) -> None:
    exported.group_stats.rebalances["consumer"] += 2
    exported.group_stats.commits = 11
    exported.runtime_stats.load_seconds.observe(0.003)
    assert exported.value("kafka_server_groupcoordinatormetrics_group_count", protocol="consumer", state="Stable") == 1
    assert exported.value("kafka_server_groupcoordinatormetrics_rebalance_count_total", protocol="consumer") == 2
    assert exported.value("kafka_server_groupcoordinatormetrics_rebalance_count_total", protocol="classic") == 0
    assert exported.value("kafka_server_groupcoordinatormetrics_offset_commit_count_total") == 11
    assert exported.value("odradek_coordinator_partitions", coordinator="transaction", state="loading") == 1
    assert exported.value("odradek_coordinator_partitions", coordinator="transaction", state="failed") == 0
    assert exported.value("odradek_coordinator_load_seconds_count", coordinator="group") == 1
    assert exported.value("odradek_coordinator_load_seconds_count", coordinator="transaction") == 0
    assert exported.value("odradek_transaction_verification_failures_total") == 4


def test_a_move_shows_how_far_it_is_between_its_directories(exported: ExportedParts) -> None:
    labels = {"topic": "t", "partition": "0", "from": "/a", "to": "/b"}
    values = {"done_bytes": 300, "left_bytes": 100, "lag": 7, "bytes_per_second": 50, "left_seconds": 2}
    for name, expected in values.items():
        assert exported.value(f"odradek_log_dir_move_{name}", **labels) == expected
    assert exported.value("kafka_server_replicaalterlogdirsmanager_maxlag") == 7
    assert exported.value("kafka_server_replicaalterlogdirsmanager_failedpartitionscount") == 1
    assert exported.value("odradek_log_dir_moves_running") == 1
    assert exported.value("odradek_log_dir_moves_completed_total") == 5
    assert exported.value("odradek_log_dir_moves_copied_bytes_total") == 900
    assert exported.value("odradek_log_dir_moves_limit_bytes_per_second") == 1000


def test_what_retention_let_go_is_told_by_reason(exported: ExportedParts) -> None:
    exported.hosted.logs.stats.note_deleted("time", 70)
    exported.hosted.logs.stats.note_deleted("time", 30)
    for reason, segments, size_bytes in (("time", 2, 100), ("size", 0, 0), ("log_start", 0, 0)):
        assert exported.value("odradek_log_retention_deleted_segments_total", reason=reason) == segments
        assert exported.value("odradek_log_retention_deleted_bytes_total", reason=reason) == size_bytes


def test_latencies_are_cumulated_buckets(exported: ExportedParts) -> None:
    name = "odradek_network_request_seconds"
    assert exported.value(f"{name}_bucket", request="produce", le="0.0005") == 1
    assert exported.value(f"{name}_bucket", request="produce", le="0.005") == 2
    assert exported.value(f"{name}_bucket", request="produce", le="30.0") == 3
    assert exported.value(f"{name}_bucket", request="produce", le="+Inf") == 4
    assert exported.value(f"{name}_count", request="produce") == 4
    assert exported.value(f"{name}_sum", request="produce") == pytest.approx(99.2035)


def test_an_observation_on_a_bound_belongs_below_it() -> None:
    histogram = Histogram()
    histogram.observe(LATENCY_BOUNDS_SECONDS[2])
    assert histogram.counts.index(1) == 2


@pytest.mark.parametrize(
    ("phase", "state"),
    [("not started", 1), ("http", 1), ("log recovery", 2), ("running", 3), ("stopping listeners", 6), ("stopped", 6)],
)
def test_the_broker_state_is_the_number_kafka_uses(phase: str, state: int) -> None:
    assert broker_state(phase) == state


def test_what_clients_have_pushed_is_exported(exported: ExportedParts) -> None:
    labels = {"client_instance_id": "i", "client_id": "app", "metric": "m.x", "attributes": "node=1"}
    assert exported.value("odradek_client_metric", **labels) == 2.5
    assert exported.value("odradek_client_metrics_clients") == 1
    assert exported.value("odradek_client_metrics_pushes_total") == 1
    assert exported.value("odradek_client_metrics_dropped_total") == 0


def test_those_who_share_a_quota_are_shown_with_it_and_with_what_they_had_to_wait(exported: ExportedParts) -> None:
    a = {"kind": "produce", "user": "", "client_id": "a"}
    assert exported.value("odradek_quota_level", **a) == 200
    assert exported.value("odradek_quota_limit", **a) == 100
    assert exported.value("odradek_quota_throttled_total", **a) == 2
    assert exported.value("odradek_quota_throttle_seconds_total", **a) == 20
    assert exported.value("odradek_quota_level", kind="controller_mutation", user="", client_id="a") == 17
    assert exported.value("odradek_quota_uses", kind="produce") == 2
    assert exported.value("odradek_quota_uses", kind="fetch") == 0
    assert exported.value("odradek_connection_throttle_seconds_total", listener="PLAINTEXT", cause="listener") == 1


def test_of_many_who_share_quotas_those_throttled_most_are_shown(exported: ExportedParts) -> None:
    for number in range(300):
        meter = exported.quotas.clients.meter("User:ann", f"c{number}", 1_000 + number, 0)
        meter.produced(is_answered=True)
        meter.settle()
    shown = [
        sample.labels["client_id"]
        for family in exported.registry.collect()
        for sample in family.samples
        if sample.name == "odradek_quota_limit" and sample.labels["kind"] == "produce"
    ]
    assert len(shown) == 200
    assert {"a", "b", "c299", "c150"} <= set(shown) and "c5" not in shown


@pytest.mark.parametrize("family", Family)
def test_a_family_that_is_switched_off_is_not_shown(exported: ExportedParts, family: Family) -> None:
    exported.config = MetricsConfig(families=tuple(one.value for one in Family if one is not family))
    shown = {one.name for one in exported.registry.collect()}
    assert shown == {metric.name for metric in METRICS if metric.family is not family}


def test_series_of_every_single_partition_can_be_off(exported: ExportedParts) -> None:
    exported.config = MetricsConfig(per_partition=False)
    labels = {name for one in exported.registry.collect() for sample in one.samples for name in sample.labels}
    assert "partition" not in labels and "topic" in labels
    assert exported.value("kafka_server_brokertopicmetrics_messagesin_total", topic="t") == 3
