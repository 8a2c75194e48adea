"""Retention by time, by size and by DeleteRecords leaves the same records and offsets as with Apache Kafka."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.admin import delete_records, set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.pair import Pair, segment_names, visible
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

MINUTE_MS = 60_000
NOW = int(time.time() * 1000)
EACH_BATCH_ITS_SEGMENT = {"segment_ms": "1"}
SEGMENT_SIZE = 1000


def _aged(now: int, *minutes: float, size: int = 1) -> bytes:
    """Build a batch of records that are as many minutes old."""
    return batches.build([Record(b"v" * size, b"k", timestamp=now - int(age * MINUTE_MS)) for age in minutes])


def _sized(number: int) -> bytes:
    """Build a batch of exactly a thousand bytes that begins a segment."""
    return batches.of_size(SEGMENT_SIZE, base_timestamp=NOW + number * 10, max_timestamp=NOW + number * 10)


def _wait_for_a_run(client: RawClient, topic: str) -> None:
    """Wait until retention has begun and ended a run: it takes an expired record, and then another."""
    if topic not in client.topic_names():
        client.create_topic(topic, retention_ms="1000")
    for _ in range(2):
        end = client.append(topic, _aged(NOW, 60)) + 1
        eventually(lambda end=end: client.start_offset(topic) == end, what="a retention run")


def _state(broker: BrokerProcess, client: RawClient, topic: str) -> dict[str, Any]:
    return {**visible(client, topic), "segments": segment_names(broker, topic)}


AGES: dict[str, tuple[list[tuple[float, ...]], int]] = {
    # ages of the records of each segment: the first offset left at half an hour of retention
    "old and new": ([(60,), (50,), (40,), (20,), (10,), (0,)], 3),
    "the largest of a segment counts": ([(60, 10), (50,), (40,)], 0),
    "a young segment keeps the old ones behind it": ([(60,), (10,), (60,), (50,)], 1),
    "nothing is old": ([(20,), (10,), (0,)], 0),
    "everything is old": ([(60,), (50, 40), (35,)], 4),
    "one old segment": ([(60, 55, 50)], 3),
    "an hour ahead": ([(60,), (-50,), (60,)], 1),
}


@pytest.mark.parametrize("ages", AGES)
def test_time(pair: Pair, unique: str, now: int, ages: str) -> None:
    segments, first = AGES[ages]

    def run(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
        client.create_topic(unique, **EACH_BATCH_ITS_SEGMENT, retention_ms="-1")
        for records in segments:
            client.append(unique, _aged(now, *records))
        set_configs(client, unique, retention_ms=str(30 * MINUTE_MS))
        eventually(lambda: client.start_offset(unique) >= first, what="expired")
        _wait_for_a_run(client, f"{unique}-clock")
        return _state(broker, client, unique)

    shown = pair.same(run)
    assert shown["start"] == first
    assert shown["end"] == sum(map(len, segments))


@pytest.mark.parametrize(
    ("limit", "first"),
    [(3500, 0), (3000, 1), (2999, 1), (2001, 1), (2000, 2), (1, 3), (0, 4), (4000, 0), (4001, 0), (-1, 0), (-5, 0)],
)
def test_size(pair: Pair, unique: str, limit: int, first: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
        client.create_topic(unique, internal_segment_bytes=str(SEGMENT_SIZE), retention_ms="-1")
        for number in range(4):
            client.append(unique, _sized(number))
        assert len(segment_names(broker, unique)) == 4
        set_configs(client, unique, retention_bytes=str(limit))
        eventually(lambda: client.start_offset(unique) >= first, what="removed")
        _wait_for_a_run(client, f"{unique}-clock")
        return _state(broker, client, unique)

    assert pair.same(run)["start"] == first


@pytest.mark.parametrize(
    "offsets",
    [(4,), (5, 3, 5), (20,), (-1,), (21, -2, 19), (7, 12, 13, 0)],
    ids=lambda offsets: ",".join(map(str, offsets)),
)
def test_delete_records(pair: Pair, unique: str, offsets: tuple[int, ...]) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, **EACH_BATCH_ITS_SEGMENT, retention_ms="-1")
        for number in range(5):
            client.append(unique, _aged(NOW, *[50 - number] * 4))
        answers = []
        for offset in offsets:
            result = delete_records(client, unique, offset)
            answers.append((result.error_code, result.low_watermark))
        start = client.start_offset(unique)
        # What is wholly below the start goes; the segment in use stays, even if nothing in it can be read.
        wanted = [f"{base:020}" for base in (0, 4, 8, 12, 16) if base + 4 > start or base == 16]
        eventually(lambda: segment_names(broker, unique)[-len(wanted) :] == wanted, what="segments below gone")
        _wait_for_a_run(client, f"{unique}-clock")
        shown = _state(broker, client, unique)
        reached = [client.fetch(unique, offset).error_code for offset in range(22)]
        return answers, shown, reached

    pair.same(run)


def test_what_is_appended_after_everything_expired(pair: Pair, unique: str, now: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, retention_ms="1000")
        for _ in range(3):
            end = client.append(unique, _aged(now, 60, 50)) + 2
            eventually(lambda end=end: client.start_offset(unique) == end, what="expired")
        client.append(unique, _aged(now, -30))
        eventually(lambda: len(segment_names(broker, unique)) == 1, what="files renamed")
        return _state(broker, client, unique)

    assert pair.same(run)["segments"] == [f"{6:020}"]
