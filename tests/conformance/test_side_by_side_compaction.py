"""Compaction leaves the same records, offsets and batches as Apache Kafka's cleaner.

Both clean in the same rounds: a dirty ratio of 1 lets nothing be cleaned, a ratio of 0 everything there is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.batches import Batch, Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import active_base, wait_until_cleaned
from tests.harness.pair import DELETE_HORIZON, Pair, layout, segment_names, visible
from tests.harness.raw import RawClient, eventually
from tests.harness.stored import stored_batches

pytestmark = pytest.mark.jvm

NOW = int(time.time() * 1000)
START = NOW - 4 * 3_600_000
NOTHING, EVERYTHING = "1", "0"
CONFIGS = {"cleanup_policy": "compact", "segment_ms": "1800000", "min_cleanable_dirty_ratio": NOTHING}

# What is done to a topic: batches to append, None where a round of cleaning is due.
Script = Sequence[bytes | None]


def _clean(broker: BrokerProcess, client: RawClient, topic: str) -> None:
    """Clean all but the active segment in one round."""
    set_configs(client, topic, min_cleanable_dirty_ratio=EVERYTHING)
    wait_until_cleaned(broker, topic, active_base(broker, topic))
    set_configs(client, topic, min_cleanable_dirty_ratio=NOTHING)


def _run(script: Script, **configs: str) -> Callable[[str, BrokerProcess, RawClient], list[Batch]]:
    def run(topic: str, broker: BrokerProcess, client: RawClient) -> list[Batch]:
        client.create_topic(topic, **CONFIGS | configs)
        for step in script:
            if step is None:
                _clean(broker, client, topic)
            else:
                client.append(topic, step)
        return stored_batches(broker.data_directory, topic)

    return run


def _compare(pair: Pair, topic: str, script: Script, **configs: str) -> list[Batch]:
    """Run a script on both; compare what consumers see and how the batches lie in the files; return ours."""
    run = _run(script, **configs)
    stored = pair.both(lambda broker, client: run(topic, broker, client))
    pair.same(lambda _, client: visible(client, topic))
    ours, kafka = (layout(found) for found in stored)
    assert ours == kafka
    assert all(batch.crc_is_right for found in stored for batch in found)
    return stored[0]


def _batch(*pairs: tuple[bytes, bytes | None], at: int, **options: Any) -> bytes:
    return batches.build([Record(value, key, timestamp=START + at) for key, value in pairs], **options)


def _roll(number: int = 1) -> bytes:
    """Build a batch that is late enough to begin a segment."""
    return _batch((b"roll-%d" % number, b""), at=number * 1_900_000)


def _random_batches(seed: int, count: int, codecs: Sequence[int], *, tombstones: bool = False) -> list[bytes]:
    chance = random.Random(seed)
    built, at = [], 0
    for number in range(count):
        records = []
        for _ in range(chance.choice((1, 1, 2, 7, 20))):
            at += 1
            key = b"key-%d" % chance.randrange(30)
            value = None if tombstones and chance.random() < 0.3 else chance.randbytes(chance.randrange(40))
            headers = ((b"h", b"%d" % at),) if chance.random() < 0.5 else ()
            records.append(Record(value, key, headers, START + at))
        built.append(batches.build(records, codec=codecs[number % len(codecs)]))
    return built


ALL_CODECS = (batches.NONE, batches.GZIP, batches.SNAPPY, batches.LZ4, batches.ZSTD)


@pytest.mark.parametrize("codecs", [ALL_CODECS[:1], *((codec,) for codec in ALL_CODECS[1:]), ALL_CODECS])
def test_the_newest_value_of_each_key(pair: Pair, unique: str, codecs: tuple[int, ...]) -> None:
    first, second = _random_batches(1, 60, codecs), _random_batches(2, 60, codecs)
    script = [*first, _roll(1), None, *second[:30], _roll(2), None, *second[30:], _roll(3), None]
    # Times of later batches lie before the roll's; only sizes begin segments then.
    _compare(pair, unique, script, internal_segment_bytes="4096")
    if codecs == (batches.NONE,):
        assert pair.same(lambda broker, _: segment_names(broker, unique))


def test_tombstones_get_a_horizon_and_keep_it(pair: Pair, unique: str) -> None:
    script = [*_random_batches(3, 40, ALL_CODECS, tombstones=True), _roll(1), None]
    stored = _compare(pair, unique, script, delete_retention_ms="3600000")
    horizons = [batch.base_timestamp for batch in stored if batch.attributes & DELETE_HORIZON]
    assert horizons
    assert all(abs(horizon - (time.time() * 1000 + 3_600_000)) < 60_000 for horizon in horizons)


def test_tombstones_stay_in_later_rounds_before_the_horizon(pair: Pair, unique: str) -> None:
    first, second = (_random_batches(seed, 40, ALL_CODECS, tombstones=True) for seed in (4, 5))
    script = [*first, _roll(1), None, *second, _roll(2), None, _roll(3), None]
    _compare(pair, unique, script, delete_retention_ms="3600000", internal_segment_bytes="4096")


def test_tombstones_go_in_the_round_after_the_horizon(pair: Pair, unique: str) -> None:
    first, second = (_random_batches(seed, 40, ALL_CODECS, tombstones=True) for seed in (6, 7))
    script = [*first, _roll(1), None, _roll(2), None, *second, _roll(3), None, _roll(4), None]
    stored = _compare(pair, unique, script, delete_retention_ms="0", internal_segment_bytes="4096")
    values = [record.value for batch in stored for record in batch.records()]
    assert None not in values


def test_the_last_sequence_of_a_producer_keeps_an_empty_batch(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> list[tuple[Any, ...]]:
        client.create_topic(unique, **CONFIGS)
        producers = [client.producer_id() for _ in range(3)]
        for sequence in range(0, 12, 3):
            for number, producer_id in enumerate(producers):
                records = [Record(b"%d" % sequence, b"k%d" % key, timestamp=START + sequence) for key in range(3)]
                batch = batches.build(
                    records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, codec=number
                )
                client.append(unique, batch)
        client.append(unique, _batch(*((b"k%d" % key, b"new") for key in range(3)), at=20))
        client.append(unique, _roll(1))
        _clean(broker, client, unique)
        client.append(unique, _roll(2))
        _clean(broker, client, unique)
        again = [
            client.produce(
                unique,
                batches.build(
                    [Record(b"9", b"k%d" % key, timestamp=START + 9) for key in range(3)],
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=9,
                ),
            )
            for producer_id in producers
        ]
        assert [row.error_code for row in again] == [0, 0, 0]
        return layout(stored_batches(broker.data_directory, unique))

    rows = pair.same(run)
    assert [row[2] for row in rows].count(0) == 3
    pair.same(lambda _, client: visible(client, unique))


def test_keyless_records_from_before(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> list[tuple[Any, ...]]:
        client.create_topic(unique, **CONFIGS | {"cleanup_policy": "delete", "retention_ms": "-1"})
        for number, codec in enumerate(ALL_CODECS):
            records = [Record(b"v", key, timestamp=START + number) for key in (b"a", None, b"b", None)]
            client.append(unique, batches.build(records, codec=codec))
            client.append(unique, batches.build(records[1:2] * 3, codec=codec))
        set_configs(client, unique, cleanup_policy="compact")
        client.append(unique, _roll(1))
        _clean(broker, client, unique)
        return layout(stored_batches(broker.data_directory, unique))

    pair.same(run)
    pair.same(lambda _, client: visible(client, unique))


def test_what_is_within_the_lag_stays(pair: Pair, unique: str, now: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> list[tuple[Any, ...]]:
        configs = CONFIGS | {"segment_ms": "1", "min_compaction_lag_ms": "1800000"}
        client.create_topic(unique, **configs)
        for age_minutes in (55, 50, 45, 40, 20, 15, 50, 10, 0):
            record = Record(b"%d" % age_minutes, b"k", timestamp=now - age_minutes * 60_000)
            client.append(unique, batches.build([record]))
        set_configs(client, unique, min_cleanable_dirty_ratio=EVERYTHING)
        # Everything before the first segment that has a record of the last half hour.
        wait_until_cleaned(broker, unique, 4)
        return layout(stored_batches(broker.data_directory, unique))

    rows = pair.same(run)
    assert [row[0] for row in rows] == [3, 4, 5, 6, 7, 8]


def test_the_greatest_lag_cleans_whatever_the_ratio(pair: Pair, unique: str, now: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> list[tuple[Any, ...]]:
        client.create_topic(unique, **CONFIGS | {"segment_ms": "1"})
        for age_minutes in (55, 50, 45, 20, 10):
            record = Record(b"%d" % age_minutes, b"k", timestamp=now - age_minutes * 60_000)
            client.append(unique, batches.build([record]))
        set_configs(client, unique, max_compaction_lag_ms="1800000")
        wait_until_cleaned(broker, unique, 4)
        return layout(stored_batches(broker.data_directory, unique))

    assert [row[0] for row in pair.same(run)] == [3, 4]


def test_compacted_and_retained(pair: Pair, unique: str, now: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        configs = {"cleanup_policy": "compact,delete", "segment_ms": "1", "retention_ms": "-1"}
        client.create_topic(unique, **CONFIGS | configs)
        for number, age_minutes in enumerate((55, 50, 45, 40, 25, 20, 15, 10)):
            records = [
                Record(b"%d" % number, key, timestamp=now - age_minutes * 60_000 + part)
                for part, key in enumerate((b"k%d" % (number % 2), b"own-%d" % number))
            ]
            client.append(unique, batches.build(records))
        _clean(broker, client, unique)
        # One cleaned segment holds them all: its newest record decides.
        before = visible(client, unique)
        set_configs(client, unique, retention_ms="1000")
        eventually(lambda: client.start_offset(unique) == 16, what="expired")
        return before, visible(client, unique)

    pair.same(run)


def test_large_batches_and_small_segments(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> list[tuple[Any, ...]]:
        client.create_topic(unique, **CONFIGS)
        chance = random.Random(8)
        for number in range(3):
            client.append(unique, _batch((b"large-%d" % number, chance.randbytes(900_000)), at=number))
            client.append(unique, _batch(*((b"k%d" % key, b"%d" % number) for key in range(500)), at=number))
        set_configs(client, unique, max_message_bytes="20000", internal_segment_bytes="20000")
        client.append(unique, _roll(1))
        _clean(broker, client, unique)
        return layout(stored_batches(broker.data_directory, unique))

    pair.same(run)
    pair.same(lambda _, client: visible(client, unique))
