"""A log gets to another directory: the copy, the swap, giving up, and who may touch the copy when."""

import errno
import os

import pytest

from config.views import LogConfig
from storage.dirs.manager import LogManager
from storage.env.posix import PosixFileSystem
from storage.errors import LogClosed, StorageFailure
from storage.types import TopicPartition
from tests.sim.logs import append, batch, read_all
from tests.sim.moves import begin, catch_up, copy_all, swap

TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig()


class FailingFileSystem(PosixFileSystem):
    """Refuses the calls that `fails` picks by their name and path."""

    fails = staticmethod(lambda call, path: False)

    def rename(self, source: str, target: str) -> None:
        self._maybe_fail("rename", source)
        super().rename(source, target)

    def sync_dir(self, path: str) -> None:
        self._maybe_fail("sync_dir", path)
        super().sync_dir(path)

    def _maybe_fail(self, call: str, path: str) -> None:
        if self.fails(call, path):
            raise OSError(errno.EIO, "as if the disk were broken", path)


@pytest.fixture
def fs():
    return FailingFileSystem()


@pytest.fixture
def manager_of(fs, clock, rng):
    started = []

    def start(*paths) -> LogManager:
        manager = LogManager(fs, clock, rng, [str(path) for path in paths])
        started.append(manager)
        manager.open_dirs(1)
        manager.load_all(lambda tp: CONFIG)
        return manager

    yield start
    for manager in started:
        manager.close(clean=False)


@pytest.fixture
def manager(manager_of, tmp_path):
    """Two directories, and in the first one a log of five batches."""
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    log = manager.create(TP, TOPIC_ID, CONFIG)
    for _ in range(5):
        append(log)
    return manager


def names(path) -> list[str]:
    return sorted(name for name in os.listdir(path) if os.path.isdir(path / name))


def test_a_copy_begins_at_the_log_start_with_the_topic_id_of_its_log(manager, tmp_path):
    manager.logs[TP].increment_log_start_offset(3)
    future = begin(manager, TP, str(tmp_path / "b"))
    assert manager.futures == {TP: future}
    assert (future.log.log_start_offset, future.log.log_end_offset, future.log.topic_id) == (3, 3, TOPIC_ID)
    (name,) = names(tmp_path / "b")
    assert name.startswith("t-0.")
    assert name.endswith("-future")
    assert (manager.dir_of(TP).path, manager.logs[TP].path) == (str(tmp_path / "a"), str(tmp_path / "a" / "t-0"))


def test_after_a_swap_the_copy_is_the_log(manager, tmp_path, clock):
    before = manager.logs[TP]
    content = read_all(before)
    future = begin(manager, TP, str(tmp_path / "b"))
    catch_up(manager, future)
    reading = before.read(0, max_bytes=1000, bound=5, min_one_batch=True)
    swap(manager, TP)
    log = manager.logs[TP]
    assert log is future.log
    assert future.is_gone
    assert manager.futures == {}
    assert (manager.dir_of(TP).path, log.path) == (str(tmp_path / "b"), str(tmp_path / "b" / "t-0"))
    assert read_all(log) == content
    append(log)
    with pytest.raises(LogClosed):
        append(before)
    assert len(reading.region.read()) == reading.size
    reading.region.release()
    (name,) = names(tmp_path / "a")
    assert name.endswith("-delete")
    manager.deleted_logs.purge(clock.now + CONFIG.file_delete_delay_ms - 1)
    assert names(tmp_path / "a") == [name]
    manager.deleted_logs.purge(clock.now + CONFIG.file_delete_delay_ms)
    assert names(tmp_path / "a") == []


def test_a_retired_log_goes_on_serving_reads(manager, tmp_path):
    catch_up(manager, begin(manager, TP, str(tmp_path / "b")))
    content = read_all(manager.logs[TP])
    retired = manager.retire(TP)
    assert manager.logs[TP] is retired.log
    assert read_all(manager.logs[TP]) == content
    assert os.path.basename(retired.log.path).endswith("-delete")


def test_a_retired_log_takes_its_name_back_where_the_copy_was_lost(manager, tmp_path, fs):
    catch_up(manager, begin(manager, TP, str(tmp_path / "b")))
    retired = manager.retire(TP)
    fs.fails = lambda call, path: path.startswith(str(tmp_path / "b"))
    with pytest.raises(StorageFailure):
        manager.promote(TP, retired)
    assert manager.futures == {}
    assert [log_dir.is_online for log_dir in manager.dirs] == [True, False]
    manager.restore(TP, retired)
    assert names(tmp_path / "a") == ["t-0"]
    append(manager.logs[TP])
    assert len(manager.deleted_logs) == 0


def test_a_source_that_cannot_be_renamed_takes_its_log_and_leaves_the_copy(manager, tmp_path, fs):
    future = begin(manager, TP, str(tmp_path / "b"))
    catch_up(manager, future)
    fs.fails = lambda call, path: path.startswith(str(tmp_path / "a"))
    with pytest.raises(StorageFailure):
        manager.retire(TP)
    assert TP not in manager.logs
    assert manager.futures == {TP: future}
    assert not future.is_gone


def test_a_copy_that_is_given_up_goes_after_the_delay(manager, tmp_path, clock):
    future = begin(manager, TP, str(tmp_path / "b"))
    catch_up(manager, future)
    manager.drop_future(TP, delay_ms=60_000)
    assert future.is_gone
    assert manager.futures == {}
    (name,) = names(tmp_path / "b")
    assert name.endswith("-delete")
    manager.deleted_logs.purge(clock.now + 60_000)
    assert names(tmp_path / "b") == []
    append(manager.logs[TP])
    manager.drop_future(TP)


