"""Topics, partitions and log directories, as they are hosted here."""

from __future__ import annotations

import os.path
from collections import Counter

from broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from broker.runtime.turns import Turns
from broker.status.model import DirRow, Inventory, PartitionRow, TopicRow
from broker.status.parts import Parts
from broker.status.read.delivery import Schedules, held_back
from broker.status.read.groups import read_groups

_NOT_MEASURED = (None, None, None)
_NOT_SCHEDULED = (None, None)


async def read_inventory(parts: Parts) -> Inventory:
    """List all topics, groups and directories; only the directories while the broker starts."""
    coordinators = parts.coordinators()
    if coordinators is None:
        return Inventory((), (), "", _dirs(parts, None, None))
    log_counts: Counter[str] = Counter()
    log_bytes: Counter[str] = Counter()
    schedules = Schedules()
    topics = await _topics(parts, coordinators.image, log_counts, log_bytes, schedules)
    for move in parts.watched.moves.running():  # the copy lies in its directory, too
        log_counts[move.destination.path] += 1
        log_bytes[move.destination.path] += move.done_bytes
    groups, reason = await read_groups(parts)
    dirs = _dirs(parts, log_counts, log_bytes)
    return Inventory(tuple(topics), tuple(groups), reason, dirs, schedules.total(parts.watched.stats.deliveries))


async def _topics(
    parts: Parts, image: ClusterImage, log_counts: Counter[str], log_bytes: Counter[str], schedules: Schedules
) -> list[TopicRow]:
    """Add the partitions of each topic up, the logs of each directory, and what is held back."""
    rows = []
    turns = Turns(parts.clock.monotonic_ns)
    for topic in tuple(image.topics_by_name.values()):
        offline = segments = size = records = 0
        pending: int | None = None
        for number in range(len(topic.partitions)):
            await turns.next()
            partition = parts.watched.partitions.find((topic.name, number))
            if partition is None:
                offline += 1
                continue
            log = partition.log
            log_size = log.size_bytes
            log_dir = os.path.dirname(log.path)
            log_counts[log_dir] += 1
            log_bytes[log_dir] += log_size
            size += log_size
            segments += log.segment_count
            records += log.high_watermark - log.log_start_offset
            if (held := schedules.add(partition)) is not None:
                pending = (pending or 0) + held
        rows.append(
            TopicRow(
                topic.name,
                len(topic.partitions),
                offline,
                segments,
                size,
                records,
                *(parts.samples.flow(topic.name) or _NOT_MEASURED),
            )._replace(pending_count=pending)
        )
    return rows


def _dirs(parts: Parts, log_counts: Counter[str] | None, log_bytes: Counter[str] | None) -> tuple[DirRow, ...]:
    logs, spaces = parts.watched.logs, parts.watched.dir_watch.spaces
    return tuple(
        DirRow(
            log_dir.path,
            log_dir.is_online,
            log_dir.path in logs.cordoned,
            str(log_dir.failure or ""),
            log_counts[log_dir.path] if log_counts is not None and log_dir.is_online else None,
            log_bytes[log_dir.path] if log_bytes is not None and log_dir.is_online else None,
            space.total_bytes if (space := spaces.get(log_dir)) is not None else None,
            space.usable_bytes if space is not None else None,
        )
        for log_dir in logs.dirs
    )


async def read_topic(parts: Parts, name: str) -> tuple[PartitionRow, ...] | None:
    """List the partitions of a topic; None when there is no such topic."""
    coordinators = parts.coordinators()
    topic = coordinators.image.topics_by_name.get(name) if coordinators is not None else None
    if topic is None:
        return None
    turns = Turns(parts.clock.monotonic_ns)
    rows = []
    for number, placed in enumerate(topic.partitions):
        await turns.next()
        rows.append(_partition(parts, name, number, placed))
    return tuple(rows)


def _partition(parts: Parts, topic: str, number: int, placed: PartitionImage) -> PartitionRow:
    leader = None if placed.leader == NO_LEADER else placed.leader
    partition = parts.watched.partitions.find((topic, number))
    if partition is None:
        return PartitionRow(number, leader, "")
    log = partition.log
    return PartitionRow(
        number,
        leader,
        os.path.dirname(log.path),
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        log.segment_count,
        log.size_bytes,
        *(held_back(partition) or _NOT_SCHEDULED),
    )
