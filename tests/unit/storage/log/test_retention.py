"""The decision: which of the oldest segments may go. Segments here are numbers, the clock is an argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from config.views import LogConfig
from storage.log.retention import FUTURE_TOLERANCE_MS, MAX_SEGMENTS_PER_DECISION, Decision, Ends, Reason, deletable

NOW = 1_700_000_000_000
UNLIMITED = -1
HOUR = 3_600_000


@dataclass
class Fake:
    """A segment of ten offsets."""

    base_offset: int
    size: int = 10
    newest: int = NOW
    asked: list[int] = field(default_factory=list)

    def retention_timestamp(self) -> int:
        self.asked.append(self.base_offset)
        return self.newest


def segments(*newest: int, size: int = 10) -> list[Fake]:
    return [Fake(10 * at, size, timestamp) for at, timestamp in enumerate(newest)]


def decide(
    log: list[Fake],
    *,
    start: int = 0,
    high_watermark: int | None = None,
    end: int | None = None,
    now_ms: int = NOW,
    **config: object,
) -> Decision:
    settings = LogConfig(**{"retention_ms": UNLIMITED, "retention_bytes": UNLIMITED, **config})
    end = log[-1].base_offset + 10 if end is None else end
    ends = Ends(start, end if high_watermark is None else high_watermark, end)
    return deletable(log, ends, settings, now_ms)


def count(decision: Decision) -> int:
    return len(decision.reasons)


# --- time ---


def test_a_segment_of_exactly_the_age_stays_and_a_millisecond_later_goes() -> None:
    log = segments(NOW - 1000, NOW)
    assert count(decide(log, retention_ms=1000)) == 0
    assert decide(log, retention_ms=1000, now_ms=NOW + 1).reasons == (Reason.TIME,)


def test_zero_deletes_everything_older_than_now_strictly() -> None:
    log = segments(NOW - 2, NOW - 1, NOW)
    decision = decide(log, retention_ms=0)
    assert count(decision) == 2 and not decision.needs_roll


def test_a_negative_retention_is_unlimited() -> None:
    assert count(decide(segments(0, 0), retention_ms=-1)) == 0


def test_the_walk_stops_at_the_first_segment_that_stays_though_later_ones_have_expired() -> None:
    log = segments(0, NOW, 0)
    assert count(decide(log, retention_ms=1000)) == 1
    assert log[2].asked == []


def test_an_expired_active_segment_goes_after_a_roll() -> None:
    decision = decide(segments(0, 0), retention_ms=1000)
    assert count(decision) == 2 and decision.needs_roll


def test_an_empty_active_segment_is_never_deleted() -> None:
    log = segments(0, 0)
    log[-1].size = 0
    decision = decide(log, retention_ms=0, end=10)
    assert count(decision) == 1 and not decision.needs_roll
    assert count(decide([Fake(0, 0, 0)], end=0, retention_ms=0, retention_bytes=0)) == 0


@pytest.mark.parametrize(("high_watermark", "expected"), [(9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3)])
def test_nothing_at_or_beyond_the_high_watermark_goes(high_watermark: int, expected: int) -> None:
    log = segments(0, 0, 0)
    assert count(decide(log, retention_ms=1, high_watermark=high_watermark)) == expected
    assert count(decide(log, retention_bytes=0, high_watermark=high_watermark)) == expected


def test_timestamps_at_the_ends_of_their_range_do_not_overflow() -> None:
    far = (1 << 63) - 1
    assert count(decide(segments(far, 0), retention_ms=0)) == 0
    assert count(decide(segments(0, far), retention_ms=far)) == 0
    assert count(decide(segments(0, 0, 1 << 62), retention_ms=1000)) == 2


def test_an_odd_future_timestamp_that_pins_a_segment_is_reported() -> None:
    ahead = NOW + FUTURE_TOLERANCE_MS
    assert decide(segments(ahead), retention_ms=1).future_timestamp is None
    assert decide(segments(0, ahead + 1), retention_ms=1).future_timestamp == ahead + 1
    assert decide(segments(ahead + 1)).future_timestamp is None


# --- size ---


@pytest.mark.parametrize(
    ("limit", "expected"), [(41, 0), (40, 0), (35, 0), (31, 0), (30, 1), (29, 1), (20, 2), (-5, 0)]
)
def test_the_log_never_drops_below_the_size_limit(limit: int, expected: int) -> None:
    decision = decide(segments(NOW, NOW, NOW, NOW), retention_bytes=limit)
    assert decision.reasons == (Reason.SIZE,) * expected


def test_a_size_limit_of_zero_deletes_all_after_a_roll() -> None:
    decision = decide(segments(NOW, NOW, NOW, NOW), retention_bytes=0)
    assert count(decision) == 4 and decision.needs_roll


def test_size_looks_at_no_timestamp() -> None:
    log = segments(NOW, NOW, NOW)
    decide(log, retention_bytes=10)
    assert [one.asked for one in log] == [[], [], []]


# --- log start ---


@pytest.mark.parametrize(("start", "expected"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (30, 2)])
def test_segments_wholly_below_the_log_start_go_and_the_active_one_stays(start: int, expected: int) -> None:
    decision = decide(segments(NOW, NOW, NOW), start=start)
    assert decision.reasons == (Reason.LOG_START,) * expected and not decision.needs_roll


@pytest.mark.parametrize("policy", [frozenset({"compact"}), frozenset()])
def test_without_delete_in_the_policy_only_the_log_start_counts(policy: frozenset[str]) -> None:
    decision = decide(segments(0, 0, 0), start=10, retention_ms=0, retention_bytes=0, cleanup_policy=policy)
    assert decision.reasons == (Reason.LOG_START,)


def test_compact_and_delete_together_expire_like_delete() -> None:
    policy = frozenset({"compact", "delete"})
    assert count(decide(segments(0, 0), retention_ms=0, cleanup_policy=policy)) == 2


def test_the_passes_go_on_where_the_one_before_stopped() -> None:
    decision = decide(segments(NOW, NOW, 0, NOW), start=10, retention_bytes=20, retention_ms=1000)
    assert decision.reasons == (Reason.LOG_START, Reason.SIZE, Reason.TIME)


def test_one_decision_is_bounded_and_asking_again_continues() -> None:
    log = segments(*[0] * (MAX_SEGMENTS_PER_DECISION + 3))
    decision = decide(log, retention_ms=0)
    assert count(decision) == MAX_SEGMENTS_PER_DECISION and not decision.needs_roll
    rest = log[MAX_SEGMENTS_PER_DECISION:]
    assert decide(rest, start=rest[0].base_offset, retention_ms=0).needs_roll


# --- how old the oldest record gets ---


@pytest.mark.parametrize(
    ("retention_hours", "segment_hours", "expected_hours"),
    [(1, 24, 25), (12, 24, 36), (24, 24, 48), (3 * 24, 24, 4 * 24)],
)
def test_the_oldest_record_of_a_slow_topic_gets_as_old_as_retention_and_roll_together(
    retention_hours: int, segment_hours: int, expected_hours: int
) -> None:
    oldest = _oldest_seen(
        record_every_ms=60_000,
        rolls_when=lambda first, now, _: now - first > segment_hours * HOUR,
        retention_ms=retention_hours * HOUR,
        days=expected_hours // 24 + 4,
    )
    assert expected_hours * HOUR - 120_000 <= oldest <= expected_hours * HOUR + CHECK_INTERVAL_MS + 120_000


def test_the_oldest_record_of_a_busy_topic_gets_as_old_as_retention_and_the_time_to_fill_a_segment() -> None:
    oldest = _oldest_seen(
        record_every_ms=1000, rolls_when=lambda first, now, size: size >= 600, retention_ms=HOUR, days=1
    )
    assert HOUR + 600_000 - 2000 <= oldest <= HOUR + 600_000 + CHECK_INTERVAL_MS + 2000


CHECK_INTERVAL_MS = 300_000


def _oldest_seen(
    *, record_every_ms: int, rolls_when: Callable[[int, int, int], bool], retention_ms: int, days: int
) -> int:
    """Run a topic with one record a period on a simulated clock; return the greatest age of a readable record."""
    log = [Fake(0, 0, 0)]
    first_of = {0: 0}
    oldest = 0
    for offset, now in enumerate(range(0, days * 24 * HOUR, record_every_ms)):
        active = log[-1]
        if active.size and rolls_when(first_of[active.base_offset], now, active.size):
            log.append(Fake(offset, 0, now))
        active = log[-1]
        first_of.setdefault(active.base_offset, now)
        active.size += 1
        active.newest = now
        oldest = max(oldest, now - first_of[log[0].base_offset])
        if now % CHECK_INTERVAL_MS == 0:
            taken = count(decide(log, start=log[0].base_offset, end=offset + 1, now_ms=now, retention_ms=retention_ms))
            del log[:taken]
    return oldest
