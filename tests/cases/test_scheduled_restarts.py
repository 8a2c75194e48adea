"""Scheduled topics over restarts by another clock, and over moves between directories while records come due."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import address
from tests.harness import batches, log_dirs
from tests.harness.admin import delete_records
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient, eventually, fetch_row, fetch_values
from tests.harness.shifted_clock import ShiftedClock

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Apache Kafka has no scheduled topics")

HOUR_MS = 3_600_000
UNCERTAINTY_MS = 100
PROPERTIES = {"odradek.log.delivery.clock.uncertainty.ms": str(UNCERTAINTY_MS)}
TOPIC = "later"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def put(client: RawClient, delay_ms: int, partition: int = 0, size: int = 10) -> int:
    """Send a record that is due after a while; return its offset."""
    due_ms = now_ms() + delay_ms
    record = batches.Record(b"%d " % due_ms + bytes(size), timestamp=due_ms)
    return client.append(TOPIC, batches.build([record]), partition)


def visible(client: RawClient, partition: int = 0) -> list[int]:
    """Read from the log start as far as one may; the latest offset says the same."""
    end = client.end_offset(TOPIC, partition)
    offset, found = client.start_offset(TOPIC, partition), []
    while True:
        result = client.fetch(TOPIC, offset, partition)
        assert result.error_code == 0, result
        got = batches.parse(result.records)
        if not got:
            assert offset >= end, (offset, end)
            return found
        found += [record.offset for batch in got for record in batch.records()]
        offset = got[-1].next_offset


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    return ShiftedClock(tmp_path / "clock")


@pytest.fixture
def broker(clock: ShiftedClock, broker_factory: Callable[..., BrokerProcess]) -> BrokerProcess:
    return broker_factory(PROPERTIES, environment=clock.environment)


def begin(broker: BrokerProcess) -> None:
    """Write three records that are due, one that is due in half an hour, and one behind it."""
    with RawClient(address(broker)) as client:
        client.create_topic(TOPIC, delivery_mode="scheduled")
        assert [put(client, delay_ms) for delay_ms in (-2000, -1000, -1000, HOUR_MS // 2, -1000)] == [*range(5)]
        assert visible(client) == [0, 1, 2]


def test_a_restart_with_the_clock_behind_is_late_and_loses_nothing(broker: BrokerProcess, clock: ShiftedClock) -> None:
    begin(broker)
    with RawClient(address(broker)) as client:
        result = delete_records(client, TOPIC, 5)
        assert (result.error_code, result.low_watermark) == (0, 3), "pending records were deleted"
        put(client, -1000)
    broker.kill()
    clock.set(-HOUR_MS / 1000)
    broker.start()
    with RawClient(address(broker)) as client:
        client.wait_for_topic(TOPIC, 1)
        assert client.start_offset(TOPIC) == client.end_offset(TOPIC) == 3, "the log start bounds it"
        assert visible(client) == []
        assert client.fetch(TOPIC, 3).high_watermark == 6
        clock.set(HOUR_MS / 1000)
        eventually(lambda: client.end_offset(TOPIC) == 6)
        assert visible(client) == [3, 4, 5]
        clock.set(0)
        assert visible(client) == [3, 4, 5], "what was released was taken back"


def test_a_restart_with_the_clock_ahead_releases_by_that_clock(broker: BrokerProcess, clock: ShiftedClock) -> None:
    begin(broker)
    broker.stop()
    clock.set(HOUR_MS / 1000)
    broker.start()
    with RawClient(address(broker)) as client:
        client.wait_for_topic(TOPIC, 1)
        assert visible(client) == [*range(5)]
        assert put(client, 2 * HOUR_MS) == 5
        clock.set(0)
        assert visible(client) == [*range(5)]
        put(client, HOUR_MS)
        assert visible(client) == [*range(5)]
    broker.restart()
    with RawClient(address(broker)) as client:
        client.wait_for_topic(TOPIC, 1)
        assert visible(client) == [0, 1, 2], "a restart asks the clock again"


def test_a_parked_fetch_is_woken_by_a_clock_that_is_set_forward(broker: BrokerProcess, clock: ShiftedClock) -> None:
    begin(broker)
    with RawClient(address(broker)) as client:
        topics = [{"topic": TOPIC, "partitions": [fetch_row(0, 3)]}]
        client.send("fetch", 11, **fetch_values(topics, version=11, max_wait_ms=20_000))
        client.expect_silence(for_s=0.1)
        clock.set(HOUR_MS / 1000)
        began = time.monotonic()
        _, answer = client.receive("fetch", 11)
        assert time.monotonic() - began < 5
        [[result]] = [entry.partitions for entry in answer.responses]
        assert [batch.base_offset for batch in batches.parse(result.records)] == [3, 4]


def test_records_come_due_in_time_while_their_log_moves(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess]
) -> None:
    directories = log_dirs.new_directories(tmp_path, 2)
    broker = broker_factory({**PROPERTIES, "log.dirs": ",".join(map(str, directories))})
    with RawClient(address(broker)) as client:
        log_dirs.create_in(client, TOPIC, directories[0], delivery_mode="scheduled")
        for _ in range(20):
            put(client, -1000, size=50_000)
        offsets = [put(client, 100 * number) for number in range(1, 16)]
        log_dirs.throttle(client, 100_000)  # bytes a second, of a million
        assert log_dirs.move(client, directories[1], TOPIC) == 0
        seen: dict[int, int] = {}
        position = 20

        def follow() -> bool:
            nonlocal position
            result = client.fetch(TOPIC, position, max_wait_ms=50)
            for record in batches.records_of(result.records):
                assert record.offset == position
                seen[record.offset] = now_ms() - (record.timestamp + UNCERTAINTY_MS)
                position += 1
            return position > offsets[-1]

        eventually(lambda: follow() or len(seen) > 7)
        assert log_dirs.future_in(client, directories[1], TOPIC), "the move was over too soon"
        log_dirs.throttle(client, None)
        eventually(follow)
        log_dirs.wait_until_only_in(client, directories[1], TOPIC)
        assert all(late_ms >= 0 for late_ms in seen.values()), seen
        assert visible(client) == [*range(35)]
    assert broker.stop() == 0
    assert not broker.trouble()
