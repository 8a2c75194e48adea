"""Our own family, `odradek_*`: what Kafka has no bean for, and true histograms."""

from __future__ import annotations

from functools import partial

from broker.metrics.catalog.row import Family, Kind, Metric

_row = partial(Metric, Family.ODRADEK)

REFUSED_FRAMES = _row(
    "odradek_network_refused_frames", Kind.COUNTER, "Frames of an unknown API or version, or without a legible header"
)
DIR_LOGS = _row("odradek_log_dir_logs", Kind.GAUGE, "Logs in a directory, copies of moves included", ("dir",))
DIR_SIZE = _row(
    "odradek_log_dir_size_bytes",
    Kind.GAUGE,
    "Bytes of the segments of all logs in a directory, copies of moves included",
    ("dir",),
)
DIR_CORDONED = _row(
    "odradek_log_dir_cordoned", Kind.GAUGE, "1 for a directory that takes no new partitions, else 0", ("dir",)
)
DIR_TOTAL = _row(
    "odradek_log_dir_total_bytes", Kind.GAUGE, "Size of the file system of a directory, looked at every 2 s", ("dir",)
)
DIR_USABLE = _row(
    "odradek_log_dir_usable_bytes",
    Kind.GAUGE,
    "Room for the broker on the file system of a directory, looked at every 2 s",
    ("dir",),
)
SYNC_SECONDS = _row(
    "odradek_log_dir_sync_seconds",
    Kind.HISTOGRAM,
    "Time each fdatasync and fsync of a file or folder of a directory took; those of cleaner processes are not in it",
    ("dir",),
)
OLDEST_TIMESTAMP = _row(
    "odradek_log_oldest_timestamp_seconds",
    Kind.GAUGE,
    "Timestamp of the first record that is kept of a partition, as its batch bears it",
    ("topic", "partition"),
)
DIRECT_WRITE_SECONDS = _row(
    "odradek_log_direct_write_seconds",
    Kind.HISTOGRAM,
    "Time a write of a preallocated log past the page cache took in its thread",
)
WRITEBACK_SECONDS = _row(
    "odradek_log_writeback_seconds", Kind.HISTOGRAM, "Time the fdatasync behind a full write-back window took"
)
WRITEBACKS_RUNNING = _row("odradek_log_writebacks_running", Kind.GAUGE, "Write-backs that have not ended yet")
WRITEBACK_WAITS = _row(
    "odradek_log_writeback_waits", Kind.COUNTER, "Times a partition's appends had to wait for write-backs"
)
WRITEBACK_WAIT_SECONDS = _row(
    "odradek_log_writeback_wait_seconds", Kind.COUNTER, "Time a partition's appends had to wait for write-backs"
)
PAGE_CACHE_BYTES = _row(
    "odradek_log_page_cache_bytes", Kind.GAUGE, "Synced bytes of the logs that count towards the page cache's budget"
)
PAGE_CACHE_DROPPED = _row(
    "odradek_log_page_cache_dropped_bytes", Kind.COUNTER, "Bytes the kernel was told to drop from the page cache"
)
TRANSACTIONAL_IDS = _row(
    "odradek_transaction_transactional_ids",
    Kind.GAUGE,
    "Transactional ids by the state of their transaction",
    ("state",),
)
TRANSACTIONS_COMPLETING = _row(
    "odradek_transaction_completing", Kind.GAUGE, "Decided transactions whose markers are being written"
)
TRANSACTION_MARKERS_WAITING = _row(
    "odradek_transaction_markers_waiting",
    Kind.GAUGE,
    "Transaction markers whose partition could not take them and that are tried again",
)
TRANSACTIONS_TIMED_OUT = _row(
    "odradek_transaction_timed_out", Kind.COUNTER, "Transactions aborted because they were open for too long"
)
COORDINATOR_PARTITIONS = _row(
    "odradek_coordinator_partitions",
    Kind.GAUGE,
    "Partitions of its topic that a coordinator serves: loading, active or failed",
    ("coordinator", "state"),
)
_OF_COORDINATOR = ("coordinator",)
COORDINATOR_LOAD_SECONDS = _row(
    "odradek_coordinator_load_seconds", Kind.HISTOGRAM, "Time until a partition was replayed", _OF_COORDINATOR
)
COORDINATOR_FAILED_LOADS = _row(
    "odradek_coordinator_failed_loads", Kind.COUNTER, "Partitions that could not be replayed", _OF_COORDINATOR
)
COORDINATOR_QUEUE_SECONDS = _row(
    "odradek_coordinator_queue_seconds",
    Kind.HISTOGRAM,
    "Time that commands waited for their turn; those that did not have to wait are not counted",
    _OF_COORDINATOR,
)
COORDINATOR_WRITE_SECONDS = _row(
    "odradek_coordinator_write_seconds",
    Kind.HISTOGRAM,
    "Time from a command's records to their replay, the flushes that settings ask for included",
    _OF_COORDINATOR,
)
RECOVERY_SECONDS = _row(
    "odradek_log_recovery_seconds", Kind.GAUGE, "Time taken to load and recover the logs at this start"
)
RECOVERY_BYTES = _row("odradek_log_recovery_bytes", Kind.GAUGE, "Bytes scanned by recovery at this start", ("dir",))
RECOVERY_BYTES_EXPECTED = _row(
    "odradek_log_recovery_expected_bytes",
    Kind.GAUGE,
    "Bytes that recovery has to scan after an unclean stop: all segments from the one with the recovery point on",
    ("dir",),
)
RECOVERY_CUT_BYTES = _row(
    "odradek_log_recovery_cut_bytes", Kind.GAUGE, "Torn and damaged bytes cut off by recovery at this start", ("dir",)
)
DELETED_SEGMENTS = _row(
    "odradek_log_retention_deleted_segments",
    Kind.COUNTER,
    "Segments that retention let go, by the reason: log_start, size or time",
    ("reason",),
)
DELETED_BYTES = _row(
    "odradek_log_retention_deleted_bytes",
    Kind.COUNTER,
    "Bytes of batches in segments that retention let go, by the reason",
    ("reason",),
)
RETENTION_SECONDS = _row(
    "odradek_log_retention_run_seconds", Kind.GAUGE, "Time taken by the last retention pass over all logs"
)
CLEANER_RUNNING = _row("odradek_log_cleaner_running", Kind.GAUGE, "Cleanings under way")
CLEANING_READ_BYTES = _row(
    "odradek_log_cleaning_read_bytes",
    Kind.GAUGE,
    "Bytes that a cleaning under way has read, for its map and for copying",
    ("topic", "partition"),
)
CLEANING_LEFT_BYTES = _row(
    "odradek_log_cleaning_left_bytes",
    Kind.GAUGE,
    "Bytes that a cleaning under way has still to read",
    ("topic", "partition"),
)
CLEANER_WAITING = _row("odradek_log_cleaner_waiting", Kind.GAUGE, "Logs that need cleaning and wait for their turn")
CLEANER_OLDEST_WAITING = _row(
    "odradek_log_cleaner_oldest_waiting_seconds", Kind.GAUGE, "How long the first of the waiting logs waits"
)
CLEANER_PASSES = _row("odradek_log_cleaner_passes", Kind.COUNTER, "Cleanings that were completed")
CLEANER_FAILURES = _row("odradek_log_cleaner_failures", Kind.COUNTER, "Cleanings that failed")
CLEANER_ABORTED = _row(
    "odradek_log_cleaner_aborted", Kind.COUNTER, "Cleanings given up because the log or its policy changed"
)
CLEANER_READ_BYTES = _row("odradek_log_cleaner_read_bytes", Kind.COUNTER, "Bytes read by completed cleanings")
CLEANER_WRITTEN_BYTES = _row("odradek_log_cleaner_written_bytes", Kind.COUNTER, "Bytes written by completed cleanings")
CLEANER_REMOVED_RECORDS = _row(
    "odradek_log_cleaner_removed_records", Kind.COUNTER, "Records that completed cleanings left out"
)
CLEANER_SECONDS = _row("odradek_log_cleaner_seconds", Kind.COUNTER, "Time that completed cleanings took")
MOVES_RUNNING = _row("odradek_log_dir_moves_running", Kind.GAUGE, "Moves between log directories under way")
MOVES_COMPLETED = _row("odradek_log_dir_moves_completed", Kind.COUNTER, "Moves that came to their end")
MOVES_COPIED_BYTES = _row("odradek_log_dir_moves_copied_bytes", Kind.COUNTER, "Bytes copied by moves")
MOVES_LIMIT = _row(
    "odradek_log_dir_moves_limit_bytes_per_second",
    Kind.GAUGE,
    "What all moves together may copy in a second; 9223372036854775807 is no limit",
)
_MOVE_LABELS = ("topic", "partition", "from", "to")
MOVE_DONE_BYTES = _row("odradek_log_dir_move_done_bytes", Kind.GAUGE, "Bytes that the copy holds", _MOVE_LABELS)
MOVE_LEFT_BYTES = _row("odradek_log_dir_move_left_bytes", Kind.GAUGE, "Bytes that are still to be copied", _MOVE_LABELS)
MOVE_LAG = _row("odradek_log_dir_move_lag", Kind.GAUGE, "Offsets that the copy is behind", _MOVE_LABELS)
MOVE_RATE = _row("odradek_log_dir_move_bytes_per_second", Kind.GAUGE, "Bytes copied a second, lately", _MOVE_LABELS)
MOVE_LEFT_SECONDS = _row(
    "odradek_log_dir_move_left_seconds",
    Kind.GAUGE,
    "How long the move will take at this rate; absent while it stands still",
    _MOVE_LABELS,
)
CLIENT_METRIC = _row(
    "odradek_client_metric",
    Kind.GAUGE,
    "The last number that a client has pushed of a metric, sums added up; at most 2000 series",
    ("client_instance_id", "client_id", "metric", "attributes"),
)
CLIENT_METRICS_CLIENTS = _row("odradek_client_metrics_clients", Kind.GAUGE, "Clients whose metrics are kept")
CLIENT_METRICS_PUSHES = _row("odradek_client_metrics_pushes", Kind.COUNTER, "Pushes of metrics by clients")
CLIENT_METRICS_DROPPED = _row(
    "odradek_client_metrics_dropped", Kind.COUNTER, "Numbers pushed by clients that found no place within the bounds"
)
_QUOTA_LABELS = ("kind", "user", "client_id")
QUOTA_LEVEL = _row(
    "odradek_quota_level",
    Kind.GAUGE,
    "What those who share a quota do a second, in bytes or percent of the broker's time; of cluster changes, the "
    "partitions they may still change. Of each kind the 200 throttled most",
    _QUOTA_LABELS,
)
QUOTA_LIMIT = _row("odradek_quota_limit", Kind.GAUGE, "The quota that holds for them", _QUOTA_LABELS)
QUOTA_THROTTLED = _row("odradek_quota_throttled", Kind.COUNTER, "Their requests that were throttled", _QUOTA_LABELS)
QUOTA_THROTTLE_SECONDS = _row(
    "odradek_quota_throttle_seconds", Kind.COUNTER, "The time that these had to wait", _QUOTA_LABELS
)
QUOTA_USES = _row(
    "odradek_quota_uses", Kind.GAUGE, "Users, client ids and pairs whose use of a quota is measured", ("kind",)
)
CONNECTION_THROTTLE_SECONDS = _row(
    "odradek_connection_throttle_seconds",
    Kind.COUNTER,
    "The time that new connections had to wait, or were kept before they were sent away, by whose rate it was",
    ("listener", "cause"),
)

