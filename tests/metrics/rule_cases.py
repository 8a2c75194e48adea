"""What each alert rule is tried on: series of a healthy broker, and for each rule those with which it must fire.

Series are written as promtool wants them, a value each minute: `1x9` is 1 ten times, `0+6x9` begins at 0 and adds 6
each time. A case says from which minute on its alert fires; in the minute before, nothing may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LENGTH = 150  # minutes
OF_BROKER = 'job="odradek", instance="b:9404"'
REQUEST, FLUSH = "odradek_network_request_seconds", "odradek_log_flush_seconds"


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


PRODUCE, DIRECTORY = 'request="Produce"', 'dir="/data"'
OF_PARTITION = 'consumergroup="g", topic="t", partition="0"'
OF_TOPIC, OF_GROUP = 'consumergroup="g", topic="t"', 'consumergroup="g"'
LAG, COMMITTED = (
    series("kafka_consumergroup_lag_sum", OF_TOPIC),
    series("kafka_consumergroup_current_offset", OF_PARTITION),
)
USABLE = series("odradek_log_dir_usable_bytes", DIRECTORY)

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
    **buckets(FLUSH, "", growing(60), growing(60)),
    series("odradek_log_writeback_wait_seconds_total"): growing(0.6),
    series("kafka_server_replicaalterlogdirsmanager_failedpartitionscount"): constant(0),
    series("kafka_log_logcleanermanager_uncleanable_partitions_count", 'logDirectory="/data"'): constant(0),
    series("odradek_log_cleaner_oldest_waiting_seconds"): constant(20),
    series("kafka_log_logcleaner_max_compaction_delay_secs"): constant(0),
    series("kafka_log_logcleaner_deadthreadcount"): constant(0),
    LAG: constant(100),
    COMMITTED: growing(6000),
    series("kafka_consumergroup_members", OF_GROUP): constant(2),
    series("kafka_consumergroup_lag_sum", 'consumergroup="gone", topic="t"'): growing(6000),
    series("kafka_consumergroup_current_offset", 'consumergroup="gone", topic="t", partition="0"'): constant(5),
    series("kafka_consumergroup_members", 'consumergroup="gone"'): constant(0),
    series("odradek_consumer_group_max_lag_seconds", OF_GROUP): constant(2),
    series("odradek_coordinator_partitions", 'coordinator="group", state="failed"'): constant(0),
    series("odradek_transaction_markers_waiting"): constant(0),
    series("odradek_network_failed_requests_total", PRODUCE): constant(3),
    **buckets(REQUEST, PRODUCE, growing(60_000), growing(60_000)),
    series("odradek_quota_throttle_seconds_total", 'kind="produce", user="u", client_id="c"'): growing(6),
    series("process_open_fds"): constant(200),
    series("process_max_fds"): constant(20_000),
}


class Case(NamedTuple):
    """An alert, the series that differ from a healthy broker's, and the minute from which on it fires."""

    alert: str
    minute: int
    series: Mapping[str, str]
    # What is true as well then: alerts that cannot but fire with it.
    also: frozenset[str] = frozenset()


def case(alert: str, minute: int, changes: Mapping[str, str], *also: str) -> Case:
    """Write one case; a series whose values are empty is absent."""
    return Case(alert, minute, changes, frozenset(also))


CASES = (
    case("OdradekDown", 11, {series("up"): then(10, 1, 0)}),
    case("OdradekAbsent", 10, {series("up"): "1x4 stale"}),
    case("OdradekNotServing", 15, {series("kafka_server_kafkaserver_brokerstate"): then(10, 3, 2)}),
    case("OdradekRestarting", 12, {series("process_start_time_seconds"): "1x9 2 3 4x99"}),
    case("OdradekScrapeSlow", 20, {series("scrape_duration_seconds"): then(10, 0.1, 3)}),
    case(
        "OdradekLogDirOffline",
        10,
        {series("kafka_log_logmanager_logdirectoryoffline", 'logDirectory="/data"'): then(10, 0, 1)},
    ),
    case("OdradekPartitionsOffline", 11, {series("kafka_server_replicamanager_offlinereplicacount"): then(10, 0, 7)}),
    # Full enough at once, and steady: nothing to predict.
    case("OdradekDiskAlmostFull", 5, {USABLE: constant(4e10)}),
    case("OdradekDiskFillsSoon", 16, {USABLE: f"4e11-2e9x{LENGTH}"}),
    case("OdradekSlowFlush", 20, buckets(FLUSH, "", growing_from(10, 60), growing_from(10, 120))),
    case("OdradekProducersWaitForDisk", 21, {series("odradek_log_writeback_wait_seconds_total"): growing_from(10, 30)}),
    case(
        "OdradekMoveFails",
        15,
        {series("kafka_server_replicaalterlogdirsmanager_failedpartitionscount"): then(10, 0, 1)},
    ),
    case(
        "OdradekUncleanablePartitions",
        10,
        {series("kafka_log_logcleanermanager_uncleanable_partitions_count", 'logDirectory="/data"'): then(10, 0, 1)},
    ),
    case("OdradekCleanerBehind", 25, {series("odradek_log_cleaner_oldest_waiting_seconds"): then(10, 0, 4000)}),
    case("OdradekCleanerBehind", 25, {series("kafka_log_logcleaner_max_compaction_delay_secs"): then(10, 0, 900)}),
    case("OdradekCleanerStopped", 15, {series("kafka_log_logcleaner_deadthreadcount"): then(10, 0, 1)}),
    case("OdradekGroupStuck", 45, {COMMITTED: "0+10x19 200x99"}),
    case(
        "OdradekCoordinatorFailed",
        11,
        {series("odradek_coordinator_partitions", 'coordinator="group", state="failed"'): then(10, 0, 1)},
    ),
    case("OdradekMarkersWait", 20, {series("odradek_transaction_markers_waiting"): then(10, 0, 1)}),
    case("OdradekRequestsFail", 15, {series("odradek_network_failed_requests_total", PRODUCE): growing_from(10, 1)}),
    case("OdradekSlowProduce", 20, buckets(REQUEST, PRODUCE, growing_from(10, 60), growing_from(10, 120))),
    case(
        "OdradekThrottling",
        27,
        {
            series("odradek_quota_throttle_seconds_total", 'kind="produce", user="u", client_id="c"'): growing_from(
                10, 60
            )
        },
    ),
    case("OdradekFileDescriptors", 20, {series("process_open_fds"): then(10, 100, 17_000)}),
)
