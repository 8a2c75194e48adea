"""Storage: directories, how the disk keeps up, compaction, retention and moves."""

from __future__ import annotations

from shapes import RED, YELLOW, Dashboard, Row, curves, of, per_second, quantiles, stat, table

DIRECTORIES = Row(
    "Directories",
    (
        table(
            "Log directories",
            "Each directory with its logs and the room on its file system.",
            (
                ("dir", "Directory", ""),
                ("Value #A", "Logs", "none"),
                ("Value #B", "Bytes of logs", "bytes"),
                ("Value #C", "Free", "bytes"),
                ("Value #D", "Size of the file system", "bytes"),
                ("Value #E", "Cordoned", "bool_yes_no"),
            ),
            f"sum by (dir) ({of('odradek_log_dir_logs')})",
            f"sum by (dir) ({of('odradek_log_dir_size_bytes')})",
            f"min by (dir) ({of('odradek_log_dir_usable_bytes')})",
            f"min by (dir) ({of('odradek_log_dir_total_bytes')})",
            f"max by (dir) ({of('odradek_log_dir_cordoned')})",
            width=16,
            height=6,
        ),
        stat(
            "Directories offline",
            "Directories of log.dirs that failed.",
            f"sum({of('kafka_log_logmanager_offlinelogdirectorycount')})",
            thresholds=((1, RED),),
            height=6,
        ),
        stat(
            "Uncleanable partitions",
            "Logs whose data made a cleaning fail; they are left alone.",
            f"sum({of('kafka_log_logcleanermanager_uncleanable_partitions_count')})",
            thresholds=((1, RED),),
            height=6,
        ),
        curves(
            "Free space",
            "Of the file system of each directory.",
            (f"{of('odradek_log_dir_usable_bytes')} / {of('odradek_log_dir_total_bytes')}", "{{dir}}"),
            unit="percentunit",
            max=1,
            width=12,
        ),
        curves(
            "Bytes of logs",
            "Of the segments of all logs in a directory, copies of moves included.",
            (f"sum by (dir) ({of('odradek_log_dir_size_bytes')})", "{{dir}}"),
            unit="bytes",
            width=12,
        ),
    ),
)
DISK = Row(
    "Disk",
    (
        curves(
            "Syncs",
            "How long each fdatasync and fsync of a file or folder of a directory took.",
            *quantiles("odradek_log_dir_sync_seconds", by="dir", legend="{{dir}} "),
            unit="s",
            thresholds=((0.1, YELLOW), (1, RED)),
        ),
        curves(
            "Flush",
            "How long a flush of a log took in its thread. Nothing is shown while nothing is flushed.",
            *quantiles("odradek_log_flush_seconds"),
            unit="s",
        ),
        curves(
            "Write-back",
            "How long the fdatasync behind a full write-back window took. Nothing is shown while there is none.",
            *quantiles("odradek_log_writeback_seconds"),
            unit="s",
        ),
        curves(
            "Appends that wait for the disk",
            "How long appends wait for write-backs in each second, summed over partitions.",
            (f"sum({per_second('odradek_log_writeback_wait_seconds_total')})", "waiting"),
            unit="s",
        ),
        curves(
            "Page cache",
            "Synced bytes of the logs that count towards the page cache's budget.",
            (f"sum({of('odradek_log_page_cache_bytes')})", "kept"),
            (f"sum({of('odradek_log_page_cache_budget_bytes')} >= 0)", "budget"),
            unit="bytes",
        ),
        curves(
            "Dropped from the page cache",
            "Bytes that the kernel was told to drop in a second.",
            (f"sum({per_second('odradek_log_page_cache_dropped_bytes_total')})", "dropped"),
            unit="Bps",
        ),
    ),
)
CLEANING = Row(
    "Compaction and retention",
    (
        curves(
            "Logs to clean",
            "Waiting for their turn, and under way.",
            (f"sum({of('odradek_log_cleaner_waiting')})", "waiting"),
            (f"sum({of('odradek_log_cleaner_running')})", "running"),
        ),
        curves(
            "Longest wait",
            "How long the first of the waiting logs waits.",
            (f"max({of('odradek_log_cleaner_oldest_waiting_seconds')})", "waiting"),
            unit="s",
        ),
        curves(
            "Dirty share",
            "Of the dirtiest compacted log, without those under way.",
            (f"max({of('kafka_log_logcleanermanager_max_dirty_percent')})", "dirty"),
            unit="percent",
            max=100,
        ),
        curves(
            "Cleaned",
            "Bytes read and written by cleanings in a second, as each completes.",
            (f"sum({per_second('odradek_log_cleaner_read_bytes_total')})", "read"),
            (f"sum({per_second('odradek_log_cleaner_written_bytes_total')})", "written"),
            unit="Bps",
        ),
        curves(
            "Cleanings",
            "Completed, given up because the log changed, and failed.",
            (f"sum({per_second('odradek_log_cleaner_passes_total')})", "completed"),
            (f"sum({per_second('odradek_log_cleaner_aborted_total')})", "given up"),
            (f"sum({per_second('odradek_log_cleaner_failures_total')})", "failed"),
            unit="ops",
        ),
        curves(
            "Deleted by retention",
            "Bytes in segments that retention let go, by the reason.",
            (f"sum by (reason) ({per_second('odradek_log_retention_deleted_bytes_total')})", "{{reason}}"),
            unit="Bps",
        ),
    ),
)
MOVES = Row(
    "Moves between directories and recovery",
    (
        curves(
            "Moves",
            "Under way, and those whose last attempt failed.",
            (f"sum({of('odradek_log_dir_moves_running')})", "running"),
            (f"sum({of('kafka_server_replicaalterlogdirsmanager_failedpartitionscount')})", "failing"),
        ),
        curves(
            "Copied by moves",
            "Bytes in a second.",
            (f"sum({per_second('odradek_log_dir_moves_copied_bytes_total')})", "copied"),
            unit="Bps",
        ),
        stat(
            "Last start",
            "How long loading and recovering the logs took.",
            f"max({of('odradek_log_recovery_seconds')})",
            unit="s",
            height=7,
        ),
        stat(
            "Cut off at the last start",
            "Torn and damaged bytes that recovery cut off the ends of logs.",
            f"sum({of('odradek_log_recovery_cut_bytes')})",
            unit="bytes",
            thresholds=((1, YELLOW),),
            height=7,
        ),
    ),
)
BOARD = Dashboard(
    "odradek-storage",
    "Odradek: storage",
    "Directories, how the disk keeps up, compaction, retention and moves.",
    (DIRECTORIES, DISK, CLEANING, MOVES),
)
