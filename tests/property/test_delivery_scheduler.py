"""The scheduler alone, which nobody asks: whatever is appended, set and changed, it releases what is due, and no more.

A watermark may be late by one sleep after the wall clock was set, else by nothing that whole milliseconds show.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.partition.delivery_scheduler import MAX_SLEEP_MS
from broker.partition.partition import Partition
from config.views import LogConfig
from protocol.records.builder import build_batch
from tests.harness.hosted import NODE_ID, OTHER_ID, Hosted
from tests.harness.scheduled import E_MS, SCHEDULED

TOPICS = ("a", "b")
IMMEDIATE = LogConfig(message_timestamp_after_max_ms=1 << 60)

delays = st.one_of(st.integers(-500, 1_500), st.integers(3_000, 10_000))
steps = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(TOPICS), delays),
    st.tuples(st.just("append"), st.sampled_from(TOPICS), delays),
    st.tuples(st.just("pass"), st.just(""), st.integers(1_000, 2_000)),
    st.tuples(st.just("pass"), st.just(""), st.integers(1, 300)),
    st.tuples(st.just("set clock"), st.just(""), st.sampled_from([-10_000, -300, 300, 10_000])),
    st.tuples(st.sampled_from(["other mode", "other leader"]), st.sampled_from(TOPICS), st.just(0)),
)


class Schedule:
    """What one topic's partition has, and what of it must be released."""

    def __init__(self, hosted: Hosted, name: str) -> None:
        self.hosted = hosted
        self.name = name
        self.partition: Partition = hosted.create(name, config=SCHEDULED)
        self.times_ms: list[int] = []
        self.released = 0  # at least

    def append(self, in_ms: int) -> None:
        if self.partition.is_leader:
            time_ms = self.hosted.clock.now_ms() + in_ms
            self.partition.append(build_batch([(b"k", b"v")], timestamp=time_ms))
            self.times_ms.append(time_ms)

    def due(self) -> int:
        """Count the batches before the first one that is neither due nor was released before."""
        limit_ms = self.hosted.clock.now_ms() - E_MS
        offsets = range(self.released, len(self.times_ms))
        return next((offset for offset in offsets if self.times_ms[offset] > limit_ms), len(self.times_ms))

    def check(self, *, is_late: bool) -> None:
        delivery = self.partition.log.delivery
        if delivery is None or not self.partition.is_leader:
            return
        assert self.released <= delivery.watermark <= self.due()
        assert is_late or delivery.watermark == self.due()
        self.released = delivery.watermark


@given(st.lists(steps, min_size=5, max_size=40))
@settings(max_examples=60, deadline=None)
def test_the_scheduler_releases_what_is_due_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, life: list[tuple[str, str, int]]
) -> None:
    hosted = Hosted(tmp_path_factory.mktemp("logs"))
    schedules = {name: Schedule(hosted, name) for name in TOPICS}
    late_ms = 0  # what may have passed unnoticed since the wall clock was set
    for what, name, amount in life:
        if what == "pass":
            hosted.timers.pass_ms(amount)
            late_ms = max(0, late_ms - amount)
        elif what == "set clock":
            hosted.clock.set_by_ms += amount
            late_ms = MAX_SLEEP_MS
        elif what == "append":
            schedules[name].append(amount)
        elif what == "other mode":
            config = IMMEDIATE if hosted.configs[name].is_scheduled else SCHEDULED
            hosted.configure(name, config)
        else:
            partition = schedules[name].partition
            hosted.lead(name, OTHER_ID if partition.is_leader else NODE_ID, partition.leader_epoch + 1)
        for schedule in schedules.values():
            schedule.check(is_late=late_ms > 0 or what != "pass")
        followed = sum(schedule.partition.delivery is not None for schedule in schedules.values())
        assert (len(hosted.deliveries), hosted.timers.next_in_ms is not None) == (followed, followed > 0)
    hosted.logs.close(clean=False)
    hosted.pools.close()
