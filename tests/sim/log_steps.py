"""What may happen to a log in its life: each step does the same to the log and to its model."""

from __future__ import annotations

from dataclasses import replace

from protocol.records.builder import build_batch
from protocol.records.control import build_marker
from storage.env.clock import monotonic_ms
from storage.errors import InvalidProducerEpoch, OutOfOrderSequence, RecordTooLarge, StorageError
from storage.types import AppendOrigin
from tests.sim.log_life import Life
from tests.sim.log_model import replay, stored_batches

IDEMPOTENT, TRANSACTIONAL = (1, 2), (11, 12, 13)


def append(life: Life) -> None:
    life.append(life.rows(), codec=life.chance.choice((0, 0, 1, 2, 3, 4)))


def idempotent(life: Life) -> None:
    producer_id = life.chance.choice(IDEMPOTENT)
    life.append(life.rows(), **life.next_of(producer_id, bump=life.chance.random() < 0.1))


def transactional(life: Life) -> None:
    producer_id = life.chance.choice(TRANSACTIONAL)
    codec = life.chance.choice((0, 0, 2))
    life.append(life.rows(), codec=codec, is_transactional=True, **life.next_of(producer_id))


def end(life: Life) -> None:
    """End a transaction, sometimes one that has nothing here, sometimes with another epoch as KIP-890 does."""
    end_of(life, life.chance.choice(TRANSACTIONAL), is_abort=life.chance.random() < 0.5)


def end_of(life: Life, producer_id: int, *, is_abort: bool) -> None:
    epoch = life.next_of(producer_id)["producer_epoch"]  # the log may know one whose batches are gone
    marker = build_marker(
        is_abort=is_abort,
        producer_id=producer_id,
        producer_epoch=epoch + (life.chance.random() < 0.2),
        coordinator_epoch=0,
        timestamp=life.clock.now,
    )
    life.append_bytes(marker, origin=AppendOrigin.COORDINATOR)


def replicate(life: Life) -> None:
    """Take a leader's bytes, with gaps between and within batches."""
    batches, offset = [], life.model.end
    for _ in range(life.chance.randint(1, 3)):
        offset += life.chance.choice((0, 0, 3))
        rows = life.rows()
        batches.append(bytes(build_batch(rows, base_offset=offset, leader_epoch=life.epoch)))
        offset += len(rows)
    data = b"".join(batches)
    for batch in stored_batches(data):
        life.model.note(batch)
    life.log.append(data, leader_epoch=life.epoch, origin=AppendOrigin.REPLICATION)
    life.model.add(stored_batches(data))
    life._after_append()


def duplicate(life: Life) -> None:
    for batch in reversed(life.model.stored):
        header = batch.header
        known = replay(life.model.appended).producers.get(header.producer_id)
        if known is None or header.is_control or batch.last != known.last_offset or not batch.records:
            continue
        rows = [(b"k", b"again", (), life.clock.now)] * header.record_count
        entries = [one.last_offset for one in life.log.active_producers() if one.producer_id == header.producer_id]
        if header.record_count != header.last_offset_delta + 1 or entries != [batch.last]:
            continue
        result = life.log.append(
            build_batch(
                rows,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
            ),
            leader_epoch=life.epoch,
        )
        # A producer that was forgotten counts from zero again, so that there may be an older batch of these numbers.
        twins = [
            (one.base, one.last)
            for one in life.model.appended
            if one.header.producer_id == header.producer_id and one.header.base_sequence == header.base_sequence
        ]
        assert result.is_duplicate and (result.base_offset, result.last_offset) in twins
        return


def refused(life: Life) -> None:
    rows = life.rows()
    batch: bytearray
    expected: type[StorageError]
    producers = [pid for pid in IDEMPOTENT if life.is_known(pid)]
    if life.chance.random() < 0.5 or not producers:
        batch = build_batch([(b"k", bytes(life.config.max_message_bytes), (), life.clock.now)])
        expected = RecordTooLarge
    else:
        fields = life.next_of(life.chance.choice(producers))
        if life.chance.random() < 0.5 and fields["producer_epoch"] > 0:
            batch = build_batch(rows, **{**fields, "producer_epoch": fields["producer_epoch"] - 1})
            expected = InvalidProducerEpoch
        else:
            batch = build_batch(rows, **{**fields, "base_sequence": fields["base_sequence"] + 100})
            expected = OutOfOrderSequence
    try:
        life.log.append(batch, leader_epoch=life.epoch)
    except expected:
        return
    raise AssertionError(f"no {expected.__name__}")


def roll(life: Life) -> None:
    life.log.roll()


