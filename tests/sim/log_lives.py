"""Whole lives of a log, each made of one seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.sim import log_cleaning, log_moves, log_restarts, log_schedule_steps, log_steps
from tests.sim.crash_fs import Crashed
from tests.sim.log_checks import check
from tests.sim.log_life import Life, Step
from tests.sim.log_moves import MovingLife
from tests.sim.log_schedule import ScheduledLife

WEIGHTS: dict[Step, float] = {
    log_steps.append: 30,
    log_steps.idempotent: 10,
    log_steps.transactional: 12,
    log_steps.end: 8,
    log_steps.replicate: 4,
    log_steps.duplicate: 3,
    log_steps.refused: 3,
    log_steps.roll: 5,
    log_steps.time: 8,
    log_steps.flush: 5,
    log_steps.flush_beside: 3,
    log_steps.write: 6,
    log_steps.watermark: 4,
    log_steps.epoch: 2,
    log_steps.setting: 6,
    log_steps.retain: 5,
    log_steps.delete_records: 4,
    log_steps.checkpoint: 3,
    log_steps.truncate: 2,
    log_steps.truncate_fully: 0.4,
    log_cleaning.clean: 5,
    log_restarts.stop: 1.5,
    log_restarts.kill: 1.5,
}
MOVING_WEIGHTS: dict[Callable[[Any], None], float] = {
    **{step: weight for step, weight in WEIGHTS.items() if step is not log_cleaning.clean},
    log_moves.clean: 5,
    log_moves.begin: 5,
    log_moves.copy: 20,
    log_moves.cancel: 2,
    log_moves.swap: 4,
    log_moves.purge: 3,
    log_moves.finish: 1,
}
_OF_ORDINARY = (log_moves.clean, log_steps.time)
SCHEDULED_WEIGHTS: dict[Callable[[Any], None], float] = {
    **{step: weight for step, weight in MOVING_WEIGHTS.items() if step not in _OF_ORDINARY},
    log_schedule_steps.time: 12,
    log_schedule_steps.head: 10,
    log_schedule_steps.set_clock: 4,
    log_steps.retain: 8,
    log_schedule_steps.consume: 25,
    log_schedule_steps.look: 10,
    log_schedule_steps.uncertainty: 3,
    log_schedule_steps.mode: 4,
    log_steps.append: 50,
}
CALLS_TO_A_CRASH = 60

L = TypeVar("L", bound=Life)


def live(
    root: str,
    seed: int,
    steps: int,
    *,
    crashes: bool,
    report: Callable[[str], None] = print,
    weights: Mapping[Step, float] = WEIGHTS,
) -> Life:
    """Live through so many steps; with crashes the machine stops now and then, at any of its file calls."""
    return _live(Life, weights, root, seed, steps, crashes=crashes, report=report)


def live_moving(
    root: str, seed: int, steps: int, *, crashes: bool, report: Callable[[str], None] = print
) -> MovingLife:
    """Live so while the log moves between directories."""
    return _live(MovingLife, MOVING_WEIGHTS, root, seed, steps, crashes=crashes, report=report)


def live_scheduled(
    root: str,
    seed: int,
    steps: int,
    *,
    crashes: bool,
    report: Callable[[str], None] = print,
    weights: Mapping[Callable[[Any], None], float] = SCHEDULED_WEIGHTS,
) -> ScheduledLife:
    """Live so while records come due; in the end all have, and consumers have read them."""
    return _live(ScheduledLife, weights, root, seed, steps, crashes=crashes, report=report)


def _live(
    kind: type[L],
    weights: Mapping[Callable[[Any], None], float],
    root: str,
    seed: int,
    steps: int,
    *,
    crashes: bool,
    report: Callable[[str], None],
) -> L:
    chance = random.Random(seed)
    block_bytes, is_deferring = chance.choice((None, 32, 512)), chance.random() < 0.5
    life = kind(root, chance, direct_block_bytes=block_bytes, is_deferring=is_deferring)
    life.is_lagging = chance.random() < 0.3
    check(life, is_thorough=True)
    try:
        for number in range(steps):
            if crashes and life.fs.crash_at is None and chance.random() < 0.15:
                life.fs.crash_at = life.fs.calls + chance.randint(0, CALLS_TO_A_CRASH)
            (step,) = chance.choices([*weights], [*weights.values()])
            life.script.append(step.__name__)
            life.doing = step.__name__
            try:
                step(life)
            except Crashed:
                log_restarts.crash(life)
            life.doing = ""
            check(life, is_thorough=number % 8 == 0)
            life.check_own()
        life.end()
    except BaseException:
        report(f"SEED={seed} after {len(life.script)} steps: {', '.join(life.script[-25:])}")
        raise
    life.manager.close(clean=False)
    return life
