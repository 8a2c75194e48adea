"""ClusterLog: the single-voter `__cluster_metadata-0`, with its quorum state and snapshots.

The log is a Kafka partition log; what makes it a quorum's log are a control batch with the leader change at the start
of each epoch, the quorum's version and voters after the first one, and the `quorum-state` file. One voter elects
itself: beginning an epoch is raising the number, durably, and writing the leader change. A record counts as committed
once it is on disk.

Starting an epoch, in this order:
1. `quorum-state` with the new epoch, synced; else a crash could write two different histories under one epoch.
2. the leader change batch, which opens the epoch in the log.

Source: KafkaRaftClient, LeaderState.appendLeaderChangeMessage, KafkaMetadataLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller.features import (
    KRAFT_VERSION_LEVEL,
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
    bootstrap_records,
)
from broker.metadata.errors import CorruptMetadata, ForeignQuorum, PolicyViolation
from broker.metadata.framing import control_batch, data_batch, iter_cluster_batches
from broker.metadata.image import ClusterImage
from broker.metadata.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from broker.metadata.retention import SnapshotFile
from broker.metadata.snapshot import (
    BOOTSTRAP_FILE,
    PART_SUFFIX,
    SUFFIX,
    QuorumRecords,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    image_records,
    last_contained_timestamp,
    list_snapshots,
    write_snapshot,
)
from protocol.records.batch import BatchHeader
from protocol.records.errors import RecordsError
from protocol.stored.cluster import FeatureLevelRecord
from protocol.stored.raft import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    VotersRecord,
    VotersVoter,
)
from storage.env.clock import Clock, monotonic_ms
from storage.env.fs import FileSystem
from storage.errors import StorageFailure
from storage.log.deletions import unlink_files
from storage.log.flush import FlushPlan
from storage.log.partition_log import PartitionLog
from storage.log.removal import Removal
from storage.types import AppendOrigin

logger = logging.getLogger(__name__)

READ_BYTES = 1024 * 1024
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""What a Kafka quorum allows one batch, hence one command."""
SNAPSHOT_HEADER_BYTES = 64 * 1024
"""Holds the first batch of a snapshot, the quorum's voters included."""


class Voter(NamedTuple):
    """This node as a member of the quorum."""

    node_id: int
    directory_id: bytes
    listener_name: str = "CONTROLLER"
    host: str = "127.0.0.1"
    port: int = 9093
    """Where a controller listener would be; a Kafka node that takes the directory over listens there."""


