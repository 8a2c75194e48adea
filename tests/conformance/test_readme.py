"""The examples in README.md work as pasted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.harness.broker import ROOT
from tests.harness.inner_pytest import run_pytest

HELLO, FIXTURE, OBJECT = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
TIMEOUT_S = 60


def test_the_first_example_prints_its_greeting(bootstrap: str, unique: str):
    assert len(HELLO.splitlines()) == 5
    code = HELLO.replace("127.0.0.1:9092", bootstrap).replace("greetings", unique)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr


def test_the_fixture_gives_a_broker(tmp_path: Path):
    (tmp_path / "test_pasted.py").write_text(FIXTURE)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_object_is_a_broker(tmp_path: Path):
    (tmp_path / "pasted.py").write_text(OBJECT)
    done = subprocess.run(
        [sys.executable, "pasted.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert re.fullmatch(r"127\.0\.0\.1:\d+ /.*/data\n", done.stdout), done.stderr
