"""Series of scheduled topics on a real broker: there with its start, before anybody reads, and gone with the topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.records.builder import build_batch
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient, eventually
from tests.harness.scraped import scrape
from tests.harness.shifted_clock import ShiftedClock

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Kafka has no scheduled topics")

TOPIC = "reminders"
HOUR_MS = 3_600_000
WATERMARK, PENDING = "odradek_delivery_watermark", "odradek_delivery_pending_records"
NEXT = "odradek_delivery_next_timestamp_seconds"
LATE = "odradek_delivery_activation_lateness_seconds_count"
E_MS = 50


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    return ShiftedClock(tmp_path / "clock")


@pytest.fixture
def broker(tmp_path: Path, clock: ShiftedClock) -> Iterator[BrokerProcess]:
    properties = {"odradek.log.delivery.clock.uncertainty.ms": str(E_MS)}
    broker = BrokerProcess(tmp_path / "broker", properties, environment=clock.environment)
    broker.start()
    yield broker
    broker.close()
    assert not broker.trouble()


def append(broker: BrokerProcess, *times_ms: int) -> None:
    with RawClient((broker.host, broker.port)) as client:
        for time_ms in times_ms:
            client.append(TOPIC, bytes(build_batch([(None, b"x")], timestamp=time_ms)))


def shown(broker: BrokerProcess) -> tuple[float | None, float | None, float | None]:
    scraped = scrape(broker)
    of_partition = frozenset({("topic", TOPIC), ("partition", "0")})
    watermark, pending, due = (scraped.get(name, {}).get(of_partition) for name in (WATERMARK, PENDING, NEXT))
    return watermark, pending, due


def lateness(broker: BrokerProcess) -> float:
    return scrape(broker)[LATE][frozenset()]


def test_the_series_of_a_scheduled_topic_come_and_go(broker: BrokerProcess, clock: ShiftedClock) -> None:
    now_ms = int(time.time() * 1000)
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(TOPIC, **{"delivery.mode": "scheduled"})
    append(broker, now_ms - HOUR_MS, now_ms + HOUR_MS, now_ms + 3 * HOUR_MS)
    eventually(lambda: shown(broker) == (1, 2, (now_ms + HOUR_MS + E_MS) / 1000), what="the first record")
    assert lateness(broker) == 0
    clock.set(2 * HOUR_MS / 1000)
    due_s = (now_ms + 3 * HOUR_MS + E_MS) / 1000
    eventually(lambda: shown(broker) == (2, 1, due_s), what="the second record")
    assert lateness(broker) == 1
    # Nobody reads and nobody writes: what is due is known soon after a start all the same, be it clean or not.
    broker.restart()
    eventually(lambda: shown(broker) == (2, 1, due_s), what="the watermark after a stop")
    broker.kill()
    broker.start()
    eventually(lambda: shown(broker) == (2, 1, due_s), what="the watermark after a crash")
    assert lateness(broker) == 0  # nobody has waited for what a start finds
    with RawClient((broker.host, broker.port)) as client:
        client.delete_topic(TOPIC)
    assert shown(broker) == (None, None, None)
