"""Sweep every mutating call of a cleaning: whatever a power failure leaves, loading finds the old segments or the new.

Checked after each crash: the log opens with its ends where they were, every key has its newest value, each batch lies
whole and in order, aborted data that is left is still known as aborted, nothing bears a temporary name, and another
cleaning brings the log to where the undisturbed one would have brought it.
"""

import os

import pytest

from config.views import LogConfig
from protocol.records.batch import check_crc, iter_batches
from protocol.records.builder import build_batch
from storage.compaction.task import CleaningResult
from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from tests.crash.test_log_crashes import StillClock
from tests.sim.cleaning import clean, run, stored_batches, stored_records, task_of
from tests.sim.crash_fs import Crashed, CrashFS
from tests.sim.logs import NOW, TP, append_marker, read_all

CONFIG = LogConfig(
    segment_bytes=700,
    segment_index_bytes=1200,
    index_interval_bytes=100,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=0,
)
SEEDS_PER_CALL = 2
LOG_END = 37  # of what fill appends


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def open_log(fs, root: str, *, clean: bool) -> PartitionLog:
    return PartitionLog.open(
        fs,
        StillClock(),
        SeededRng(1),
        os.path.join(root, "t-0"),
        TP,
        CONFIG,
        recovery_point=1 << 40,
        high_watermark=1 << 40,
        topic_id=bytes(range(16)),
        clean=clean,
    )


def fill(root: str) -> None:
    """Eight small segments with superseded keys, tombstones and transactions that span segments."""
    log = open_log(PosixFileSystem(), root, clean=True)
    sequence = 0
    for n in range(16):
        records = [(b"k%d" % (n % 5), b"%d" % n), (b"u%d" % n, None if n % 5 == 0 else b"v" * 20)]
        fields = {}
        if n % 4 < 2:
            fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
            sequence += len(records)
        log.append(build_batch(records, timestamp=NOW + n, **fields), leader_epoch=0)
        if n % 4 == 2:
            append_marker(log, 7, is_abort=n % 8 == 2)
        if n % 2:
            log.roll()
    log.append(build_batch([(b"end", b"end")], timestamp=NOW), leader_epoch=0)
    log.advance_high_watermark(log.log_end_offset)
    log.close()


def newest(log: PartitionLog) -> dict[bytes, tuple[int, bytes | None]]:
    """Return what a read-committed consumer ends with, tombstones left out."""
    aborted = log.transactions.aborted(log.log_start_offset, log.log_end_offset)
    left: dict[bytes, tuple[int, bytes | None]] = {}
    open_since: dict[int, int] = {}
    starts = sorted((first, producer) for producer, first in aborted)
    for header, records in stored_batches(read_all(log)):
        while starts and starts[0][0] <= header.last_offset:
            first, producer = starts.pop(0)
            open_since[producer] = first
        if header.is_control:
            open_since.pop(header.producer_id, None)
            continue
        if header.is_transactional and header.producer_id in open_since:
            continue
        for record in records:
            left.pop(record.key, None)
            if record.value is not None:
                left[record.key] = (record.offset, record.value)
    return left


def check(root: str, expected, final: bytes, context: str) -> None:
    fs = PosixFileSystem()
    log = check_content(root, expected, context)
    for _ in range(3):
        clean(log, fs, StillClock())
    assert newest(log) == expected, context
    assert stored_records(read_all(log)) == stored_records(final), context
    log.fail()


