"""Sweep every mutating call of a log's life: whatever a power failure leaves, recovery makes a log that kept its word.

Promises checked after each crash: the log opens; every record below the last successful flush is there, byte for byte;
what follows is what was appended, in order, and nothing is missing between two batches that survived but whole batches
at the end of a segment that was rolled and not yet flushed (the next segment's file may have reached the disk before;
Apache Kafka keeps what survived too); the producer state equals that of the surviving batches; the log takes further
appends and opens cleanly once more.
"""

import os
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from config.views import LogConfig
from storage.checkpoints.offsets import read_offsets, write_offsets
from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem
from storage.log.deletions import unlink_files
from storage.log.partition_log import PartitionLog
from tests.sim.crash_fs import Crashed, CrashFS
from tests.sim.logs import NOW, TP, append, batch, batches_of, read_all

SIZE = len(batch())
CONFIG = LogConfig(segment_bytes=6 * SIZE, index_interval_bytes=SIZE, segment_index_bytes=1200)
SEEDS_PER_CALL = 3
BLOCK = 32  # smaller than a batch, so that most writes begin and end inside of one
CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class StillClock:
    def __init__(self, now_ms: int = NOW) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return 0


class Promise:
    """What the broker has told clients: appended offsets, and how far they are durable."""

    def __init__(self) -> None:
        self.appended = 0
        self.flushed = 0
        self.stored = b""


def open_log(fs, root: str, *, clean: bool = False, config: LogConfig = CONFIG) -> PartitionLog:
    recovery_point = read_offsets(fs, os.path.join(root, CHECKPOINT)).get(TP, 0)
    log_start_offset = read_offsets(fs, os.path.join(root, LOG_STARTS)).get(TP, 0)
    return PartitionLog.open(
        fs,
        StillClock(),
        SeededRng(1),
        os.path.join(root, "t-0"),
        TP,
        config,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        topic_id=bytes(range(16)),
        clean=clean,
    )


def put(log: PartitionLog, promise: Promise, count: int, *, epoch: int | None = None) -> None:
    for _ in range(count):
        append(log, timestamp=NOW + promise.appended, epoch=log.latest_epoch if epoch is None else epoch)
        promise.appended = log.log_end_offset
        write_some(log)


def write_some(log: PartitionLog) -> None:
    """Let an owner that writes later do so after every third append; a segment may have been rolled meanwhile."""
    plan = log.direct_writes.plan() if log.log_end_offset % 3 == 0 else None
    if plan is not None:
        plan.run()
        log.direct_writes.written(plan)


def flush(fs, log: PartitionLog, root: str, promise: Promise) -> None:
    log.flush()
    promise.flushed = log.recovery_point
    write_offsets(fs, os.path.join(root, CHECKPOINT), {TP: log.recovery_point})


def flush_sealed(fs, log: PartitionLog, root: str, promise: Promise) -> None:
    """Flush what was rolled and leave the active segment alone, as a broker does after each roll."""
    plan = log.durability.flush_plan(below=log.durability.sealed_end_offset)
    if plan is not None:
        plan.run()
        log.durability.flushed(plan)
    promise.flushed = log.recovery_point
    write_offsets(fs, os.path.join(root, CHECKPOINT), {TP: log.recovery_point})


def life(fs, root: str, promise: Promise, config: LogConfig, *, writes_later: bool) -> None:
    """Open, append over several segments, flush on the way, change epochs, close, open again, append."""
    log = open_log(fs, root, config=config)
    if writes_later:
        log.direct_writes.defer()
    log.assign_epoch(1)
    put(log, promise, 8)
    flush(fs, log, root, promise)
    log.assign_epoch(2)
    for sequence in range(10):
        append(log, timestamp=NOW + promise.appended, epoch=2, producer_id=7, producer_epoch=0, base_sequence=sequence)
        promise.appended = log.log_end_offset
        write_some(log)
    flush(fs, log, root, promise)
    put(log, promise, 4)
    flush_sealed(fs, log, root, promise)
    put(log, promise, 1)
    log.close()
    promise.flushed = promise.appended
    write_offsets(fs, os.path.join(root, CHECKPOINT), {TP: log.recovery_point})
    log = open_log(fs, root, clean=True, config=config)
    put(log, promise, 3)


def split(data: bytes) -> list[bytes]:
    """Cut a whole log of one-record batches into the batches, by offset."""
    pieces = []
    for header in batches_of(data):
        pieces.append(data[: header.size_bytes])
        data = data[header.size_bytes :]
    return pieces