def time(life: Life) -> None:
    life.clock.now += life.chance.choice((1, 500, 3000, 15_000))
    for _, unlink in life.manager.take_due_deletions(monotonic_ms(life.clock)):
        unlink()
    if life.log.durability.ms_until_flush(life.clock.now) == 0:
        life.flush()


def flush(life: Life) -> None:
    life.flush()


def flush_beside(life: Life) -> None:
    """Flush as a background thread does: something happens between plan, run and note."""
    while (write := life.log.direct_writes.plan()) is not None:
        write.run()
        life.log.direct_writes.written(write)
    plan = life.log.durability.flush_plan(below=life.chance.choice((None, life.log.durability.sealed_end_offset)))
    if plan is None:
        return
    life.is_flushing = True
    life.meanwhile((append, idempotent, roll))
    plan.run()
    life.meanwhile((append, transactional, roll))
    life.log.durability.flushed(plan)
    life.is_flushing = False
    life.model.durable = max(life.model.durable, plan.target_offset)
    assert life.log.recovery_point >= plan.target_offset


def write(life: Life) -> None:
    write = life.log.direct_writes.plan()
    if write is not None:
        life.is_writing = True
        life.meanwhile((append, roll, setting))
        write.run()
        life.log.direct_writes.written(write)
        life.is_writing = False
    if life.window_is_full:
        life.window_is_full = False
        plan = life.log.durability.writeback_plan()
        if plan is not None:
            life.meanwhile((append, roll))
            plan.run()
            life.log.durability.written_back(plan)
    life.advance()


def watermark(life: Life) -> None:
    life.is_lagging = not life.is_lagging
    life.advance()


def epoch(life: Life) -> None:
    life.epoch += 1
    life.log.assign_epoch(life.epoch)


def setting(life: Life) -> None:
    settings = life.settings
    name = life.chance.choice([*settings])
    life.config = replace(life.config, **{name: life.chance.choice(settings[name])})
    life.script[-1] += f" {name}={getattr(life.config, name)}"
    life.log.config = life.config


def retain(life: Life) -> None:
    life.finish_removal()
    model = life.model
    while True:
        life.before_retention()
        ends = [*life.bases()[1:], model.end + 1]
        segments = [
            model.segment(segment.base_offset, end, segment.size, segment.retention_timestamp)
            for segment, end in zip(life.log._state.segments, ends, strict=True)
        ]
        kept = model.first_kept(segments, life.config, life.clock.now)
        life.wanted_start = max(life.wanted_start, kept)
        removal = life.log.retain(life.clock.now)
        if removal is None:
            assert kept == segments[0].base, (kept, segments)
            return
        model.start = max(model.start, life.log.log_start_offset)
        assert life.bases()[0] <= kept and removal.segment_count <= len(segments)
        life.pending = (removal, life.bases()[0] < kept)
        model.drop_below(life.bases()[0])
        life.meanwhile((append, roll, checkpoint))
        if life.chance.random() < 0.8:
            life.finish_removal()
        else:
            return


def delete_records(life: Life) -> None:
    model = life.model
    offset = life.chance.randint(model.start, max(life.deletable_end(), model.start))
    life.wanted_start = max(life.wanted_start, offset)
    life.log.increment_log_start_offset(offset)
    model.start = max(model.start, offset)
    life.manager.checkpoint_log_starts()
    life.answered_start = model.start


def checkpoint(life: Life) -> None:
    life.manager.checkpoint_recovery_points()
    life.manager.checkpoint_log_starts()
    life.manager.checkpoint_high_watermarks()
    life.manager.checkpoint_cleaner_offsets()


def truncate(life: Life) -> None:
    life.finish_removal()
    model = life.model
    offset = life.chance.choice((model.high_watermark, life.chance.randint(model.start, model.end)))
    model.durable = min(model.durable, offset)
    life.may_forget = life.may_forget or life.cleaned_to > 0
    life.wanted_start = life.answered_start = model.start
    if offset < life.bases()[0]:
        life.answered_start = life.epochs_from = 0
        model.restart_at(offset)
    life.log.truncate_to(offset)
    model.cut(offset)
    life.manager.checkpoint_recovery_points()
    life.flush()
    life.answered_start = model.start
    epoch(life)  # a follower cuts because another epoch has begun


def truncate_fully(life: Life) -> None:
    life.finish_removal()
    offset = life.model.end + life.chance.choice((0, 7))
    life.wanted_start, life.answered_start, life.epochs_from = offset, 0, 0  # without any file a log begins anew
    life.model.durable = 0
    life.log.truncate_fully_and_start_at(offset)
    life.model.restart_at(offset)
    life.cleaned_to = 0
    checkpoint(life)
    life.flush()
    life.answered_start = offset