class ClusterLog:
    """Append, commit, replay and snapshot of the metadata log. Synchronous; the caller picks threads."""

    def __init__(self, fs: FileSystem, clock: Clock, log: PartitionLog, voter: Voter, cluster_id: str) -> None:
        self._fs = fs
        self._clock = clock
        self._log = log
        self._voter = voter
        self._cluster_id = cluster_id
        self._directory = log.path
        # Changed by load and begin_epoch.
        self.epoch = 0
        self._quorum = QuorumRecords(0, None)
        # Changed by every append and snapshot.
        self._level = METADATA_VERSION_LEVEL
        self.records_since_snapshot = 0
        self.bytes_since_snapshot = 0

    @property
    def voter(self) -> Voter:
        """Return the quorum's only member."""
        return self._voter

    @property
    def end_offset(self) -> int:
        """Return the offset of the next record."""
        return self._log.log_end_offset

    def load(self) -> tuple[ClusterImage, bool]:
        """Return the image at the end of the log, and whether an unfinished transaction must be aborted.

        Raises: CorruptMetadata, ForeignQuorum. Blocking: disk.
        """
        base, self._quorum = self._newest_snapshot()
        if base.end_offset > self._log.log_end_offset:
            # The log was lost or cut below its snapshot: everything committed is in the snapshot.
            self._log.truncate_fully_and_start_at(base.end_offset)
        if base.end_offset < self._log.log_start_offset:
            raise CorruptMetadata(
                f"{self._directory} starts at offset {self._log.log_start_offset}, above its snapshot's end "
                f"{base.end_offset}"
            )
        draft = MetadataDraft(base)
        epoch, timestamp_ms = base.epoch, base.last_timestamp_ms
        for header, messages in self._batches_from(base.end_offset):
            epoch, timestamp_ms = header.partition_leader_epoch, header.max_timestamp
            self.bytes_since_snapshot += header.size_bytes
            self.records_since_snapshot += header.record_count
            for offset, message in messages:
                if header.is_control:
                    self._replay_control(message)
                elif offset >= base.end_offset:
                    draft.replay(message, offset)
        unfinished = draft.transaction_start_offset >= 0
        image, _ = draft.finish(end_offset=self._log.log_end_offset, epoch=epoch, timestamp_ms=timestamp_ms)
        self._ensure_sole_voter()
        self._level = image.features.get(METADATA_VERSION, METADATA_VERSION_LEVEL)
        self.epoch = epoch
        return image, unfinished

    def begin_epoch(self) -> int:
        """Become leader of the next epoch and return its number. Blocking: disk."""
        stored = read_quorum_state(self._fs, self._directory)
        epoch = max(self.epoch, -1 if stored is None else stored.leader_epoch) + 1
        write_quorum_state(self._fs, self._directory, QuorumState(self._voter.node_id, epoch))
        self.epoch = epoch
        # The record is written at its first version, as the reference does: directory ids stay out of it.
        voter = LeaderChangeVoter(voter_id=self._voter.node_id)
        messages: list[LeaderChangeMessage | KRaftVersionRecord | VotersRecord] = [
            LeaderChangeMessage(leader_id=self._voter.node_id, voters=[voter], granting_voters=[voter])
        ]
        messages.extend(self._changed_quorum())
        now_ms = self._clock.now_ms()
        self._append(control_batch(messages, base_offset=self._log.log_end_offset, epoch=epoch, timestamp_ms=now_ms))
        return epoch

    @property
    def kraft_version(self) -> int:
        """Return the quorum's own version."""
        return self._quorum.kraft_version

    def append(self, records: Sequence[object]) -> int:
        """Write records as one batch, all or none, and return the offset of the first.

        Raises: PolicyViolation when the batch would be larger than readers accept, StorageError.
        """
        base_offset = self._log.log_end_offset
        batch = data_batch(
            records,
            level=self._level,
            base_offset=base_offset,
            epoch=self.epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        if len(batch) > MAX_BATCH_BYTES:
            raise PolicyViolation("Unable to perform excessively large batch operation.")
        self._append(batch)
        self.records_since_snapshot += len(records)
        for record in records:
            if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
                self._level = record.feature_level  # readers switch behind this record, so the next batch is in it
        return base_offset

    def flush_plan(self) -> FlushPlan | None:
        """Return the sync that makes everything appended so far durable, or None when nothing is due."""
        return self._log.durability.flush_plan()

    def committed(self, plan: FlushPlan | None, end_offset: int) -> None:
        """Note that everything below `end_offset` is on disk after `plan` ran."""
        if plan is not None:
            self._log.durability.flushed(plan)
        self._log.advance_high_watermark(end_offset)

    def commit_failed(self, plan: FlushPlan) -> None:
        """Give back a plan whose run failed."""
        self._log.durability.flush_failed(plan)

    def snapshot(self, image: ClusterImage) -> None:
        """Write a snapshot of a committed image. Touches no log state: may run in a thread. Blocking: cpu, disk.

        Raises: StorageFailure.
        """
        content = encode_snapshot(
            image_records(image),
            level=image.features.get(METADATA_VERSION, METADATA_VERSION_LEVEL),
            epoch=image.epoch,
            last_timestamp_ms=image.last_timestamp_ms,
            now_ms=self._clock.now_ms(),
            quorum=self._quorum,
        )
        with self._on_disk("write a snapshot in"):
            write_snapshot(self._fs, self._directory, SnapshotId(image.end_offset, image.epoch).file_name, content)

    def snapshot_written(self, image: ClusterImage) -> None:
        """Count from the new snapshot on."""
        self.records_since_snapshot = self._log.log_end_offset - image.end_offset
        self.bytes_since_snapshot = 0

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the log's segments."""
        return self._log.size_bytes

    def snapshot_files(self) -> list[SnapshotFile]:
        """Return the snapshots that can be told apart, oldest first. Touches no log state. Blocking: disk.

        Raises: StorageFailure.
        """
        files = []
        with self._on_disk("list the snapshots in"):
            snapshots = list_snapshots(self._fs, self._directory)
        for snapshot_id in reversed(snapshots):
            path = self._path_of(snapshot_id)
            with self._on_disk("read a snapshot in"):
                file = self._fs.open(path, writable=False)
                try:
                    size_bytes, head = file.size(), file.read_at(SNAPSHOT_HEADER_BYTES, 0)
                finally:
                    file.close()
            try:
                files.append(SnapshotFile(snapshot_id, size_bytes, last_contained_timestamp(head)))
            except (CorruptMetadata, RecordsError) as corrupt:
                logger.warning("snapshot passed over path=%s reason=%s", path, corrupt)
        return files

    def remove_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Remove a snapshot that a newer one makes superfluous. Raises: StorageFailure. Blocking: disk."""
        with self._on_disk("remove a snapshot in"):
            self._fs.unlink(self._path_of(snapshot_id))

    def start_at(self, snapshot_id: SnapshotId) -> None:
        """Begin the log at the end of a snapshot; what lies below leaves through `let_go`."""
        self._log.increment_log_start_offset(snapshot_id.end_offset)

    def let_go(self) -> Removal | None:
        """Detach segments wholly below the log start, None when there are none; see PartitionLog.retain."""
        return self._log.retain(self._clock.now_ms())

    def removed(self, removal: Removal) -> None:
        """Note that a removal's files have their new names; they are unlinked later."""
        self._log.removed(removal)

    def take_due_deletions(self) -> Callable[[], None] | None:
        """Take out the removed segments' files that are due: a call that unlinks them, or None."""
        paths = self._log.deletions.take_due(monotonic_ms(self._clock))
        return partial(unlink_files, self._fs, paths) if paths else None

    def close(self) -> None:
        """Flush and close the log. Blocking: disk."""
        self._log.close()

    def fail(self) -> None:
        """Let go of the files of a log that can no longer be trusted; nothing is written."""
        self._log.fail()

    def _append(self, batch: bytearray) -> None:
        self._log.append(batch, leader_epoch=self.epoch, origin=AppendOrigin.RAFT)
        self.bytes_since_snapshot += len(batch)

    @contextmanager
    def _on_disk(self, doing: str) -> Iterator[None]:
        """Let what the disk does wrong leave as a failure of the directory."""
        try:
            yield
        except OSError as error:
            raise StorageFailure(f"cannot {doing} {self._directory}: {error}", self._directory) from error

    def _path_of(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_id.file_name}"

    def _newest_snapshot(self) -> tuple[ClusterImage, QuorumRecords]:
        for entry in self._fs.list_dir(self._directory):
            if entry.name.endswith(SUFFIX + PART_SUFFIX):
                self._fs.unlink(f"{self._directory}/{entry.name}")
        for snapshot_id in list_snapshots(self._fs, self._directory):
            content = self._fs.read_file(self._path_of(snapshot_id))
            try:
                return decode_snapshot(content, snapshot_id, self._cluster_id)
            except CorruptMetadata as corrupt:
                logger.warning("snapshot skipped dir=%s reason=%s", self._directory, corrupt)
        if self._log.log_start_offset > 0:
            raise CorruptMetadata(
                f"{self._directory} starts at offset {self._log.log_start_offset} and no snapshot covers what is below"
            )
        return ClusterImage(self._cluster_id), QuorumRecords(0, None)

    def _batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, list[tuple[int, object]]]]:
        end = self._log.log_end_offset
        while offset < end:
            region = self._log.read(offset, max_bytes=READ_BYTES, bound=end, min_one_batch=True).region
            if region is None:
                raise CorruptMetadata(f"{self._directory} ends at offset {offset}, before its end offset {end}")
            try:
                data = region.read()
            finally:
                region.release()
            for header, messages in iter_cluster_batches(data):
                yield header, messages
                offset = header.next_offset

    def _replay_control(self, message: object) -> None:
        if isinstance(message, KRaftVersionRecord):
            self._quorum = self._quorum._replace(kraft_version=message.k_raft_version)
        elif isinstance(message, VotersRecord):
            self._quorum = self._quorum._replace(voters=message)

    def _ensure_sole_voter(self) -> None:
        voters = self._quorum.voters
        if voters is not None and {voter.voter_id for voter in voters.voters} != {self._voter.node_id}:
            ids = sorted(voter.voter_id for voter in voters.voters)
            raise ForeignQuorum(
                f"{self._directory} belongs to the quorum of nodes {ids}, not to node {self._voter.node_id} alone"
            )

    def _changed_quorum(self) -> Iterator[KRaftVersionRecord | VotersRecord]:
        """Yield what the quorum must learn at this epoch: its version and voters in a new log, a new address later.

        A log from a Kafka node with static voters (version 0) stays as it is.
        """
        ours = voters_record(self._voter)
        if self._log.log_end_offset == 0:
            yield KRaftVersionRecord(k_raft_version=KRAFT_VERSION_LEVEL)
            yield ours
            self._quorum = QuorumRecords(KRAFT_VERSION_LEVEL, ours)
        elif self._quorum.kraft_version > 0 and self._quorum.voters != ours:
            yield ours
            self._quorum = self._quorum._replace(voters=ours)


