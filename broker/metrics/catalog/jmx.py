"""The family under the names that the JMX exporter makes of Kafka's beans, which public dashboards ask for."""

from __future__ import annotations

from functools import partial

from broker.metrics.catalog.row import Family, Kind, Metric

_row = partial(Metric, Family.JMX)

BROKER_STATE = _row(
    "kafka_server_kafkaserver_brokerstate", Kind.GAUGE, "1 starting, 2 recovering, 3 running, 6 stopping"
)
CONNECTIONS = _row("kafka_server_socketservermetrics_connection_count", Kind.GAUGE, "Open client connections")
CONNECTIONS_ACCEPTED = _row(
    "kafka_server_socketservermetrics_connection_creation", Kind.COUNTER, "Client connections accepted"
)
PARTITIONS = _row("kafka_server_replicamanager_partitioncount", Kind.GAUGE, "Partitions hosted here")
LEADERS = _row("kafka_server_replicamanager_leadercount", Kind.GAUGE, "Partitions led by this broker")
OFFLINE_REPLICAS = _row(
    "kafka_server_replicamanager_offlinereplicacount", Kind.GAUGE, "Partitions whose log directory has failed"
)
OFFLINE_DIRS = _row(
    "kafka_log_logmanager_offlinelogdirectorycount", Kind.GAUGE, "Directories of log.dirs that are offline"
)
DIR_OFFLINE = _row(
    "kafka_log_logmanager_logdirectoryoffline",
    Kind.GAUGE,
    "1 for a directory of log.dirs that is offline, else 0",
    ("logDirectory",),
)
FETCH_SESSIONS = _row(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions", Kind.GAUGE, "Incremental fetch sessions"
)
FETCH_SESSION_PARTITIONS = _row(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", Kind.GAUGE, "Partitions in fetch sessions"
)
FETCH_SESSION_EVICTIONS = _row(
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions", Kind.COUNTER, "Fetch sessions evicted"
)
BYTES_IN = _row("kafka_server_brokertopicmetrics_bytesin", Kind.COUNTER, "Bytes appended", ("topic",))
MESSAGES_IN = _row("kafka_server_brokertopicmetrics_messagesin", Kind.COUNTER, "Records appended", ("topic",))
LOG_SIZE = _row("kafka_log_log_size", Kind.GAUGE, "Bytes of the log's segments", ("topic", "partition"))
LOG_START_OFFSET = _row("kafka_log_log_logstartoffset", Kind.GAUGE, "First readable offset", ("topic", "partition"))
LOG_END_OFFSET = _row("kafka_log_log_logendoffset", Kind.GAUGE, "Next offset to be written", ("topic", "partition"))
LOG_SEGMENTS = _row("kafka_log_log_numlogsegments", Kind.GAUGE, "Segments of the log", ("topic", "partition"))
GROUPS = _row("kafka_coordinator_group_groupmetadatamanager_numgroups", Kind.GAUGE, "Groups by state", ("state",))
GROUP_COUNT = _row(
    "kafka_server_groupcoordinatormetrics_group_count",
    Kind.GAUGE,
    "Groups by their kind and state",
    ("protocol", "state"),
)
GROUP_REBALANCES = _row(
    "kafka_server_groupcoordinatormetrics_rebalance_count",
    Kind.COUNTER,
    "Rebalances: of classic groups those that came to an assignment, of consumer groups every new epoch",
    ("protocol",),
)
OFFSET_COMMITS = _row("kafka_server_groupcoordinatormetrics_offset_commit_count", Kind.COUNTER, "Offsets committed")
OFFSET_EXPIRATIONS = _row(
    "kafka_server_groupcoordinatormetrics_offset_expiration_count", Kind.COUNTER, "Committed offsets that have expired"
)
OFFSET_DELETIONS = _row(
    "kafka_server_groupcoordinatormetrics_offset_deletion_count", Kind.COUNTER, "Committed offsets that were deleted"
)
LOGS_TO_LOAD = _row(
    "kafka_log_logmanager_remaininglogstorecover", Kind.GAUGE, "Logs not loaded yet at this start", ("dir",)
)
SEGMENTS_TO_RECOVER = _row(
    "kafka_log_logmanager_remainingsegmentstorecover",
    Kind.GAUGE,
    "Segments left to recover of the log that a thread works on",
    ("dir", "threadNum"),
)
CLEANER_DEAD_THREADS = _row(
    "kafka_log_logcleaner_deadthreadcount", Kind.GAUGE, "1 while the search for logs to clean fails, else 0"
)
CLEANER_RECOPY_PERCENT = _row(
    "kafka_log_logcleaner_cleaner_recopy_percent",
    Kind.GAUGE,
    "Bytes written of those read for copying in the last cleaning; 100 when nothing was dropped",
)
CLEANER_MAX_CLEAN_SECONDS = _row(
    "kafka_log_logcleaner_max_clean_time_secs", Kind.GAUGE, "Seconds that the last cleaning took"
)
CLEANER_BUFFER_UTILIZATION = _row(
    "kafka_log_logcleaner_max_buffer_utilization_percent",
    Kind.GAUGE,
    "Slots of a worker's whole buffer that the last cleaning filled; full at log.cleaner.io.buffer.load.factor",
)
CLEANER_MAX_DELAY_SECONDS = _row(
    "kafka_log_logcleaner_max_compaction_delay_secs",
    Kind.GAUGE,
    "By how much the most overdue log exceeds max.compaction.lag.ms",
)
CLEANER_MAX_DIRTY_PERCENT = _row(
    "kafka_log_logcleanermanager_max_dirty_percent",
    Kind.GAUGE,
    "Dirty share of the dirtiest compacted log, without those under way",
)
CLEANER_SINCE_LAST_RUN = _row(
    "kafka_log_logcleanermanager_time_since_last_run_ms", Kind.GAUGE, "Time since the cleaner last looked at the logs"
)
UNCLEANABLE_PARTITIONS = _row(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    Kind.GAUGE,
    "Logs whose data made a cleaning fail; they are left alone",
    ("logDirectory",),
)
UNCLEANABLE_BYTES = _row(
    "kafka_log_logcleanermanager_uncleanable_bytes",
    Kind.GAUGE,
    "Bytes of the logs that are uncleanable",
    ("logDirectory",),
)
MOVES_MAX_LAG = _row(
    "kafka_server_replicaalterlogdirsmanager_maxlag",
    Kind.GAUGE,
    "Offsets that the copy of a partition which moves to another log directory is behind, at most",
)
MOVES_FAILING = _row(
    "kafka_server_replicaalterlogdirsmanager_failedpartitionscount",
    Kind.GAUGE,
    "Moves whose last attempt has failed; they are tried again",
)
