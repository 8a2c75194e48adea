"""Scheduled delivery of one log against a list: whatever happens, no batch is released early, and none is lost.

The log is appended to, cut, emptied, rolled, retained, reopened, made immediate and scheduled again, while the clock
goes forth and back, the uncertainty changes, and searches are planned that end at any time later. A consumer reads
below the watermark all along.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from config.views import LONG_MAX, LogConfig
from protocol.records.batch import iter_batches
from storage.env.clock import SeededRng
from storage.errors import InvalidTimestamp
from storage.log import delivery
from storage.log.partition_log import PartitionLog
from storage.log.pending_search import PendingSearch
from storage.types import AppendOrigin
from tests.sim.crash_fs import CrashFS
from tests.sim.log_life import Clock
from tests.sim.logs import TP, batch

UNCERTAINTIES = (1, 250, 5000)
MAX_DELAY_MS = 20_000
CONFIG = LogConfig(
    delivery_mode="scheduled",
    delivery_max_delay_ms=-1,
    message_timestamp_after_max_ms=LONG_MAX,
    segment_bytes=700,
    segment_ms=30_000,
    index_interval_bytes=0,
    retention_ms=20_000,
    retention_bytes=2000,
    file_delete_delay_ms=0,
    writeback_window_bytes=0,
)

delays = st.one_of(st.integers(-3000, 3000), st.sampled_from([-1_000_000, 10_000, MAX_DELAY_MS, MAX_DELAY_MS + 1]))


class Batch(NamedTuple):
    """One batch of the model."""

    base: int
    last: int
    time: int


class Deliveries(RuleBasedStateMachine):
    """A log and the list that it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="odradek-delivery-")
        self.fs = CrashFS(self.root)
        self.clock = Clock()
        self.config = CONFIG
        self.batches: list[Batch] = []
        self.end = 0
        self.released = 0  # what the log has said to be released and not lost by a cut or a restart
        self.position = 0  # of the consumer
        self.searches: list[tuple[object, PendingSearch, int]] = []

    @initialize(steps=st.sampled_from([9, 20, 512]))
    def open(self, steps: int) -> None:
        self.real_steps = (delivery.MAX_STEPS, delivery.MEASURED_STEPS)
        delivery.MAX_STEPS, delivery.MEASURED_STEPS = steps, steps // 2
        self.log = self._open(clean=False)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            delivery.MAX_STEPS, delivery.MEASURED_STEPS = self.real_steps
        shutil.rmtree(self.root)

    def _open(self, *, clean: bool, start: int = 0, high_watermark: int = 0) -> PartitionLog:
        return PartitionLog.open(
            self.fs,
            self.clock,
            SeededRng(1),
            f"{self.root}/t-0",
            TP,
            self.config,
            clean=clean,
            log_start_offset=start,
            high_watermark=high_watermark,
        )

    # --- the model ---

    @property
    def start(self) -> int:
        return self.log.log_start_offset

    def due_end(self, now_ms: int) -> tuple[int, int]:
        """Give the true watermark at a time, going on from what is released: from and to where no batch begins."""
        offset = max(self.released, self.start)
        for one in self.batches:
            if one.last < offset:
                continue
            if one.time + self.config.delivery_clock_uncertainty_ms > now_ms:
                return offset, max(offset, one.base)
            offset = one.last + 1
        return offset, self.end

    def note(self, now_ms: int) -> None:
        """Hold what the log says to be released against the list."""
        if self.log.delivery is None:
            return
        watermark = self.log.delivery.watermark
        assert max(self.released, self.start) <= watermark <= self.due_end(now_ms)[1]
        self.released = watermark

    # --- appends ---

    @rule(delay=delays, count=st.integers(1, 3), size=st.sampled_from([1, 1, 150]))
    def append(self, delay: int, count: int, size: int) -> None:
        self._append(self.clock.now + delay, count, b"v" * size)

    @rule(delays=st.lists(delays, min_size=5, max_size=20))
    def append_many(self, delays: list[int]) -> None:
        for delay in delays:
            self._append(self.clock.now + delay, 1, b"v")

    @rule(time=st.sampled_from([0, LONG_MAX - 10]))
    def append_odd(self, time: int) -> None:
        self._append(time, 1, b"v")

    def _append(self, time: int, count: int, value: bytes) -> None:
        newest = time + count - 1
        largest = max((one.time for one in self._in_files()), default=-1)
        config = self.log.config
        is_refused = config.is_scheduled and (
            (0 <= config.delivery_max_delay_ms < newest - self.clock.now)
            or (config.delivery_schedule_monotonic and newest < largest)
        )
        try:
            result = self.log.append(batch(count, timestamp=time, value=value), leader_epoch=0)
        except InvalidTimestamp:
            assert is_refused
            return
        assert not is_refused and result.base_offset == self.end
        self._note_batch(Batch(self.end, self.end + count - 1, newest))

    def _in_files(self) -> list[Batch]:
        first = self.log.first_segment_base_offset
        return [one for one in self.batches if one.base >= first]

    @rule(delay=delays, gap=st.integers(0, 5))
    def replicate(self, delay: int, gap: int) -> None:
        self.replicate_one(delay, gap)

    def replicate_one(self, delay: int, gap: int) -> None:
        records = batch(timestamp=self.clock.now + delay)
        base = self.end + gap
        records[:8] = base.to_bytes(8, "big")
        self.log.append(records, leader_epoch=0, origin=AppendOrigin.REPLICATION)
        self._note_batch(Batch(base, base, self.clock.now + delay))

    def _note_batch(self, one: Batch) -> None:
        self.batches.append(one)
        self.end = one.last + 1
        self.log.advance_high_watermark(self.end)
        self.note(self.clock.now)

    # --- the clock, and what moves the watermark ---

    @rule(ms=st.sampled_from([1, 50, 250, 1000, 5000, 30_000]))
    def wait(self, ms: int) -> None:
        self.clock.now += ms

    @precondition(lambda self: self.log.delivery is not None and self.log.delivery.pending_timestamp is not None)
    @rule(ms=st.sampled_from([-1, 0]))
    def wait_for_the_head(self, ms: int) -> None:
        due_ms = self.log.delivery.pending_timestamp + self.config.delivery_clock_uncertainty_ms
        if due_ms < 1 << 60:
            self.clock.now = due_ms + ms
            self.advance_to_the_end()

    @rule(ms=st.sampled_from([1, 1000, 60_000]))
    def set_back(self, ms: int) -> None:
        self.clock.now -= ms

    @precondition(lambda self: self.log.delivery is not None)
    @rule()
    def advance(self) -> None:
        before = self.log.delivery.watermark
        assert self.log.delivery.advance(self.clock.now) is (self.log.delivery.watermark > before)
        self.note(self.clock.now)

    @precondition(lambda self: self.log.delivery is not None)
    @rule()
    def advance_to_the_end(self) -> None:
        now = self.clock.now
        lowest, highest = self.due_end(now)
        self.log.delivery.advance(now)
        while (search := self.log.delivery.plan_search(now)) is not None:
            self.log.delivery.take(search, search.run())
            self.log.delivery.advance(now)
        assert lowest <= self.log.delivery.watermark <= highest
        pending = next((one.time for one in self.batches if one.last >= lowest), None)
        assert self.log.delivery.pending_timestamp == pending
        self.note(now)

    @precondition(lambda self: self.log.delivery is not None)
    @rule()
    def plan(self) -> None:
        search = self.log.delivery.plan_search(self.clock.now)
        if search is not None:
            self.searches.append((search.run(), search, self.config.delivery_clock_uncertainty_ms))

    @precondition(lambda self: self.log.delivery is not None and self.searches)
    @rule()
    def take(self) -> None:
        found, search, uncertainty_ms = self.searches.pop()
        self.log.delivery.take(search, found)
        more_ms = self.config.delivery_clock_uncertainty_ms - uncertainty_ms  # than held when it was planned
        self.note(max(self.clock.now, search.now_ms + more_ms))

    # --- the ends ---

    @rule(share=st.integers(0, 10), delays=st.tuples(delays, delays))
    def truncate(self, share: int, delays: tuple[int, int]) -> None:
        self.log.truncate_to(offset := self.start + (self.end - self.start) * share // 10)
        self._cut(offset)
        self._append(self.clock.now + delays[0], 1, b"w")
        self.replicate_one(delays[1], 0)

    def empty(self) -> None:
        offset = self.end + 5
        self.log.truncate_fully_and_start_at(offset)
        self.batches.clear()
        self.end = self.released = self.position = offset

    def _cut(self, offset: int) -> None:
        self.batches = [one for one in self.batches if one.last < offset]
        self.end = offset
        self.released = min(self.released, offset)
        self.position = min(self.position, offset)

    def roll(self) -> None:
        self.log.roll()

    @rule(share=st.integers(0, 10))
    def delete_records(self, share: int) -> None:
        self.log.increment_log_start_offset(self.start + (self.log.released_end_offset - self.start) * share // 10)
        self.released = max(self.released, self.start)

    def retain(self) -> None:
        end = self.log.released_end_offset
        while (removal := self.log.retain(self.clock.now)) is not None:
            removal.rename()
            self.log.removed(removal)
        assert self.start <= end

    @rule(what=st.sampled_from(["empty", "roll", "retain", "flip"]))
    def do(self, what: str) -> None:
        {"empty": self.empty, "roll": self.roll, "retain": self.retain, "flip": self.flip}[what]()

    # --- settings and restarts ---

    @rule(
        uncertainty=st.sampled_from(UNCERTAINTIES), max_delay=st.sampled_from([-1, MAX_DELAY_MS]), strict=st.booleans()
    )
    def configure(self, uncertainty: int, max_delay: int, strict: bool) -> None:
        self.config = replace(
            self.config,
            delivery_clock_uncertainty_ms=uncertainty,
            delivery_max_delay_ms=max_delay,
            delivery_schedule_monotonic=strict,
        )
        self.log.config = self.config

    def flip(self) -> None:
        self.config = replace(self.config, delivery_mode="immediate" if self.log.delivery is not None else "scheduled")
        self.log.config = self.config

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        start, high_watermark = self.start, self.log.high_watermark
        self.log.close()
        self.log = self._open(clean=clean, start=start, high_watermark=high_watermark)
        assert (self.batches[-1].last + 1 if self.batches else 0) <= self.log.log_end_offset <= self.end
        self.end = self.log.log_end_offset  # what a truncation left out at the end is forgotten
        self.position = min(self.position, self.end)
        self.released = self.start
        self.note(self.clock.now)

    # --- the consumer ---

    @rule()
    def consume(self) -> None:
        """Read on; what was released before a restart may come again, what is skipped was deleted."""
        log = self.log
        self.position = max(self.position, self.start)
        bound = log.released_end_offset
        while self.position < bound:
            found = log.read(self.position, max_bytes=300, bound=bound, min_one_batch=True)
            if found.region is None:
                assert not [one for one in self.batches if self.position <= one.last < bound]
                return
            data = found.region.read()
            found.region.release()
            for _, header in iter_batches(data):
                expected = next(one for one in self.batches if one.last >= self.position)
                assert (header.base_offset, header.last_offset) == expected[:2]
                assert header.max_timestamp == expected.time
                self.position = expected.last + 1

    @invariant()
    def the_watermark_cuts_no_batch(self) -> None:
        if hasattr(self, "log") and self.log.delivery is not None:
            watermark = self.log.delivery.watermark
            inside = [one for one in self.batches if one.base < watermark <= one.last]
            assert not inside or watermark == self.start


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
