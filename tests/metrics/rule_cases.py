"""What each alert rule is tried on: series of a healthy broker, and for each rule those with which it must fire.

Series are written as promtool wants them, a value each minute: `1x9` is 1 ten times, `0+6x9` begins at 0 and adds 6
each time. A case says from which minute on its alert fires; in the minute before, nothing may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LENGTH = 150  # minutes
OF_BROKER = 'job="odradek", instance="b:9404"'
REQUEST, SYNC = "odradek_network_request_seconds", "odradek_log_dir_sync_seconds"
LOOP = "odradek_event_loop_lag_seconds"
LATENESS = "odradek_delivery_activation_lateness_seconds"


def series(name: str, labels: str = "") -> str:
    """Write a series of the broker."""
    return f"{name}{{{', '.join(filter(None, (OF_BROKER, labels)))}}}"


def constant(value: float) -> str:
    """Stay at a value."""
    return f"{value}x{LENGTH}"


def growing(by: float) -> str:
    """Grow by so much each minute."""
    return f"0+{by}x{LENGTH}"


def then(minutes: int, before: float, after: float) -> str:
    """Have one value for so many minutes, and another afterwards."""
    return f"{before}x{minutes - 1} {after}x{LENGTH}"


def growing_from(minutes: int, by: float) -> str:
    """Stand still for so many minutes, and then grow by so much each minute."""
    return f"0x{minutes - 1} {by}+{by}x{LENGTH}"


def buckets(name: str, labels: str, fast: str, slow: str) -> dict[str, str]:
    """Give a histogram's buckets for what took at most 10 ms, and for all."""
    return {
        series(f"{name}_bucket", ", ".join(filter(None, (labels, f'le="{bound}"')))): values
        for bound, values in (("0.01", fast), ("2.5", slow), ("+Inf", slow))
    }


PRODUCE, DIRECTORY = 'request="produce"', 'dir="/data"'
GROUP, GONE = 'consumergroup="g"', 'consumergroup="gone"'
LAG_SECONDS = series("odradek_consumer_group_max_lag_seconds", GROUP)
COMMITTED = series("kafka_consumergroup_current_offset_sum", f'{GROUP}, topic="t"')
OLDEST = series("kafka_topic_partition_oldest_offset", 'topic="t", partition="0"')
MEMBERS = series("kafka_consumergroup_members", GROUP)
NEXT = series("odradek_delivery_next_timestamp_seconds", 'topic="t", partition="0"')
USABLE = series("odradek_log_dir_usable_bytes", DIRECTORY)


def group(label: str, *, lag: str, committed: str, members: int, lag_seconds: str, last_commit: str) -> dict[str, str]:
    """Give the series of a group that reads one topic."""
    topic = f'{label}, topic="t"'
    return {
        series("kafka_consumergroup_current_offset", f'{topic}, partition="0"'): committed,
        series("odradek_consumer_group_epoch", label): constant(3),
        series("kafka_consumergroup_lag_sum", topic): lag,
        series("kafka_consumergroup_current_offset_sum", topic): committed,
        series("kafka_consumergroup_members", label): constant(members),
        series("odradek_consumer_group_max_lag_seconds", label): lag_seconds,
        series("odradek_consumer_group_last_commit_timestamp_seconds", label): last_commit,
    }


# Everything that a rule asks for, of a broker that is well: busy, with a group that reads and a group without members.
HEALTHY: Mapping[str, str] = {
    series("up"): constant(1),
    series("kafka_server_kafkaserver_brokerstate"): constant(3),
    series("process_start_time_seconds"): constant(1_700_000_000),
    series("scrape_duration_seconds"): constant(0.05),
    series("kafka_log_logmanager_logdirectoryoffline", 'logDirectory="/data"'): constant(0),
    series("kafka_server_replicamanager_offlinereplicacount"): constant(0),
    series("odradek_log_dir_total_bytes", DIRECTORY): constant(1e12),
    USABLE: f"4e11-1e8x{LENGTH}",
    **buckets(SYNC, DIRECTORY, growing(60), growing(60)),
    series("odradek_log_writeback_wait_seconds_total"): growing(0.6),
    series("kafka_server_replicaalterlogdirsmanager_failedpartitionscount"): constant(0),
    series("kafka_log_logcleanermanager_uncleanable_partitions_count", 'logDirectory="/data"'): constant(0),
    series("odradek_log_cleaner_oldest_waiting_seconds"): constant(20),
    series("kafka_log_logcleaner_max_compaction_delay_secs"): constant(0),
    series("kafka_log_logcleaner_deadthreadcount"): constant(0),
    **group(
        GROUP, lag=constant(100), committed=growing(6000), members=2, lag_seconds=constant(2), last_commit=growing(60)
    ),
    **group(
        GONE, lag=growing(60), committed=constant(5), members=0, lag_seconds=growing(60), last_commit=constant(-90_000)
    ),
    # The group without members lost records long ago: nobody will come for them.
    OLDEST: constant(6),
    series("odradek_coordinator_partitions", 'coordinator="group", state="failed"'): constant(0),
    series("odradek_transaction_markers_waiting"): constant(0),
    series("odradek_delivery_pending_records", 'topic="t", partition="0"'): constant(5),
    NEXT: f"600+60x{LENGTH}",
    **buckets(LATENESS, "", growing(60), growing(60)),
    series("odradek_network_failed_requests_total", PRODUCE): constant(3),
    **buckets(REQUEST, PRODUCE, growing(60_000), growing(60_000)),
    series(f"{REQUEST}_count", PRODUCE): growing(60_000),
    series("odradek_network_errors_total", f'{PRODUCE}, error="NOT_LEADER_OR_FOLLOWER"'): growing(60),
    series("odradek_quota_throttle_seconds_total", 'kind="produce", user="u", client_id="c"'): growing(6),
    **buckets(LOOP, "", growing(600), growing(600)),
    series("process_resident_memory_bytes"): constant(1e8),
    series("odradek_memory_limit_bytes"): constant(1e9),
    series("process_open_fds"): constant(200),
    series("process_max_fds"): constant(20_000),
}