def check(root: str, promise: Promise, reference: list[bytes], context: str) -> None:
    fs = PosixFileSystem()
    log = open_log(fs, root)
    log.advance_high_watermark(log.log_end_offset)
    assert log.log_end_offset >= promise.flushed, context
    data = read_all(log)
    headers = batches_of(data)
    offsets = [header.base_offset for header in headers]
    assert offsets[: promise.flushed] == list(range(promise.flushed)), context
    assert offsets == sorted(set(offsets)) and (not offsets or offsets[-1] == log.log_end_offset - 1), context
    after_a_hole = {offset for before, offset in pairwise([-1, *offsets]) if offset != before + 1}
    assert after_a_hole <= {int(path.stem) for path in Path(log.path).glob("*.log")}, context
    assert data == b"".join(reference[offset] for offset in offsets), context
    assert log.log_end_offset <= promise.appended + 1, context
    sequences = [header.base_sequence for header in headers if header.producer_id == 7]
    states = {entry.producer_id: entry.last_sequence for entry in log.active_producers()}
    assert states == ({7: sequences[-1]} if sequences else {}), context
    expected_epochs: dict[int, int] = {}
    for before, header in zip([-1, *offsets], headers, strict=False):
        # The file may still know where an epoch began whose first batches are lost.
        start = dict(log.epoch_entries()).get(header.partition_leader_epoch, -1)
        first = start if before < start < header.base_offset else header.base_offset
        expected_epochs.setdefault(header.partition_leader_epoch, first)
    assert log.epoch_entries() == sorted(expected_epochs.items()), context
    for offset in offsets:
        assert log.offset_for_timestamp(NOW + offset, bound=log.log_end_offset).offset == offset, context
    end = log.log_end_offset
    append(log, timestamp=NOW + end, epoch=max(log.latest_epoch, 1))
    log.close()
    again = PartitionLog.open(fs, StillClock(), SeededRng(2), log.path, TP, CONFIG, clean=True)
    assert again.log_end_offset == end + 1, context
    again.fail()


@pytest.mark.parametrize(("way", "seeds"), [("cached", 3), ("direct", 2), ("direct later", 1)])
def test_every_crash_point_of_a_log_leads_back_to_a_whole_log(tmp_path, way, seeds):
    is_direct, writes_later = way != "cached", way == "direct later"
    config = replace(CONFIG, preallocate=is_direct)
    block_bytes = BLOCK if is_direct else None
    whole = tmp_path / "whole"
    (whole / "t-0").mkdir(parents=True)
    fs = CrashFS(str(whole), direct_block_bytes=block_bytes)
    promise = Promise()
    life(fs, str(whole), promise, config, writes_later=writes_later)
    stored = b"".join(path.read_bytes() for path in sorted((whole / "t-0").glob("*.log")))
    reference = split(stored.rstrip(b"\0") + b"\0" if is_direct else stored)  # a record ends with one zero
    calls = fs.calls
    assert calls > 100
    first_seed = int(os.environ.get("SEED", "1"))
    for crash_at in range(calls):
        root = tmp_path / f"run-{crash_at}"
        (root / "t-0").mkdir(parents=True)
        fs = CrashFS(str(root), crash_at=crash_at, direct_block_bytes=block_bytes)
        promise = Promise()
        with pytest.raises(Crashed):
            life(fs, str(root), promise, config, writes_later=writes_later)
        for seed in range(first_seed, first_seed + seeds):
            after = str(tmp_path / "after")
            fs.aftermath(after, seed)
            check(after, promise, reference, f"crash_at={crash_at} SEED={seed}")


def test_a_crash_while_recovering_is_recovered_from(tmp_path):
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)
    posix = PosixFileSystem()
    log = open_log(posix, str(root))
    log.assign_epoch(1)
    promise = Promise()
    put(log, promise, 20)
    reference = split(read_all(log))
    log.fail()
    with open(root / "t-0" / f"{18:020d}.log", "ab") as file:
        file.write(bytes(batch())[:50])
    promise.flushed = 20
    fs = CrashFS(str(root))
    saved = tmp_path / "saved"
    fs.aftermath(str(saved), 1)
    open_log(fs, str(root)).fail()
    for crash_at in range(fs.calls):
        attempt = tmp_path / f"run-{crash_at}"
        CrashFS(str(saved)).aftermath(str(attempt), 1)
        crashing = CrashFS(str(attempt), crash_at=crash_at)
        with pytest.raises(Crashed):
            open_log(crashing, str(attempt))
        for seed in range(SEEDS_PER_CALL):
            crashing.aftermath(str(tmp_path / "after"), seed)
            check(str(tmp_path / "after"), promise, reference, f"crash_at={crash_at} seed={seed}")


# --- deletion ---


class Deleted(Promise):
    """Beside the above: the start that DeleteRecords has answered, and the one that reads may have seen."""

    def __init__(self) -> None:
        super().__init__()
        self.answered_start = 0
        self.start = 0


def save_log_start(fs, log: PartitionLog, root: str) -> None:
    """Write the checkpoint as a directory of one log does."""
    start = log.log_start_to_checkpoint
    write_offsets(fs, os.path.join(root, LOG_STARTS), {} if start is None else {TP: start})


