"""The `quorum-state` file: which epoch the quorum is in and who leads it.

One line of JSON with Kafka's field names and order. It is made durable before the first record of a new epoch is
written, so that an epoch number is never used twice. Source: FileQuorumStateStore, QuorumStateData.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from broker.metadata.errors import CorruptMetadata
from protocol.uuids import ZERO_UUID, format_uuid
from storage.env.fs import FileSystem
from storage.segment.names import QUORUM_STATE

DATA_VERSION = 1


class QuorumState(NamedTuple):
    """The last epoch this node knows of, and its leader (-1 when unknown)."""

    leader_id: int
    leader_epoch: int


MAX_EPOCH = 2**31 - 1


def read_quorum_state(fs: FileSystem, directory: str) -> QuorumState | None:
    """Return the stored state, or None on a fresh directory. Raises CorruptMetadata."""
    path = f"{directory}/{QUORUM_STATE}"
    try:
        content = fs.read_file(path)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(content)
        state = QuorumState(int(fields["leaderId"]), int(fields["leaderEpoch"]))
        if not 0 <= state.leader_epoch < MAX_EPOCH:
            raise ValueError(f"leaderEpoch {state.leader_epoch} is not between 0 and {MAX_EPOCH - 1}")
        return state
    except (ValueError, KeyError, TypeError) as malformed:
        raise CorruptMetadata(f"{path} is not a quorum state: {malformed}") from malformed


def write_quorum_state(fs: FileSystem, directory: str, state: QuorumState) -> None:
    """Replace the stored state atomically. Blocking: disk."""
    fields = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": -1,
        "votedDirectoryId": format_uuid(ZERO_UUID),
        "data_version": DATA_VERSION,
    }
    path = f"{directory}/{QUORUM_STATE}"
    fs.write_file(path + ".tmp", json.dumps(fields, separators=(",", ":")).encode())
    fs.rename(path + ".tmp", path)
    fs.sync_dir(directory)
