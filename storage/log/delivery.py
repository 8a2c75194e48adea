"""The delivery watermark of a log whose topic is scheduled: below it every batch has come due, and consumers may read.

A batch is due when its largest timestamp plus the clock's uncertainty has come; until then it is pending, and so is
everything behind it. The watermark is the offset of the first pending batch, or the log end. It is derived from the log
and the clock and is nowhere stored. It may lie anywhere in a gap of offsets before that batch.

What is known is a lower bound, and mostly the time of the batch there. `advance` moves it on by a bounded number of
steps: it passes over segments and, by the time index, over stretches of one without looking at their batches. Where
that is not enough the log is behind, and a PendingSearch looks on in any thread. So the watermark is at times too low,
never too high; and what was released stays so, whatever becomes of the clock, until it is cut off the log.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from config.views import LONG_MAX
from protocol.records.batch import NO_TIMESTAMP
from protocol.records.errors import CorruptBatch
from storage.errors import CorruptIndex, InvalidTimestamp
from storage.log.delivery_times import in_words, warn_of_expired
from storage.log.guard import guarded
from storage.log.lateness_count import LatenessCount, Released
from storage.log.pending_search import Found, PendingSearch
from storage.log.reader import remember
from storage.log.state import LogState
from storage.segment.later import READ_STEPS, Bounds, Lead, Walk, lead_by, walk_until_later
from storage.segment.segment import Segment
from storage.segment.time_check import has_sure_times
from storage.segment.view import TimesFrom

MAX_STEPS: Final = 512
"""Of one advance. A step is a look at a header, some 0.4 µs; a read of a window of them counts as several."""
MEASURED_STEPS: Final = 256
"""So many are looked at one by one behind a head that was waited for, to tell how late they are, before any jump.

