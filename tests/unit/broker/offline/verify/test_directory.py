"""Whether a broker has a log directory."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.offline.verify.directory import is_locked
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
