"""A file that a broker waits for without end when it opens it, as on a disk that does not answer."""

from __future__ import annotations

import os
from pathlib import Path

from tests.harness.broker import ROOT

_SHIM = '''"""Lets whoever opens the file wait; Python imports this before anything else."""

import os
import threading

_open = os.open


def _wait_or_open(path, *arguments, **options):
    if path == {path!r}:
        threading.Event().wait()
    return _open(path, *arguments, **options)


os.open = _wait_or_open
'''


def environment_that_holds(file: Path, directory: Path) -> dict[str, str]:
    """Return the environment of a broker that waits at `file`; what is needed for that goes into `directory`."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(_SHIM.format(path=str(file)))
    return {"PYTHONPATH": os.pathsep.join((str(directory), str(ROOT)))}
