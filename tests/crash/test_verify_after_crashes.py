"""What a machine that stops at any moment leaves of a log is nothing that verify calls a fault."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.offline.verify.findings import Finding
from broker.offline.verify.run import Verification
from storage.env.posix import PosixFileSystem
from storage.segment.names import CLEAN_SHUTDOWN_FILE
from tests.sim import log_cleaning, log_lives, log_moves, log_restarts, log_steps
from tests.sim.log_life import Life

LIVES = 12
STEPS = 90
STOPS = 8.0
# Compaction and leaders leave gaps that nothing in the directory explains, and replicas alone cut what was durable.
UNEXPLAINED = (log_cleaning.clean, log_steps.replicate, log_steps.truncate, log_steps.truncate_fully)
# A hole remains where the end of a segment was not durable but the next one was; snapshots are not synced; and the last
# entry of a time index can be lost below the recovery point, where no start looks for it.
ALWAYS_TOLD = ("segment-gap", "snapshot", "timeindex-incomplete")
# A clean stop leaves what every start does, and producers go on behind the holes of crashes before it.
STAYS = ("leftover", "producer-sequence")
MOVES = (log_moves.begin, log_moves.copy, log_moves.swap, log_moves.finish)


def without(steps: Sequence[Any], weights: Mapping[Any, float]) -> dict[Any, float]:
    """Leave steps out, and stop often enough that some of the stops are clean."""
    return {step: weight for step, weight in weights.items() if step not in steps} | {log_restarts.stop: STOPS}


@pytest.mark.parametrize(
    "live",
    [
        partial(log_lives.live, weights=without(UNEXPLAINED, log_lives.WEIGHTS)),
        partial(log_lives.live_scheduled, weights=without((*UNEXPLAINED, *MOVES), log_lives.SCHEDULED_WEIGHTS)),
    ],
    ids=["immediate", "scheduled"],
)
def test_no_stop_leaves_a_fault(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, live: Callable[..., Life]
) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    reopen = Life.reopen
    stops: list[tuple[bool, list[Finding]]] = []

    def look_first(life: Life) -> None:
        is_clean = (Path(life.directories[0]) / CLEAN_SHUTDOWN_FILE).exists()
        # The directory of a life is nobody's.
        findings = Verification(PosixFileSystem(), life.directories).run().findings
        found = [one for one in findings if one.kind != "identity"]
        told = [one for one in found if one.is_fault and one.kind not in ALWAYS_TOLD]
        # The mark of a clean stop is durable before all that it vouches for; a start checks the rest.
        is_cut_short = is_clean and life.script[-1] == "crash in stop"
        assert not told or is_cut_short, (life.script[-3:], told)
        if not is_cut_short:
            stops.append((is_clean, [one for one in found if one.kind not in ALWAYS_TOLD]))
        reopen(life)

    monkeypatch.setattr(Life, "reopen", look_first)
    for number in range(LIVES):
        root = tmp_path / str(number)
        root.mkdir()
        live(str(root), seed + number, STEPS, crashes=number % 3 != 0)
    assert any(is_clean for is_clean, _ in stops)
    assert any(one.kind != "leftover" for is_clean, found in stops for one in found if not is_clean)
    assert not [one for is_clean, found in stops for one in found if is_clean and one.kind not in STAYS]
