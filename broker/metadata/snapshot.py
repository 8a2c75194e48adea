"""Snapshots: image ↔ records, and the `<end offset>-<epoch>.checkpoint` files that hold them.

A file is a control batch (snapshot header, then the quorum's version and voters), batches of records that rebuild the
image, and a control batch with the snapshot footer. Offsets inside count from 0; the name says where the log goes on.
A file without its footer was never finished. Files are written beside their name (`.part`), synced, renamed.

Source: RecordsSnapshotWriter, FileRawSnapshotWriter, Snapshots (names); image/*Image.write (order of records).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from broker.metadata.access import access_records
from broker.metadata.apply import MetadataDraft
from broker.metadata.controller.brokers import broker_record
from broker.metadata.controller.features import METADATA_VERSION
from broker.metadata.controller.partitions import partition_record
from broker.metadata.errors import CorruptMetadata
from broker.metadata.framing import control_batch, data_batch, iter_cluster_batches
from broker.metadata.image import ClusterImage
from protocol.stored.cluster import (
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from protocol.stored.raft import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from storage.env.fs import FileSystem

SUFFIX = ".checkpoint"
PART_SUFFIX = ".part"
BOOTSTRAP_FILE = "bootstrap.checkpoint"

RECORDS_PER_BATCH = 1_000
"""Keeps a batch far below the 8 MiB that readers accept."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """What a snapshot covers: everything below `end_offset`, whose last record was written in `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """Return the name of the file."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


class QuorumRecords(NamedTuple):
    """The quorum's own state that every snapshot repeats."""

    kraft_version: int
    voters: VotersRecord | None


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """Return what a finished snapshot covers, or None for any other file."""
    match = _NAME.fullmatch(name)
    return None if match is None else SnapshotId(int(match[1]), int(match[2]))


def image_records(image: ClusterImage) -> Iterator[object]:
    """Yield records that rebuild `image`: `metadata.version` first, since it tells how to read the rest."""
    if METADATA_VERSION in image.features:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.features[METADATA_VERSION])
    for name, level in sorted(image.features.items()):
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield broker_record(broker)
    for topic in image.topics_by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for number, partition in enumerate(topic.partitions):
            yield partition_record(topic.topic_id, number, partition)
    for (resource_type, resource_name), values in image.configs.items():
        for key, value in sorted(values.items()):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=key, value=value)
    if image.next_producer_id >= 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from access_records(image.access)
    yield from image.retained.values()


def encode_snapshot(
    records: Iterator[object],
    *,
    level: int,
    epoch: int,
    last_timestamp_ms: int,
    now_ms: int,
    quorum: QuorumRecords | None = None,
) -> bytes:
    """Return the content of a snapshot file. Blocking: cpu, for large images."""
    header: list[SnapshotHeaderRecord | KRaftVersionRecord | VotersRecord] = [
        SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    ]
    if quorum is not None and quorum.kraft_version > 0:
        header.append(KRaftVersionRecord(k_raft_version=quorum.kraft_version))
        if quorum.voters is not None:
            header.append(quorum.voters)
    batches = [control_batch(header, base_offset=0, epoch=epoch, timestamp_ms=now_ms)]
    offset = len(header)
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        batches.append(data_batch(chunk, level=level, base_offset=offset, epoch=epoch, timestamp_ms=now_ms))
        offset += len(chunk)
    batches.append(control_batch([SnapshotFooterRecord()], base_offset=offset, epoch=epoch, timestamp_ms=now_ms))
    return b"".join(batches)


def decode_snapshot(data: bytes, snapshot_id: SnapshotId, cluster_id: str) -> tuple[ClusterImage, QuorumRecords]:
    """Return the image and quorum state of a snapshot file. Raises CorruptMetadata when it is not whole."""
    draft = MetadataDraft(ClusterImage(cluster_id))
    timestamp_ms = -1
    quorum = QuorumRecords(0, None)
    finished = False
    for _, messages in iter_cluster_batches(data):
        for offset, message in messages:
            match message:
                case SnapshotHeaderRecord():
                    timestamp_ms = message.last_contained_log_timestamp
                case KRaftVersionRecord():
                    quorum = quorum._replace(kraft_version=message.k_raft_version)
                case VotersRecord():
                    quorum = quorum._replace(voters=message)
                case SnapshotFooterRecord():
                    finished = True
                case _:
                    draft.replay(message, offset)
    if not finished:
        raise CorruptMetadata(f"snapshot {snapshot_id.file_name} has no footer")
    image, _ = draft.finish(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch, timestamp_ms=timestamp_ms)
    return image, quorum


def write_snapshot(fs: FileSystem, directory: str, file_name: str, content: bytes) -> None:
    """Make a snapshot file appear whole or not at all. Blocking: disk."""
    path = f"{directory}/{file_name}"
    fs.write_file(path + PART_SUFFIX, content)
    fs.rename(path + PART_SUFFIX, path)
    fs.sync_dir(directory)


def last_contained_timestamp(data: bytes) -> int:
    """Return the timestamp of the last record that a snapshot covers; the beginning of its file is enough."""
    header = next((message for _, messages in iter_cluster_batches(data) for _, message in messages), None)
    if not isinstance(header, SnapshotHeaderRecord):
        raise CorruptMetadata("a snapshot does not begin with its header")
    return header.last_contained_log_timestamp


def list_snapshots(fs: FileSystem, directory: str) -> Sequence[SnapshotId]:
    """Return the finished snapshots in a directory, newest first."""
    found = (parse_snapshot_name(entry.name) for entry in fs.list_dir(directory))
    return sorted((snapshot for snapshot in found if snapshot is not None), reverse=True)
