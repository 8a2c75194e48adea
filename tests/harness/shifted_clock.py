"""A wall clock that a test sets back and forward under a running broker; time that passes is not touched."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from tests.harness.broker import ROOT

_NANOSECONDS = struct.Struct("<q")
_SHIM = '''"""Adds what the file says to every look at the wall clock; Python imports this before anything else."""

import mmap
import struct
import time

with open({path!r}, "rb") as _file:
    _shift = mmap.mmap(_file.fileno(), {size}, access=mmap.ACCESS_READ)
_read, _time_ns = struct.Struct("<q").unpack_from, time.time_ns
time.time_ns = lambda: _time_ns() + _read(_shift)[0]
time.time = lambda: time.time_ns() / 1e9
'''


class ShiftedClock:
    """The clock of brokers that are started in `environment`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._path = directory / "shift"
        self._path.write_bytes(_NANOSECONDS.pack(0))
        (directory / "sitecustomize.py").write_text(_SHIM.format(path=str(self._path), size=_NANOSECONDS.size))
        self.environment = {"PYTHONPATH": os.pathsep.join((str(directory), str(ROOT)))}

    def set(self, shift_s: float) -> None:
        """Let the clock differ from the machine's by so much, from now on."""
        with self._path.open("r+b") as file:
            file.write(_NANOSECONDS.pack(int(shift_s * 1e9)))
