"""A log directory goes from Apache Kafka to us and back, whole: everybody serves what the other has written.

Kafka writes one with all kinds of topics. We start on a copy, show the same, compact, retain and append to it, and add
topics of our own. Kafka's tool reads what we wrote, and Kafka starts on it and shows the same as we did.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness import batches, tool_host
from tests.harness.admin import delete_records, described, set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess, KafkaProcess
from tests.harness.disk import active_base, checkpointed, wait_until_cleaned
from tests.harness.filled import NOW, START, some_batches
from tests.harness.offsets import commit, committed
from tests.harness.pair import PROPERTIES
from tests.harness.raw import RawClient, eventually
from tests.harness.transactions import read_committed, write_transactions

pytestmark = pytest.mark.jvm

# Small segments with entries in their indexes.
KEEP = {"retention_ms": "-1", "index_interval_bytes": "200"}
COMPACT = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0",
    "internal_segment_bytes": "4096",
    "index_interval_bytes": "200",
}
TOPICS: dict[str, dict[str, str]] = {
    "codecs": {**KEEP, "internal_segment_bytes": "4096"},
    "append-time": {**KEEP, "message_timestamp_type": "LogAppendTime", "internal_segment_bytes": "4096"},
    "compacted": {**COMPACT, "delete_retention_ms": "3600000"},
    "transactional": {**KEEP, "internal_segment_bytes": "2500"},
    "compacted-transactional": {**COMPACT, "internal_segment_bytes": "2500"},
    "preallocated": {**KEEP, "preallocate": "true", "segment_bytes": str(1 << 20)},
    "one-codec": {**KEEP, "compression_type": "lz4", "internal_segment_bytes": "4096"},
    "shortened": {**KEEP, "internal_segment_bytes": "4096"},
    "empty": {},
}


def _fill(broker: BrokerProcess, client: RawClient, prefix: str = "") -> None:
    """Create and fill the topics; transactions only where somebody coordinates them."""
    for topic, configs in TOPICS.items():
        client.create_topic(prefix + topic, **configs)
    for topic in ("codecs", "append-time", "one-codec", "shortened", "preallocated"):
        for batch in some_batches(1, 60):
            client.append(prefix + topic, batch)
    for number in range(3):  # more than a segment
        client.append(
            prefix + "preallocated", batches.build([Record(random.Random(number).randbytes(500_000), timestamp=NOW)])
        )
    for batch in some_batches(2, 80, tombstones=True):
        client.append(prefix + "compacted", batch)
    _roll_and_clean(broker, client, prefix + "compacted")
    assert delete_records(client, prefix + "shortened", 100).low_watermark == 100
    commit(client, prefix + "group", prefix + "codecs", 17, metadata="seventeen")


def _roll_and_clean(broker: BrokerProcess, client: RawClient, topic: str) -> None:
    client.append(topic, batches.build([Record(bytes(2000), b"roll", timestamp=NOW)]))
    client.append(topic, batches.build([Record(bytes(2400), b"roll", timestamp=NOW)]))
    wait_until_cleaned(broker, topic, active_base(broker, topic))


class Shown(NamedTuple):
    """What clients see of a topic."""

    start: int
    end: int
    stable: int
    raw: list[bytes]
    records: list[Record]
    committed: list[Record]
    times: list[tuple[int, int]]
    overrides: dict[str, str | None]


def _look(client: RawClient, topic: str) -> Shown:
    client.wait_for_topic(topic, 1)
    end = client.end_offset(topic)
    stable = client.list_offset(topic, -1, isolation=1).offset
    start = client.start_offset(topic)
    data = client.fetch_all(topic, offset=start)
    records = batches.records_of(data)
    asked = {record.timestamp for record in records[::17]} | {0}
    found = [client.list_offset(topic, timestamp) for timestamp in sorted(asked)]
    overrides = {key: value for key, (value, source) in described(client, topic).items() if source == 1}
    return Shown(
        start,
        end,
        stable,
        [batch.raw for batch in batches.parse(data)],
        records,
        read_committed(client, topic, start),
        [(row.offset, row.timestamp) for row in found],
        overrides,
    )


def _look_at_all(broker: BrokerProcess, *prefixes: str) -> dict[str, Any]:
    with RawClient((broker.host, broker.port)) as client:
        shown: dict[str, Any] = {
            prefix + topic: _look(client, prefix + topic) for prefix in prefixes for topic in TOPICS
        }
        for prefix in prefixes:
            shown[f"{prefix}group"] = committed(client, prefix + "group", prefix + "codecs")
        return shown


class Journey(NamedTuple):
    """The directory at every station, and what was seen there."""

    by_kafka: dict[str, Any]
    by_us: dict[str, Any]
    by_us_after_a_crash: dict[str, Any]
    our_work: dict[str, Any]
    our_files: Path
    by_kafka_again: dict[str, Any]


OURS = "ours-"


def _on(broker: BrokerProcess, data: Path) -> BrokerProcess:
    """Start a broker on a copy of a data directory."""
    shutil.copytree(data, broker.data_directory, ignore=shutil.ignore_patterns(".lock"))
    broker.start()
    return broker


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    place = tmp_path_factory.mktemp("interchange")
    brokers: list[BrokerProcess] = []

    def begin(broker: BrokerProcess) -> BrokerProcess:
        brokers.append(broker)
        return broker

    try:
        quickly = {"log.flush.start.offset.checkpoint.interval.ms": "200"}
        kafka = begin(KafkaProcess(place / "kafka", PROPERTIES | quickly))
        kafka.start()
        with RawClient((kafka.host, kafka.port)) as client:
            _fill(kafka, client)
            for topic in ("transactional", "compacted-transactional"):
                write_transactions(kafka.bootstrap, topic, count=20, first_timestamp=START)
                eventually(
                    lambda topic=topic: client.list_offset(topic, -1, isolation=1).offset == client.end_offset(topic)
                )
            _roll_and_clean(kafka, client, "compacted-transactional")
        by_kafka = _look_at_all(kafka, "")
        # As a crash would leave it: indexes of full size, no marker of a clean stop, checkpoints a minute old.
        eventually(lambda: checkpointed(kafka, "log-start-offset-checkpoint", "shortened") == 100)
        crashed = place / "crashed"
        shutil.copytree(kafka.data_directory, crashed)
        kafka.stop()

        ours = _on(begin(BrokerProcess(place / "after-crash", PROPERTIES)), crashed)
        by_us_after_a_crash = _look_at_all(ours, "")
        ours.stop()
        ours = _on(begin(BrokerProcess(place / "ours", PROPERTIES)), kafka.data_directory)
        by_us = _look_at_all(ours, "")
        with RawClient((ours.host, ours.port)) as client:
            _work_on(ours, client)
            _fill(ours, client, OURS)
        our_work = _look_at_all(ours, "", OURS)
        ours.stop()

        kafka = _on(begin(KafkaProcess(place / "kafka-again", PROPERTIES)), ours.data_directory)
        by_kafka_again = _look_at_all(kafka, "", OURS)
        kafka.stop()
    finally:
        for broker in brokers:
            broker.close()
    assert not [line for broker in brokers for line in broker.trouble()]
    return Journey(by_kafka, by_us, by_us_after_a_crash, our_work, ours.data_directory, by_kafka_again)


def _work_on(ours: BrokerProcess, client: RawClient) -> None:
    """Continue what Kafka has begun: append everywhere, compact further, compact transactions, retain."""
    for topic in TOPICS:
        for batch in some_batches(3, 10):
            client.append(topic, batch)
    for topic in ("compacted", "compacted-transactional"):
        _roll_and_clean(ours, client, topic)
    set_configs(client, "transactional", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    _roll_and_clean(ours, client, "transactional")
    start = client.start_offset("one-codec")
    set_configs(client, "one-codec", retention_bytes="8000")
    eventually(lambda: client.start_offset("one-codec") > start)
    eventually(lambda: not list(ours.data_directory.glob("*-0/*.deleted")))


def _compare(ours: dict[str, Any], kafka: dict[str, Any], topic: str) -> None:
    for field in Shown._fields:
        if field == "times" and "compacted" in topic:
            # Kafka looks into one segment only, which cleaning may have left without a record.
            pairs = zip(ours[topic].times, kafka[topic].times, strict=True)
            assert all(theirs in (mine, (-1, -1)) for mine, theirs in pairs)
        else:
            assert getattr(ours[topic], field) == getattr(kafka[topic], field), (topic, field)


@pytest.mark.parametrize("topic", TOPICS)
def test_we_serve_what_kafka_wrote(journey: Journey, topic: str) -> None:
    _compare(journey.by_us, journey.by_kafka, topic)
    assert len(journey.by_us[topic].records) > 5 or topic == "empty"


@pytest.mark.parametrize("topic", TOPICS)
def test_we_serve_what_kafka_wrote_before_it_crashed(journey: Journey, topic: str) -> None:
    _compare(journey.by_us_after_a_crash, journey.by_kafka, topic)


@pytest.mark.parametrize("topic", [*TOPICS, *(OURS + topic for topic in TOPICS)])
def test_kafka_serves_what_we_wrote(journey: Journey, topic: str) -> None:
    _compare(journey.our_work, journey.by_kafka_again, topic)


def test_committed_offsets_are_kept_on_the_way(journey: Journey) -> None:
    wanted = (17, -1, "seventeen")
    for shown in (journey.by_kafka, journey.by_us, journey.by_us_after_a_crash):
        assert shown["group"] == wanted
    for shown in (journey.our_work, journey.by_kafka_again):
        assert (shown["group"], shown[f"{OURS}group"]) == (wanted, wanted)


# Gaps between offsets are what compaction makes.
COMPLAINTS = re.compile(r"Mismatches in|should be less than|not valid|isvalid: false|Exception|Index timestamp")


def _dump(directory: Path, suffix: str, *options: str) -> str:
    """Let Kafka's tool read all files of a kind at once."""
    files = sorted(
        str(path)
        for path in directory.glob(f"*-0/*{suffix}")
        if path.stat().st_size and not path.parent.name.startswith("__")
    )
    assert len(files) > 10 or suffix == ".txnindex"
    printed = tool_host.run("kafka-dump-log", *options, "--files", ",".join(files))
    assert not COMPLAINTS.search(printed), [line for line in printed.splitlines() if COMPLAINTS.search(line)]
    return printed


def test_kafkas_tool_reads_every_segment(journey: Journey) -> None:
    printed = _dump(journey.our_files, ".log", "--deep-iteration")
    assert set(re.findall(r"isvalid: (\w+)", printed)) == {"true"}
    assert set(re.findall(r"compresscodec: (\w+)", printed)) == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert "deleteHorizonMs: OptionalLong[" in printed


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_kafkas_tool_finds_no_fault_in_the_indexes(journey: Journey, suffix: str) -> None:
    _dump(journey.our_files, suffix, "--index-sanity-check")
    _dump(journey.our_files, suffix, "--verify-index-only")


def test_kafkas_tool_lists_aborted_transactions(journey: Journey) -> None:
    printed = _dump(journey.our_files, ".txnindex")
    assert re.search(r"version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+", printed)
