"""Transactions that Apache Kafka wrote, compacted by us and by Apache Kafka: the same is left, committed or not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import active_base, folder, replace_log, wait_until_cleaned
from tests.harness.pair import DELETE_HORIZON, Pair, layout, segment_names, visible
from tests.harness.raw import RawClient, eventually
from tests.harness.stored import segment_paths, stored_batches
from tests.harness.transactions import aborted_entries, read_committed, write_transactions

pytestmark = pytest.mark.jvm

NOW = int(time.time() * 1000)
START = NOW - 4 * 3_600_000
NOTHING, EVERYTHING = "1", "0"
SEGMENT_BYTES = 2500
CONFIGS = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": NOTHING}


def _give_both(pair: Pair, topic: str, **configs: str) -> int:
    """Let Kafka write transactions and give Odradek the segments it wrote; return the end offset."""

    def create(_: BrokerProcess, client: RawClient) -> None:
        client.create_topic(topic, **CONFIGS | configs)

    pair.both(create)
    write_transactions(pair.kafka.bootstrap, topic, count=20, first_timestamp=START)
    pair.ours.stop()
    segments = {int(path.stem): path.read_bytes() for path in segment_paths(pair.kafka.data_directory, topic)}
    assert len(segments) > 3
    replace_log(pair.ours, topic, segments)
    pair.ours.start()

    def end(_: BrokerProcess, client: RawClient) -> int:
        # Markers are written after the commit was answered.
        eventually(lambda: client.list_offset(topic, -1, isolation=1).offset == client.end_offset(topic) > 0)
        return client.end_offset(topic)

    return pair.same(end)


def _state(broker: BrokerProcess, client: RawClient, topic: str) -> dict[str, Any]:
    aborted = {path.stem: aborted_entries(path) for path in sorted(folder(broker, topic).glob("*.txnindex"))}
    return {
        "visible": visible(client, topic),
        "committed": read_committed(client, topic),
        "stable": client.list_offset(topic, -1, isolation=1).offset,
        "layout": layout(stored_batches(broker.data_directory, topic)),
        "aborted entries": {name: entries for name, entries in aborted.items() if entries},
    }


def _round(topic: str, number: int, broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
    """Begin a segment, which the size of a record makes necessary, clean all before it, and look."""
    roll = Record(bytes(SEGMENT_BYTES - 200), b"roll-%d" % number, timestamp=NOW)
    assert client.append(topic, batches.build([roll])) == active_base(broker, topic)
    set_configs(client, topic, min_cleanable_dirty_ratio=EVERYTHING)
    wait_until_cleaned(broker, topic, active_base(broker, topic))
    set_configs(client, topic, min_cleanable_dirty_ratio=NOTHING)
    eventually(lambda: not list(folder(broker, topic).glob("*.swap")))
    return _state(broker, client, topic)


@pytest.mark.parametrize("retention_ms", [0, 3_600_000], ids=["markers go at once", "markers stay for an hour"])
def test_compacted_transactions(pair: Pair, unique: str, retention_ms: int) -> None:
    configs = {"delete_retention_ms": str(retention_ms), "internal_segment_bytes": str(SEGMENT_BYTES)}
    end = _give_both(pair, unique, **configs)
    before = pair.same(lambda broker, client: _state(broker, client, unique))
    assert before["stable"] == before["visible"]["end"] == end
    assert len(before["committed"]) < len(before["visible"]["records"])
    newest = {record.key: (record.offset, record.value) for record in before["committed"]}
    for number in range(1, 5):
        after = pair.same(lambda broker, client, number=number: _round(unique, number, broker, client))
        found = {record.key: (record.offset, record.value) for record in after["committed"]}
        kept = {key: row for key, row in newest.items() if row[1] is not None}
        assert kept.items() <= found.items()
        assert after["stable"] == after["visible"]["end"] == end + number
    waiting = [row for row in after["layout"] if row[3] & batches.CONTROL and row[3] & DELETE_HORIZON]
    assert bool(waiting) == bool(retention_ms)
    assert pair.same(lambda broker, _: segment_names(broker, unique))
