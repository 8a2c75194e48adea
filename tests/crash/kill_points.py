"""The broker, killed at a chosen file call of a move: `python -m tests.crash.kill_points serve server.properties`.

Every call that changes something and belongs to a move has a name, such as "write future .log" or "rename to delete".
The names are written down as they come up for the first time in ODRADEK_TEST_CALLS. Where ODRADEK_TEST_KILL holds one
of them, the process ends by SIGKILL in the place of that call. Both are files, so that a running broker can be told.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.cli import main
from storage.env.posix import PosixFile, PosixFileSystem

CALLS, KILL = "ODRADEK_TEST_CALLS", "ODRADEK_TEST_KILL"
_FOLDER = re.compile(r"/(?P<folder>[^/]+-\d+)(\.[0-9a-f]{32}-(?P<marker>future|delete))?(/(?P<file>[^/]*))?$")


class KillPoints:
    """Names calls, and ends the process at one of them."""

    def __init__(self, calls: Path, kill: Path) -> None:
        self._calls = calls
        self._kill = kill
        self._known: set[str] = set()

    def note(self, name: str) -> None:
        if not self._calls.exists():  # somebody wants to know anew
            self._known.clear()
        if name not in self._known:
            self._known.add(name)
            with self._calls.open("a") as file:
                file.write(f"{name}\n")
        if self._kill.exists() and self._kill.read_text() == name:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, owner: type, method: str, name_of: Callable[..., str]) -> None:
        """Let a method of the file system report itself first."""
        original = getattr(owner, method)

        def reporting(*arguments: Any, **options: Any) -> Any:
            name = name_of(*arguments, **options)
            if name:
                self.note(name)
            return original(*arguments, **options)

        setattr(owner, method, reporting)


def place(path: str) -> str:
    """Name the place of a path in a move; nothing for what lies elsewhere."""
    found = _FOLDER.search(path)
    directory = os.path.basename(os.path.dirname(path))
    if found is None:
        is_checkpoint = "-checkpoint" in os.path.basename(path)
        return f"{os.path.basename(path)} of {directory}" if is_checkpoint else ""
    if found["folder"] == "__cluster_metadata-0":
        return "the metadata log" if found["file"] and found["file"].endswith(".log") else ""
    if found["marker"] is None:
        return ""
    if found["file"] is None:
        return found["marker"]
    return f"{found['marker']} {os.path.splitext(found['file'])[1] or found['file']}"


def named(verb: str, path: str) -> str:
    where = place(path)
    return f"{verb} {where}" if where else ""


def main_with_kill_points() -> int:
    points = KillPoints(Path(os.environ[CALLS]), Path(os.environ[KILL]))
    points.wrap(PosixFileSystem, "make_dirs", lambda fs, path: named("make", path))
    points.wrap(PosixFileSystem, "remove_dir", lambda fs, path: named("remove", path))
    points.wrap(PosixFileSystem, "unlink", lambda fs, path: named("unlink", path))
    points.wrap(PosixFileSystem, "open", lambda fs, path, create=False, **_: named("create", path) if create else "")
    points.wrap(PosixFileSystem, "write_file", lambda fs, path, *_, **__: named("write", path))
    points.wrap(PosixFileSystem, "sync_dir", sync_of)
    points.wrap(PosixFileSystem, "rename", rename_of)
    for method, verb in (("write_at", "write"), ("writev_at", "write"), ("truncate", "cut"), ("sync", "sync")):
        points.wrap(PosixFile, method, lambda file, *_, verb=verb: named(verb, file.path))
    return main(sys.argv[1:])


def sync_of(fs: object, path: str) -> str:
    return named("sync", path) or (f"sync {os.path.basename(path)}" if not _FOLDER.search(path) else "")


def rename_of(fs: object, source: str, target: str) -> str:
    if place(source) == "future":
        return f"rename future to {place(target) or 'plain'}"
    return named("rename to", target)


if __name__ == "__main__":
    sys.exit(main_with_kill_points())
