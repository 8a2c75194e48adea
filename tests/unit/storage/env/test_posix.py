"""What stands in the place of a file and is none: no call waits for it, and none takes it for an empty file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from storage.env.posix import PosixFileSystem

KINDS = ("pipe", "socket", "device", "folder")


@pytest.fixture(params=KINDS)
def no_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "no-file"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "socket":
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return str(path)


@pytest.mark.timeout(10)
def test_what_is_no_file_is_neither_waited_for_nor_read_nor_written(no_file: str) -> None:
    fs = PosixFileSystem()
    calls = {
        "read_file": lambda: fs.read_file(no_file),
        "open": lambda: fs.open(no_file),
        "open to create": lambda: fs.open(no_file, create=True),
        "open to read": lambda: fs.open(no_file, writable=False),
        "write_file": lambda: fs.write_file(no_file, b"x"),
        "drop_cached": lambda: fs.drop_cached(no_file, 0, 0),
    }
    for name, call in calls.items():
        with pytest.raises(OSError) as raised:
            call()
        assert raised.value.filename == no_file, name
        assert raised.value.strerror in ("Not a regular file", "Is a directory"), name


def test_refusing_what_is_no_file_keeps_no_descriptor(no_file: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError):
            PosixFileSystem().open(no_file, writable=False)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_replaced_as_a_whole_and_read_also_through_a_link(tmp_path: Path) -> None:
    fs = PosixFileSystem()
    path, link = str(tmp_path / "file"), tmp_path / "link"
    link.symlink_to("file")
    for content in (b"longer content", b"short", b""):
        fs.write_file(path, content)
        assert fs.read_file(str(link)) == content
