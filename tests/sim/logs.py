"""Driving one log in tests: build batches, append, read like a consumer, list files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from protocol.records.batch import BatchHeader, iter_batches
from protocol.records.builder import build_batch
from protocol.records.control import build_marker
from storage.log.append import AppendResult
from storage.log.partition_log import PartitionLog
from storage.types import AppendOrigin, TopicPartition

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)


def batch(count: int = 1, *, timestamp: int = NOW, value: bytes = b"v" * 20, **fields) -> bytearray:
    return bytearray(build_batch([(b"k", value, (), timestamp + n) for n in range(count)], **fields))


def append(log: PartitionLog, count: int = 1, *, epoch: int = 0, **options) -> AppendResult:
    result = log.append(batch(count, **options), leader_epoch=epoch)
    log.advance_high_watermark(log.log_end_offset)
    return result


def append_marker(log: PartitionLog, producer_id: int, *, is_abort: bool, producer_epoch: int = 0) -> AppendResult:
    marker = build_marker(
        is_abort=is_abort, producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=0, timestamp=NOW
    )
    result = log.append(bytes(marker), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    return result


def read_all(log: PartitionLog, start: int | None = None, max_bytes: int = 1 << 20) -> bytes:
    """Follow the log as a consumer does and return all bytes."""
    offset = log.log_start_offset if start is None else start
    chunks = []
    while offset < log.high_watermark:
        found = log.read(offset, max_bytes=max_bytes, bound=log.high_watermark, min_one_batch=True)
        if found.region is None:
            break
        data = found.region.read()
        found.region.release()
        chunks.append(data)
        offset = batches_of(data)[-1].next_offset
    return b"".join(chunks)


def batches_of(data: bytes) -> list[BatchHeader]:
    return [header for _, header in iter_batches(data)]


def offsets_of(log: PartitionLog, **options) -> list[int]:
    return [header.base_offset for header in batches_of(read_all(log, **options))]


def file_names(log: PartitionLog) -> list[str]:
    return sorted(os.listdir(log.path))


def fill(log: PartitionLog, timestamps: Iterable[int]) -> None:
    """Append a batch for each time."""
    for timestamp in timestamps:
        append(log, timestamp=timestamp)


def known(log: PartitionLog) -> tuple[int, int | None]:
    """Tell what is released of a scheduled log, and the time of the batch there."""
    assert log.delivery is not None
    return log.delivery.watermark, log.delivery.pending_timestamp


def searched(log: PartitionLog, now_ms: int) -> int:
    """Do what an owner does with a log that is behind; return how many searches that took."""
    count = 0
    delivery = log.delivery
    assert delivery is not None
    delivery.advance(now_ms)
    while (search := delivery.plan_search(now_ms)) is not None and not (count and delivery.has_failed):
        count += 1
        delivery.take(search, search.run())
        delivery.advance(now_ms)
    return count


def retained(log: PartitionLog, now_ms: int) -> int:
    """Apply retention until nothing goes any more; return how many segments went."""
    count = 0
    while (removal := log.retain(now_ms)) is not None:
        removal.rename()
        log.removed(removal)
        count += removal.segment_count
    return count