SCRAPE_SECONDS = _row(
    "odradek_metrics_scrape_seconds", Kind.HISTOGRAM, "Time from a scrape's beginning until its text was there"
)
SCRAPE_BUSY_SECONDS = _row(
    "odradek_metrics_scrape_busy_seconds", Kind.COUNTER, "Time that scrapes have taken from the event loop"
)
SCRAPE_LONGEST_SLICE_SECONDS = _row(
    "odradek_metrics_scrape_longest_slice_seconds",
    Kind.GAUGE,
    "How long the last scrape kept the event loop at a stretch, at most",
)
REQUEST_SECONDS = _row(
    "odradek_network_request_seconds",
    Kind.HISTOGRAM,
    "Time from a complete request to its response, waiting included",
    ("request",),
)
REQUEST_BYTES = _row("odradek_network_request_bytes", Kind.COUNTER, "Bytes of requests received", ("request",))
REQUEST_FAILURES = _row(
    "odradek_network_failed_requests", Kind.COUNTER, "Requests that ended with a closed connection", ("request",)
)
REQUEST_MALFORMED = _row(
    "odradek_network_malformed_requests", Kind.COUNTER, "Requests that could not be decoded", ("request",)
)
FLUSH_SECONDS = _row(
    "odradek_log_flush_seconds",
    Kind.HISTOGRAM,
    "Time a flush of a log took in its thread: batches, indexes and names",
)
VERIFICATION_SECONDS = _row(
    "odradek_transaction_verification_seconds",
    Kind.HISTOGRAM,
    "Time until it was known whether partitions are part of a transaction",
)
VERIFICATION_FAILURES = _row(
    "odradek_transaction_verification_failures",
    Kind.COUNTER,
    "Partitions that were refused as parts of a transaction",
)
REQUEST_WAIT_SECONDS = _row(
    "odradek_network_request_wait_seconds",
    Kind.HISTOGRAM,
    "Time that requests waited for data, a flush or other members, of those that had to",
    ("request",),
)
NETWORK_ERRORS = _row(
    "odradek_network_errors",
    Kind.COUNTER,
    "Error codes told to clients, by API and code; a response may tell many",
    ("request", "error"),
)
WAITING_REQUESTS = _row("odradek_network_waiting_requests", Kind.GAUGE, "Requests that wait now", ("request",))
RECEIVED_BYTES_HELD = _row(
    "odradek_network_received_bytes_held",
    Kind.GAUGE,
    "Bytes of requests that have come behind one that waits, or are not whole yet",
)
RECEIVE_BUFFER_BYTES = _row(
    "odradek_network_receive_buffer_bytes", Kind.GAUGE, "Bytes of the buffers in which large requests are received now"
)
UNSENT_BYTES = _row(
    "odradek_network_unsent_bytes", Kind.GAUGE, "Bytes of answers that sockets have not taken yet, files included"
)
BUILD_INFO = _row(
    "odradek_build_info",
    Kind.GAUGE,
    "1, with the version, whether the hot modules run compiled or pure, and the Python",
    ("version", "form", "python"),
)
LOOP_LAG = _row(
    "odradek_event_loop_lag_seconds", Kind.HISTOGRAM, "How late a timer of the event loop was, ten times a second"
)
LOOP_BUSY = _row(
    "odradek_event_loop_busy_ratio",
    Kind.GAUGE,
    "The part of the last minute that the event loop's thread has computed",
)
MEMORY_LIMIT = _row(
    "odradek_memory_limit_bytes", Kind.GAUGE, "What the process may use: its control group's limit, or the machine's"
)
PAGE_CACHE_BUDGET = _row(
    "odradek_log_page_cache_budget_bytes",
    Kind.GAUGE,
    "What logs without a budget of their own may keep in the page cache; -1 is no limit",
)
