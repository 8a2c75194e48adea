"""The traffic of topics: no counter ever falls, and failures are told apart as Kafka does."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.partition.errors import NotLeader, UnknownPartition
from broker.partition.traffic import Traffic
from protocol.records.builder import build_batch
from storage.errors import (
    InvalidMagic,
    InvalidOffsets,
    InvalidTimestamp,
    MissingKeys,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordError,
    RecordTooLarge,
    WrongChecksum,
)
from tests.harness.hosted import NOW_MS, Hosted


def test_a_topic_that_is_deleted_stays_in_the_sum_and_its_successor_begins_anew(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    batch = build_batch([(None, b"a"), (None, b"b")], timestamp=NOW_MS)
    traffic = hosted.manager.traffic
    for partition in (hosted.create("t", partitions=2), hosted.manager.get("t", 1)):
        partition.append(batch)
    assert (traffic.topics["t"].messages_in, traffic.topics["t"].bytes_in) == (4, 2 * len(batch))
    hosted.delete("t")
    assert "t" not in traffic.topics
    assert traffic.total().messages_in == 4
    hosted.create("t").append(batch)
    assert traffic.topics["t"].messages_in == 2
    assert (traffic.total().messages_in, traffic.total().produce_requests) == (6, 3)


def test_a_batch_that_was_appended_before_counts_as_a_request_only(tmp_path: Path) -> None:
    partition = Hosted(tmp_path).create("t")
    batch = build_batch([(None, b"a")], timestamp=NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0)
    for _ in range(2):
        partition.append(batch)
    assert (partition.stats.produce_requests, partition.stats.messages_in) == (2, 1)


@pytest.mark.parametrize(
    ("failure", "failed", "rejected_bytes"),
    [
        (NotLeader(-1, 0), 0, 0),
        (WrongChecksum("crc"), 0, 0),
        (RecordTooLarge(700, 500), 0, 700),
        (InvalidTimestamp("then"), 1, 0),
        (OutOfOrderSequence("5"), 1, 0),
    ],
)
def test_of_refused_batches_those_count_as_failed_that_nobody_would_expect(
    failure: Exception, failed: int, rejected_bytes: int
) -> None:
    traffic = Traffic()
    stats = traffic.of("t")
    traffic.refused_batch("t", failure)
    assert (stats.produce_requests, stats.failed_produce_requests, stats.bytes_rejected) == (1, failed, rejected_bytes)


def test_of_refused_reads_those_count_as_failed_that_nobody_would_expect() -> None:
    traffic = Traffic()
    stats = traffic.of("t")
    traffic.refused_fetch("t", OffsetOutOfRange(5, 0, 1))
    assert (stats.fetch_requests, stats.failed_fetch_requests) == (1, 0)
    traffic.refused_fetch("t", ValueError("of ours"))
    assert (stats.fetch_requests, stats.failed_fetch_requests) == (2, 1)


def test_what_is_asked_of_topics_that_are_not_here_is_in_the_sum_alone() -> None:
    traffic = Traffic()
    traffic.refused_batch("no", UnknownPartition("no"))
    traffic.refused_fetch(None, UnknownPartition("no"))
    assert not traffic.topics
    assert (traffic.total().produce_requests, traffic.total().fetch_requests) == (1, 1)


def test_invalid_records_are_counted_by_what_is_wrong_with_them() -> None:
    traffic = Traffic()
    faults = [RecordError(index, "no key") for index in range(3)]
    for failure in (WrongChecksum(""), InvalidMagic(""), InvalidOffsets(""), MissingKeys("", faults)):
        traffic.refused_batch("t", failure)
    invalid = traffic.invalid_records
    counts = (invalid.wrong_checksum, invalid.wrong_magic, invalid.wrong_offsets, invalid.missing_key)
    assert counts == (1, 1, 1, 3)
