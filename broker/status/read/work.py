"""Background work: what runs, how far it is, what it has done since the start."""

from __future__ import annotations

from collections.abc import Iterator

from broker.metrics.instruments import Histogram
from broker.status.model import Job, MoveRow
from broker.status.parts import Parts

MAX_MOVES = 20
MAX_PASSES = 5


def read_moves(parts: Parts) -> tuple[MoveRow, ...]:
    """List the moves between directories that began first, up to a bound."""
    moves = parts.watched.moves
    now_ns = moves.now_ns()
    return tuple(
        MoveRow(
            str(move.tp),
            move.source.path,
            move.destination.path,
            move.done_bytes,
            move.left_bytes,
            move.rate(now_ns),
            move.left_seconds(now_ns),
            move.failure,
        )
        for move in sorted(moves.running(), key=lambda move: move.started_ns)[:MAX_MOVES]
    )


def read_jobs(parts: Parts) -> tuple[Job, ...]:
    """List what goes on in the background."""
    return (*_loading(parts), *_cleaner(parts), _moves(parts), _retention(parts), _flushes(parts), _writeback(parts))


def _loading(parts: Parts) -> Iterator[Job]:
    """Tell of each directory that is still loaded, and of all when they are."""
    recovery = parts.watched.recovery
    loading = recovery.directories
    for one in loading:
        if one.logs_left:
            done = one.log_count - one.logs_left
            share = one.scanned_bytes / one.bytes_to_scan if one.bytes_to_scan else done / one.log_count
            text = f"{one.log_dir.path}: {done:,} of {one.log_count:,} logs"
            yield Job("Loading logs", "running", text, min(share, 1.0))
    if loading and not any(one.logs_left for one in loading):
        scanned, cut = sum(one.scanned_bytes for one in loading), sum(one.cut_bytes for one in loading)
        text = f"{sum(one.log_count for one in loading):,} logs in {_took(recovery.seconds)}"
        text += f", {scanned:,} bytes checked" if scanned else ""
        yield Job("Loading logs", "done", text + (f", {cut:,} bytes cut off" if cut else ""))


def _cleaner(parts: Parts) -> Iterator[Job]:
    cleaner = parts.watched.cleaner
    passes = list(cleaner.running())
    for running in passes[:MAX_PASSES]:
        progress = running.progress
        share = progress.bytes_read / max(progress.bytes_to_read, 1) if progress is not None else 0.0
        yield Job("Compaction", "running", str(running.tp), min(share, 1.0))
    stats = cleaner.stats
    waiting = f"{cleaner.waiting_count:,} logs wait, " if cleaner.waiting_count else ""
    failures = f", {stats.failures:,} failed" if stats.failures else ""
    text = f"{waiting}{stats.passes:,} passes{failures}, {stats.removed_records:,} records removed"
    yield Job("Compaction", _running(len(passes)), text)


def _moves(parts: Parts) -> Job:
    moves = parts.watched.moves
    return Job("Moves", _running(len(moves.running())), f"{moves.completed_count:,} completed")


def _retention(parts: Parts) -> Job:
    retention = parts.retention
    text = f"{sum(parts.watched.storage.deleted_segments.values()):,} segments deleted"
    checked, total = retention.checked_count, retention.to_check_count
    if checked < total:
        return Job("Retention", "running", text, checked / total)
    return Job("Retention", "idle", text + (f", last run {_took(retention.last_run_seconds)}" if total else ""))


def _flushes(parts: Parts) -> Job:
    flushes = parts.watched.disk_work.flushes
    return Job("Flushes", _running(flushes.running_count), _measured(flushes.seconds))


def _writeback(parts: Parts) -> Job:
    writeback = parts.watched.disk_work.writeback
    waits = f", producers waited {writeback.waits:,} times" if writeback.waits else ""
    return Job("Write-back", _running(writeback.running_count), _measured(writeback.seconds) + waits)


def _running(count: int) -> str:
    return f"{count:,} running" if count else "idle"


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _measured(seconds: Histogram) -> str:
    count = seconds.count
    return f"{count:,} done, {1000 * seconds.total / count:.1f} ms each" if count else "none yet"
