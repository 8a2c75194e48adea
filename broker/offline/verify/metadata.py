"""The cluster's metadata as its log and newest snapshot tell it: topics, their ids, where their logs have to be."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Iterable
from typing import NamedTuple

from broker.offline.batches import BatchFile
from broker.offline.verify.context import Content
from broker.offline.verify.findings import Findings
from broker.offline.verify.records import RecordsCheck
from protocol.records.control import ControlType
from protocol.stored.cluster import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from storage.env.fs import FileSystem
from storage.segment.names import QUORUM_STATE
from storage.types import TopicPartition

_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PART_SUFFIX = ".part"
_DELETED_SUFFIX = ".deleted"
_TOPIC_CONFIG = 2
_BROKER_CONFIG = 4
_POLICY = "cleanup.policy"
_BROKER_POLICY = "log.cleanup.policy"
_COMPACT = "compact"


class Assigned(NamedTuple):
    """Which brokers have a partition, and in which of their directories it lies, in the same order."""

    replicas: list[int]
    directories: list[bytes]


class ClusterFacts:
    """What was read; empty where there is no metadata log."""

    def __init__(self) -> None:
        self.is_known = False
        self._names: dict[bytes, str] = {}
        self._partitions: dict[tuple[bytes, int], Assigned] = {}
        self._policies: dict[str, str] = {}
        self._broker_policy: str | None = None

    def replay(self, messages: Iterable[tuple[int, object]]) -> None:
        """Take records up in their order."""
        for _, message in messages:
            match message:
                case TopicRecord():
                    self._names[message.topic_id] = message.name
                case RemoveTopicRecord():
                    name = self._names.pop(message.topic_id, "")
                    self._policies.pop(name, None)
                    for key in [key for key in self._partitions if key[0] == message.topic_id]:
                        del self._partitions[key]
                case PartitionRecord():
                    place = (message.topic_id, message.partition_id)
                    self._partitions[place] = Assigned(message.replicas, message.directories)
                case PartitionChangeRecord():
                    self._change(message)
                case ConfigRecord():
                    self._configure(message)

    def _change(self, change: PartitionChangeRecord) -> None:
        place = (change.topic_id, change.partition_id)
        known = self._partitions.get(place)
        if known is not None:
            replicas = known.replicas if change.replicas is None else change.replicas
            directories = known.directories if change.directories is None else change.directories
            self._partitions[place] = Assigned(replicas, directories)

    def _configure(self, record: ConfigRecord) -> None:
        if record.resource_type == _TOPIC_CONFIG and record.name == _POLICY:
            if record.value is None:
                self._policies.pop(record.resource_name, None)
            else:
                self._policies[record.resource_name] = record.value
        elif record.resource_type == _BROKER_CONFIG and record.name == _BROKER_POLICY:
            self._broker_policy = record.value

    def topic_ids(self) -> dict[str, bytes]:
        """Return the ids of the topics that exist."""
        return {name: topic_id for topic_id, name in self._names.items()}

    def is_compacted(self, topic: str) -> bool:
        """Tell whether a topic's settings have it compacted."""
        return _COMPACT in self._policies.get(topic, self._broker_policy or "")

    def logs_in(self, node_id: int, directory_id: bytes) -> list[TopicPartition]:
        """Return the partitions whose log has to be in a directory."""
        found = []
        for (topic_id, number), assigned in self._partitions.items():
            for replica, directory in zip(assigned.replicas, assigned.directories, strict=False):
                if replica == node_id and directory == directory_id and topic_id in self._names:
                    found.append(TopicPartition(self._names[topic_id], number))
        return found


class MetadataCheck:
    """What lies beside the segments of the metadata log: snapshots, the state of the quorum."""

    def __init__(self, fs: FileSystem, directory: str, findings: Findings) -> None:
        self._fs = fs
        self._directory = directory
        self._findings = findings

    def run(self, start_offset: int) -> tuple[int, list[tuple[int, object]]]:
        """Check them; return the end offset and the records of the newest whole snapshot, 0 and none without one.

        Raises: OSError.
        """
        newest: tuple[int, list[tuple[int, object]]] = (0, [])
        for entry in self._fs.list_dir(self._directory):
            path = os.path.join(self._directory, entry.name)
            found = _SNAPSHOT.fullmatch(entry.name)
            if found is not None:
                messages = check_snapshot(self._fs, path, self._findings)
                if messages is not None:
                    newest = (int(found[1]), messages)
            elif entry.name.endswith((_PART_SUFFIX, _DELETED_SUFFIX)) and ".checkpoint" in entry.name:
                self._findings.note("leftover", path, "the work it is of was interrupted")
        if start_offset > newest[0]:
            what = f"the log begins at {start_offset}, the newest whole snapshot ends at {newest[0]}"
            self._findings.fault("metadata-snapshot", self._directory, what)
        self._check_quorum_state()
        return newest

    def _check_quorum_state(self) -> None:
        path = os.path.join(self._directory, QUORUM_STATE)
        try:
            content = json.loads(self._fs.read_file(path))
            if not isinstance(content, dict) or not isinstance(content.get("leaderEpoch"), int):
                self._findings.fault("quorum-state", path, "names no leaderEpoch")
        except FileNotFoundError:
            return
        except (ValueError, RecursionError) as error:
            self._findings.fault("quorum-state", path, f"is no JSON: {error}")


def check_snapshot(
    fs: FileSystem, path: str, findings: Findings, *, is_framed: bool = True
) -> list[tuple[int, object]] | None:
    """Check a snapshot; return its records, None if it is not whole. Raises: OSError.

    A bootstrap snapshot, which formatting writes, need not have the frame of a header and a footer.
    """
    before = len(findings.all())
    records = RecordsCheck(path, Content.METADATA, findings)
    messages: list[tuple[int, object]] = []
    file = BatchFile(fs, path)
    next_offset = 0
    for batch in file:
        if not batch.is_valid:
            findings.fault("batch-crc", path, "wrong CRC", batch.position)
            continue
        if batch.header.base_offset != next_offset:
            what = f"offset {batch.header.base_offset} where {next_offset} is next"
            findings.fault("batch-offsets", path, what, batch.position)
        next_offset = batch.header.next_offset
        records.check(batch)
        messages += records.messages
    if file.end < file.size:
        findings.fault("batch-structure", path, f"{file.damage}; {file.size - file.end} bytes cannot be read", file.end)
    elif is_framed and len(findings.all()) == before:
        kinds = [message for _, message in messages]
        if not kinds or kinds[0] is not ControlType.SNAPSHOT_HEADER:
            findings.fault("metadata-snapshot", path, "does not begin with its header")
        elif kinds[-1] is not ControlType.SNAPSHOT_FOOTER:
            findings.fault("metadata-snapshot", path, "has no footer: it was never finished")
    return messages if len(findings.all()) == before else None
