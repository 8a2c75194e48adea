"""What tools open of a folder that others fill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.offline.plain_files import MAX_READ_AT_ONCE_BYTES, PlainFiles


def test_a_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert PlainFiles().read_file(str(tmp_path / "link")) == b"content"
    assert PlainFiles().open(str(tmp_path / "link"), writable=False).size() == 7


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "too large"])
def test_what_would_never_end_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, MAX_READ_AT_ONCE_BYTES + 1)
    with pytest.raises(OSError):
        PlainFiles().read_file(str(path))
    if kind != "too large":
        with pytest.raises(OSError):
            PlainFiles().open(str(path), writable=False)
