"""Sweep every mutating call of a set life: producers, transactions, rolls, deletions, a cleaning, checkpoints, stops.

The life is lived beside its model (tests/sim/log_life), which says after each crash what a restart must find and may
find; then life goes on. STRIDE=1 stops at every call, else at every third, beginning with another one each time.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim import log_cleaning, log_restarts, log_steps
from tests.sim.crash_fs import Crashed
from tests.sim.log_checks import check
from tests.sim.log_life import CONFIG, Life

STRIDE = int(os.environ.get("STRIDE", "3"))
SCRIPT = [
    *[log_steps.append, log_steps.idempotent, log_steps.transactional, log_steps.transactional] * 2,
    *[log_steps.roll, log_steps.end, log_steps.flush, log_steps.checkpoint, log_steps.delete_records],
    *[log_steps.transactional, log_steps.idempotent, log_steps.append, log_steps.end, log_steps.replicate],
    *[log_steps.epoch, log_steps.append, log_steps.roll, log_steps.retain, log_steps.flush_beside, log_steps.write],
    *[log_cleaning.clean, log_steps.checkpoint, log_steps.append, log_steps.end, log_steps.time],
    *[log_restarts.stop, log_steps.append, log_steps.truncate, log_steps.idempotent, log_restarts.kill],
    *[log_steps.transactional, log_steps.flush, log_steps.end, log_steps.retain, log_steps.checkpoint],
]
AFTERWARDS = (log_steps.append, log_steps.idempotent, log_steps.end, log_steps.flush, log_restarts.kill)


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def begin(root: Path, seed: int, *, is_direct: bool, is_deferring: bool) -> Life:
    shutil.rmtree(root, ignore_errors=True)
    life = Life(str(root), random.Random(seed), direct_block_bytes=32 if is_direct else None, is_deferring=is_deferring)
    life.config = life.log.config = replace(
        CONFIG,
        preallocate=is_direct,
        segment_bytes=1300,
        retention_bytes=3000,
        cleanup_policy=frozenset({"compact", "delete"}),
    )
    return life


@pytest.mark.parametrize(("is_direct", "is_deferring"), [(False, False), (True, False), (True, True)])
def test_a_life_goes_on_after_a_crash_at_any_call(tmp_path, seed, is_direct, is_deferring):
    kind = {"is_direct": is_direct, "is_deferring": is_deferring}
    life = begin(tmp_path / "life", seed, **kind)
    first = life.fs.calls
    for step in SCRIPT:
        life.doing = step.__name__
        step(life)
        check(life, is_thorough=False)
    calls = life.fs.calls
    life.manager.close(clean=False)
    assert calls - first > 150
    for crash_at in range(first + seed % STRIDE, calls, STRIDE):
        life = begin(tmp_path / "life", seed, **kind)
        life.fs.crash_at = crash_at
        try:
            with pytest.raises(Crashed):
                for step in SCRIPT:
                    life.doing = step.__name__
                    step(life)
                    check(life, is_thorough=False)
            log_restarts.crash(life)
            check(life, is_thorough=True)
            for step in AFTERWARDS:
                step(life)
            check(life, is_thorough=True)
        except BaseException as error:
            raise AssertionError(f"SEED={seed} crash_at={crash_at} in {life.doing}") from error
        life.manager.close(clean=False)
