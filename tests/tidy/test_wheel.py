"""What a wheel holds, which is what `pip install .` installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED_SETUPTOOLS = 77
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def test_a_module_that_is_gone_from_the_sources_leaves_no_trace_of_earlier_builds(tmp_path: Path) -> None:
    if int(version("setuptools").split(".")[0]) < NEEDED_SETUPTOOLS and os.environ.get("CI") != "true":
        pytest.skip(f"pyproject.toml asks for setuptools {NEEDED_SETUPTOOLS}")
    sources, built = tmp_path / "sources", tmp_path / "built"
    (sources / "storage").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", sources)
    for name in ("__init__", "kept", "gone"):
        (sources / "storage" / f"{name}.py").touch()

    def modules() -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(built)], cwd=sources, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        with zipfile.ZipFile(built / done.stdout.splitlines()[-1]) as wheel:
            return {name for name in wheel.namelist() if name.startswith("storage/")}

    assert modules() == {"storage/__init__.py", "storage/kept.py", "storage/gone.py"}
    (sources / "storage" / "gone.py").unlink()
    assert modules() == {"storage/__init__.py", "storage/kept.py"}
