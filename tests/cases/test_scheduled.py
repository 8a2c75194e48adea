"""Scheduled topics of a real broker: long polls on the real clock, and changes of the mode."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, fetch_row, fetch_values

E_MS = 250
LONG_MS = 30_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def at(in_ms: int) -> bytes:
    return batches.simple("x", timestamp=now_ms() + in_ms)


def poll(client: RawClient, topic: str, offset: int, version: int = 11) -> None:
    """Send a fetch that waits for long."""
    values = fetch_values(
        [{"topic": topic, "partitions": [fetch_row(0, offset)]}], version=version, max_wait_ms=LONG_MS
    )
    client.send("fetch", version, **values)


def polled(client: RawClient, version: int = 11) -> list[int]:
    """Receive the answer; give the base offsets of its batches."""
    _, answer = client.receive("fetch", version)
    return [batch.base_offset for batch in batches.parse(answer.responses[0].partitions[0].records)]


@pytest.fixture
def topic(client: RawClient, fresh: Any) -> str:
    name: str = fresh()
    client.create_topic(name, delivery_mode="scheduled")
    return name


def test_a_long_poll_returns_when_a_record_comes_due(broker: BrokerProcess, client: RawClient, topic: str) -> None:
    due_ms = now_ms() + 500
    with RawClient(address(broker)) as consumer:
        poll(consumer, topic, 0)
        client.append(topic, batches.simple("x", timestamp=due_ms))
        client.append(topic, at(60_000))
        assert client.end_offset(topic) == 0 or now_ms() >= due_ms + E_MS
        assert polled(consumer) == [0]
    assert due_ms + E_MS <= now_ms() < due_ms + LONG_MS // 2
    assert client.end_offset(topic) == 1


def test_a_long_poll_follows_the_mode_of_its_topic(broker: BrokerProcess, client: RawClient, topic: str) -> None:
    client.append(topic, at(60_000))
    with RawClient(address(broker)) as consumer:
        poll(consumer, topic, 0)
        set_configs(client, topic, delivery_mode="immediate")
        assert polled(consumer) == [0]
        client.append(topic, at(60_000))
        assert client.end_offset(topic) == 2
        set_configs(client, topic, delivery_mode="scheduled")
        assert client.end_offset(topic) == 0
        assert batches.parse(client.fetch(topic, 0).records) == []
