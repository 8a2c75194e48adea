"""Every file and directory name of a log dir, formatted and parsed in one place.

Files of a segment are named by its base offset as 20 decimal digits; a suffix after the full name tells a file that
is pending deletion (`.deleted`), being written by the cleaner (`.cleaned`) or being installed by it (`.swap`).
Directories of partitions are `<topic>-<partition>`, split at the last dash; `.<32 hex>-delete`, `-future` and `-stray`
follow for logs that are not served under their own name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from storage.types import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
MARKERS = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

META_PROPERTIES = "meta.properties"
QUORUM_STATE = "quorum-state"
LOCK_FILE = ".lock"
WRITE_PROBE = ".write-probe"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
REMOTE_INDEX_CACHE_DIR = "remote-log-index-cache"
MAX_NAME_LENGTH = 255  # of one path component on the usual file systems
MAX_TOPIC_LENGTH = 249
MAX_OFFSET = (1 << 63) - 1

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"

_SEGMENT_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.deleted|\.cleaned|\.swap)?")
_PARTITION_DIR = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9]\d{0,9})")
_SUFFIXED_DIR = re.compile(r"(.+)-(0|[1-9]\d{0,9})\.([0-9a-f]{32})(-delete|-future|-stray)")
_SHORTENED_DIR = re.compile(r"(.+)\.([0-9a-f]{32})(-delete|-stray)")


class SegmentFileName(NamedTuple):
    """A parsed file name; `marker` is "" or one of the three suffixes."""

    base_offset: int
    kind: str
    marker: str


class PartitionDirName(NamedTuple):
    """A parsed directory name; `marker` is "" for the current log, `tp` None when the topic part was shortened."""

    tp: TopicPartition | None
    marker: str


def segment_file(base_offset: int, kind: str, marker: str = "") -> str:
    """Return the name of one file of a segment."""
    return f"{base_offset:020d}{kind}{marker}"


def parse_segment_file(name: str) -> SegmentFileName | None:
    """Return the parts of a segment's file name, or None for a foreign name."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or int(match[1]) > MAX_OFFSET:
        return None
    return SegmentFileName(int(match[1]), match[2], match[3] or "")


def is_kraft_snapshot(name: str) -> bool:
    """Tell whether a name belongs to the metadata log's own snapshots, which a log never touches."""
    return ".checkpoint" in name


def partition_dir(tp: TopicPartition) -> str:
    """Return the directory name of a partition's current log."""
    return f"{tp.topic}-{tp.partition}"


def suffixed_dir(tp: TopicPartition, unique_hex: str, marker: str) -> str:
    """Return the name for a deleted, stray or future log; the topic is cut so that the name stays legal."""
    tail = f"-{tp.partition}.{unique_hex}{marker}"
    topic = tp.topic if marker == FUTURE_DIR_SUFFIX else tp.topic[: MAX_NAME_LENGTH - len(tail)]
    return topic + tail


def is_legal_topic(topic: str) -> bool:
    """Tell whether a string may name a topic."""
    return (
        0 < len(topic) <= MAX_TOPIC_LENGTH
        and topic not in (".", "..")
        and re.fullmatch(r"[a-zA-Z0-9._-]+", topic) is not None
    )


def parse_partition_dir(name: str) -> PartitionDirName | None:
    """Return the parts of a partition's directory name, or None for a foreign name."""
    if name.endswith((DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)):
        match = _SUFFIXED_DIR.fullmatch(name)
        if match is not None:
            return PartitionDirName(TopicPartition(match[1], int(match[2])), match[4])
        match = _SHORTENED_DIR.fullmatch(name)
        if match is not None:
            return PartitionDirName(None, match[3])
    match = _PARTITION_DIR.fullmatch(name)
    if match is None or not is_legal_topic(match[1]) or int(match[2]) >= 1 << 31:
        return None
    return PartitionDirName(TopicPartition(match[1], int(match[2])), "")
