"""A log against a list model: random lives of one log, on one disk or over crashes of the machine.

A life is made of one seed, which a failure prints: `SEED=… make test-one T=tests/property/test_partition_log.py` lives
it again. LIVES=… makes so many more of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.env.posix import PosixFileSystem
from storage.segment.offset_index import OffsetIndex
from tests.sim.log_lives import live, live_moving, live_scheduled

STEPS = 120


def lives(count: int) -> Sequence[int]:
    """Return the seeds to live with."""
    seed = os.environ.get("SEED")
    return [int(seed)] if seed else range(count * int(os.environ.get("LIVES", "1")))


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """What must last is known to the simulated disk; the machine's own need not know."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.parametrize("seed", lives(20))
def test_a_log_behaves_like_a_list(seed, tmp_path):
    live(str(tmp_path), seed, STEPS, crashes=False)


@pytest.mark.parametrize("seed", lives(30))
def test_a_log_keeps_its_word_over_crashes_of_the_machine(seed, tmp_path):
    live(str(tmp_path), seed, STEPS, crashes=True)


@pytest.mark.parametrize("seed", lives(15))
def test_a_log_that_moves_behaves_like_a_list(seed, tmp_path):
    live_moving(str(tmp_path), seed, STEPS, crashes=False)


@pytest.mark.parametrize("seed", lives(25))
def test_a_log_that_moves_keeps_its_word_over_crashes_of_the_machine(seed, tmp_path):
    live_moving(str(tmp_path), seed, STEPS, crashes=True)


@pytest.mark.parametrize("seed", lives(20))
def test_a_scheduled_log_releases_what_is_due_and_loses_nothing(seed, tmp_path, monkeypatch):
    look_little(monkeypatch, seed)
    live_scheduled(str(tmp_path), seed, STEPS, crashes=False)


@pytest.mark.parametrize("seed", lives(20))
def test_a_scheduled_log_keeps_its_word_over_crashes_of_the_machine(seed, tmp_path, monkeypatch):
    look_little(monkeypatch, seed)
    live_scheduled(str(tmp_path), seed, STEPS, crashes=True)


def look_little(monkeypatch, seed):
    """Let most logs need several looks, and searches, to come to what is pending."""
    if seed % 4:
        for name in ("MAX_STEPS", "MEASURED_STEPS", "_LOOK_STEPS"):
            monkeypatch.setattr(f"storage.log.delivery.{name}", 9 + seed % 4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), min_size=1, max_size=1500), st.data())
def test_index_lookups_equal_a_linear_scan(deltas, data):
    root = Path(tempfile.mkdtemp())
    try:
        index = OffsetIndex(PosixFileSystem(), str(root / "x.index"), 7, 8 * len(deltas))
        index.file.make_writable(8 * len(deltas))
        entries, offset, position = [], 7, 0
        for step, size in deltas:
            offset, position = offset + step, position + size
            index.append(offset, position)
            entries.append((offset, position))
            if data.draw(st.integers(0, 200)) == 0:
                target = data.draw(st.integers(0, offset + 10))
                assert index.lookup(target) == max((p for o, p in entries if o <= target), default=0)
        for _ in range(10):
            target = data.draw(st.integers(0, offset + 10))
            assert index.lookup(target) == max((p for o, p in entries if o <= target), default=0)
            limit = data.draw(st.integers(0, position + 10))
            assert index.boundary_at_or_before(limit) == max((p for _, p in entries if p <= limit), default=0)
    finally:
        shutil.rmtree(root)
