"""What is generated from, or must agree with, the configuration table."""

from __future__ import annotations

import tomllib
from pathlib import Path

from broker.version import VERSION
from config.docs import render_reference

ROOT = Path(__file__).resolve().parents[2]


def test_config_reference_is_current():
    assert (ROOT / "docs" / "config.md").read_text() == render_reference(), "run: make docs"


def test_version_agrees_with_the_package():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
