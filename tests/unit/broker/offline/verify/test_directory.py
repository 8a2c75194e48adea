"""Whether a broker has a log directory."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.offline.plain_files import PlainFiles
from broker.offline.verify.directory import is_locked, read_directory
from broker.offline.verify.findings import Findings
from storage.env.posix import PosixFileSystem

HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_our_lock_is_seen_and_left_alone(tmp_path: Path) -> None:
    assert not is_locked(str(tmp_path))
    lock = PosixFileSystem().lock(str(tmp_path / ".lock"))
    assert is_locked(str(tmp_path))
    lock.release()
    assert not is_locked(str(tmp_path))
    PosixFileSystem().lock(str(tmp_path / ".lock")).release()


def test_the_lock_of_the_reference_is_seen(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_locked(str(tmp_path))
        holder.stdin.close()
    assert not is_locked(str(tmp_path))


def test_a_lock_file_that_nobody_holds_means_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".lock").touch()
    assert not is_locked(str(tmp_path))

    def refuse(*arguments: object) -> int:
        raise OSError(os.strerror(95))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert not is_locked(str(tmp_path)), "no locks on this file system"


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    assert not is_locked(str(tmp_path))


NAMES = (
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "bootstrap.checkpoint",
    ".kafka_cleanshutdown",
)


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_read_beside_the_logs_is_a_fault(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to(name)
    findings = Findings()
    read_directory(PlainFiles(), str(tmp_path), findings)
    assert [(one.kind, one.path) for one in findings.all()] == [("unreadable", str(tmp_path / name))]
