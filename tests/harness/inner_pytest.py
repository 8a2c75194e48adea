"""Runs of pytest within a test: another process, a directory of its own, our plugin as after an installation."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from tests.harness.broker import ROOT

TIMEOUT_S = 120


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a directory, as somebody does who has installed the package."""
    is_installed = any(point.value == "broker.pytest_plugin" for point in entry_points(group="pytest11"))
    plugin = () if is_installed else ("-p", "broker.pytest_plugin")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *arguments],
        cwd=directory,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
