"""What else may happen to a log whose delivery is scheduled: consumers, clocks that are set, settings that change."""

from __future__ import annotations

from dataclasses import replace

from tests.sim import log_steps
from tests.sim.log_schedule import NEVER, UNCERTAINTIES_MS, ScheduledLife

CLOCK_STEPS_MS = (-3_600_000, -30_000, -3000, -200, 200, 3000, 30_000, 3_600_000)


def consume(life: ScheduledLife) -> None:
    """Let both consumers read on, a few times each."""
    for reader in life.model.readers:
        watermark = life.release(is_whole=life.chance.random() < 0.7)
        for _ in range(life.chance.randint(1, 4)):
            if not life.consume(reader, watermark, life.chance.choice((1, 300, 2000))):
                break


def look(life: ScheduledLife) -> None:
    """Look for what is due as the scheduler does."""
    life.release(is_whole=life.chance.random() < 0.5)


def time(life: ScheduledLife) -> None:
    life.note_due()
    log_steps.time(life)


def head(life: ScheduledLife) -> None:
    """Let time pass to about the moment at which the first pending batch comes due."""
    life.note_due()
    due = [batch.header.max_timestamp for batch in life.model.stored if batch.base >= life.model.releasable]
    if due and life.limit < due[0] < NEVER:
        life.clock.now += due[0] - life.limit + life.chance.choice((-1, 0, 1))


def set_clock(life: ScheduledLife) -> None:
    """Set the wall clock, forwards or backwards."""
    life.note_due()
    life.clock.set_by(life.chance.choice(CLOCK_STEPS_MS))


def uncertainty(life: ScheduledLife) -> None:
    life.note_due()
    change(life, delivery_clock_uncertainty_ms=life.chance.choice(UNCERTAINTIES_MS))


def mode(life: ScheduledLife) -> None:
    """Change the mode; what is delivered at once is visible at once."""
    life.note_due()
    if life.is_scheduled:
        if life.chance.random() < 0.25:
            change(life, delivery_mode="immediate")
        return
    change(life, delivery_mode="scheduled")
    life.release(is_whole=life.chance.random() < 0.5)


def change(life: ScheduledLife, **settings: object) -> None:
    life.config = life.log.config = replace(life.config, **settings)
    life.script[-1] += f" {settings}"
