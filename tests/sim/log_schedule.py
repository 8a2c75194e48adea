"""A log whose delivery is scheduled, in its life: what consumers may see of it, and when, beside its list model.

The model keeps two offsets. `releasable` is the most that may be visible: at every moment of the clock and with every
setting it moves over the batches that are due, and only a cut or a restart takes it back. `released` is what was seen
to be visible. A log between the two is late, but never early; one that has come to an end of looking is at the first
pending batch from where it was.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from config.views import LONG_MAX
from storage.errors import InvalidTimestamp, LogClosed
from tests.sim import log_steps
from tests.sim.log_life import SETTINGS, Rows, Step, content
from tests.sim.log_model import Reader, stored_batches
from tests.sim.log_moves import BESIDE as BESIDE_A_MOVE
from tests.sim.log_moves import MovingLife

EXCLUDED = ("cleanup_policy", "message_timestamp_type")  # what a scheduled topic cannot have is left alone
SCHEDULED_SETTINGS: dict[str, Sequence[object]] = {
    **{name: values for name, values in SETTINGS.items() if name not in EXCLUDED},
    "segment_bytes": (600, 1300, 2500),
    "retention_bytes": (-1, 0, 1000, 3000),
    "cleanup_policy": (frozenset({"delete"}), frozenset({"delete"}), frozenset()),
    "delivery_max_delay_ms": (-1, 0, 10_000, 604_800_000),
    "delivery_schedule_monotonic": (False, False, False, True),
}
UNCERTAINTIES_MS = (1, 250, 250, 3000)
SOON_MS, LATER_MS, LONG_AFTER_MS = 8000, 40_000, 1000 * 3_600_000
SCHEDULED = {"delivery_mode": "scheduled", "delivery_max_delay_ms": -1, "segment_bytes": 600, "retention_bytes": 1000}
NEVER = LONG_MAX
BESIDE = (*BESIDE_A_MOVE, log_steps.truncate)


class ScheduledLife(MovingLife):
    """A log with delivery times, two consumers that follow it, and directories to move between."""

    settings: Mapping[str, Sequence[object]] = SCHEDULED_SETTINGS

    def __init__(self, root: str, chance: random.Random, *, direct_block_bytes: int | None, is_deferring: bool) -> None:
        self.is_restarted = False  # what the model knows of releases is of the process before
        self.is_over = False  # nothing comes in between any more
        super().__init__(root, chance, direct_block_bytes=direct_block_bytes, is_deferring=is_deferring)
        self.has_endless = chance.random() < 0.1  # some batches are never due
        self.model.readers = [Reader(is_committed=False), Reader(is_committed=True)]
        self.config = self.log.config = replace(self.config, **SCHEDULED)

    @property
    def is_scheduled(self) -> bool:
        return self.config.delivery_mode == "scheduled"

    @property
    def limit(self) -> int:
        """The latest time that is due by the clock."""
        return self.clock.now - self.config.delivery_clock_uncertainty_ms

    def reopen(self) -> None:
        super().reopen()
        self.is_restarted = True

    def meanwhile(self, steps: Sequence[Step]) -> None:
        if not self.is_over:
            super().meanwhile(steps)

    # --- appends ---

    def rows(self) -> Rows:
        rows, chance = super().rows(), self.chance
        kind = chance.random()
        if kind < 0.3:
            delay_ms = -chance.randint(0, LATER_MS)
        elif kind < 0.75:
            delay_ms = chance.randint(0, SOON_MS)
        elif kind < 0.9:
            delay_ms = chance.randint(0, LATER_MS)
        elif kind < 0.93 and self.has_endless:
            return [(*row[:3], NEVER) for row in rows]
        else:
            return rows
        return [(*row[:3], self.clock.now + delay_ms - chance.randint(0, 500)) for row in rows]

    def append(self, rows: Rows, **fields: Any) -> None:
        """Append, or be refused for the delivery time."""
        times = [self.clock.now if row[3] < 0 and "producer_id" in fields else row[3] for row in rows]
        if not self._is_refused(max(times)):
            super().append(rows, **fields)
            return
        before = self.log.log_end_offset
        try:
            super().append(rows, **fields)
        except InvalidTimestamp:
            self.attempt = None
            assert self.log.log_end_offset == before
            return
        raise AssertionError(f"{max(times) - self.clock.now} ms ahead was not refused")

    def _is_refused(self, timestamp: int) -> bool:
        config = self.config
        if not self.is_scheduled:
            return False
        if config.delivery_max_delay_ms >= 0 and timestamp - self.clock.now > config.delivery_max_delay_ms:
            return True
        newest = max([batch.header.max_timestamp for batch in self.model.stored], default=-1)
        return config.delivery_schedule_monotonic and newest > timestamp

    # --- visibility ---

    def note_due(self) -> None:
        """Let the model take note of what is due by the present clock and settings; before any of them changes."""
        model = self.model
        if self.is_restarted:
            self.is_restarted = False
            model.releasable = model.released = model.start
            for reader in model.readers:
                reader.cut(model.end)
        if self.is_scheduled:
            assert model.start <= model.releasable, "pending records were removed"
            model.releasable = model.first_pending(model.releasable, self.limit)
        else:
            model.releasable = max(model.releasable, model.start)

    def release(self, *, is_whole: bool) -> int:
        """Let the log release what is due, as far as one look goes or wholly; return below what consumers may read."""
        self.note_due()
        delivery, model = self.log.delivery, self.model
        if delivery is None:
            assert not self.is_scheduled
            return model.end
        assert self.is_scheduled
        before = delivery.watermark
        assert delivery.advance(self.clock.now) == (delivery.watermark > before)
        if is_whole:
            catch_up(self)
            self.note_due()  # also of what was appended meanwhile
            expected = model.first_pending(min(before, model.releasable), self.limit)
            assert model.next_batch(delivery.watermark) == expected, (before, delivery.watermark, expected)
        return self.check_watermark()

    def check_watermark(self) -> int:
        """Compare the watermark with what may be visible, and with what was."""
        delivery, model = self.log.delivery, self.model
        if delivery is None:
            return model.end
        watermark = delivery.watermark
        assert max(model.released, model.start) <= watermark <= model.releasable, (watermark, model.releasable)
        inside = [batch for batch in model.stored if batch.base < watermark <= batch.last]
        assert not inside or watermark == model.start, (watermark, inside)
        model.released = watermark
        return watermark

    def before_retention(self) -> None:
        self.model.guard = self.release(is_whole=True) if self.is_scheduled else NEVER

    def deletable_end(self) -> int:
        """Return below what records may be deleted on demand: of those that are pending none."""
        return min(super().deletable_end(), self.release(is_whole=True))

    def check_own(self) -> None:
        super().check_own()
        self.note_due()
        self.check_watermark()

    def consume(self, reader: Reader, watermark: int, max_bytes: int) -> bool:
        """Let a consumer follow; tell whether it got anything."""
        model, log = self.model, self.log
        reader.begin_at(model.start)
        bound = min(log.last_stable_offset if reader.is_committed else log.high_watermark, watermark)
        found = log.read(reader.position, max_bytes=max_bytes, bound=bound, min_one_batch=True)
        got = stored_batches(content(found))
        expected = model.readable(reader.position, bound)
        assert [one.data for one in got] == [one.data for one in expected[: len(got)]], reader.position
        assert bool(got) == bool(expected)
        for batch in got:
            assert batch.base < model.releasable or not self.is_scheduled, batch.header
            reader.take(batch)
        return bool(got)

    def end(self) -> None:
        """Let everything become due, and consumers read it to the end: each batch was read once, in order."""
        self.is_over, self.fs.crash_at = True, None
        for producer_id in log_steps.TRANSACTIONAL:
            log_steps.end_of(self, producer_id, is_abort=False)
        self.is_lagging = False
        self.flush()
        self.advance()
        self.note_due()
        self.clock.set_by(LONG_AFTER_MS)
        watermark = self.release(is_whole=True)
        for reader in self.model.readers:
            while self.consume(reader, watermark, 2000):
                pass
            is_at_end = self.model.next_batch(reader.position) == self.model.next_batch(watermark)
            assert is_at_end or self.has_endless, (reader.position, watermark)
            assert not [batch.header for batch in self.model.visible() if reader.has_missed(batch)]


def catch_up(life: ScheduledLife) -> None:
    """Search until the log knows how far it may release, whatever happens meanwhile."""
    delivery = life.log.delivery
    assert delivery is not None
    while delivery.is_behind:
        search = delivery.plan_search(life.clock.now)
        assert search is not None
        life.meanwhile(BESIDE)
        try:
            found = search.run()
        except LogClosed:
            assert not life.log.holds(search)
            continue
        assert found.failure is None or not life.log.holds(search), found.failure
        if delivery.take(search, found):
            assert life.log.holds(search)
        delivery.advance(life.clock.now)
