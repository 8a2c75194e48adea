"""The family under the names that the JMX exporter makes of Kafka's beans, which public dashboards ask for."""

from __future__ import annotations

from functools import partial

from broker.metrics.catalog.row import Family, Kind, Metric

_row = partial(Metric, Family.JMX)

BROKER_STATE = _row(
    "kafka_server_kafkaserver_brokerstate", Kind.GAUGE, "1 starting, 2 recovering, 3 running, 6 stopping"
)
CONNECTIONS = _row(
    "kafka_server_socketservermetrics_connection_count", Kind.GAUGE, "Open client connections", ("listener",)
)
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

_BY_TOPIC = "; without a topic: of all that were ever here"
_OF_TOPIC = ("topic",)
BYTES_IN = _row(
    "kafka_server_brokertopicmetrics_bytesin", Kind.COUNTER, "Bytes appended, by topic" + _BY_TOPIC, _OF_TOPIC
)
MESSAGES_IN = _row(
    "kafka_server_brokertopicmetrics_messagesin", Kind.COUNTER, "Records appended, by topic" + _BY_TOPIC, _OF_TOPIC
)
BYTES_OUT = _row(
    "kafka_server_brokertopicmetrics_bytesout",
    Kind.COUNTER,
    "Bytes of fetched records, by topic" + _BY_TOPIC,
    _OF_TOPIC,
)
BYTES_REJECTED = _row(
    "kafka_server_brokertopicmetrics_bytesrejected",
    Kind.COUNTER,
    "Bytes of batches above max.message.bytes, by topic" + _BY_TOPIC,
    _OF_TOPIC,
)
PRODUCE_REQUESTS = _row(
    "kafka_server_brokertopicmetrics_totalproducerequests",
    Kind.COUNTER,
    "Batches that were to be appended: a request counts for each of its partitions" + _BY_TOPIC,
    _OF_TOPIC,
)
FAILED_PRODUCE_REQUESTS = _row(
    "kafka_server_brokertopicmetrics_failedproducerequests",
    Kind.COUNTER,
    "Those that failed and not, as Kafka has it, for a known reason: no such partition, not the leader, too large, "
    "damaged, a failed directory" + _BY_TOPIC,
    _OF_TOPIC,
)
FETCH_REQUESTS = _row(
    "kafka_server_brokertopicmetrics_totalfetchrequests",
    Kind.COUNTER,
    "Answered reads of partitions: a request counts for each of its partitions" + _BY_TOPIC,
    _OF_TOPIC,
)
FAILED_FETCH_REQUESTS = _row(
    "kafka_server_brokertopicmetrics_failedfetchrequests",
    Kind.COUNTER,
    "Those that failed and not, as Kafka has it, for a known reason: no such partition, not the leader, another epoch, "
    "out of range, a failed directory" + _BY_TOPIC,
    _OF_TOPIC,
)
NO_CONVERSIONS = "Always 0: nothing is converted, old formats are refused"
PRODUCE_CONVERSIONS = _row("kafka_server_brokertopicmetrics_producemessageconversions", Kind.COUNTER, NO_CONVERSIONS)
FETCH_CONVERSIONS = _row("kafka_server_brokertopicmetrics_fetchmessageconversions", Kind.COUNTER, NO_CONVERSIONS)
REPLICATION_BYTES_IN = _row(
    "kafka_server_brokertopicmetrics_replicationbytesin", Kind.COUNTER, "Always 0: one broker does not replicate"
)
REPLICATION_BYTES_OUT = _row(
    "kafka_server_brokertopicmetrics_replicationbytesout", Kind.COUNTER, "Always 0: one broker does not replicate"
)
INVALID_MAGIC = _row(
    "kafka_server_brokertopicmetrics_invalidmagicnumberrecords", Kind.COUNTER, "Batches refused for an old format"
)
INVALID_CRC = _row(
    "kafka_server_brokertopicmetrics_invalidmessagecrcrecords", Kind.COUNTER, "Batches refused for their CRC"
)
INVALID_OFFSETS = _row(
    "kafka_server_brokertopicmetrics_invalidoffsetorsequencerecords",
    Kind.COUNTER,
    "Batches refused for offsets, sequence numbers or a record count that do not fit",
)
MISSING_KEYS = _row(
    "kafka_server_brokertopicmetrics_nokeycompactedtopicrecords",
    Kind.COUNTER,
    "Records refused for having no key in a compacted topic",
)
_OF_PARTITION = ("topic", "partition")
LOG_SIZE = _row("kafka_log_log_size", Kind.GAUGE, "Bytes of the log's segments", _OF_PARTITION)
LOG_START_OFFSET = _row("kafka_log_log_logstartoffset", Kind.GAUGE, "First readable offset", _OF_PARTITION)
LOG_END_OFFSET = _row("kafka_log_log_logendoffset", Kind.GAUGE, "Next offset to be written", _OF_PARTITION)
LOG_SEGMENTS = _row("kafka_log_log_numlogsegments", Kind.GAUGE, "Segments of the log", _OF_PARTITION)
REPLICAS = _row("kafka_cluster_partition_replicascount", Kind.GAUGE, "Replicas of the partition", _OF_PARTITION)
IN_SYNC_REPLICAS = _row("kafka_cluster_partition_insyncreplicascount", Kind.GAUGE, "Those in sync", _OF_PARTITION)
UNDER_REPLICATED = _row(
    "kafka_cluster_partition_underreplicated",
    Kind.GAUGE,
    "1 where not all replicas are in sync",
    _OF_PARTITION,
)
UNDER_MIN_ISR = _row(
    "kafka_cluster_partition_underminisr",
    Kind.GAUGE,
    "1 where fewer than min.insync.replicas are",
    _OF_PARTITION,
)
AT_MIN_ISR = _row(
    "kafka_cluster_partition_atminisr", Kind.GAUGE, "1 where just as many as min.insync.replicas are", _OF_PARTITION
)
LAST_STABLE_OFFSET_LAG = _row(
    "kafka_cluster_partition_laststableoffsetlag",
    Kind.GAUGE,
    "Offsets between the high watermark and what consumers of transactions may read",
    _OF_PARTITION,
)
_OF_REQUEST = ("request",)
REQUESTS = _row("kafka_network_requestmetrics_requests", Kind.COUNTER, "Requests, by API", _OF_REQUEST)
ERRORS = _row(
    "kafka_network_requestmetrics_errors",
    Kind.COUNTER,
    "Error codes told to clients; a response may tell many. Successes are not counted",
    ("request", "error"),
)
_ESTIMATED = "; quantiles of the last minutes, estimated from the buckets of odradek_network_request_seconds"
TOTAL_TIME = _row(
    "kafka_network_requestmetrics_totaltimems",
    Kind.SUMMARY,
    "Time from a request to its response" + _ESTIMATED,
    _OF_REQUEST,
)
LOCAL_TIME = _row(
    "kafka_network_requestmetrics_localtimems",
    Kind.SUMMARY,
    "Time until a request was answered or had to wait" + _ESTIMATED,
    _OF_REQUEST,
)
REMOTE_TIME = _row(
    "kafka_network_requestmetrics_remotetimems",
    Kind.SUMMARY,
    "Time that a request waited for data, a flush or other members" + _ESTIMATED,
    _OF_REQUEST,
)
_NO_QUEUE = "Always 0: the event loop executes requests as they come, and sends the answers itself"
REQUEST_QUEUE_TIME = _row("kafka_network_requestmetrics_requestqueuetimems", Kind.SUMMARY, _NO_QUEUE, _OF_REQUEST)
RESPONSE_QUEUE_TIME = _row("kafka_network_requestmetrics_responsequeuetimems", Kind.SUMMARY, _NO_QUEUE, _OF_REQUEST)
REQUEST_QUEUE_SIZE = _row("kafka_network_requestchannel_requestqueuesize", Kind.GAUGE, _NO_QUEUE)
RESPONSE_QUEUE_SIZE = _row("kafka_network_requestchannel_responsequeuesize", Kind.GAUGE, _NO_QUEUE)
PURGATORY_SIZE = _row(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    Kind.GAUGE,
    "Requests that wait, by what they wait with",
    ("delayedOperation",),
)
CONNECTIONS_STRIMZI = _row(
    "kafka_server_socket_server_metrics_connection_count",
    Kind.GAUGE,
    "Open client connections, as Strimzi's rules spell it",
    ("listener",),
)
_LOOP = "The part of the last minute that the event loop's thread has not computed"
NETWORK_IDLE = _row("kafka_network_socketserver_networkprocessoravgidle_percent", Kind.GAUGE, _LOOP)
HANDLERS_IDLE = _row("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", Kind.GAUGE, _LOOP)
DISK_READ_BYTES = _row(
    "kafka_server_kafkaserver_linux_disk_read_bytes", Kind.GAUGE, "Bytes that the process had read from disks"
)
DISK_WRITE_BYTES = _row(
    "kafka_server_kafkaserver_linux_disk_write_bytes", Kind.GAUGE, "Bytes that the process had written to disks"
)
ACTIVE_CONTROLLERS = _row("kafka_controller_kafkacontroller_activecontrollercount", Kind.GAUGE, "1: it is this broker")
ACTIVE_BROKERS = _row("kafka_controller_kafkacontroller_activebrokercount", Kind.GAUGE, "Brokers that serve clients")
FENCED_BROKERS = _row(
    "kafka_controller_kafkacontroller_fencedbrokercount", Kind.GAUGE, "Registered brokers that do not serve clients"
)
TOPICS = _row("kafka_controller_kafkacontroller_globaltopiccount", Kind.GAUGE, "Topics of the cluster")
ALL_PARTITIONS = _row("kafka_controller_kafkacontroller_globalpartitioncount", Kind.GAUGE, "Partitions of the cluster")
OFFLINE_PARTITIONS = _row(
    "kafka_controller_kafkacontroller_offlinepartitionscount", Kind.GAUGE, "Partitions that nobody leads"
)
PREFERRED_IMBALANCE = _row(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    Kind.GAUGE,
    "Partitions that are not led by the first of their replicas",
)
METADATA_ERRORS = _row(
    "kafka_controller_kafkacontroller_metadataerrorcount",
    Kind.GAUGE,
    "Always 0: the broker stops when its metadata fail",
)
CONTROLLER_OFFSET = _row(
    "kafka_controller_kafkacontroller_lastcommittedrecordoffset", Kind.GAUGE, "Last offset of the metadata log"
)
_ONE_BROKER = "Always 0: with one broker it cannot happen"
UNCLEAN_ELECTIONS = _row("kafka_controller_controllerstats_uncleanleaderelections", Kind.COUNTER, _ONE_BROKER)
ISR_SHRINKS = _row("kafka_server_replicamanager_isrshrinks", Kind.COUNTER, _ONE_BROKER)
ISR_EXPANDS = _row("kafka_server_replicamanager_isrexpands", Kind.COUNTER, _ONE_BROKER)
FAILED_ISR_UPDATES = _row("kafka_server_replicamanager_failedisrupdates", Kind.COUNTER, _ONE_BROKER)
REASSIGNING_PARTITIONS = _row("kafka_server_replicamanager_reassigningpartitions", Kind.GAUGE, _ONE_BROKER)
UNDER_REPLICATED_PARTITIONS = _row(
    "kafka_server_replicamanager_underreplicatedpartitions",
    Kind.GAUGE,
    "Partitions led here of which not all replicas are in sync",
)
UNDER_MIN_ISR_PARTITIONS = _row(
    "kafka_server_replicamanager_underminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with fewer replicas in sync than min.insync.replicas",
)
AT_MIN_ISR_PARTITIONS = _row(
    "kafka_server_replicamanager_atminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with just as many replicas in sync as min.insync.replicas",
)
