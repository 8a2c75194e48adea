"""Background work as it is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.status.model import Job, MoveRow
from broker.status.read.work import MAX_MOVES, read_jobs, read_moves
from tests.harness.status import StatusBed, a_move


@pytest.fixture
def bed(tmp_path: Path) -> StatusBed:
    return StatusBed(tmp_path / "a", tmp_path / "b")


def jobs(bed: StatusBed) -> dict[str, Job]:
    return {job.name: job for job in read_jobs(bed.parts)}


def test_moves_are_read_the_oldest_first_and_not_too_many(bed: StatusBed) -> None:
    one, other = (log_dir.path for log_dir in bed.hosted.logs.dirs)
    bed.moves += [a_move(bed.hosted, started_ns=age, failure=str(age)) for age in range(MAX_MOVES + 5, 0, -1)]
    rows = read_moves(bed.parts)
    assert rows[0] == MoveRow("t-0", one, other, 100, 300, 50.0, 6.0, "1")
    assert len(rows) == MAX_MOVES


def test_a_broker_at_rest_has_idle_jobs(bed: StatusBed) -> None:
    found = jobs(bed)
    assert found["Compaction"] == Job("Compaction", "idle", "0 passes, 0 records removed")
    assert found["Moves"] == Job("Moves", "idle", "2 completed")
    assert found["Retention"] == Job("Retention", "idle", "0 segments deleted")
    assert found["Flushes"] == Job("Flushes", "idle", "none yet")
    assert found["Write-back"] == Job("Write-back", "idle", "none yet")


def test_work_that_runs_says_how_far_it_is(bed: StatusBed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.retention.checked_count, bed.retention.to_check_count = 25, 100
    bed.moves.append(a_move(bed.hosted))
    progress: Any = SimpleNamespace(bytes_read=30, bytes_to_read=40)
    passes: Any = [SimpleNamespace(tp="t-0", progress=progress), SimpleNamespace(tp="t-1", progress=None)]
    monkeypatch.setattr(bed.cleaner, "running", lambda: passes)
    assert bed.parts.watched.disk_work.flushes.running_count == 0
    bed.parts.watched.disk_work.flushes.seconds.observe(0.004)
    found = list(read_jobs(bed.parts))
    assert Job("Compaction", "running", "t-0", 0.75) in found
    assert Job("Compaction", "running", "t-1", 0.0) in found
    assert Job("Compaction", "2 running", "0 passes, 0 records removed") in found
    assert Job("Moves", "1 running", "2 completed") in found
    assert Job("Retention", "running", "0 segments deleted", 0.25) in found
    assert Job("Flushes", "idle", "1 done, 4.0 ms each") in found


def test_a_run_that_is_over_says_what_it_took(bed: StatusBed) -> None:
    bed.retention.checked_count = bed.retention.to_check_count = 9
    bed.retention.last_run_seconds = 0.0123
    assert jobs(bed)["Retention"] == Job("Retention", "idle", "0 segments deleted, last run 12 ms")


def loading(**fields: Any) -> Any:
    usual = {"log_dir": SimpleNamespace(path="/a"), "log_count": 10, "logs_left": 0, "scanned_bytes": 0}
    return SimpleNamespace(**{**usual, "bytes_to_scan": 0, "cut_bytes": 0, **fields})


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        ([loading(logs_left=4)], [Job("Loading logs", "running", "/a: 6 of 10 logs", 0.6)]),
        (
            [loading(logs_left=9, scanned_bytes=30, bytes_to_scan=40), loading()],
            [Job("Loading logs", "running", "/a: 1 of 10 logs", 0.75)],
        ),
        (
            [loading(scanned_bytes=5000, cut_bytes=7), loading(log_count=2)],
            [Job("Loading logs", "done", "12 logs in 0 ms, 5,000 bytes checked, 7 bytes cut off")],
        ),
        ([], []),
    ],
)
def test_loading_is_told_by_directory_while_it_lasts_and_as_a_whole_afterwards(
    bed: StatusBed, monkeypatch: pytest.MonkeyPatch, directories: list[Any], expected: list[Job]
) -> None:
    monkeypatch.setattr(type(bed.recovery), "directories", directories)
    assert [job for job in read_jobs(bed.parts) if job.name == "Loading logs"] == expected
