"""Is a log what its model says: to readers, producers, searches by time, followers, and in its directory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from storage.segment.names import CLEANED_SUFFIX, PARTITION_METADATA, SWAP_SUFFIX
from tests.sim.log_life import Life, content
from tests.sim.log_model import replay, stored_batches


def check(life: Life, *, is_thorough: bool) -> None:
    model, log = life.model, life.log
    assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
    replayed = replay(model.appended)
    _check_producers(life, replayed)
    assert log.last_stable_offset in model.last_stable(replayed) or life.may_forget
    assert log.recovery_point <= max(model.durable, log.log_start_offset)
    for batch in model.visible():
        if batch.base >= max(model.start, life.epochs_from):
            assert log.epoch_for_offset(batch.base) == batch.header.partition_leader_epoch
    offsets = range(model.start, model.high_watermark)
    _check_reads(life, offsets if is_thorough else life.chance.sample(offsets, min(6, len(offsets))))
    if is_thorough:
        _check_times(life)
        _check_aborted(life, replayed)
        _check_files(life)


def _check_producers(life: Life, replayed) -> None:
    # An empty control batch, all of a cleaned transaction, tells nothing of its producer.
    seen = {
        batch.header.producer_id
        for batch in life.model.stored
        if batch.last >= life.model.start and (batch.records or not batch.header.is_control)
    }
    known = {entry.producer_id: entry for entry in life.log.active_producers()}
    stored = {batch.last for batch in life.model.stored if batch.last >= life.model.start}
    assert seen - {-1} <= set(known)
    assert set(known) <= set(replayed.producers) or life.may_forget
    for producer_id, entry in known.items():
        if producer_id not in replayed.producers:
            continue
        expected = replayed.producers[producer_id]
        got = (entry.producer_epoch, entry.last_sequence, entry.last_offset)
        # Rebuilt from what is left, a producer is known by its last batch that is. A cleaning leaves the newest one
        # alone, so that none of it may be left when that is cut off.
        if expected.last_offset in stored or (entry.last_offset >= 0 and not life.may_forget):
            assert got == (expected.epoch, expected.last_sequence, expected.last_offset), (entry, expected)
        first = entry.current_txn_first_offset
        # Rebuilt from what is left, a transaction begins with its first batch that is.
        is_later = 0 <= expected.txn_first < min(life.model.start, first)
        assert first == expected.txn_first or is_later or life.may_forget, (entry, expected)
        expected.txn_first = first
    for producer_id in replayed.producers.keys() - known.keys():
        del replayed.producers[producer_id]


def _check_reads(life: Life, offsets: Sequence[int]) -> None:
    bound = life.model.high_watermark
    for offset in offsets:
        max_bytes = life.chance.choice((1, 300, 2000, 1 << 20))
        found = life.log.read(offset, max_bytes=max_bytes, bound=bound, min_one_batch=True)
        data = content(found)
        got = [batch.data for batch in stored_batches(data)]
        expected = [batch.data for batch in life.model.readable(offset, bound)]
        assert got == expected[: len(got)] and bool(got) == bool(expected), offset
        assert len(data) <= max_bytes or len(got) == 1


def _check_times(life: Life) -> None:
    times = [record.timestamp for batch in life.model.stored for record in batch.records]
    for timestamp in life.chance.sample(times, min(12, len(times))):
        for target in (timestamp, timestamp + 1):
            found = life.log.offset_for_timestamp(target, bound=life.model.high_watermark)
            expected = life.model.at_time(target)
            got = None if found is None else (found.timestamp, found.offset)
            assert got == (None if expected is None else (expected.timestamp, expected.offset)), (
                target,
                got,
                expected,
            )


def _check_aborted(life: Life, replayed) -> None:
    """Every aborted transaction of which data is left must be told of, and none that there never was."""
    model = life.model
    start, end = model.start, model.high_watermark
    told = life.log.transactions.aborted(start, end)
    assert [first for _, first in told] == sorted(first for _, first in told)
    aborted = [txn for txn in replayed.ended if txn.is_abort]
    left = {
        (batch.header.producer_id, batch.base)
        for batch in model.readable(start, end)
        if batch.base in replayed.aborted_batches and batch.records
    }
    for txn in aborted:
        inside = [base for pid, base in left if pid == txn.producer_id and txn.first <= base < txn.marker]
        if inside:
            assert any(pid == txn.producer_id and first <= min(inside) for pid, first in told), txn
    possible = {(txn.producer_id, txn.first) for txn in aborted}
    for pid, first in told:
        assert (
            (pid, first) in possible
            or life.may_forget
            or any(pid == txn.producer_id and txn.first < start and txn.first <= first for txn in aborted)
        ), (pid, first)


def _check_files(life: Life) -> None:
    names = os.listdir(life.log.path)
    # Written once, so that a name which a crash has left beside the other one stays.
    names = [name for name in names if name != f"{PARTITION_METADATA}.tmp"]
    assert not [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp"))]
    for segment in life.log._state.segments:
        size = os.path.getsize(segment.log.path)
        assert size == segment.size or segment.is_active or segment.is_waiting or segment.log.is_direct, segment
