"""Producers over real logs whose syncs wait at a gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.gate import Gated


@pytest.fixture
async def gated(tmp_path: Path) -> AsyncIterator[Gated]:
    gated = Gated(tmp_path / "a", tmp_path / "b")
    yield gated
    gated.pools.open()
    await gated.disk.close()
    gated.hosted.logs.close(clean=False)
