"""Partitions over real logs for the API families."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.hosted import Hosted


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    hosted = Hosted(tmp_path)
    yield hosted
    hosted.pools.close()
    hosted.logs.close(clean=False)