What is jumped over is counted afterwards, by a LatenessCount.
"""
MAX_UNCOUNTED: Final = 1024
"""So many releases of a log wait at most to be counted; what comes while nobody gets to it is left out."""
WARNING_INTERVAL_MS: Final = 3_600_000
"""Between two warnings that a partition was sent what retention takes at once."""
_NOTHING_SEEN: Final = LONG_MAX
FEW_STEPS: Final = 16
"""What each of those gets whose budget is used up: a read, and some headers."""
_LOOK_STEPS: Final = 64  # before the time index is asked: mostly the next pending batch is near
_JUMP_STEPS: Final = 32
_UNKNOWN_SEGMENT_STEPS: Final = 96  # the ends of two index files are read, and some headers

logger: Final = logging.getLogger(__name__)


class StepBudget:
    """Steps of one advance that several share, as those of all the partitions of a request; nobody gets none."""

    __slots__ = ("steps_left",)

    def __init__(self) -> None:
        self.steps_left = MAX_STEPS


class Delivery:
    """What is released of one log. Only the log's owner asks; only this object moves its watermark."""

    __slots__ = (
        "_at",
        "_counted_offset",
        "_held_since_ms",
        "_largest_timestamp",
        "_next_warning_ms",
        "_seen_limit",
        "_state",
        "_uncounted",
        "has_failed",
        "pending_timestamp",
        "watermark",
    )

    def __init__(self, state: LogState) -> None:
        self._state = state
        # What is released so far, at most the true watermark. Reading it costs nothing.
        self.watermark = max(state.released_offset, state.offsets.log_start_offset)
        # The time of the batch at the watermark; None while none is known to be pending.
        self.pending_timestamp: int | None = None
        self._at: tuple[Segment, int] | None = None  # where the first batch that ends above the watermark begins
        self._held_since_ms = 0  # when the head that was waited for last began to hold back
        self._seen_limit = _NOTHING_SEEN  # while a release goes on: what is later was seen to be pending
        self._counted_offset = 0  # what an advance has passed below it is in the statistics
        self._uncounted: list[Released] = []  # what was released without a look at each batch
        self._largest_timestamp: int | None = None  # of the whole log; None while nobody has looked
        self._next_warning_ms = 0  # before then, of what is too old, none is given
        self.has_failed = False  # the last look at the log, which is said once until one succeeds

    @property
    def due_ms(self) -> int | None:
        """When the batch at the watermark comes due; None while none is known to be pending."""
        pending = self.pending_timestamp
        return None if pending is None else pending + self._state.config.delivery_clock_uncertainty_ms

    @property
    def pending_count(self) -> int:
        """Offsets that are held back, as far as is known: of a log that is behind these may be too many."""
        return self._state.offsets.log_end_offset - self.watermark

    # --- moving on ---

    @property
    def is_behind(self) -> bool:
        """Tell whether the last advance has ended before it came to a pending batch or the log end."""
        return self.pending_timestamp is None and self.watermark < self._state.offsets.log_end_offset

    def advance(self, now_ms: int, budget: StepBudget | None = None) -> bool:
        """Release what has come due, within a bounded number of steps; tell whether the watermark moved.

        What one `budget` is given for takes together not much more than an advance without.

        Nothing is raised: what cannot be read holds the watermark where it is, with all that lies behind; that is said
        once, and tried again by the next call. Whoever advances owes a wake-up to those who wait for records.
        """
        pending = self.pending_timestamp
        limit = self._limit(now_ms)
        if pending is None:
            if self.watermark >= self._state.offsets.log_end_offset:
                return False
        elif pending > limit:
            return False
        if self._state.is_closed:
            return False
        if budget is None:
            budget = StepBudget()
        return self._advance(now_ms, limit, budget)

    def _limit(self, now_ms: int) -> int:
        """Return the time after which a batch is pending."""
        return now_ms - self._state.config.delivery_clock_uncertainty_ms

    def _advance(self, now_ms: int, limit: int, budget: StepBudget) -> bool:
        before = self._counted_offset = self.watermark
        steps = max(budget.steps_left, min(FEW_STEPS, MAX_STEPS))
        budget.steps_left -= steps  # what is left of them comes back
        passed: list[int] | None = None
        if self._forget_head():
            passed, self._seen_limit = [], self._limit(self._held_since_ms)
        try:
            budget.steps_left += self._pass_due(limit, steps, passed)
        except (OSError, CorruptBatch, CorruptIndex) as error:
            self._note_failure(str(error))
        else:
            self.has_failed = False
        if passed:
            self._tell_lateness(limit, passed)
        self._note_released(self._counted_offset, limit)
        if self.pending_timestamp is not None:
            self._held_since_ms = now_ms
        return self.watermark > before

    def _note_released(self, uncounted_offset: int, limit: int) -> None:
        """Leave to a count what was passed from an offset on, if that was seen to be pending."""
        if self._seen_limit == _NOTHING_SEEN:
            return
        if uncounted_offset < self.watermark and len(self._uncounted) < MAX_UNCOUNTED:
            self._uncounted.append(Released(uncounted_offset, self.watermark, self._seen_limit, limit))
        if not self.is_behind:
            self._seen_limit = _NOTHING_SEEN  # the next head has come, or the log end

    def _forget_head(self) -> bool:
        """Know of no pending batch any more; tell whether one was. Written in place, mypyc would rely on the None."""
        was_known = self.pending_timestamp is not None
        self.pending_timestamp = None
        return was_known

    def _pass_due(self, limit: int, steps: int, passed: list[int] | None) -> int:
        """Pass what is due; return the steps left."""
        if self._at is None or self._state.segments.floor(self._at[0].base_offset) is not self._at[0]:
            self._find_place(limit)
        if passed is not None and self._at is not None:
            measured_steps = min(steps, MEASURED_STEPS)
            steps += self._walk(limit, measured_steps, passed).steps_left - measured_steps
            self._counted_offset = self.watermark
        while self._at is not None and self.pending_timestamp is None and steps > 0:
            segment, position = self._at
            if position < segment.log.size:
                steps -= 1 if segment.is_timestamp_known else _UNKNOWN_SEGMENT_STEPS
                if not self._is_due(segment, limit):
                    steps = self._walk_by_index(segment, limit, steps)
                    continue
            self._enter(self._state.segments.after(segment))
        return steps

    def _find_place(self, limit: int) -> None:
        """Find where the first batch that ends above the watermark begins; leave it to a search where that is not sure.

        An index that misleads would pass what is pending. Where all of a segment is due nothing has to be found.
        """
        segments, watermark = self._state.segments, self.watermark
        segment = segments.floor(watermark) or segments.first()
        if self._is_due(segment, limit):
            self._enter(segments.after(segment))
            return
        position = segment.locate(watermark)
        if position == 0 or (position is not None and segment.log.header_at(position).base_offset <= watermark):
            self._at = segment, position

    def _is_due(self, segment: Segment, limit: int) -> bool:
        """Tell whether all batches of a segment are known to be due."""
        segment.ensure_indexes()
        if segment.largest_timestamp > limit:
            return False
        if segment.times_from is TimesFrom.INDEX:
            self._state.segments.note_use(segment)
        return has_sure_times(segment, self._end_of(segment))

    def _end_of(self, segment: Segment) -> int:
        """Return the offset below which the batches of a segment end."""
        following = self._state.segments.after(segment)
        return self._state.offsets.log_end_offset if following is None else following.base_offset

    def _enter(self, segment: Segment | None) -> None:
        """Take all before a segment for due; all there is without one."""
        if segment is None:
            self._at, self.watermark = None, self._state.offsets.log_end_offset
        else:
            self._at, self.watermark = (segment, 0), max(segment.base_offset, self.watermark)

    def _walk_by_index(self, segment: Segment, limit: int, steps: int) -> int:
        """Walk in a segment that holds something later, most of the way by its time index; return the steps left."""
        look = min(steps, _LOOK_STEPS)
        walk = self._walk(limit, look)
        left = steps - look + walk.steps_left
        if walk.failure is None and (left <= 0 or walk.later is not None or walk.position >= segment.log.size):
            return left
        lead = self._lead(segment, limit)
        if lead is not None and lead.position > walk.position:
            self._at, self.watermark = (segment, lead.position), max(lead.next_offset, self.watermark)
        elif walk.failure is not None:
            raise walk.failure
        walk = self._walk(limit, max(left - _JUMP_STEPS, READ_STEPS + 1))
        if walk.failure is not None:
            raise walk.failure
        return walk.steps_left

    def _lead(self, segment: Segment, limit: int) -> Lead | None:
        """Ask the time index how far all is due; None where it says nothing, or cannot be followed."""
        if segment.times_from is TimesFrom.DISPROVED:
            return None
        try:
            entry = segment.time_index.lookup(limit)
            if entry[1] <= self.watermark:
                return None
            return lead_by(segment.log, segment.offset_index.lookup(entry[1]), entry)
        except (OSError, CorruptBatch, CorruptIndex):
            return None  # what can be walked is

    def _walk(self, limit: int, steps: int, passed: list[int] | None = None) -> Walk:
        """Pass batches one by one within a segment, as far as they can be read."""
        assert self._at is not None
        segment, position = self._at
        self._state.segments.note_use(segment)
        bounds = Bounds(limit, self._end_of(segment))
        walk = walk_until_later(segment.log, position, self.watermark, bounds, steps, passed)
        self._at, self.watermark, self.pending_timestamp = (segment, walk.position), walk.next_offset, walk.later
        if walk.later is not None or walk.failure is not None:
            self._end_reads()
        return walk

    def _end_reads(self) -> None:
        """Let those who read up to the watermark find their end without any index, which damage would mislead."""
        if self._at is not None:
            remember(self._state.read_positions, self.watermark, *self._at)

    def _tell_lateness(self, limit: int, passed: list[int]) -> None:
        for timestamp in passed:
            if timestamp > self._seen_limit:
                self._state.stats.on_activated(limit - timestamp)

    def _note_failure(self, reason: str) -> None:
        if not self.has_failed:
            self.has_failed = True
            logger.error(
                "records may be late, as the log cannot be read partition=%s watermark=%d reason=%s",
                self._state.tp,
                self.watermark,
                reason,
            )

    # --- beside the owner ---

    def plan_search(self, now_ms: int) -> PendingSearch | None:
        """Plan to look for the next pending batch in another thread; None unless the log is behind."""
        state = self._state
        if not self.is_behind or state.is_closed:
            return None
        return PendingSearch(state, self.watermark, self._at, self._limit(now_ms), now_ms)

    def take(self, search: PendingSearch, found: Found) -> bool:
        """Release what a search has found to be due, if its result still holds; tell whether the watermark moved."""
        state, before = self._state, self.watermark
        if state.is_closed or not search.still_holds(state) or found.offset < before:
            return False
        if found.offset > before or self.pending_timestamp is None:
            self._at, self.watermark, self.pending_timestamp = found.at, found.offset, found.later
            self._held_since_ms = search.now_ms
            self._end_reads()
            if found.failure is None:
                self.has_failed = False
            else:
                self._note_failure(found.failure)
            self._note_released(before, self._limit(search.now_ms))
        return self.watermark > before

    @property
    def has_uncounted(self) -> bool:
        """Tell whether there is something for `plan_count`."""
        return bool(self._uncounted)

    def plan_count(self) -> LatenessCount | None:
        """Plan to count in another thread how late some of what was released was; None when all is counted."""
        state = self._state
        while self._uncounted and not state.is_closed:
            released = self._uncounted.pop(0)
            first_offset = max(released.first_offset, state.offsets.log_start_offset)
            if first_offset < released.end_offset:
                return LatenessCount(state, released._replace(first_offset=first_offset))
        return None

    def count_later(self, released: Released) -> None:
        """Take back what a count has left."""
        self._uncounted.insert(0, released)

    # --- appends ---

    def admit(self, max_timestamp: int, now_ms: int) -> None:
        """Check the time of a client's batch, just before it gets its offset.

        Raises: InvalidTimestamp; StorageFailure, CorruptRecord. Blocking: ends of index files, the first time after the
        order was asked for of a log that was open.
        """
        config = self._state.config
        max_delay_ms = config.delivery_max_delay_ms
        if 0 <= max_delay_ms < max_timestamp - now_ms:
            raise InvalidTimestamp(
                f"The batch is to be delivered at {in_words(max_timestamp)}, which is {max_timestamp - now_ms} ms "
                f"from now; delivery.max.delay.ms allows {max_delay_ms} ms"
            )
        if config.delivery_schedule_monotonic:
            largest = self._largest_timestamp
            if largest is None:
                largest = self._largest_timestamp = guarded(self._state, "look for the last time in", self._largest)
            if largest > max_timestamp:
                raise InvalidTimestamp(
                    f"The batch is to be delivered at {in_words(max_timestamp)}, before one in the log that is to be "
                    f"delivered at {in_words(largest)}; delivery.schedule.monotonic forbids that"
                )
        if 0 <= config.retention_ms < now_ms - max_timestamp:
            self._note_expired(max_timestamp, now_ms)

    def _note_expired(self, max_timestamp: int, now_ms: int) -> None:
        """Say now and then that a batch is older than retention allows; one without a time is not meant."""
        config = self._state.config
        if max_timestamp >= 0 and config.is_delete and now_ms >= self._next_warning_ms:
            self._next_warning_ms = now_ms + WARNING_INTERVAL_MS
            warn_of_expired(self._state.tp, max_timestamp, config.retention_ms)

    def learn_order(self) -> None:
        """Look for the largest timestamp before an append asks, where the order counts; what fails is left to that.

        Blocking: ends of all index files.
        """
        if self._state.config.delivery_schedule_monotonic:
            with suppress(OSError, CorruptBatch, CorruptIndex):
                self._largest_timestamp = self._largest()

    def _largest(self) -> int:
        """Return the largest timestamp of the log, -1 without one."""
        largest = NO_TIMESTAMP
        for segment in self._state.segments:
            if not segment.is_timestamp_known:
                segment.ensure_indexes()
                segment.release_files()
            largest = max(largest, segment.largest_timestamp)
        return largest

    def note_append(
        self, segment: Segment, position: int, base_offset: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> None:
        """Take note of a batch that was written; it is released at once if it is due and nothing pends before it."""
        if self._largest_timestamp is not None and self._largest_timestamp < max_timestamp:
            self._largest_timestamp = max_timestamp
        if self.watermark == base_offset:
            if max_timestamp <= self._limit(now_ms):
                self.watermark = last_offset + 1
            else:
                self.pending_timestamp = max_timestamp
                self._at = (segment, position)
                self._held_since_ms = now_ms
                remember(self._state.read_positions, base_offset, segment, position)

    def forget_largest(self) -> None:
        """Look anew for the largest timestamp when it is asked for: segments or several batches came or went."""
        self._largest_timestamp = None

    # --- the ends of the log ---

    def cut(self, offset: int) -> None:
        """Follow a truncation: what is appended from `offset` on is another story."""
        self.watermark = min(self.watermark, offset)
        self._uncounted = [
            released._replace(end_offset=min(released.end_offset, offset))
            for released in self._uncounted
            if released.first_offset < offset
        ]
        self._forget()

    def begin_at(self, offset: int) -> None:
        """Follow a start that has moved beyond the watermark, or a log that was emptied."""
        self.watermark = offset
        self._forget()

    def follow_start(self, log_start_offset: int) -> None:
        """Follow the log start where it has moved beyond the watermark."""
        if log_start_offset > self.watermark:
            self.begin_at(log_start_offset)

    def take_over(self, before: Delivery) -> None:
        """Go on where the same records were released from another directory; what was released stays so."""
        self._forget()
        self.watermark, self.pending_timestamp = before.watermark, before.pending_timestamp
        self._held_since_ms, self._largest_timestamp = before._held_since_ms, before._largest_timestamp
        self._seen_limit, self._uncounted = before._seen_limit, before._uncounted

    def _forget(self) -> None:
        self._seen_limit = _NOTHING_SEEN
        self.pending_timestamp = self._at = self._largest_timestamp = None


def follow_mode(state: LogState) -> None:
    """Let a log have a watermark while its topic is scheduled; what one released stays released by the next."""
    delivery = state.delivery
    if not state.config.is_scheduled:
        if delivery is not None:
            state.released_offset, state.delivery = delivery.watermark, None
    elif delivery is None:
        state.delivery = Delivery(state)


def take_over(state: LogState, before: LogState) -> None:
    """Let a copy that becomes the log go on with what was released of it."""
    state.released_offset = before.released_offset
    if state.delivery is not None and before.delivery is not None:
        state.delivery.take_over(before.delivery)


def note_cut(state: LogState, offset: int) -> None:
    """Take note that the log now ends at `offset`."""
    state.released_offset = min(state.released_offset, offset)
    if state.delivery is not None:
        state.delivery.cut(offset)


def released_end(state: LogState) -> int:
    """Return the offset below which all is replicated and released: what may be deleted."""
    high_watermark = state.offsets.high_watermark
    return high_watermark if state.delivery is None else min(high_watermark, state.delivery.watermark)
