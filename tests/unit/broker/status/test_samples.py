"""The ring of samples: rates from counters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.metrics.instruments import BrokerStats
from broker.status.samples import MAX_SAMPLES, PARTITIONS_PER_TURN, Flow, Samples
from storage.types import TopicPartition

TP = TopicPartition("t", 0)


class Rig:
    def __init__(self) -> None:
        self.partitions: list[Any] = []
        self.stats = BrokerStats()
        self.now_ns = 0
        self.samples = Samples(self.partitions, self.stats, lambda: self.now_ns)

    def add(self, tp: TopicPartition) -> Any:
        self.partitions.append(SimpleNamespace(tp=tp, appended_records=0, appended_bytes=0))
        return self.partitions[-1]

    async def take(self, after_seconds: float) -> None:
        self.now_ns += int(after_seconds * 1e9)
        await self.samples.take()


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_rates_are_by_the_second_whatever_time_has_passed(rig: Rig) -> None:
    one = rig.add(TP)
    assert rig.samples.flow(TP) is None
    one.appended_records, one.appended_bytes = 50, 1000
    await rig.take(5)
    one.appended_records, one.appended_bytes = 70, 1400
    await rig.take(10)
    assert [(sample.records_in, sample.bytes_in) for sample in rig.samples.ring] == [(10, 200), (2, 40)]
    assert rig.samples.flow(TP) == Flow(2, 40)


async def test_a_partition_that_rests_or_is_not_known_has_no_flow(rig: Rig) -> None:
    rig.add(TP).appended_bytes = 500
    await rig.take(5)
    await rig.take(5)
    assert rig.samples.flow(TP) == rig.samples.flow(TopicPartition("other", 0)) == Flow(0, 0)


async def test_a_partition_that_goes_or_is_made_anew_takes_nothing_away(rig: Rig) -> None:
    gone, other = rig.add(TP), rig.add(TopicPartition("t", 1))
    gone.appended_bytes = 1000
    await rig.take(5)
    rig.partitions.remove(gone)
    other.appended_bytes = 50
    await rig.take(5)
    rig.add(TP).appended_bytes = 10
    await rig.take(5)
    assert [sample.bytes_in for sample in rig.samples.ring] == [200, 10, 2]
    rig.partitions[-1] = SimpleNamespace(tp=TP, appended_records=0, appended_bytes=5)
    await rig.take(5)
    assert rig.samples.ring[-1].bytes_in == 0


async def test_requests_and_failures_of_all_apis_are_counted(rig: Rig) -> None:
    for api in ("produce", "fetch"):
        for _ in range(10):
            rig.stats.of(api).latency.observe(0.001)
    rig.stats.of("produce").failed = 4
    rig.stats.of("fetch").malformed = 1
    await rig.take(5)
    await rig.take(5)
    assert [(sample.requests, sample.errors) for sample in rig.samples.ring] == [(4, 1), (0, 0)]


async def test_the_ring_keeps_the_last_minutes(rig: Rig) -> None:
    one = rig.add(TP)
    for number in range(MAX_SAMPLES + 3):
        one.appended_bytes += 5 * number
        await rig.take(5)
    assert len(rig.samples.ring) == MAX_SAMPLES
    assert rig.samples.ring[0].bytes_in == 3


async def test_a_look_at_many_partitions_lets_the_loop_go_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    async def sleep(seconds: float) -> None:
        turns.append(seconds)

    monkeypatch.setattr("broker.status.samples.asyncio.sleep", sleep)
    for number in range(3 * PARTITIONS_PER_TURN):
        rig.add(TopicPartition("t", number)).appended_bytes = 1
    await rig.take(5)
    assert turns == [0, 0, 0]
    assert rig.samples.ring[-1].bytes_in == pytest.approx(3 * PARTITIONS_PER_TURN / 5)