def test_while_a_step_runs_a_copy_is_neither_closed_nor_renamed(manager, tmp_path):
    future = begin(manager, TP, str(tmp_path / "b"))
    future.begin_step()
    manager.drop_future(TP)
    assert (future.is_gone, future.log.is_closed, manager.futures) == (True, False, {})
    assert names(tmp_path / "b")[0].endswith("-future")
    future.end_step()
    assert future.log.is_closed
    assert names(tmp_path / "b")[0].endswith("-delete")


def test_a_failed_directory_lets_its_copies_go_and_leaves_their_files(manager, tmp_path):
    future = begin(manager, TP, str(tmp_path / "b"))
    future.begin_step()
    assert manager.fail_dir(manager.dirs[1], StorageFailure("EIO", str(tmp_path / "b"))) == []
    assert (future.is_gone, future.log.is_closed, manager.futures) == (True, False, {})
    future.end_step()
    assert future.log.is_closed
    assert names(tmp_path / "b")[0].endswith("-future")
    append(manager.logs[TP])


def test_a_failed_directory_leaves_the_copy_of_a_log_elsewhere(manager, tmp_path):
    future = begin(manager, TP, str(tmp_path / "b"))
    assert manager.fail_dir(manager.dirs[0], StorageFailure("EIO", str(tmp_path / "a"))) == [TP]
    assert manager.futures == {TP: future}
    assert not future.is_gone


def test_what_was_dropped_in_a_directory_that_failed_meanwhile_is_left_as_it_is(manager, tmp_path):
    future = begin(manager, TP, str(tmp_path / "b"))
    future.begin_step()
    manager.drop_future(TP)
    manager.fail_dir(manager.dirs[1], StorageFailure("EIO", str(tmp_path / "b")))
    future.end_step()
    assert future.log.is_closed
    assert names(tmp_path / "b")[0].endswith("-future")


def test_a_deleted_partition_takes_its_copy_along(manager, tmp_path):
    future = begin(manager, TP, str(tmp_path / "b"))
    manager.delete(TP)
    assert (manager.logs, manager.futures, future.log.is_closed) == ({}, {}, True)
    assert [name.endswith("-delete") for place in "ab" for name in names(tmp_path / place)] == [True, True]
    assert len(manager.deleted_logs) == 2


def test_a_deletion_that_fails_in_one_directory_is_carried_out_in_the_other(manager, tmp_path, fs):
    begin(manager, TP, str(tmp_path / "b"))
    fs.fails = lambda call, path: path.startswith(str(tmp_path / "a"))
    with pytest.raises(StorageFailure):
        manager.delete(TP)
    assert (manager.logs, manager.futures) == ({}, {})
    assert names(tmp_path / "a") == ["t-0"]
    assert names(tmp_path / "b")[0].endswith("-delete")


def test_a_directory_that_has_vanished_is_not_made_anew_for_a_copy(manager, tmp_path):
    (tmp_path / "b").rename(tmp_path / "c")
    with pytest.raises(StorageFailure, match="was removed"):
        begin(manager, TP, str(tmp_path / "b"))
    assert not (tmp_path / "b").exists()


def test_removed_segments_of_a_copy_wait_for_nothing_and_leave_no_stale_path(manager, tmp_path, clock):
    config = LogConfig(segment_bytes=len(batch()), retention_bytes=2 * len(batch()))
    future = begin(manager, TP, str(tmp_path / "b"))
    manager.logs[TP].config = config
    copy_all(manager.logs[TP], future, max_bytes=1)

    def let_go() -> None:
        removal = future.log.retain(clock.now)
        removal.rename()
        future.log.removed(removal)

    let_go()
    assert len(manager.deletions) == 0, "a copy has its own"
    future.unlink_removed()
    assert not [name for name in os.listdir(future.log.path) if name.endswith(".deleted")]
    for _ in range(3):
        append(manager.logs[TP])
    copy_all(manager.logs[TP], future, max_bytes=1)
    let_go()
    swap(manager, TP)
    log = manager.logs[TP]
    assert [name for name in os.listdir(log.path) if name.endswith(".deleted")]
    calls = manager.take_due_deletions(clock.now)
    assert [log_dir for log_dir, _ in calls] == [manager.dirs[1]]
    for _, unlink in calls:
        unlink()
    assert not [name for name in os.listdir(log.path) if name.endswith(".deleted")]


def test_a_copy_counts_for_itself_until_it_is_the_log(manager, tmp_path):
    appended, open_count = manager.stats.appended_batches, len(manager.open_files)
    future = begin(manager, TP, str(tmp_path / "b"))
    catch_up(manager, future)
    assert (manager.stats.appended_batches, len(manager.open_files)) == (appended, open_count)
    swap(manager, TP)
    append(manager.logs[TP])
    assert manager.stats.appended_batches == appended + 1
    assert len(manager.open_files) == 1, "the retired log's files are closed, the new one's are counted"


def test_how_far_a_log_is_clean_goes_with_it(manager, tmp_path):
    manager.set_cleaner_checkpoint(TP, 4)
    manager.checkpoint_cleaner_offsets()
    catch_up(manager, begin(manager, TP, str(tmp_path / "b")))
    manager.checkpoint_cleaner_offsets()
    assert not (tmp_path / "b/cleaner-offset-checkpoint").read_bytes().startswith(b"0\n1\n")
    swap(manager, TP)
    assert manager.cleaner_checkpoint(TP) == 4
    manager.checkpoint_cleaner_offsets()
    assert (tmp_path / "a/cleaner-offset-checkpoint").read_bytes() == b"0\n0\n"
    assert (tmp_path / "b/cleaner-offset-checkpoint").read_bytes() == b"0\n1\nt 0 4\n"
