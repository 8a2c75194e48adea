"""Fixtures of the real faults: a broker with one good directory and one on a file system that can be made to fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.rig import Rig
from tests.harness import mounts
from tests.harness.broker import reference_wanted
from tests.harness.mounts import Disk


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a file system of its own where none can be mounted."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = here and (mounts.missing() or (reference_wanted() and "looks at Odradek's own process and directories"))
    for item in here if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Give a file system that may be made to fail."""
    with mounts.mounted(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def rig(tmp_path: Path, disk: Disk) -> Iterator[Rig]:
    """Give the broker, not started; what it logs as an error must be about the disk."""
    rig = Rig(tmp_path, disk)
    try:
        yield rig
        rig.check_log()
    finally:
        rig.close()
