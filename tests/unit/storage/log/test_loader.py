import logging
import os
import shutil
from contextlib import suppress

import pytest

from config.views import LogConfig
from storage.env.posix import PosixFile, PosixFileSystem
from storage.errors import InconsistentTopicId, OutOfOrderSequence, StorageFailure
from storage.log.partition_log import PartitionLog
from storage.stats import StorageStats
from tests.sim.logs import NOW, TP, append, append_marker, batch, file_names, offsets_of, read_all

SIZE = len(batch())
SMALL = {"segment_bytes": 10 * SIZE, "index_interval_bytes": 2 * SIZE}


def filled(open_log, count: int = 35, **options):
    log = open_log(**{**SMALL, **options})
    log.assign_epoch(0)
    for n in range(count):
        append(log, timestamp=NOW + n)
    return log


def crash(log) -> None:
    """Leave the files as a killed process does: index files at full length, nothing trimmed."""
    log.fail()


def path_of(log, base: int, kind: str) -> str:
    return os.path.join(log.path, f"{base:020d}{kind}")


def assert_whole(log, count: int) -> None:
    log.advance_high_watermark(log.log_end_offset)
    assert log.log_end_offset == count
    assert offsets_of(log) == list(range(count))
    assert offsets_of(log, max_bytes=1) == list(range(count))
    for n in range(0, count, 7):
        assert log.offset_for_timestamp(NOW + n, bound=count).offset == n


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("validate", [True, False])
def test_a_restart_changes_nothing(open_log, clean, validate):
    log = filled(open_log)
    before = read_all(log)
    if clean:
        log.close()
    else:
        crash(log)
    again = open_log(clean=clean, validate_on_open=validate, high_watermark=35, **SMALL)
    assert read_all(again) == before
    assert_whole(again, 35)
    assert again.recovery_point == (35 if clean else 0)
    assert again.epoch_entries() == [(0, 0)]
    assert append(again).base_offset == 35


def test_a_clean_start_reads_no_batches_unless_asked_to(open_log):
    filled(open_log).close()
    stats = StorageStats()
    open_log(clean=True, validate_on_open=False, stats=stats, **SMALL)
    assert stats.recovered_segments == 0
    open_log(clean=True, validate_on_open=True, stats=stats, **SMALL)
    assert stats.recovered_segments == 1
    open_log(clean=False, recovery_point=25, stats=stats, **SMALL)
    assert stats.recovered_segments == 3