def delete_records(fs, log: PartitionLog, root: str, promise: Deleted, offset: int) -> None:
    promise.start = offset
    log.increment_log_start_offset(offset)
    save_log_start(fs, log, root)
    promise.answered_start = offset


def expire(fs, log: PartitionLog, root: str, promise: Deleted, now_ms: int) -> None:
    """Do one retention pass, with a checkpoint wherever a periodic one may fall, and unlink what was removed."""
    while True:
        if now_ms > NOW + CONFIG.retention_ms:
            promise.start = log.log_end_offset
        removal = log.retain(now_ms)
        promise.start = log.log_start_offset
        if removal is None:
            break
        save_log_start(fs, log, root)
        removal.rename()
        log.removed(removal)
        save_log_start(fs, log, root)
    unlink_files(fs, log._state.deletions.take_due(1 << 62))


def life_with_deletions(fs, root: str, promise: Deleted) -> None:
    """Delete records within a segment, let whole ones go, let everything expire unflushed, stop, and go on."""
    log = open_log(fs, root)
    log.assign_epoch(1)
    put(log, promise, 8)
    delete_records(fs, log, root, promise, 4)
    flush(fs, log, root, promise)
    delete_records(fs, log, root, promise, 7)
    expire(fs, log, root, promise, NOW)
    log.assign_epoch(2)
    put(log, promise, 6)
    delete_records(fs, log, root, promise, 13)
    expire(fs, log, root, promise, NOW + 2000 + CONFIG.retention_ms)
    put(log, promise, 7, epoch=2)
    flush(fs, log, root, promise)
    expire(fs, log, root, promise, NOW + 2000 + CONFIG.retention_ms)
    log.close()
    promise.flushed = promise.appended
    save_log_start(fs, log, root)
    write_offsets(fs, os.path.join(root, CHECKPOINT), {TP: log.recovery_point})
    log = open_log(fs, root, clean=True)
    put(log, promise, 3, epoch=2)
    delete_records(fs, log, root, promise, log.log_end_offset - 1)


def check_deletions(root: str, promise: Deleted, reference: dict[int, bytes], context: str) -> None:
    fs = PosixFileSystem()
    log = open_log(fs, root)
    log.advance_high_watermark(log.log_end_offset)
    start, end = log.log_start_offset, log.log_end_offset
    assert promise.answered_start <= start <= promise.start, context
    assert promise.flushed <= end <= promise.appended + 1, context
    data = read_all(log)
    offsets = [header.base_offset for header in batches_of(data)]
    stored = dict(zip(offsets, split(data), strict=True))
    assert all(stored[offset] == reference[offset] for offset in offsets), context
    kept = set(range(promise.start, promise.flushed))
    assert kept <= set(offsets), context
    below = [offset for offset in offsets if offset < min(promise.start, promise.flushed)]
    assert below == list(range(below[0], min(promise.start, promise.flushed)) if below else []), context
    assert not [name for name in os.listdir(log.path) if name.endswith(".deleted")], context
    entries = log.epoch_entries()
    assert all(offset >= start for _, offset in entries[:1]) and entries == sorted(entries), context
    append(log, timestamp=NOW + end, epoch=max(log.latest_epoch, 2))
    assert batches_of(read_all(log, end))[-1].base_offset == end, context
    log.close()


def test_every_crash_point_of_deletions_keeps_what_was_answered_and_what_stays(tmp_path):
    whole = tmp_path / "whole"
    (whole / "t-0").mkdir(parents=True)
    fs = CrashFS(str(whole))
    life_with_deletions(fs, str(whole), Deleted())
    reference = reference_batches(tmp_path)
    calls = fs.calls
    assert calls > 100
    first_seed = int(os.environ.get("SEED", "1"))
    for crash_at in range(calls):
        root = tmp_path / "run"
        shutil.rmtree(root, ignore_errors=True)
        (root / "t-0").mkdir(parents=True)
        fs = CrashFS(str(root), crash_at=crash_at)
        promise = Deleted()
        with pytest.raises(Crashed):
            life_with_deletions(fs, str(root), promise)
        for seed in range(first_seed, first_seed + 2):
            after = str(tmp_path / "after")
            fs.aftermath(after, seed)
            check_deletions(after, promise, reference, f"crash_at={crash_at} SEED={seed}")


def reference_batches(tmp_path: Path) -> dict[int, bytes]:
    """Give every batch of that life by offset, from a log of which nothing was deleted."""
    log = open_log(PosixFileSystem(), str(tmp_path / "reference"))
    promise = Promise()
    for epoch, count in ((1, 8), (2, 16)):
        log.assign_epoch(epoch)
        put(log, promise, count)
    log.advance_high_watermark(log.log_end_offset)
    batches = dict(enumerate(split(read_all(log))))
    log.fail()
    return batches
