"""A broker's scheduled topics against their lists: random lives with moves, clocks that are set, failed directories.

A life is made of one seed, which a failure prints: `SEED=… make test-one T=tests/property/test_scheduled_broker.py`
lives it again. LIVES=… makes so many more of them.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.scheduled_broker import live

EVENTS = 150
SEED = os.environ.get("SEED")
LIVES = [int(SEED)] if SEED else range(16 * int(os.environ.get("LIVES", "1")))


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """No power fails here."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr("broker.background.moves.copy_steps.PAUSE_SECONDS", 0)


@pytest.mark.parametrize("seed", LIVES)
async def test_nothing_is_visible_early_and_nobody_waits_for_what_is_there(tmp_path, monkeypatch, seed):
    if seed % 3:
        for name in ("MAX_STEPS", "MEASURED_STEPS", "_LOOK_STEPS"):
            monkeypatch.setattr(f"storage.log.delivery.{name}", 9 + seed % 4)
    await live(tmp_path, seed, EVENTS)
