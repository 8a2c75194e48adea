"""The comparison with Apache Kafka works: one row, one round, little work."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.kafka import results
from tests.bench.kafka.brokers import SIDES
from tests.harness.broker import ROOT

pytestmark = pytest.mark.jvm


def test_a_row_is_measured_on_both_brokers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    found = tmp_path / "results.json"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    little = ["--rounds", "1", "--scale", "0.01", "--no-warm-up", "--only", "produce-10k"]
    command = [sys.executable, "-m", "tests.bench.kafka", *little]
    places = ["--directory", str(scratch), "--results", str(found), "--document", str(tmp_path / "page.md")]
    done = subprocess.run([*command, *places], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    measured = results.load(found).keys
    assert set(measured) == {"start", "produce-10k", "produce-10k.cpu"}
    assert all(len(one.samples[side]) == 1 for one in measured.values() for side in SIDES)
    assert not list(scratch.iterdir())
    assert not (tmp_path / "page.md").exists(), "a page of one row"
