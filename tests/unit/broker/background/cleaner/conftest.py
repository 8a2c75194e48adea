"""A bed of the cleaner over two directories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.cleaning import CleanerBed
from tests.harness.hosted import Hosted


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[CleanerBed]:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    bed = CleanerBed(hosted)
    yield bed
    bed.is_held = False
    await bed.cleaner.close()
    hosted.logs.close(clean=False)
