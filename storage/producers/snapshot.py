"""Producer snapshots: the state of a partition's producers at one offset, as a file named by that offset.

A snapshot only saves work: a damaged one is deleted, the next older is used, and what follows is replayed from the log.
Format: version int16 = 1, CRC-32C of every byte after it, count, then 46 bytes a producer (Kafka's ProducerSnapshot).
"""

import logging
import os.path
from collections.abc import Collection, Iterable, Sequence
from struct import Struct

from protocol.records.crc import crc32c
from storage.env.fs import FileSystem
from storage.errors import CorruptSnapshot
from storage.producers.entry import ProducerEntry, batch_before
from storage.producers.state import ProducerStateManager
from storage.segment.names import SNAPSHOT_SUFFIX, SegmentFileName, parse_segment_file, segment_file

logger = logging.getLogger(__name__)

VERSION = 1
_HEAD = Struct(">hIi")
_COVERED_FROM = 6
"""The CRC covers everything behind itself, the count included."""
_ENTRY = Struct(">qhiqiqiq")


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Encode the newest batch of each producer; older ones are not kept over a restart."""
    rows = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    covered = len(rows).to_bytes(4, "big") + b"".join(rows)
    return VERSION.to_bytes(2, "big") + crc32c(covered).to_bytes(4, "big") + covered


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Decode a snapshot file. Raises: CorruptSnapshot on a wrong version, CRC or length."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"producer snapshot has unknown version {version}")
    if crc32c(memoryview(data)[_COVERED_FROM:]) != crc:
        raise CorruptSnapshot("producer snapshot has a wrong CRC")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"producer snapshot of {count} entries has {len(data)} bytes")
    entries = []
    for row in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_offset = row
        entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, max(txn_offset, -1))
        if last_offset >= 0:
            entry.batches.append(batch_before(last_sequence, last_offset, offset_delta, timestamp))
        entries.append(entry)
    return entries


def snapshot_path(directory: str, offset: int) -> str:
    """Name the snapshot file at an offset."""
    return os.path.join(directory, segment_file(offset, SNAPSHOT_SUFFIX))


def list_snapshots(fs: FileSystem, directory: str) -> list[int]:
    """List the offsets of the snapshot files of a partition, ascending."""
    names = (parse_segment_file(entry.name) for entry in fs.list_dir(directory) if entry.is_file)
    return snapshots_among(name for name in names if name is not None)


def snapshots_among(files: Iterable[SegmentFileName]) -> list[int]:
    """Pick the offsets of the snapshots out of a partition's files, ascending."""
    return sorted(name.base_offset for name in files if name.kind == SNAPSHOT_SUFFIX and not name.marker)


def take_snapshot(fs: FileSystem, directory: str, manager: ProducerStateManager, *, sync: bool = True) -> bool:
    """Write the state at map_end_offset unless a snapshot there exists. Blocking: disk when sync."""
    offset = manager.map_end_offset
    if offset <= manager.last_snapshot_offset:
        return False
    fs.write_file(snapshot_path(directory, offset), encode_snapshot(manager.producers.values()), sync=sync)
    manager.last_snapshot_offset = offset
    return True


def truncate_and_load(
    fs: FileSystem,
    directory: str,
    manager: ProducerStateManager,
    *,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    known: Sequence[int] | None = None,
) -> int:
    """Bring the state to the newest usable snapshot within (log start, log end].

    Snapshots outside of it and damaged ones are deleted. Without any usable one the state is empty at the log start.
    known are the snapshots there are, where the directory was listed already.
    Shape: the offset from which the log must be replayed. Blocking: disk.
    """
    usable = []
    for offset in list_snapshots(fs, directory) if known is None else known:
        if log_start_offset < offset <= log_end_offset:
            usable.append(offset)
        else:
            fs.unlink(snapshot_path(directory, offset))
    for offset in reversed(usable):
        path = snapshot_path(directory, offset)
        try:
            entries = decode_snapshot(fs.read_file(path))
        except CorruptSnapshot as fault:
            logger.warning("deleting a damaged producer snapshot path=%s reason=%s", path, fault)
            fs.unlink(path)
            continue
        manager.load(entries, offset=offset, now_ms=now_ms)
        return offset
    manager.reset(log_start_offset)
    manager.last_snapshot_offset = log_start_offset
    return log_start_offset


def remove_stray_snapshots(
    fs: FileSystem, directory: str, segment_base_offsets: Collection[int], known: Sequence[int] | None = None
) -> list[int]:
    """Delete snapshots that belong to no segment, except one at the log end that a clean stop left; return the others.

    Only the newest stray one can be that, and only if no segment begins above it.
    """
    bases = set(segment_base_offsets)
    found = list_snapshots(fs, directory) if known is None else known
    strays = [offset for offset in found if offset not in bases]
    if strays and (not bases or strays[-1] > max(bases)):
        strays.pop()
    for offset in strays:
        fs.unlink(snapshot_path(directory, offset))
    return [offset for offset in found if offset not in strays]


def delete_snapshots_before(fs: FileSystem, directory: str, offset: int) -> None:
    """Delete the snapshots below an offset, after retention removed their segments."""
    for known in list_snapshots(fs, directory):
        if known < offset:
            fs.unlink(snapshot_path(directory, known))
