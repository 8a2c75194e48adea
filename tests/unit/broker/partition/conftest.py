"""Partitions over real logs , as the metadata tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.hosted import Hosted


@pytest.fixture
def hosted(tmp_path: Path) -> Hosted:
    return Hosted(tmp_path)