class Case(NamedTuple):
    """An alert, the series that differ from a healthy broker's, and the minute from which on it fires."""

    alert: str
    minute: int
    series: Mapping[str, str]


CASES = (
    Case("OdradekDown", 11, {series("up"): then(10, 1, 0)}),
    Case("OdradekAbsent", 10, {series("up"): "1x4 stale"}),
    Case("OdradekNotServing", 15, {series("kafka_server_kafkaserver_brokerstate"): then(10, 3, 2)}),
    Case("OdradekRestarting", 12, {series("process_start_time_seconds"): "1x9 2 3 4x99"}),
    Case("OdradekScrapeSlow", 20, {series("scrape_duration_seconds"): then(10, 0.1, 3)}),
    Case(
        "OdradekLogDirOffline",
        10,
        {series("kafka_log_logmanager_logdirectoryoffline", 'logDirectory="/data"'): then(10, 0, 1)},
    ),
    Case("OdradekPartitionsOffline", 11, {series("kafka_server_replicamanager_offlinereplicacount"): then(10, 0, 7)}),
    # Full enough at once, and steady: nothing to predict.
    Case("OdradekDiskAlmostFull", 5, {USABLE: constant(4e10)}),
    Case("OdradekDiskFillsSoon", 16, {USABLE: f"4e11-2e9x{LENGTH}"}),
    Case("OdradekSlowSync", 20, buckets(SYNC, DIRECTORY, growing_from(10, 60), growing_from(10, 120))),
    Case("OdradekProducersWaitForDisk", 21, {series("odradek_log_writeback_wait_seconds_total"): growing_from(10, 30)}),
    Case(
        "OdradekMoveFails",
        15,
        {series("kafka_server_replicaalterlogdirsmanager_failedpartitionscount"): then(10, 0, 1)},
    ),
    Case(
        "OdradekUncleanablePartitions",
        10,
        {series("kafka_log_logcleanermanager_uncleanable_partitions_count", 'logDirectory="/data"'): then(10, 0, 1)},
    ),
    Case("OdradekCleanerBehind", 25, {series("odradek_log_cleaner_oldest_waiting_seconds"): then(10, 0, 4000)}),
    Case("OdradekCleanerBehind", 25, {series("kafka_log_logcleaner_max_compaction_delay_secs"): then(10, 0, 900)}),
    Case("OdradekCleanerStopped", 15, {series("kafka_log_logcleaner_deadthreadcount"): then(10, 0, 1)}),
    Case("OdradekGroupLags", 20, {LAG_SECONDS: then(10, 5, 400)}),
    Case("OdradekGroupLost", 20, {MEMBERS: then(10, 2, 0), LAG_SECONDS: constant(400)}),
    Case("OdradekGroupStuck", 45, {COMMITTED: "0+10x19 200x99"}),
    Case("OdradekGroupLosesRecords", 11, {OLDEST: then(10, 0, 1e9)}),
    Case("OdradekGroupRebalances", 29, {series("odradek_consumer_group_epoch", GROUP): f"3x9 4+1x{LENGTH}"}),
    Case(
        "OdradekCoordinatorFailed",
        11,
        {series("odradek_coordinator_partitions", 'coordinator="group", state="failed"'): then(10, 0, 1)},
    ),
    Case("OdradekMarkersWait", 20, {series("odradek_transaction_markers_waiting"): then(10, 0, 1)}),
    Case("OdradekDeliveryLate", 20, buckets(LATENESS, "", growing_from(10, 60), growing_from(10, 120))),
    # It is not known what the partition waits for; and what it waits for is due since the tenth minute.
    Case("OdradekDeliveryStuck", 15, {NEXT: "600+60x9 stale"}),
    Case("OdradekDeliveryStuck", 17, {NEXT: constant(600)}),
    Case("OdradekDeliveryBlocked", 20, {NEXT: then(10, 600, 1e7)}),
    Case("OdradekRequestsFail", 15, {series("odradek_network_failed_requests_total", PRODUCE): growing_from(10, 1)}),
    Case(
        "OdradekServerErrors",
        15,
        {series("odradek_network_errors_total", f'{PRODUCE}, error="KAFKA_STORAGE_ERROR"'): growing_from(10, 1)},
    ),
    Case(
        "OdradekManyErrors",
        26,
        {series("odradek_network_errors_total", f'{PRODUCE}, error="MESSAGE_TOO_LARGE"'): growing_from(10, 30_000)},
    ),
    Case("OdradekSlowProduce", 20, buckets(REQUEST, PRODUCE, growing_from(10, 60), growing_from(10, 120))),
    Case(
        "OdradekThrottling",
        27,
        {
            series("odradek_quota_throttle_seconds_total", 'kind="produce", user="u", client_id="c"'): growing_from(
                10, 60
            )
        },
    ),
    Case("OdradekEventLoopLags", 20, buckets(LOOP, "", growing_from(10, 300), growing_from(10, 600))),
    Case("OdradekMemoryNearLimit", 20, {series("process_resident_memory_bytes"): then(10, 1e8, 9.5e8)}),
    Case("OdradekFileDescriptors", 20, {series("process_open_fds"): then(10, 100, 17_000)}),
)
