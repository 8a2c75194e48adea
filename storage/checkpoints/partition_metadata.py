"""The `partition.metadata` of a partition: which incarnation of the topic the directory belongs to.

Two lines, `version: 0` and `topic_id: <22 characters base64url>`, no newline at the end. Topic ids are 16 raw bytes.
"""

from __future__ import annotations

import os.path

from protocol.uuids import format_uuid, parse_uuid
from storage.checkpoints.lines import TMP_SUFFIX
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint
from storage.segment.names import PARTITION_METADATA


def read_partition_metadata(fs: FileSystem, directory: str) -> bytes | None:
    """Return the topic id, or None when the file is missing or empty. Raises: CorruptCheckpoint."""
    path = os.path.join(directory, PARTITION_METADATA)
    try:
        content = fs.read_file(path)
    except FileNotFoundError:
        return None
    if not content.strip():
        return None
    try:
        lines = (line for line in content.decode("ascii").splitlines() if line.strip())
        fields = {name.strip(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        if fields["version"] != "0":
            raise CorruptCheckpoint(path, f"version {fields['version']}")
        return parse_uuid(fields["topic_id"])
    except (ValueError, KeyError) as error:
        raise CorruptCheckpoint(path, "is malformed") from error


def write_partition_metadata(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    """Atomically write the file without waiting for the disk.

    Creating a topic of many partitions must not cost a disk flush for each. The first flush of the log makes it
    durable; if a power failure comes first, the log is empty and the file missing, and both are made anew.
    """
    path = os.path.join(directory, PARTITION_METADATA)
    fs.write_file(path + TMP_SUFFIX, f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode("ascii"), sync=False)
    fs.rename(path + TMP_SUFFIX, path)
