"""The ring of samples: rates from counters."""

from __future__ import annotations

import pytest

from broker.metrics.instruments import BrokerStats, TopicStats
from broker.metrics.loop_watch import LoopWatch
from broker.partition.traffic import Traffic
from broker.status.samples import MAX_SAMPLES, TOPICS_PER_TURN, Flow, Samples


class Rig:
    def __init__(self) -> None:
        self.traffic = Traffic()
        self.stats = BrokerStats()
        self.loop_watch = LoopWatch(lambda: 0, lambda: 0)
        self.now_ns = 0
        self.samples = Samples(self.traffic, self.stats, self.loop_watch, lambda: self.now_ns)

    def add(self, topic: str) -> TopicStats:
        return self.traffic.of(topic)

    async def take(self, after_seconds: float) -> None:
        self.now_ns += int(after_seconds * 1e9)
        await self.samples.take()


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_rates_are_by_the_second_whatever_time_has_passed(rig: Rig) -> None:
    one = rig.add("t")
    assert rig.samples.flow("t") is None
    one.messages_in, one.bytes_in, one.bytes_out = 50, 1000, 0
    await rig.take(5)
    one.messages_in, one.bytes_in, one.bytes_out = 70, 1400, 3000
    await rig.take(10)
    assert [sample[:3] for sample in rig.samples.ring] == [(10, 200, 0), (2, 40, 300)]
    assert rig.samples.flow("t") == Flow(2, 40, 300)


async def test_a_topic_that_rests_or_is_not_known_has_no_flow(rig: Rig) -> None:
    rig.add("t").bytes_in = 500
    await rig.take(5)
    await rig.take(5)
    assert rig.samples.flow("t") == rig.samples.flow("other") == Flow(0, 0, 0)


async def test_a_topic_that_goes_or_is_made_anew_takes_nothing_away(rig: Rig) -> None:
    rig.add("t").bytes_in = 1000
    rig.add("u")
    await rig.take(5)
    rig.traffic.forget("t")
    rig.add("u").bytes_in = 50
    await rig.take(5)
    rig.add("t").bytes_in = 10
    await rig.take(5)
    rig.traffic.forget("t")
    rig.add("t").bytes_in = 5
    await rig.take(5)
    assert [sample.bytes_in for sample in rig.samples.ring] == [200, 10, 2, 0]


async def test_requests_and_failures_of_all_apis_are_counted(rig: Rig) -> None:
    for api in ("produce", "fetch"):
        for _ in range(10):
            rig.stats.of(api).latency.observe(0.001)
    rig.stats.of("produce").failed = 4
    rig.stats.of("fetch").malformed = 1
    rig.stats.of("fetch").count_errors([1, 1, 3, 3, 3])
    await rig.take(5)
    await rig.take(5)
    assert [(one.requests, one.errors, one.failures) for one in rig.samples.ring] == [(4, 2, 1), (0, 0, 0)]


async def test_it_is_counted_how_often_the_loop_was_late(rig: Rig) -> None:
    for seconds in (0.0, 0.25, 0.2501, 3.0, 99.0):
        rig.loop_watch.lateness.observe(seconds)
    await rig.take(5)
    rig.loop_watch.lateness.observe(0.3)
    await rig.take(5)
    assert [sample.late_count for sample in rig.samples.ring] == [3, 1]


async def test_the_ring_keeps_the_last_minutes(rig: Rig) -> None:
    one = rig.add("t")
    for number in range(MAX_SAMPLES + 3):
        one.bytes_in += 5 * number
        await rig.take(5)
    assert len(rig.samples.ring) == MAX_SAMPLES
    assert rig.samples.ring[0].bytes_in == 3


async def test_a_look_at_many_topics_lets_the_loop_go_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    async def sleep(seconds: float) -> None:
        turns.append(seconds)

    monkeypatch.setattr("broker.status.samples.asyncio.sleep", sleep)
    for number in range(3 * TOPICS_PER_TURN):
        rig.add(f"t{number}").bytes_in = 1
    await rig.take(5)
    assert turns == [0, 0, 0]
    assert rig.samples.ring[-1].bytes_in == pytest.approx(3 * TOPICS_PER_TURN / 5)