def check_content(root: str, expected, context: str) -> PartitionLog:
    log = open_log(PosixFileSystem(), root, clean=False)
    last = -1
    for segment in log._state.segments:  # what a reader would not see counts too
        data = segment.log.read(0, segment.log.size)
        for position, header in iter_batches(data):
            assert check_crc(data, position, header), context
            assert header.base_offset > last, context
            last = header.last_offset
    assert newest(log) == expected, context
    assert (log.log_start_offset, log.log_end_offset) == (0, LOG_END), context
    leftovers = [name for name in os.listdir(log.path) if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert not leftovers, context
    return log


def test_every_crash_point_of_a_cleaning_leads_to_the_old_segments_or_the_new(tmp_path):
    whole = tmp_path / "whole"
    (whole / "t-0").mkdir(parents=True)
    fill(str(whole))
    start = CrashFS(str(whole))
    root = tmp_path / "root"
    start.aftermath(str(root), 1)
    fs = CrashFS(str(root))
    log = open_log(fs, str(root), clean=True)
    expected = newest(log)
    before = fs.calls
    result = clean(log, fs, StillClock())
    calls = fs.calls
    assert len(result.groups) > 2
    clean(log, fs, StillClock())
    clean(log, fs, StillClock())
    final = read_all(log)
    assert newest(log) == expected
    log.fail()
    first_seed = int(os.environ.get("SEED", "1"))
    for crash_at in range(before, calls):
        attempt = tmp_path / "attempt"
        start.aftermath(str(attempt), 1)
        fs = CrashFS(str(attempt), crash_at=crash_at)
        log = open_log(fs, str(attempt), clean=True)
        with pytest.raises(Crashed):
            clean(log, fs, StillClock())
        for seed in range(first_seed, first_seed + SEEDS_PER_CALL):
            after = str(tmp_path / "after")
            fs.aftermath(after, seed)
            check(after, expected, final, f"crash_at={crash_at} SEED={seed}")


@pytest.mark.parametrize("steps", [1, 3, 4])
def test_a_crash_while_a_swap_is_being_completed_is_recovered_from(tmp_path, steps):
    """The broker stopped within a swap, and its start is stopped at every call too."""
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)
    fill(str(root))
    posix = PosixFileSystem()
    log = open_log(posix, str(root), clean=True)
    expected = newest(log)
    result = run(task_of(log, NOW), posix, StillClock())
    swap = log.cleaning.begin_swap(result.groups[1], result.cut_count)
    for step in (swap.stage, swap.switch, swap.retire, swap.settle)[:steps]:
        step()
    for name in os.listdir(log.path):
        if name.endswith(".cleaned") and not name.startswith(f"{result.groups[1].sources[0].base_offset:020d}"):
            os.unlink(os.path.join(log.path, name))
    log.fail()
    saved = CrashFS(str(root))
    undisturbed = tmp_path / "undisturbed"
    saved.aftermath(str(undisturbed), 1)
    fs = CrashFS(str(undisturbed))
    log = open_log(fs, str(undisturbed), clean=False)
    for _ in range(3):
        clean(log, fs, StillClock())
    final = read_all(log)
    log.fail()
    for crash_at in range(fs.calls):
        attempt = tmp_path / "attempt"
        saved.aftermath(str(attempt), 1)
        crashing = CrashFS(str(attempt), crash_at=crash_at)
        try:
            open_log(crashing, str(attempt), clean=False)
        except Crashed:
            pass
        else:
            return
        for seed in range(SEEDS_PER_CALL):
            after = str(tmp_path / "after")
            crashing.aftermath(after, seed)
            check(after, expected, final, f"crash_at={crash_at} seed={seed}")


@pytest.mark.pure  # what is replaced here is bound when it is compiled
def test_a_group_of_several_new_segments_is_installed_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr("storage.compaction.output.MAX_LOG_BYTES", 400)
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)
    fill(str(root))
    saved = CrashFS(str(root))
    attempt = str(tmp_path / "attempt")

    def begin(crash_at: int | None) -> tuple[CrashFS, PartitionLog, CleaningResult]:
        """Write the first group."""
        saved.aftermath(attempt, 1)
        fs = CrashFS(attempt, crash_at=crash_at)
        log = open_log(fs, attempt, clean=True)
        result = run(task_of(log, NOW)._replace(segment_bytes=1500), fs, StillClock())
        (group, *_) = result.groups
        assert not {one.base_offset for one in group.segments[1:]} & {one.base_offset for one in group.sources}
        for later in result.groups[1:]:
            log.cleaning.begin_swap(later, result.cut_count).abandon()
        return fs, log, result._replace(groups=(group,))

    fs, log, result = begin(None)
    expected = newest(log)
    before = fs.calls
    assert log.cleaning.install(result)
    assert fs.calls - before > 20
    log.fail()
    for crash_at in range(before, fs.calls):
        crashing, log, result = begin(crash_at)
        with pytest.raises(Crashed):
            log.cleaning.install(result)
        for seed in range(SEEDS_PER_CALL):
            after = str(tmp_path / "after")
            crashing.aftermath(after, seed)
            check_content(after, expected, f"crash_at={crash_at} seed={seed}")
