"""The `meta.properties` of a log dir: which cluster, which broker, which directory.

Java properties. Version 1 has `cluster.id`, `node.id` and `directory.id`; version 0 of older clusters has `broker.id`
in place of `node.id` and no directory id; both are read, version 1 is written.
"""

from __future__ import annotations

import os.path
from typing import NamedTuple

from protocol.uuids import format_uuid, parse_uuid
from storage.checkpoints.lines import replace_file
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint
from storage.segment.names import META_PROPERTIES


class MetaProperties(NamedTuple):
    """The identity of one log dir; the directory id is None in files of older brokers."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None


def read_meta_properties(fs: FileSystem, directory: str) -> MetaProperties | None:
    """Return the identity, or None for a fresh directory. Raises: CorruptCheckpoint."""
    path = os.path.join(directory, META_PROPERTIES)
    try:
        content = fs.read_file(path)
    except FileNotFoundError:
        return None
    if not content.strip():
        return None
    try:
        fields = _parse(content.decode("latin-1"))
        node_id = fields.get("node.id", fields.get("broker.id"))
        if node_id is None:
            raise CorruptCheckpoint(path, "names no node.id")
        directory_id = fields.get("directory.id")
        return MetaProperties(fields["cluster.id"], int(node_id), parse_uuid(directory_id) if directory_id else None)
    except (ValueError, KeyError) as error:
        raise CorruptCheckpoint(path, "is malformed") from error


def write_meta_properties(fs: FileSystem, directory: str, properties: MetaProperties) -> None:
    """Atomically write version 1. Blocking: disk."""
    lines = [f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={format_uuid(properties.directory_id)}")
    lines += [f"node.id={properties.node_id}", "version=1", ""]
    replace_file(fs, os.path.join(directory, META_PROPERTIES), "\n".join(lines).encode("ascii"))


def _parse(content: str) -> dict[str, str]:
    fields = {}
    for line in content.splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            name, separator, value = text.partition("=")
            if not separator:
                name, _, value = text.partition(":")
            fields[name.strip()] = value.strip()
    return fields
