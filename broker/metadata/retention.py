"""What of the metadata log may go: pure.

Snapshots go from the oldest on, never the newest. With each one the log begins anew at the end of the next, so whole
segments below that go as well; what is left can always be rebuilt from the oldest snapshot on. The bounds are those of
`metadata.max.retention.*`: log and snapshots together over the bytes, or the oldest snapshot's last record over the
age. A negative bound is none.

Source: KafkaMetadataLog.cleanSnapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.metadata.snapshot import SnapshotId


class SnapshotFile(NamedTuple):
    """A finished snapshot on disk."""

    id: SnapshotId
    size_bytes: int
    last_timestamp_ms: int
    """Of the last record it covers."""


class MetadataRetention(NamedTuple):
    """How much of the past is kept."""

    max_bytes: int
    max_ms: int


KEEP_EVERYTHING = MetadataRetention(max_bytes=-1, max_ms=-1)


def reason_to_go(
    snapshots: Sequence[SnapshotFile], rules: MetadataRetention, *, log_size_bytes: int, now_ms: int
) -> str | None:
    """Say why the first of the snapshots, given oldest first, must go; None when it may stay."""
    if len(snapshots) < 2:
        return None
    size_bytes = log_size_bytes + sum(snapshot.size_bytes for snapshot in snapshots)
    if 0 <= rules.max_bytes < size_bytes:
        return f"size {size_bytes} is over metadata.max.retention.bytes={rules.max_bytes}"
    age_ms = now_ms - snapshots[0].last_timestamp_ms
    if 0 <= rules.max_ms < age_ms:
        return f"age {age_ms} is over metadata.max.retention.ms={rules.max_ms}"
    return None
