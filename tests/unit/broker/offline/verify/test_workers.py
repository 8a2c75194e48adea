"""Logs checked in processes side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from broker.offline.verify import workers
from broker.offline.verify.context import LogContext, LogResult
from broker.offline.verify.workers import WorkerDied, check_logs
from storage.env.posix import PosixFileSystem
from storage.types import TopicPartition
from tests.harness import batches


def logs(directory: Path, count: int) -> list[LogContext]:
    made = []
    for number in range(count):
        folder = directory / f"t-{number}"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(batches.simple("x") * (number + 1))
        made.append(LogContext(TopicPartition("t", number), str(folder)))
    return made


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_every_log_is_checked_once_and_all_that_is_read_is_told(tmp_path: Path, jobs: int) -> None:
    contexts = logs(tmp_path, 5)
    read: list[int] = []
    results = [result for result, _ in check_logs(PosixFileSystem(), contexts, jobs, read.append)]
    assert sorted(result.tp.partition for result in results) == list(range(5))
    assert sum(read) == sum(result.size_bytes for result in results) > 0


def test_a_process_that_dies_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*arguments: object) -> LogResult:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    monkeypatch.setattr(workers, "_check", die)
    with pytest.raises(WorkerDied):
        list(check_logs(PosixFileSystem(), logs(tmp_path, 3), 2, lambda count: None))


def test_who_stops_asking_leaves_no_process_behind(tmp_path: Path) -> None:
    checked = check_logs(PosixFileSystem(), logs(tmp_path, 5), 3, lambda count: None)
    next(checked)
    checked.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
