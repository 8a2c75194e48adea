"""Moves of a log between directories in its life: begun, carried on step by step, cancelled, brought to their end.

What the broker's moves do is done here in the same order, without its loop; whatever else may happen to the log comes
between any two of these steps, and within them. The copy has no model of its own: once it is the log, it is compared.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.env.clock import monotonic_ms
from storage.log.copying import LogCopy
from tests.sim import log_cleaning
from tests.sim.log_life import TOPIC_ID, Life, Step
from tests.sim.log_steps import (
    append,
    checkpoint,
    delete_records,
    end,
    epoch,
    flush,
    idempotent,
    retain,
    roll,
    setting,
    time,
    transactional,
    truncate,
)
from tests.sim.logs import TP

PLACES = ("a", "b", "c")
BESIDE: Sequence[Step] = (append, idempotent, transactional, end, roll, retain, delete_records, epoch, setting, flush)


class MovingLife(Life):
    """A log with three directories to lie in."""

    def __init__(self, root: str, chance: random.Random, *, direct_block_bytes: int | None, is_deferring: bool) -> None:
        self.named: bytes | None = None  # the directory that the metadata names; what is set is committed
        self.copy: LogCopy | None = None  # of the move that is under way
        super().__init__(root, chance, direct_block_bytes=direct_block_bytes, is_deferring=is_deferring)

    @property
    def directories(self) -> list[str]:
        return [os.path.join(self.path, place) for place in PLACES]

    @property
    def log_dir(self) -> LogDir:
        log_dir = self.manager.dir_of(TP)
        assert log_dir is not None
        return log_dir

    def _new_manager(self) -> LogManager:
        manager = super()._new_manager()
        manager.settle_futures(lambda tp, topic_id: topic_id in (None, TOPIC_ID), lambda tp: self.named)
        return manager

    def _begin(self) -> None:
        super()._begin()
        self.named = self.log_dir.directory_id  # where the log is, is reported
        future = self.manager.futures.get(TP)
        self.copy = self.log.copy_into(future.log) if future is not None else None

    def check_own(self) -> None:
        """One log, and one copy while a move is under way."""
        names = [name for path in self.directories for name in os.listdir(path) if name.startswith(f"{TP}")]
        assert names.count(str(TP)) == 1, names
        assert sum(name.endswith("-future") for name in names) == (self.copy is not None), names


def begin(life: MovingLife) -> None:
    """Begin to copy into one of the other directories."""
    if life.copy is not None:
        return
    target = life.chance.choice([one for one in life.manager.dirs if one is not life.log_dir])
    if target.may_vouch_for(TP):
        checkpoint(life)
    future = life.manager.create_future(TP, target, life.config)
    life.copy = life.log.copy_into(future.log)


def copy(life: MovingLife, *, is_flushed: bool | None = None) -> None:
    """Copy some more in one step, beside which anything may happen."""
    if life.copy is None:
        return
    copying, future = life.copy, life.manager.futures[TP]
    if is_flushed is None:
        is_flushed = life.chance.random() < 0.2
    step = copying.plan(life.chance.choice((1, 300, 1500, 1 << 20)), is_flushed=is_flushed)
    future.begin_step()
    life.meanwhile((*BESIDE, truncate, cancel))
    while step.turn():
        life.meanwhile((*BESIDE, truncate))
    future.unlink_removed()
    life.meanwhile((*BESIDE, truncate))
    copying.note(step)
    future.end_step()


def cancel(life: MovingLife) -> None:
    """Give the copy up; a step that runs ends first."""
    if life.copy is not None:
        life.copy.close()
        life.copy = None
        life.manager.drop_future(TP, delay_ms=life.chance.choice((0, 5000)))


def swap(life: MovingLife) -> None:
    """Let the copy take the place of the log, as broker.background.moves.swap does."""
    if life.copy is None or life.is_writing:
        return
    life.finish_removal()
    life.flush()
    future = life.manager.futures[TP]
    while not life.copy.is_caught_up:
        step = life.copy.plan(1 << 20, is_flushed=True)
        future.begin_step()
        while step.turn():
            pass
        future.unlink_removed()
        life.copy.note(step)
        future.end_step()
    life.log.flush()
    _flush_copy(life)
    if future.log.log_start_to_checkpoint is not None:
        life.manager.checkpoint_log_starts()
    life.named = future.log_dir.directory_id
    retired = life.manager.retire(TP)
    retired.log_dir.sync()
    before, log = life.log, life.manager.promote(TP, retired)
    log.config = life.config
    log.advance_high_watermark(before.high_watermark)
    log.increment_log_start_offset(before.log_start_offset)
    log.take_over_delivery(before)
    log.assign_epoch(life.epoch)
    life.log, life.copy = log, None
    life._begin()
    take_over(life)
    life.manager.deleted_logs.note_renamed(future.log_dir)
    purge(life)
    checkpoint(life)


def _flush_copy(life: MovingLife) -> None:
    assert life.copy is not None
    step = life.copy.plan(1, is_flushed=True)
    future = life.manager.futures[TP]
    future.begin_step()
    assert not step.turn()
    life.copy.note(step)
    future.end_step()


def take_over(life: MovingLife) -> None:
    """Compare the log with the model: all that may be read, byte for byte; below that both may have more or less."""
    model, found = life.model, life.on_disk()
    visible = [batch.data for batch in found if batch.last >= model.start]
    assert visible == [batch.data for batch in model.visible()]
    assert all(batch.data in model.history[batch.base] for batch in found)
    model.stored = found
    model.durable = model.end
    life.may_forget = life.may_forget or life.cleaned_to > 0


def purge(life: MovingLife) -> None:
    """Unlink the deleted logs that are due."""
    life.manager.deleted_logs.purge(monotonic_ms(life.clock))


def clean(life: MovingLife) -> None:
    """Clean, but a log that is being moved."""
    if life.copy is None:
        log_cleaning.clean(life)


def finish(life: MovingLife) -> None:
    """Bring a move to its end, after which nothing else of the partition is left."""
    if life.is_writing:
        return
    begin(life)
    swap(life)
    life.clock.now += 1_000_000
    time(life)
    purge(life)
    names = [name for path in life.directories for name in os.listdir(path) if name.startswith(f"{TP}")]
    assert names == [str(TP)], names
