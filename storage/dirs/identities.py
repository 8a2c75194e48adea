"""Which cluster and node log directories belong to: found to agree, or given to fresh ones."""

from __future__ import annotations

import os.path
from collections.abc import Sequence

from protocol.uuids import format_uuid, random_uuid
from storage.dirs.errors import InconsistentDirs
from storage.dirs.log_dir import LogDir
from storage.dirs.placement import is_real
from storage.env.clock import Rng
from storage.env.fs import FileSystem
from storage.segment.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES, QUORUM_STATE


def ensure_listed_once(fs: FileSystem, dirs: Sequence[LogDir]) -> None:
    """Check that no two paths lead to one directory. Raises: InconsistentDirs."""
    seen: dict[str, str] = {}
    for log_dir in dirs:
        canonical = fs.canonical(log_dir.path)
        if canonical in seen:
            raise InconsistentDirs(f"log directory {log_dir.path} is listed twice in log.dirs")
        seen[canonical] = log_dir.path


def settle_identities(
    fs: FileSystem, rng: Rng, dirs: Sequence[LogDir], *, node_id: int, fresh_cluster_id: str | None
) -> str:
    """Compare the identities of opened directories and complete them in memory; return the cluster id.

    When all of them are fresh, that is `fresh_cluster_id`, or a random one. Raises: InconsistentDirs. Blocking: disk.
    """
    cluster_id = None
    directory_ids = set()
    for log_dir in dirs:
        found = log_dir.properties
        if found is None:
            _ensure_fresh(fs, log_dir)
            continue
        cluster_id = cluster_id or found.cluster_id
        if found.cluster_id != cluster_id:
            raise InconsistentDirs(
                f"log directory {log_dir.path} belongs to cluster {found.cluster_id}, expected {cluster_id}"
            )
        if found.node_id != node_id:
            raise InconsistentDirs(
                f"log directory {log_dir.path} belongs to node.id {found.node_id}, configured is {node_id}"
            )
        if found.directory_id is not None and not is_real(found.directory_id):
            # The metadata use these to say that a replica has no directory, or a lost one.
            raise InconsistentDirs(f"log directory {log_dir.path} has a reserved directory.id")
        if found.directory_id is not None and found.directory_id in directory_ids:
            raise InconsistentDirs(f"log directory {log_dir.path} has the directory.id of another one")
        directory_ids.add(found.directory_id)
    cluster_id = cluster_id or fresh_cluster_id or format_uuid(random_uuid(rng.random_bytes))
    for log_dir in dirs:
        log_dir.settle_identity(cluster_id, node_id, rng)
    return cluster_id


def _ensure_fresh(fs: FileSystem, log_dir: LogDir) -> None:
    """Refuse to give a new identity to a directory whose metadata log has been in use: clients know its cluster."""
    if fs.exists(os.path.join(log_dir.path, f"{CLUSTER_METADATA_TOPIC}-0", QUORUM_STATE)):
        raise InconsistentDirs(
            f"log directory {log_dir.path} holds the metadata of a cluster, but its {META_PROPERTIES} is missing "
            "or empty; restore it"
        )