def voters_record(voter: Voter) -> VotersRecord:
    """Return the quorum of one."""
    return VotersRecord(
        voters=[
            VotersVoter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[Endpoint(name=voter.listener_name, host=voter.host, port=voter.port)],
                k_raft_version_feature=KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=KRAFT_VERSION_LEVEL
                ),
            )
        ]
    )


def format_metadata_dir(fs: FileSystem, clock: Clock, log_dir: str, partition_dir: str, voter: Voter) -> None:
    """Write what `kafka-storage format --standalone` leaves in a fresh metadata directory.

    The bootstrap file in the log dir holds the first feature levels, the snapshot at offset 0 the quorum's voters; a
    Kafka node needs both before there is a log. Blocking: disk.
    """
    now_ms = clock.now_ms()
    bootstrap = encode_snapshot(
        iter(bootstrap_records()), level=METADATA_VERSION_LEVEL, epoch=0, last_timestamp_ms=0, now_ms=now_ms
    )
    fs.make_dirs(partition_dir)
    write_snapshot(fs, log_dir, BOOTSTRAP_FILE, bootstrap)
    quorum = QuorumRecords(KRAFT_VERSION_LEVEL, voters_record(voter))
    empty = encode_snapshot(
        iter(()), level=METADATA_VERSION_LEVEL, epoch=0, last_timestamp_ms=now_ms, now_ms=now_ms, quorum=quorum
    )
    write_snapshot(fs, partition_dir, SnapshotId(0, 0).file_name, empty)