class CountedReads(PosixFileSystem):
    """Counts the bytes read of each `.log`."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes: dict[int, int] = {}

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> PosixFile:
        file = super().open(path, create=create, writable=writable)
        return CountedFile(self, os.dup(file.fd), path) if path.endswith(".log") else file


class CountedFile(PosixFile):
    def __init__(self, owner: CountedReads, fd: int, path: str) -> None:
        super().__init__(fd, path)
        self._counts = owner.read_bytes
        self._base = int(os.path.basename(path)[:20])
        self._counts.setdefault(self._base, 0)

    def read_at(self, size: int, position: int) -> bytes:
        data = super().read_at(size, position)
        self._counts[self._base] += len(data)
        return data

    def read_into(self, buffer: memoryview, position: int) -> int:
        got = super().read_into(buffer, position)
        self._counts[self._base] += got
        return got


@pytest.mark.parametrize(
    ("clean", "validate", "recovery_point", "expected"),
    [
        (True, False, 0, {30: 1}),  # what follows the last index entry, for the log end
        (True, True, 0, {30: 5}),  # the active segment
        (False, False, 25, {10: 1, 20: 10, 30: 5}),  # from the recovery point on, and the end of what is before it
        (False, True, 0, {0: 10, 10: 10, 20: 10, 30: 5}),
    ],
)
def test_a_start_reads_only_what_it_must(clock, rng, tmp_path, open_log, clean, validate, recovery_point, expected):
    log = filled(open_log)
    if clean:
        log.close()
    else:
        crash(log)
    fs = CountedReads()
    config = LogConfig(validate_on_open=validate, **SMALL)
    again = PartitionLog.open(fs, clock, rng, log.path, TP, config, clean=clean, recovery_point=recovery_point)
    assert again.log_end_offset == 35
    # Besides the scan, the batches from the last index entry on are looked at, four here, to find the log end.
    assert fs.read_bytes.keys() == expected.keys()
    for base, batches in expected.items():
        assert (batches - 1) * SIZE < fs.read_bytes[base] <= (batches + 4) * SIZE


@pytest.mark.parametrize("recovery_point", [0, 35])
def test_damage_above_the_recovery_point_ends_the_log_and_below_is_not_searched_for(open_log, recovery_point):
    log = filled(open_log)
    crash(log)
    with open(path_of(log, 10, ".log"), "r+b") as file:
        file.seek(5 * SIZE - 1)
        file.write(b"\xff")
    again = open_log(recovery_point=recovery_point, **SMALL)
    if recovery_point:
        assert again.log_end_offset == 35
        return
    assert_whole(again, 14)
    assert [name for name in file_names(again) if name.endswith(".log")] == [
        "00000000000000000000.log",
        "00000000000000000010.log",
    ]
    assert append(again).base_offset == 14


@pytest.mark.parametrize("tail", [b"half", b"zeros"])
def test_torn_and_zero_tails_are_cut(open_log, tail):
    log = filled(open_log)
    crash(log)
    size = os.path.getsize(path_of(log, 30, ".log"))
    with open(path_of(log, 30, ".log"), "ab") as file:
        file.write(bytes(batch())[: SIZE // 2] if tail == b"half" else bytes(65536))
    again = open_log(**SMALL)
    assert_whole(again, 35)
    assert os.path.getsize(path_of(log, 30, ".log")) == size


def test_validation_on_open_cuts_damage_after_a_clean_stop_too(open_log):
    log = filled(open_log)
    log.close()
    with open(path_of(log, 30, ".log"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    assert open_log(clean=True, validate_on_open=False, **SMALL).log_end_offset == 35
    assert open_log(clean=True, validate_on_open=True, **SMALL).log_end_offset == 34


@pytest.mark.parametrize("recovery_point", [0, 35])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_and_missing_indexes_are_rebuilt(open_log, recovery_point, clean):
    log = filled(open_log, 55)
    if clean:
        log.close()
    else:
        crash(log)
    with open(path_of(log, 0, ".index"), "r+b") as file:
        file.truncate(0)
    with open(path_of(log, 10, ".index"), "r+b") as file:
        file.truncate(5)
    with open(path_of(log, 20, ".index"), "ab") as file:
        file.write(bytes(4096))
    with open(path_of(log, 30, ".index"), "wb") as file:
        file.write(os.urandom(4096))
    os.unlink(path_of(log, 40, ".index"))
    os.unlink(path_of(log, 40, ".timeindex"))
    with open(path_of(log, 9999, ".index"), "wb") as file:
        file.write(bytes(8))
    os.mkdir(os.path.join(log.path, "folder"))
    with open(os.path.join(log.path, "notes.txt"), "wb") as file:
        file.write(b"mine")
    again = open_log(clean=clean, recovery_point=recovery_point, validate_on_open=False, **SMALL)
    assert_whole(again, 55)
    again.close()
    for base in range(0, 50, 10):
        entries = os.path.getsize(path_of(log, base, ".index"))
        assert entries % 8 == 0
        assert entries < 4096
    assert not os.path.exists(path_of(log, 9999, ".index"))
    assert {"folder", "notes.txt"} <= set(file_names(again))


def copy_segment(log, base: int, marker: str) -> None:
    for kind in (".log", ".index", ".timeindex"):
        shutil.copy(path_of(log, base, kind), path_of(log, base, kind + marker))


def test_half_written_cleaner_output_is_removed(open_log):
    log = filled(open_log)
    log.close()
    copy_segment(log, 0, ".cleaned")
    with open(path_of(log, 0, ".log.cleaned"), "r+b") as file:
        file.truncate(3 * SIZE)
    copy_segment(log, 0, ".swap")  # of the same unfinished split
    again = open_log(clean=True, **SMALL)
    assert_whole(again, 35)
    assert not [name for name in file_names(again) if "cleaned" in name or "swap" in name]


@pytest.mark.parametrize("keep_originals", [True, False])
def test_complete_swaps_are_installed(open_log, keep_originals):
    log = filled(open_log)
    log.close()
    copy_segment(log, 0, ".swap")
    if not keep_originals:
        for kind in (".log", ".index", ".timeindex"):
            os.unlink(path_of(log, 0, kind))
    again = open_log(clean=True, **SMALL)
    assert_whole(again, 35)
    assert not [name for name in file_names(again) if "swap" in name]


def test_a_swap_replaces_every_segment_it_was_made_from(open_log):
    log = filled(open_log)
    log.close()
    with open(path_of(log, 0, ".log.swap"), "wb") as merged:
        for base in (0, 10):
            with open(path_of(log, base, ".log"), "rb") as file:
                merged.write(file.read())
    again = open_log(clean=True, **SMALL)
    assert_whole(again, 35)
    assert again.segment_count == 3


def test_pending_deletions_are_removed_and_foreign_ones_stay(open_log):
    log = filled(open_log)
    log.close()
    copy_segment(log, 0, ".deleted")
    with open(os.path.join(log.path, "mine.deleted"), "wb") as file:
        file.write(b"")
    with open(os.path.join(log.path, "00000000000000000007-0000000001.checkpoint.deleted"), "wb") as file:
        file.write(b"")
    again = open_log(clean=True, **SMALL)
    assert_whole(again, 35)
    assert [name for name in file_names(again) if "deleted" in name] == [
        "00000000000000000007-0000000001.checkpoint.deleted",
        "mine.deleted",
    ]


def test_one_line_a_log_tells_of_all_pending_deletions_and_one_a_file_of_the_rest(open_log, caplog):
    log = filled(open_log)
    log.close()
    copy_segment(log, 0, ".deleted")
    copy_segment(log, 10, ".deleted")
    copy_segment(log, 20, ".cleaned")
    pending = [name for name in file_names(log) if name.endswith(".deleted")]
    unfinished = [name for name in file_names(log) if name.endswith(".cleaned")]
    assert len(pending) > 2
    assert unfinished
    with caplog.at_level(logging.DEBUG):
        again = open_log(clean=True, **SMALL)
    assert_whole(again, 35)
    lines = {
        level: [line.getMessage() for line in caplog.records if line.levelno == level and "removing" in line.msg]
        for level in (logging.DEBUG, logging.INFO)
    }
    assert sorted(lines[logging.DEBUG]) == [
        f"removing a left-over file path={os.path.join(log.path, name)}" for name in sorted(pending)
    ]
    assert sorted(lines[logging.INFO]) == [
        *(f"removing a left-over file path={os.path.join(log.path, name)}" for name in sorted(unfinished)),
        f"removing files of pending deletions path={log.path} count={len(pending)}",
    ]


def test_a_log_that_ends_below_its_start_begins_anew(open_log):
    log = filled(open_log)
    log.close()
    again = open_log(clean=True, log_start_offset=100, **SMALL)
    assert (again.log_start_offset, again.log_end_offset, again.high_watermark) == (100, 100, 100)
    assert [name for name in file_names(again) if name.endswith(".log")] == ["00000000000000000100.log"]
    assert append(again).base_offset == 100


def test_log_start_and_high_watermark_come_from_the_checkpoints_within_the_log(open_log):
    filled(open_log).close()
    log = open_log(clean=True, log_start_offset=12, high_watermark=99, **SMALL)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (12, 35, 35)
    log.close()
    log = open_log(clean=True, high_watermark=-5, **SMALL)
    assert (log.log_start_offset, log.high_watermark) == (0, 0)


@pytest.mark.parametrize("damage", ["empty", "flip", "version", "delete"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_producer_snapshots_are_replaced_by_the_log(open_log, damage, clean):
    if clean and damage == "delete":
        pytest.skip("without any snapshot a clean stop means an upgrade: the state is empty, as in the reference")
    log = open_log(**SMALL)
    for sequence in range(0, 15, 5):
        append(log, 5, producer_id=4, producer_epoch=0, base_sequence=sequence)
    if clean:
        log.close()
    else:
        crash(log)
    for name in file_names(log):
        if name.endswith(".snapshot"):
            path = os.path.join(log.path, name)
            if damage == "delete":
                os.unlink(path)
                continue
            with open(path, "r+b") as file:
                data = bytearray(file.read())
                if damage == "empty":
                    file.truncate(0)
                else:
                    data[1 if damage == "version" else -1] ^= 0x63
                    file.seek(0)
                    file.write(data)
    again = open_log(clean=clean, high_watermark=15, **SMALL)
    assert append(again, 5, producer_id=4, producer_epoch=0, base_sequence=10).is_duplicate
    assert append(again, 5, producer_id=4, producer_epoch=0, base_sequence=15).base_offset == 15
    with pytest.raises(OutOfOrderSequence):
        append(again, 5, producer_id=4, producer_epoch=0, base_sequence=30)


def transactional_log(open_log):
    log = open_log(**SMALL)
    for pid in range(8):
        for sequence in range(3):
            append(log, 1, producer_id=pid, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        append_marker(log, pid, is_abort=pid % 2 == 0)
    append(log, 1, producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True)
    return log


@pytest.mark.parametrize("recovery_point", [0, 10**6])
def test_lost_transaction_indexes_are_rebuilt(open_log, recovery_point):
    log = transactional_log(open_log)
    end = log.log_end_offset
    expected = log.transactions.aborted(0, end)
    assert expected == [(0, 0), (2, 8), (4, 16), (6, 24)]
    crash(log)
    indexes = [name for name in file_names(log) if name.endswith(".txnindex")]
    assert len(indexes) >= 2
    if recovery_point == 0:
        os.unlink(os.path.join(log.path, indexes[0]))
    else:
        with open(os.path.join(log.path, indexes[0]), "r+b") as file:
            file.write(bytes(34))
    with open(os.path.join(log.path, indexes[1]), "r+b") as file:
        file.truncate(10)
    again = open_log(recovery_point=recovery_point, high_watermark=end, **SMALL)
    assert again.transactions.aborted(0, end) == expected
    assert again.last_stable_offset == end - 1


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_are_found_again_where_all_indexes_are_lost(open_log, clean):
    log = transactional_log(open_log)
    end = log.log_end_offset
    expected = log.transactions.aborted(0, end)
    log.close() if clean else crash(log)
    for name in file_names(log):
        if name.endswith(("index", ".snapshot")):
            os.unlink(os.path.join(log.path, name))
    again = open_log(clean=clean, recovery_point=end, high_watermark=end, **SMALL)
    assert again.transactions.aborted(0, end) == expected
    assert again.last_stable_offset == end - 1


def test_a_damaged_epoch_file_is_filled_from_the_batches(open_log):
    log = open_log(**SMALL)
    for epoch in range(3):
        log.assign_epoch(epoch)
        for _ in range(8):
            append(log, epoch=epoch)
    crash(log)
    with open(os.path.join(log.path, "leader-epoch-checkpoint"), "wb") as file:
        file.write(b"garbage")
    again = open_log(**SMALL)
    assert again.epoch_entries() == [(0, 0), (1, 8), (2, 16)]
    assert again.end_offset_for_epoch(1) == (1, 16)
    again.close()
    assert open_log(clean=True, **SMALL).epoch_entries() == [(0, 0), (1, 8), (2, 16)]


def test_an_epoch_without_batches_leaves_no_trace(open_log):
    log = filled(open_log)
    log.close()
    again = open_log(clean=True, **SMALL)
    again.assign_epoch(5)
    assert again.latest_epoch == 5
    again.close()
    assert open_log(clean=True, **SMALL).epoch_entries() == [(0, 0)]


def test_the_topic_id_is_kept_and_compared(open_log):
    topic_id = bytes(range(16))
    open_log(topic_id=topic_id).close()
    assert open_log(clean=True).topic_id == topic_id
    with pytest.raises(InconsistentTopicId):
        open_log(clean=True, topic_id=bytes(16)[:15] + b"\x09")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_pipe_in_the_place_of_a_file_is_told_of_and_never_waited_for(open_log, caplog, kind, clean):
    log = filled(open_log)
    if clean:
        log.close()
    else:
        crash(log)
    path = path_of(log, 10, kind)
    if os.path.exists(path):
        os.unlink(path)
    os.mkfifo(path)
    with caplog.at_level(logging.WARNING), suppress(StorageFailure):
        open_log(clean=clean, **SMALL)
    assert f"passing over what is no regular file path={path}" in caplog.text


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_pipe_in_the_place_of_what_every_log_has_is_a_failure_that_names_it(open_log, name):
    log = filled(open_log)
    log.close()
    path = os.path.join(log.path, name)
    with suppress(FileNotFoundError):
        os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(StorageFailure, match=f"Not a regular file: '{path}'"):
        open_log(**SMALL)
