"""The example in README.md works as pasted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_example_prints_its_greeting(bootstrap: str, unique: str):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(example.splitlines()) == 5
    code = example.replace("127.0.0.1:9092", bootstrap).replace("greetings", unique)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr
