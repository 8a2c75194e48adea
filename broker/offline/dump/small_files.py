"""What else lies in a log directory: producer snapshots, checkpoints, properties. One line an entry."""

from __future__ import annotations

import json
import os.path
from collections.abc import Mapping
from typing import Any

from broker.offline.dump.printer import OptionalLong, Printer
from protocol.records.batch import MAX_SEQUENCE
from protocol.uuids import format_uuid
from storage.checkpoints.leader_epochs import read_leader_epochs
from storage.checkpoints.meta_properties import read_meta_properties
from storage.checkpoints.offsets import read_offsets
from storage.checkpoints.partition_metadata import read_partition_metadata
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint, CorruptSnapshot
from storage.producers.snapshot import decode_snapshot
from storage.segment.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_CHECKPOINT,
)

OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
_JSON_FILES = (QUORUM_STATE, CLEAN_SHUTDOWN_FILE)
NAMES = (*OFFSET_CHECKPOINTS, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, META_PROPERTIES, *_JSON_FILES)


def show_producers(fs: FileSystem, printer: Printer, path: str) -> bool:
    """Show a producer snapshot; a damaged one is told of on standard error, as Kafka's tool does. Raises: OSError."""
    try:
        entries = decode_snapshot(fs.read_file(path))
    except CorruptSnapshot as error:
        printer.complain(f"{path}: {error}")
        return True
    for entry in entries:
        first_offset = entry.current_txn_first_offset
        fields: dict[str, Any] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": OptionalLong(None if first_offset < 0 else first_offset),
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            batch = entry.batches[-1]
            first = -1 if batch.last_sequence < 0 else (batch.last_sequence - batch.offset_delta) & MAX_SEQUENCE
            fields |= {
                "firstSequence": first,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        printer.entry(fields)
    return True


def show_small_file(fs: FileSystem, printer: Printer, path: str) -> bool:
    """Show a checkpoint or a file of properties; False when it is malformed. Raises: OSError."""
    try:
        for fields in _entries(fs, path):
            printer.entry(fields)
    except (CorruptCheckpoint, ValueError) as error:
        printer.complain(str(error) if isinstance(error, CorruptCheckpoint) else f"{path}: {error}")
        return False
    return True


def _entries(fs: FileSystem, path: str) -> list[Mapping[str, Any]]:
    directory, name = os.path.split(path)
    if name in OFFSET_CHECKPOINTS:
        return [
            {"topic": tp.topic, "partition": tp.partition, "offset": offset}
            for tp, offset in read_offsets(fs, path).items()
        ]
    if name == LEADER_EPOCH_CHECKPOINT:
        return [{"epoch": epoch, "startOffset": offset} for epoch, offset in read_leader_epochs(fs, path)]
    if name == PARTITION_METADATA:
        topic_id = read_partition_metadata(fs, directory)
        return [] if topic_id is None else [{"topicId": format_uuid(topic_id)}]
    if name == META_PROPERTIES:
        found = read_meta_properties(fs, directory)
        if found is None:
            return []
        directory_id = None if found.directory_id is None else format_uuid(found.directory_id)
        return [{"clusterId": found.cluster_id, "nodeId": found.node_id, "directoryId": directory_id}]
    content = json.loads(fs.read_file(path))
    if not isinstance(content, dict):
        raise ValueError("is no JSON object")
    return [content]
