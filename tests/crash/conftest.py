"""Where the disks of simulated crashes lie."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 256 << 20


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a directory in memory to the sweeps, which make and unmake a small disk thousands of times.

    Nothing of them is asked of the machine's own disk, where most of their time would go.
    """
    is_simulated = request.path.name.endswith("_crashes.py")
    if is_simulated and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
        with tempfile.TemporaryDirectory(dir=MEMORY, prefix="odradek-") as directory:
            yield Path(directory)
    else:
        yield tmp_path
