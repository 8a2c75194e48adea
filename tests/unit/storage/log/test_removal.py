import errno
import shutil

import pytest

from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.log.removal import detach
from tests.sim.logs import append, batch, file_names, offsets_of

SIZE = len(batch())


@pytest.fixture
def log(open_log):
    """Six batches in three segments, at 0, 2 and 4."""
    log = open_log(segment_bytes=2 * SIZE, index_interval_bytes=0, file_delete_delay_ms=1000)
    for _ in range(6):
        append(log)
    assert log._state.segments.base_offsets() == [0, 2, 4]
    return log


def detach_oldest(log, count: int, **options):
    return detach(log._state, list(log._state.segments)[:count], **options)


def of_first_segment(log) -> list[str]:
    return [name for name in file_names(log) if name.startswith(f"{0:020d}.")]


def test_detached_segments_are_not_read_any_more_while_a_pinned_reader_goes_on(log):
    found = log.read(0, max_bytes=1 << 20, bound=6, min_one_batch=True)
    removal = detach_oldest(log, 1)
    removal.rename()
    log.removed(removal)
    assert len(found.region.read()) == 2 * SIZE
    found.region.release()
    assert offsets_of(log) == [2, 3, 4, 5]


def test_files_and_the_snapshot_get_the_suffix_and_are_due_after_the_delay(log, clock, fs):
    (fs_path := log.path + f"/{0:020d}.snapshot")
    PosixFileSystem().write_file(fs_path, b"")
    removal = detach_oldest(log, 1)
    removal.rename()
    assert of_first_segment(log) == [
        f"{0:020d}{kind}.deleted" for kind in (".index", ".log", ".snapshot", ".timeindex")
    ]
    log.removed(removal)
    deletions = log._state.deletions
    assert deletions.next_due_ms() == clock.now + 1000
    assert sorted(deletions.take_due(clock.now + 1000)) == [f"{log.path}/{name}" for name in of_first_segment(log)]


def test_a_later_change_of_the_delay_moves_no_pending_unlink(log, clock):
    removal = detach_oldest(log, 1)
    removal.rename()
    log.removed(removal)
    log.config = type(log.config)(file_delete_delay_ms=5)
    assert log._state.deletions.next_due_ms() == clock.now + 1000


def test_snapshots_of_segments_that_are_replaced_under_their_name_stay(log):
    PosixFileSystem().write_file(log.path + f"/{0:020d}.snapshot", b"")
    detach_oldest(log, 1, keep_snapshots_of={0}).rename()
    assert f"{0:020d}.snapshot" in file_names(log)


def test_the_oldest_base_counts_until_the_renames_are_done(log):
    removal = detach_oldest(log, 2)
    assert log.first_segment_base_offset == 0
    removal.rename()
    log.removed(removal)
    assert log.first_segment_base_offset == 4


def test_names_that_no_sync_has_covered_are_synced_before_the_first_rename(log, monkeypatch):
    calls = []
    fs = log._state.fs
    monkeypatch.setattr(type(fs), "sync_dir", lambda self, path: calls.append("sync"))
    monkeypatch.setattr(type(fs), "rename", lambda self, source, target: calls.append("rename"))
    log.flush()
    calls.clear()
    detach_oldest(log, 1).rename()
    assert calls[0] == "rename" and calls[-1] == "sync"
    log.roll()
    calls.clear()
    detach_oldest(log, 1).rename()
    assert calls[0] == "sync" and calls[-1] == "sync" and "rename" in calls


def test_a_directory_that_is_gone_is_no_error(log):
    removal = detach_oldest(log, 1)
    shutil.rmtree(log.path)
    removal.rename()
    assert removal.renamed == []


def test_a_failed_rename_is_a_storage_failure_of_the_directory(log, monkeypatch):
    def refuse(self, source: str, target: str) -> None:
        raise OSError(errno.EIO, "I/O error", source)

    monkeypatch.setattr(PosixFileSystem, "rename", refuse)
    with pytest.raises(StorageFailure) as failed:
        detach_oldest(log, 1).rename()
    assert failed.value.path == log.path


def test_a_restart_during_the_delay_removes_the_files(log, open_log):
    removal = detach_oldest(log, 1)
    removal.rename()
    log.removed(removal)
    log.close()
    again = open_log(clean=True)
    assert of_first_segment(again) == []
    assert (again.log_start_offset, again.log_end_offset) == (2, 6)


def test_the_last_segment_is_never_detached(log):
    with pytest.raises(AssertionError):
        detach_oldest(log, 3)
