"""The topic id of a log: in a small file of its directory, which logs of brokers that had no ids lack."""

from __future__ import annotations

import logging
import os.path

from storage.checkpoints.partition_metadata import read_partition_metadata, write_partition_metadata
from storage.errors import CorruptCheckpoint, InconsistentTopicId
from storage.log.state import LogState
from storage.segment.names import PARTITION_METADATA

logger = logging.getLogger(__name__)


def settle_topic_id(state: LogState, topic_id: bytes | None) -> bytes | None:
    """Read the topic id of the directory, or give it the one expected. Raises: InconsistentTopicId, OSError."""
    try:
        found = read_partition_metadata(state.fs, state.path)
    except CorruptCheckpoint as error:
        logger.warning("ignoring a damaged file path=%s reason=%s", error.path, error.reason)
        found = None
    if found is None and topic_id is not None:
        write_topic_id(state, topic_id)
    elif found is not None and topic_id is not None and found != topic_id:
        raise InconsistentTopicId(state.path, topic_id, found)
    return found or topic_id


def write_topic_id(state: LogState, topic_id: bytes) -> None:
    """Write the file; the next flush makes it durable. Raises: OSError."""
    write_partition_metadata(state.fs, state.path, topic_id)
    state.unsynced_files.append(os.path.join(state.path, PARTITION_METADATA))
    state.has_new_names = True
