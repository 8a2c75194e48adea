"""Restarts in the life of a log: clean ones, after a kill of the process, after a crash of the machine.

The model takes over what the files hold once that was found to be what they may hold.
"""

from __future__ import annotations

from itertools import pairwise

from tests.sim.log_life import Life
from tests.sim.log_model import Stored


def stop(life: Life) -> None:
    life.is_lagging = False
    life.advance()
    life.manager.close()
    life.reopen()
    assert life.was_clean
    life.wanted_start = life.answered_start = life.model.start
    _settle(life, life.model.end, is_whole=True)


def kill(life: Life) -> None:
    written = max(life.log.direct_writes.written_end_offset, life.log.high_watermark)
    life.manager.close(clean=False)
    life.reopen()
    durable = life.model.durable
    _settle(life, written, is_whole=True)
    life.model.durable = min(durable, life.model.end)


def crash(life: Life) -> None:
    """Go on from what a crash of the machine leaves, which the file system has just simulated."""
    life.script.append(f"crash in {life.doing}")
    life.may_forget = life.may_forget or life.cleaned_to > 0 or life.doing == "truncate_fully"
    life.manager.close(clean=False)
    old_fs = life.fs
    life.incarnation += 1
    old_fs.aftermath(life.path, life.chance.randrange(1 << 30))
    life.fs = life.new_fs()
    life.reopen()
    durable = life.model.end if life.was_clean else life.model.durable
    _settle(life, durable, is_whole=life.doing not in ("clean", "truncate", "truncate_fully"))
    life.model.durable = life.model.end  # the disk has told us


def _settle(life: Life, durable: int, *, is_whole: bool) -> None:
    """Take over what a restart has found, which must be everything below `durable`, and only what was there."""
    model, log = life.model, life.log
    survived = life.on_disk()
    known = [batch.data for batch in model.stored]
    for batch in survived:
        if batch.data not in model.history.get(batch.base, ()):
            _adopt_attempt(life, batch)
            known.append(batch.data)
    if is_whole:
        wanted = [batch.data for batch in model.stored if batch.base >= life.wanted_start and batch.last < durable]
        got = [batch.data for batch in survived if batch.base >= life.wanted_start and batch.last < durable]
        assert got == wanted
    bases = life.bases()
    for before, after in pairwise(survived):
        assert before.last < after.base
        is_rolled_between = any(before.last < base <= after.base for base in bases)
        if is_whole and before.data in known and after.data in known and not is_rolled_between:
            assert known.index(after.data) == known.index(before.data) + 1, (before.header, after.header)
    assert life.answered_start <= log.log_start_offset <= life.wanted_start, (life.answered_start, log)
    _take_over(life, survived, durable)


def _adopt_attempt(life: Life, batch: Stored) -> None:
    """Accept a batch whose append was on its way when the machine stopped."""
    assert life.attempt is not None and life.attempt[0] == batch.base, batch.header
    assert [(record.key, record.value) for record in batch.records] == life.attempt[1]
    life.model.appended.append(batch)
    life.model.note(batch)


def _take_over(life: Life, survived: list[Stored], durable: int) -> None:
    model, log = life.model, life.log
    present = {batch.base for batch in survived}
    life.cleaned_to = min(life.cleaned_to, log.log_end_offset)
    lasting = max(durable, life.cleaned_to)
    appended = {batch.base: batch for batch in model.appended if batch.base in present or batch.last < lasting}
    for batch in survived:
        if batch.base not in appended or not set(batch.records) <= set(appended[batch.base].records):
            appended[batch.base] = batch  # of before a truncation that the disk had not heard of
    model.appended = sorted(appended.values(), key=lambda batch: batch.base)
    model.stored = survived
    end = log.log_end_offset
    assert end >= (survived[-1].last + 1 if survived else log.log_start_offset)
    assert end >= durable or not survived or survived[-1].last + 1 == end
    model.end = end
    life.epochs_from = max(life.epochs_from, life.wanted_start)
    model.start = life.answered_start = life.wanted_start = log.log_start_offset
    model.durable = min(durable, model.end)
    model.high_watermark = 0
    life.attempt = None
    life.is_lagging = False
    life.advance()
    life.epoch += 1  # as after every start of a broker
    log.assign_epoch(life.epoch)
