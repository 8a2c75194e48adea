"""Is the metadata log whole? Asked before recovery, which would cut it at the first bad byte.

Every command is on disk before it is answered, so a crash can tear only what nobody was told of: the end of the log.
Bad bytes with a good batch behind them, or a log that is gone while its epoch was not its first, are lost or damaged
metadata. Going on from there would forget topics and take their logs for strays; an operator has to decide.
"""

from __future__ import annotations

import os.path

from broker.metadata.errors import CorruptMetadata
from broker.metadata.quorum_state import QuorumState, read_quorum_state
from broker.metadata.snapshot import list_snapshots
from protocol.records.batch import HEADER_SIZE, MAGIC_V2, check_crc, parse_header
from protocol.records.errors import RecordsError
from storage.env.fs import File, FileSystem
from storage.segment.names import LOG_SUFFIX, parse_segment_file

_MAGIC_AT = 16
_SEARCHED_BYTES = 64 * 1024 * 1024
"""How far behind the damage a good batch is looked for: more than a crash could leave unanswered by far."""


def ensure_whole(fs: FileSystem, directory: str) -> bool:
    """Check the log in its partition directory, before it is opened, and tell whether it or a snapshot says anything.

    Raises: CorruptMetadata. Blocking: reads it.
    """
    segments = _segments(fs, directory)
    has_batches = False
    for name in segments:
        path = os.path.join(directory, name)
        file = fs.open(path, writable=False)
        try:
            end, size = _end_of_good_batches(file), file.size()
            has_batches = has_batches or end > 0
            if end < size and (name != segments[-1] or _has_good_batch(file, end + 1)):
                raise CorruptMetadata(
                    f"{path} is damaged at byte {end}, before records that were committed; "
                    "put back a copy of it or of the whole directory"
                )
        finally:
            file.close()
    if has_batches or any(snapshot.end_offset for snapshot in list_snapshots(fs, directory)):
        return True
    state = read_quorum_state(fs, directory)
    if state is not None and state.leader_epoch > 1:
        raise _lost(directory, state)
    return False


def ensure_not_lost(fs: FileSystem, directory: str, *, has_logs: bool) -> None:
    """Check that an empty log is a new one: before its first epoch there were no topics whose logs could be here.

    Going on would take every log for a stray, where all that is missing may be a mount. Raises: CorruptMetadata.
    Blocking: disk.
    """
    if not has_logs:
        return
    state = read_quorum_state(fs, directory)
    if state is not None:
        raise _lost(directory, state)
    raise CorruptMetadata(
        f"{directory} is new and knows of no topic, but log.dirs hold logs of partitions: "
        "mount or put back the directory with their metadata, or take these logs away"
    )


def _lost(directory: str, state: QuorumState) -> CorruptMetadata:
    return CorruptMetadata(
        f"{directory} holds no records, but its quorum-state is of epoch {state.leader_epoch}; put the log back"
    )


def _segments(fs: FileSystem, directory: str) -> list[str]:
    found = []
    for entry in fs.list_dir(directory):
        parsed = parse_segment_file(entry.name)
        if parsed is not None and parsed.kind == LOG_SUFFIX and not parsed.marker:
            found.append(entry.name)
    return sorted(found)


def _end_of_good_batches(file: File) -> int:
    position, size = 0, file.size()
    while position < size:
        batch_size = _size_of_batch(file.read_at(HEADER_SIZE, position))
        if not batch_size or not _is_good(file.read_at(batch_size, position), batch_size):
            break
        position += batch_size
    return position


def _has_good_batch(file: File, start: int) -> bool:
    """Look for a whole batch anywhere behind the damage; only a damaged log pays for this."""
    data = file.read_at(_SEARCHED_BYTES, start)
    found = data.find(MAGIC_V2, _MAGIC_AT)
    while found >= 0:
        position = found - _MAGIC_AT
        size = _size_of_batch(data[position : position + HEADER_SIZE])
        if size and _is_good(data[position : position + size], size):
            return True
        found = data.find(MAGIC_V2, found + 1)
    return False


def _size_of_batch(header: bytes) -> int:
    """Give the size the header of a batch announces, 0 when it is none."""
    try:
        return parse_header(header).size_bytes if len(header) == HEADER_SIZE else 0
    except RecordsError:
        return 0


def _is_good(batch: bytes, size: int) -> bool:
    return len(batch) == size and check_crc(batch, 0, parse_header(batch))
