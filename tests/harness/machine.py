"""What a test needs of the machine: without it the test is skipped; on CI, which installs programs, it fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def is_ci() -> bool:
    """Tell whether this is a run in which nothing may be missing."""
    return bool(os.environ.get("CI"))


def absent(message: str) -> NoReturn:
    """End the test that cannot do without something."""
    if is_ci():
        pytest.fail(message)
    pytest.skip(message)


def program(*names: str, package: str) -> str:
    """Return the path of a program, by the first of its names that is there."""
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    absent(f"{names[0]} is not installed (Debian: apt-get install {package})")


def skip_in_memory(directory: Path) -> None:
    """Skip the test where its files lie in memory alone: nothing is read without waiting, or past the page cache."""
    file = directory / "probe"
    file.write_bytes(b"x")
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        pass
    except OSError:
        pytest.skip(f"the file system of {directory} has no page cache of its own")
    finally:
        os.close(descriptor)
        file.unlink()
