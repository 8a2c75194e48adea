"""Who the broker is, how it is, and what is wrong, in words."""

from __future__ import annotations

from collections.abc import Iterator

import native
from broker.coordinators import Coordinators
from broker.status.model import Frame, Health, Identity, Level, Trouble
from broker.status.parts import Parts
from broker.status.samples import LATE_SECONDS
from broker.version import VERSION

MAX_NAMED = 5
"""So many of one kind are named one by one."""
RECENT_SAMPLES = 12
"""A minute."""
LITTLE_ROOM = 0.1


def read_frame(parts: Parts) -> Frame:
    """Read what every page shows."""
    logs = parts.watched.logs
    identities = (log_dir.properties for log_dir in logs.dirs)
    identity = Identity(
        parts.config.node_id,
        next((one.cluster_id for one in identities if one is not None), ""),
        VERSION,
        native.form(),
        tuple(f"{one.name}://{one.host}:{one.port}" for one in parts.watched.connections.bound()),
        parts.uptime_seconds,
        parts.clock.now_ms(),
    )
    troubles = sorted(_troubles(parts), key=lambda trouble: trouble.level is not Level.BAD)
    return Frame(identity, Health(parts.watched.phase.current, tuple(troubles)))


def _troubles(parts: Parts) -> Iterator[Trouble]:
    yield from _dirs(parts)
    yield from _partitions(parts)
    coordinators = parts.coordinators()
    if coordinators is not None:
        yield from _coordinators(coordinators)
    yield from _moves(parts)
    yield from _cleaner(parts)
    yield from _deliveries(parts)
    yield from _speed(parts)


def _dirs(parts: Parts) -> Iterator[Trouble]:
    spaces = parts.watched.dir_watch.spaces
    for log_dir in parts.watched.logs.dirs:
        if log_dir.failure is not None:
            yield Trouble(Level.BAD, f"Log directory {log_dir.path} is offline: {log_dir.failure}")
        elif log_dir in spaces:
            space = spaces[log_dir]
            share = space.usable_bytes / max(space.total_bytes, 1)
            if share < LITTLE_ROOM:
                yield Trouble(Level.WARN, f"Log directory {log_dir.path} has {share:.0%} of its room left.")


def _partitions(parts: Parts) -> Iterator[Trouble]:
    count = parts.watched.partitions.offline_count
    if count:
        whose = "its log is" if count == 1 else "their logs are"
        yield Trouble(Level.BAD, f"{_many(count, 'partition')} cannot be served: {whose} not here.")


def _coordinators(coordinators: Coordinators) -> Iterator[Trouble]:
    for coordinator, what in ((coordinators.groups, "groups"), (coordinators.transactions, "transactional ids")):
        counts = coordinator.count_partitions()
        if counts["failed"]:
            which = _many(counts["failed"], "partition")
            yield Trouble(Level.BAD, f"{which} of {coordinator.TOPIC} could not be loaded: {what} there are refused.")
        if counts["loading"]:
            which = _many(counts["loading"], "partition")
            yield Trouble(Level.WARN, f"{which} of {coordinator.TOPIC} still loading: {what} there have to wait.")


def _moves(parts: Parts) -> Iterator[Trouble]:
    failing = [move for move in parts.watched.moves.running() if move.failure]
    for move in failing[:MAX_NAMED]:
        yield Trouble(Level.WARN, f"The move of {move.tp} to {move.destination.path} is held up: {move.failure}")
    yield from _rest(len(failing), "moves are held up")


def _cleaner(parts: Parts) -> Iterator[Trouble]:
    cleaner = parts.watched.cleaner
    if cleaner.is_failing:
        yield Trouble(Level.BAD, "The cleaner fails whenever it looks for logs to compact; the log says why.")
    uncleanable = list(cleaner.troubles.uncleanable)
    for one in uncleanable[:MAX_NAMED]:
        yield Trouble(Level.WARN, f"{one.log.tp} cannot be compacted: {one.reason}")
    yield from _rest(len(uncleanable), "logs cannot be compacted")


def _deliveries(parts: Parts) -> Iterator[Trouble]:
    held_up = parts.watched.deliveries.held_up
    for partition in held_up[:MAX_NAMED]:
        yield Trouble(Level.BAD, f"{partition.tp} shows no more of what is scheduled: its log cannot be read.")
    yield from _rest(len(held_up), "partitions show no more of what is scheduled")


def _speed(parts: Parts) -> Iterator[Trouble]:
    late = parts.watched.disk_work.writeback.late_count
    if late:
        yield Trouble(Level.WARN, f"The disk is late: producers of {_many(late, 'partition')} wait for it.")
    recent = list(parts.samples.ring)[-RECENT_SAMPLES:]
    if any(sample.failures for sample in recent):
        yield Trouble(Level.WARN, "Requests have failed in the last minute; the log says why.")
    late_count = sum(sample.late_count for sample in recent)
    if late_count:
        limit = f"more than {LATE_SECONDS:g} seconds"
        yield Trouble(Level.WARN, f"Clients had to wait for {limit} {_many(late_count, 'time')} in the last minute.")


def _rest(count: int, what: str) -> Iterator[Trouble]:
    if count > MAX_NAMED:
        yield Trouble(Level.WARN, f"{count - MAX_NAMED:,} more {what}.")


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
