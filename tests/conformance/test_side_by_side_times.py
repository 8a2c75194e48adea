"""ListOffsets by timestamp and by the special values answers as Apache Kafka does, over the same data."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.admin import delete_records, set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import active_base, wait_until_cleaned
from tests.harness.pair import Pair
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

NOW = int(time.time() * 1000)
START = NOW - 3_600_000
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SPECIAL = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
# Out of order within batches and between them, some twice, some without.
TIMES = [
    (0, 10, 20),
    (15, 5),
    (30,),
    (30, 30, 25),
    (100, 50, 90, 100),
    (60,),
    (-START - 1, 200),  # the first one's timestamp is -1
    (150, 150),
    (199, 200, 201, 200),
]


def _fill(client: RawClient, topic: str, codec: int) -> None:
    for times in TIMES:
        records = [Record(b"v%d" % at, b"k", timestamp=START + at) for at in times]
        client.append(topic, batches.build(records, codec=codec))


def _answers(client: RawClient, topic: str, timestamps: Iterable[int]) -> dict[Any, Any]:
    """Ask for all special values and these timestamps in all versions."""
    shown: dict[Any, Any] = {}
    for version in client.offered("list_offsets", 1, 5, 7, 8, 9, 11):
        for timestamp in (*SPECIAL, *timestamps):
            found = client.list_offset(topic, timestamp, version=version)
            epoch = found.leader_epoch if version >= 4 else None
            shown[version, timestamp] = (found.error_code, found.offset, found.timestamp, epoch)
    return shown


def _around(*times: int) -> list[int]:
    return sorted({START + at + delta for at in times for delta in (-1, 0, 1)} | {0, 2**63 - 1})


EVERY_TIME = _around(*(at for times in TIMES for at in times if at >= 0))


@pytest.mark.parametrize("segments", ["one", "many"])
@pytest.mark.parametrize("codec", batches.CODECS)
def test_create_time(pair: Pair, unique: str, codec: str, segments: str) -> None:
    configs = {"segment_ms": "1"} if segments == "many" else {}

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, retention_ms="-1", **configs)
        _fill(client, unique, batches.CODECS[codec])
        return _answers(client, unique, EVERY_TIME)

    assert (pair.same(run)[7, MAX_TIMESTAMP])[1:3] == (20, START + 201)


@pytest.mark.parametrize("codec", batches.CODECS)
def test_log_append_time(pair: Pair, unique: str, codec: str) -> None:
    """The brokers' clocks differ: an answer's timestamp is told by the batch it belongs to."""

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, message_timestamp_type="LogAppendTime", retention_ms="-1")
        appended: list[int] = []
        for times in TIMES:
            records = [Record(b"v", b"k", timestamp=START + at) for at in times]
            eventually(lambda: not appended or time.time() * 1000 > appended[-1] + 1, every_s=0.001)
            result = client.produce(unique, batches.build(records, codec=batches.CODECS[codec]))
            appended.append(result.log_append_time_ms)
        names = {stamp: number for number, stamp in enumerate(appended)}
        assert len(names) == len(appended)
        asked = [*range(-1, -7, -1), *appended, appended[-1] + 1, 0]
        found = [client.list_offset(unique, stamp, version=max(7, SPECIAL.get(stamp, 1))) for stamp in asked]
        return [(row.error_code, row.offset, names.get(row.timestamp, row.timestamp)) for row in found]

    pair.same(run)


def test_an_empty_log(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique)
        return _answers(client, unique, (0, START))

    pair.same(run)


@pytest.mark.parametrize("start", [1, 7, 12, 20, 21])
def test_after_delete_records(pair: Pair, unique: str, start: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, retention_ms="-1", segment_ms="50")
        _fill(client, unique, batches.LZ4)
        assert delete_records(client, unique, start).low_watermark == start
        eventually(lambda: not list((broker.data_directory / f"{unique}-0").glob("*.deleted")))
        return _answers(client, unique, EVERY_TIME)

    ours, kafka = pair.both(run)
    for asked, answer in ours.items():
        # The reference looks into one segment only: if what it would find there is below the start, it finds nothing.
        assert kafka[asked] == answer or kafka[asked][:3] == (0, -1, -1), asked
        if asked[1] < 0 or start < 10:
            assert kafka[asked] == answer, asked


def test_after_retention(pair: Pair, unique: str, now: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, retention_ms="-1", segment_ms="1")
        for minutes in (60, 50, 40, 20, 10):
            records = [Record(b"v", timestamp=now - minutes * 60_000 + part) for part in (0, 2, 1)]
            client.append(unique, batches.build(records))
        set_configs(client, unique, retention_ms="1800000")
        eventually(lambda: client.start_offset(unique) == 9, what="expired")
        asked = [now - minutes * 60_000 + part for minutes in (60, 40, 20, 10) for part in (-1, 0, 1, 2, 3)]
        return _answers(client, unique, asked)

    pair.same(run)


@pytest.mark.parametrize("codec", batches.CODECS)
def test_after_compaction(pair: Pair, unique: str, codec: str) -> None:
    """Of every other batch something is left, so that no segment becomes empty: there the reference finds nothing."""

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        configs = {"segment_ms": "100", "min_cleanable_dirty_ratio": "1"}
        client.create_topic(unique, cleanup_policy="compact", **configs)
        for number in range(40):
            keys = (b"k%d" % (number % 7), b"own-%d" % number if number % 2 == 0 else b"k0", b"k1")
            records = [Record(b"v", key, timestamp=START + number * 20 + part) for part, key in enumerate(keys)]
            client.append(unique, batches.build(records, codec=batches.CODECS[codec]))
        set_configs(client, unique, min_cleanable_dirty_ratio="0")
        wait_until_cleaned(broker, unique, active_base(broker, unique))
        return _answers(client, unique, _around(*range(0, 820, 25)))

    pair.same(run)
