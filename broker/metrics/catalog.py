"""Every metric the broker exports: one row each. Collectors fill them, docs and tests derive from them.

Names follow what the JMX exporter makes of Kafka's beans where a bean exists; our own begin with `odradek_`.
Labels are bounded: API names, listeners, the topics hosted here, and as many series of clients as are kept.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What kind of number a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One row."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


BROKER_STATE = Metric(
    "kafka_server_kafkaserver_brokerstate", Kind.GAUGE, "1 starting, 2 recovering, 3 running, 6 stopping"
)
REQUEST_SECONDS = Metric(
    "kafka_network_requestmetrics_totaltime_seconds",
    Kind.HISTOGRAM,
    "Time from a complete request to its response, waiting included",
    ("request",),
)
REQUEST_BYTES = Metric(
    "kafka_network_requestmetrics_requestbytes", Kind.COUNTER, "Bytes of requests received", ("request",)
)
REQUEST_FAILURES = Metric(
    "kafka_network_requestmetrics_failed", Kind.COUNTER, "Requests that ended with a closed connection", ("request",)
)
REQUEST_MALFORMED = Metric(
    "kafka_network_requestmetrics_malformed", Kind.COUNTER, "Requests that could not be decoded", ("request",)
)
REFUSED_FRAMES = Metric(
    "odradek_network_refused_frames", Kind.COUNTER, "Frames of an unknown API or version, or without a legible header"
)
CONNECTIONS = Metric("kafka_server_socketservermetrics_connection_count", Kind.GAUGE, "Open client connections")
CONNECTIONS_ACCEPTED = Metric(
    "kafka_server_socketservermetrics_connection_creation", Kind.COUNTER, "Client connections accepted"
)
PARTITIONS = Metric("kafka_server_replicamanager_partitioncount", Kind.GAUGE, "Partitions hosted here")
LEADERS = Metric("kafka_server_replicamanager_leadercount", Kind.GAUGE, "Partitions led by this broker")
OFFLINE_REPLICAS = Metric(
    "kafka_server_replicamanager_offlinereplicacount", Kind.GAUGE, "Partitions whose log directory has failed"
)
OFFLINE_DIRS = Metric(
    "kafka_log_logmanager_offlinelogdirectorycount", Kind.GAUGE, "Directories of log.dirs that are offline"
)
DIR_OFFLINE = Metric(
    "kafka_log_logmanager_logdirectoryoffline",
    Kind.GAUGE,
    "1 for a directory of log.dirs that is offline, else 0",
    ("logDirectory",),
)
DIR_LOGS = Metric("odradek_log_dir_logs", Kind.GAUGE, "Logs in a directory, copies of moves included", ("dir",))
DIR_SIZE = Metric(
    "odradek_log_dir_size_bytes",
    Kind.GAUGE,
    "Bytes of the segments of all logs in a directory, copies of moves included",
    ("dir",),
)
DIR_TOTAL = Metric(
    "odradek_log_dir_total_bytes", Kind.GAUGE, "Size of the file system of a directory, looked at every 2 s", ("dir",)
)
DIR_USABLE = Metric(
    "odradek_log_dir_usable_bytes",
    Kind.GAUGE,
    "Room for the broker on the file system of a directory, looked at every 2 s",
    ("dir",),
)
FETCH_SESSIONS = Metric(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions", Kind.GAUGE, "Incremental fetch sessions"
)
FETCH_SESSION_PARTITIONS = Metric(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", Kind.GAUGE, "Partitions in fetch sessions"
)
FETCH_SESSION_EVICTIONS = Metric(
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions", Kind.COUNTER, "Fetch sessions evicted"
)
BYTES_IN = Metric("kafka_server_brokertopicmetrics_bytesin", Kind.COUNTER, "Bytes appended", ("topic",))
MESSAGES_IN = Metric("kafka_server_brokertopicmetrics_messagesin", Kind.COUNTER, "Records appended", ("topic",))
LOG_SIZE = Metric("kafka_log_log_size", Kind.GAUGE, "Bytes of the log's segments", ("topic", "partition"))
LOG_START_OFFSET = Metric("kafka_log_log_logstartoffset", Kind.GAUGE, "First readable offset", ("topic", "partition"))
LOG_END_OFFSET = Metric("kafka_log_log_logendoffset", Kind.GAUGE, "Next offset to be written", ("topic", "partition"))
LOG_SEGMENTS = Metric("kafka_log_log_numlogsegments", Kind.GAUGE, "Segments of the log", ("topic", "partition"))
FLUSH_SECONDS = Metric(
    "kafka_log_logflushstats_logflushrateandtime_seconds",
    Kind.HISTOGRAM,
    "Time a flush of a log took in its thread: batches, indexes and names",
)
DIRECT_WRITE_SECONDS = Metric(
    "odradek_log_direct_write_seconds",
    Kind.HISTOGRAM,
    "Time a write of a preallocated log past the page cache took in its thread",
)
WRITEBACK_SECONDS = Metric(
    "odradek_log_writeback_seconds", Kind.HISTOGRAM, "Time the fdatasync behind a full write-back window took"
)
WRITEBACKS_RUNNING = Metric("odradek_log_writebacks_running", Kind.GAUGE, "Write-backs that have not ended yet")
WRITEBACK_WAITS = Metric(
    "odradek_log_writeback_waits", Kind.COUNTER, "Times a partition's appends had to wait for write-backs"
)
WRITEBACK_WAIT_SECONDS = Metric(
    "odradek_log_writeback_wait_seconds", Kind.COUNTER, "Time a partition's appends had to wait for write-backs"
)
PAGE_CACHE_BYTES = Metric(
    "odradek_log_page_cache_bytes", Kind.GAUGE, "Synced bytes of the logs that count towards the page cache's budget"
)
PAGE_CACHE_DROPPED = Metric(
    "odradek_log_page_cache_dropped_bytes", Kind.COUNTER, "Bytes the kernel was told to drop from the page cache"
)
GROUPS = Metric("kafka_coordinator_group_groupmetadatamanager_numgroups", Kind.GAUGE, "Groups by state", ("state",))
TRANSACTIONAL_IDS = Metric(
    "odradek_transaction_transactional_ids",
    Kind.GAUGE,
    "Transactional ids by the state of their transaction",
    ("state",),
)
TRANSACTIONS_COMPLETING = Metric(
    "odradek_transaction_completing", Kind.GAUGE, "Decided transactions whose markers are being written"
)
TRANSACTION_MARKERS_WAITING = Metric(
    "odradek_transaction_markers_waiting",
    Kind.GAUGE,
    "Transaction markers whose partition could not take them and that are tried again",
)
TRANSACTIONS_TIMED_OUT = Metric(
    "odradek_transaction_timed_out", Kind.COUNTER, "Transactions aborted because they were open for too long"
)
GROUP_COUNT = Metric(
    "kafka_server_groupcoordinatormetrics_group_count",
    Kind.GAUGE,
    "Groups by their kind and state",
    ("protocol", "state"),
)
GROUP_REBALANCES = Metric(
    "kafka_server_groupcoordinatormetrics_rebalance_count",
    Kind.COUNTER,
    "Rebalances: of classic groups those that came to an assignment, of consumer groups every new epoch",
    ("protocol",),
)
OFFSET_COMMITS = Metric("kafka_server_groupcoordinatormetrics_offset_commit_count", Kind.COUNTER, "Offsets committed")
OFFSET_EXPIRATIONS = Metric(
    "kafka_server_groupcoordinatormetrics_offset_expiration_count", Kind.COUNTER, "Committed offsets that have expired"
)
OFFSET_DELETIONS = Metric(
    "kafka_server_groupcoordinatormetrics_offset_deletion_count", Kind.COUNTER, "Committed offsets that were deleted"
)
COORDINATOR_PARTITIONS = Metric(
    "odradek_coordinator_partitions",
    Kind.GAUGE,
    "Partitions of its topic that a coordinator serves: loading, active or failed",
    ("coordinator", "state"),
)
_OF_COORDINATOR = ("coordinator",)
COORDINATOR_LOAD_SECONDS = Metric(
    "odradek_coordinator_load_seconds", Kind.HISTOGRAM, "Time until a partition was replayed", _OF_COORDINATOR
)
COORDINATOR_FAILED_LOADS = Metric(
    "odradek_coordinator_failed_loads", Kind.COUNTER, "Partitions that could not be replayed", _OF_COORDINATOR
)
COORDINATOR_QUEUE_SECONDS = Metric(
    "odradek_coordinator_queue_seconds",
    Kind.HISTOGRAM,
    "Time that commands waited for their turn; those that did not have to wait are not counted",
    _OF_COORDINATOR,
)
COORDINATOR_WRITE_SECONDS = Metric(
    "odradek_coordinator_write_seconds",
    Kind.HISTOGRAM,
    "Time from a command's records to their replay, the flushes that settings ask for included",
    _OF_COORDINATOR,
)
VERIFICATION_SECONDS = Metric(
    "kafka_server_addpartitionstotxnmanager_verificationtime_seconds",
    Kind.HISTOGRAM,
    "Time until it was known whether partitions are part of a transaction",
)
VERIFICATION_FAILURES = Metric(
    "kafka_server_addpartitionstotxnmanager_verificationfailure",
    Kind.COUNTER,
    "Partitions that were refused as parts of a transaction",
)
LOGS_TO_LOAD = Metric(
    "kafka_log_logmanager_remaininglogstorecover", Kind.GAUGE, "Logs not loaded yet at this start", ("dir",)
)
SEGMENTS_TO_RECOVER = Metric(
    "kafka_log_logmanager_remainingsegmentstorecover",
    Kind.GAUGE,
    "Segments left to recover of the log that a thread works on",
    ("dir", "threadNum"),
)
RECOVERY_SECONDS = Metric(
    "odradek_log_recovery_seconds", Kind.GAUGE, "Time taken to load and recover the logs at this start"
)
RECOVERY_BYTES = Metric("odradek_log_recovery_bytes", Kind.GAUGE, "Bytes scanned by recovery at this start", ("dir",))
RECOVERY_BYTES_EXPECTED = Metric(
    "odradek_log_recovery_expected_bytes",
    Kind.GAUGE,
    "Bytes that recovery has to scan after an unclean stop: all segments from the one with the recovery point on",
    ("dir",),
)
RECOVERY_CUT_BYTES = Metric(
    "odradek_log_recovery_cut_bytes", Kind.GAUGE, "Torn and damaged bytes cut off by recovery at this start", ("dir",)
)
DELETED_SEGMENTS = Metric(
    "odradek_log_retention_deleted_segments",
    Kind.COUNTER,
    "Segments that retention let go, by the reason: log_start, size or time",
    ("reason",),
)
DELETED_BYTES = Metric(
    "odradek_log_retention_deleted_bytes",
    Kind.COUNTER,
    "Bytes of batches in segments that retention let go, by the reason",
    ("reason",),
)
RETENTION_SECONDS = Metric(
    "odradek_log_retention_run_seconds", Kind.GAUGE, "Time taken by the last retention pass over all logs"
)
CLEANER_DEAD_THREADS = Metric(
    "kafka_log_logcleaner_deadthreadcount", Kind.GAUGE, "1 while the search for logs to clean fails, else 0"
)
CLEANER_RECOPY_PERCENT = Metric(
    "kafka_log_logcleaner_cleaner_recopy_percent",
    Kind.GAUGE,
    "Bytes written of those read for copying in the last cleaning; 100 when nothing was dropped",
)
CLEANER_MAX_CLEAN_SECONDS = Metric(
    "kafka_log_logcleaner_max_clean_time_secs", Kind.GAUGE, "Seconds that the last cleaning took"
)
CLEANER_BUFFER_UTILIZATION = Metric(
    "kafka_log_logcleaner_max_buffer_utilization_percent",
    Kind.GAUGE,
    "Slots of a worker's whole buffer that the last cleaning filled; full at log.cleaner.io.buffer.load.factor",
)
CLEANER_MAX_DELAY_SECONDS = Metric(
    "kafka_log_logcleaner_max_compaction_delay_secs",
    Kind.GAUGE,
    "By how much the most overdue log exceeds max.compaction.lag.ms",
)
CLEANER_MAX_DIRTY_PERCENT = Metric(
    "kafka_log_logcleanermanager_max_dirty_percent",
    Kind.GAUGE,
    "Dirty share of the dirtiest compacted log, without those under way",
)
CLEANER_SINCE_LAST_RUN = Metric(
    "kafka_log_logcleanermanager_time_since_last_run_ms", Kind.GAUGE, "Time since the cleaner last looked at the logs"
)
UNCLEANABLE_PARTITIONS = Metric(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    Kind.GAUGE,
    "Logs whose data made a cleaning fail; they are left alone",
    ("logDirectory",),
)
UNCLEANABLE_BYTES = Metric(
    "kafka_log_logcleanermanager_uncleanable_bytes",
    Kind.GAUGE,
    "Bytes of the logs that are uncleanable",
    ("logDirectory",),
)
CLEANER_RUNNING = Metric("odradek_log_cleaner_running", Kind.GAUGE, "Cleanings under way")
CLEANER_WAITING = Metric("odradek_log_cleaner_waiting", Kind.GAUGE, "Logs that need cleaning and wait for their turn")
CLEANER_OLDEST_WAITING = Metric(
    "odradek_log_cleaner_oldest_waiting_seconds", Kind.GAUGE, "How long the first of the waiting logs waits"
)
CLEANER_PASSES = Metric("odradek_log_cleaner_passes", Kind.COUNTER, "Cleanings that were completed")
CLEANER_FAILURES = Metric("odradek_log_cleaner_failures", Kind.COUNTER, "Cleanings that failed")
CLEANER_ABORTED = Metric(
    "odradek_log_cleaner_aborted", Kind.COUNTER, "Cleanings given up because the log or its policy changed"
)
CLEANER_READ_BYTES = Metric("odradek_log_cleaner_read_bytes", Kind.COUNTER, "Bytes read by completed cleanings")
CLEANER_WRITTEN_BYTES = Metric(
    "odradek_log_cleaner_written_bytes", Kind.COUNTER, "Bytes written by completed cleanings"
)
CLEANER_REMOVED_RECORDS = Metric(
    "odradek_log_cleaner_removed_records", Kind.COUNTER, "Records that completed cleanings left out"
)
CLEANER_SECONDS = Metric("odradek_log_cleaner_seconds", Kind.COUNTER, "Time that completed cleanings took")

MOVES_MAX_LAG = Metric(
    "kafka_server_replicaalterlogdirsmanager_maxlag",
    Kind.GAUGE,
    "Offsets that the copy of a partition which moves to another log directory is behind, at most",
)
MOVES_FAILING = Metric(
    "kafka_server_replicaalterlogdirsmanager_failedpartitionscount",
    Kind.GAUGE,
    "Moves whose last attempt has failed; they are tried again",
)
MOVES_RUNNING = Metric("odradek_log_dir_moves_running", Kind.GAUGE, "Moves between log directories under way")
MOVES_COMPLETED = Metric("odradek_log_dir_moves_completed", Kind.COUNTER, "Moves that came to their end")
MOVES_COPIED_BYTES = Metric("odradek_log_dir_moves_copied_bytes", Kind.COUNTER, "Bytes copied by moves")
MOVES_LIMIT = Metric(
    "odradek_log_dir_moves_limit_bytes_per_second",
    Kind.GAUGE,
    "What all moves together may copy in a second; 9223372036854775807 is no limit",
)
_MOVE_LABELS = ("topic", "partition", "from", "to")
MOVE_DONE_BYTES = Metric("odradek_log_dir_move_done_bytes", Kind.GAUGE, "Bytes that the copy holds", _MOVE_LABELS)
MOVE_LEFT_BYTES = Metric(
    "odradek_log_dir_move_left_bytes", Kind.GAUGE, "Bytes that are still to be copied", _MOVE_LABELS
)
MOVE_LAG = Metric("odradek_log_dir_move_lag", Kind.GAUGE, "Offsets that the copy is behind", _MOVE_LABELS)
MOVE_RATE = Metric("odradek_log_dir_move_bytes_per_second", Kind.GAUGE, "Bytes copied a second, lately", _MOVE_LABELS)
MOVE_LEFT_SECONDS = Metric(
    "odradek_log_dir_move_left_seconds",
    Kind.GAUGE,
    "How long the move will take at this rate; absent while it stands still",
    _MOVE_LABELS,
)

CLIENT_METRIC = Metric(
    "odradek_client_metric",
    Kind.GAUGE,
    "The last number that a client has pushed of a metric, sums added up; at most 2000 series",
    ("client_instance_id", "client_id", "metric", "attributes"),
)
CLIENT_METRICS_CLIENTS = Metric("odradek_client_metrics_clients", Kind.GAUGE, "Clients whose metrics are kept")
CLIENT_METRICS_PUSHES = Metric("odradek_client_metrics_pushes", Kind.COUNTER, "Pushes of metrics by clients")
CLIENT_METRICS_DROPPED = Metric(
    "odradek_client_metrics_dropped", Kind.COUNTER, "Numbers pushed by clients that found no place within the bounds"
)

_QUOTA_LABELS = ("kind", "user", "client_id")
QUOTA_LEVEL = Metric(
    "odradek_quota_level",
    Kind.GAUGE,
    "What those who share a quota do a second, in bytes or percent of the broker's time; of cluster changes, the "
    "partitions they may still change. Of each kind the 200 throttled most",
    _QUOTA_LABELS,
)
QUOTA_LIMIT = Metric("odradek_quota_limit", Kind.GAUGE, "The quota that holds for them", _QUOTA_LABELS)
QUOTA_THROTTLED = Metric("odradek_quota_throttled", Kind.COUNTER, "Their requests that were throttled", _QUOTA_LABELS)
QUOTA_THROTTLE_SECONDS = Metric(
    "odradek_quota_throttle_seconds", Kind.COUNTER, "The time that these had to wait", _QUOTA_LABELS
)
QUOTA_USES = Metric(
    "odradek_quota_uses", Kind.GAUGE, "Users, client ids and pairs whose use of a quota is measured", ("kind",)
)
CONNECTION_THROTTLE_SECONDS = Metric(
    "odradek_connection_throttle_seconds",
    Kind.COUNTER,
    "The time that new connections had to wait, or were kept before they were sent away, by whose rate it was",
    ("listener", "cause"),
)

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
