"""A bed of moves over three directories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.moving import MoveBed


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b", tmp_path / "c"]


@pytest.fixture
async def bed(paths: list[Path]) -> AsyncIterator[MoveBed]:
    bed = MoveBed(*paths)
    yield bed
    await bed.close()
