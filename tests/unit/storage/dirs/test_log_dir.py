"""One log directory: is it usable at the start, is it still the one that was opened, and what is said when it fails."""

import errno
import logging
import os
import shutil

import pytest

from config.views import LogConfig
from storage.dirs.errors import DuplicateLog, NoUsableDir
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.env.clock import SeededRng
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.sim.faulty_fs import FaultyFS
from tests.sim.logs import append

TOPIC_ID = bytes(range(16))
TP = TopicPartition("t", 0)


@pytest.fixture
def faulty():
    return FaultyFS()


@pytest.fixture
def manager_of(faulty, clock, rng):
    started = []

    def start(*paths) -> LogManager:
        manager = LogManager(faulty, clock, rng, [str(path) for path in paths])
        started.append(manager)
        manager.open_dirs(1)
        manager.load_all(lambda tp: LogConfig())
        return manager

    yield start
    for manager in started:
        manager.close(clean=False)


def opened(fs, path) -> LogDir:
    log_dir = LogDir(fs, str(path))
    log_dir.open()
    log_dir.settle_identity("cluster", 1, SeededRng(1))
    log_dir.write_identity()
    return log_dir


def test_the_look_whether_it_can_be_written_leaves_nothing_behind(faulty, tmp_path):
    opened(faulty, tmp_path / "a").release()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [".lock", "meta.properties"]


@pytest.mark.parametrize(
    ("operation", "suffix", "code"),
    [
        ("make_dirs", "", errno.EACCES),
        ("list_dir", "", errno.EIO),
        ("lock", ".lock", errno.EROFS),
        ("open_dir", "", errno.EIO),
        ("read_file", "meta.properties", errno.EIO),
        ("write_file", ".write-probe", errno.ENOSPC),
        ("write_file", ".write-probe", errno.EROFS),
        ("unlink", ".write-probe", errno.EIO),
        ("write_file", "meta.properties.tmp", errno.EIO),
        ("rename", "meta.properties.tmp", errno.EIO),
    ],
)
def test_a_directory_that_cannot_be_used_at_the_start_is_offline_and_the_others_serve(
    faulty, manager_of, tmp_path, operation, suffix, code
):
    faulty.break_(operation, tmp_path / "b", suffix, code=code)
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert [log_dir.is_online for log_dir in manager.dirs] == [True, False]
    reason = str(manager.dirs[1].failure)
    assert str(tmp_path / "b") in reason
    assert os.strerror(code) in reason
    for number in range(2):
        log = manager.create(TopicPartition("t", number), TOPIC_ID, LogConfig())
        assert log.path.startswith(str(tmp_path / "a"))
    changes = len(faulty.changes)
    manager.close()
    assert not [path for _, path in faulty.changes[changes:] if path.startswith(str(tmp_path / "b"))]


@pytest.mark.parametrize(
    ("operation", "suffix"),
    [
        ("unlink", ".kafka_cleanshutdown"),
        ("list_dir", "/b"),
        ("list_dir", "/t-1"),
        ("read_file", "partition.metadata"),
        ("open", ".log"),
    ],
)
def test_a_directory_that_cannot_be_loaded_is_offline_and_the_others_serve(
    faulty, manager_of, tmp_path, operation, suffix
):
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    for number in range(2):
        append(manager.create(TopicPartition("t", number), TOPIC_ID, LogConfig()), 3)
    manager.close()
    skip_open = 1 if suffix == "/b" else 0  # the one when it was opened
    faulty.break_(operation, tmp_path / "b", suffix, spared=skip_open)
    again = manager_of(tmp_path / "a", tmp_path / "b")
    assert [log_dir.is_online for log_dir in again.dirs] == [True, False]
    assert list(again.logs) == [TP]
    assert again.logs[TP].log_end_offset == 3


def test_no_usable_directory_ends_the_start_and_names_them(faulty, manager_of, tmp_path):
    faulty.break_("write_file", tmp_path, ".write-probe", code=errno.EROFS)
    with pytest.raises(NoUsableDir) as raised:
        manager_of(tmp_path / "a", tmp_path / "b")
    assert str(tmp_path / "a") in str(raised.value)
    assert str(tmp_path / "b") in str(raised.value)


def test_a_directory_is_present_until_it_is_removed_or_replaced(faulty, tmp_path):
    path = tmp_path / "a"
    log_dir = opened(faulty, path)
    log_dir.ensure_present()
    shutil.rmtree(path)
    path.mkdir()
    (path / "meta.properties").write_text("")
    with pytest.raises(StorageFailure, match="removed or replaced"):
        log_dir.ensure_present()
    log_dir.release()
    log_dir.ensure_present()  # nobody trusts it any more


def test_no_checkpoint_is_written_where_the_directory_was(manager_of, tmp_path):
    path = tmp_path / "a"
    log_dir = manager_of(path).dirs[0]
    path.rename(tmp_path / "unmounted")
    path.mkdir()
    with pytest.raises(StorageFailure, match="removed or replaced"):
        log_dir.write_checkpoint("recovery-point-offset-checkpoint", {TP: 1})
    assert list(path.iterdir()) == []


def test_the_first_reason_is_kept_and_said_in_one_line_with_what_was_lost(manager_of, tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    for number in range(4):
        manager.create(TopicPartition("t", number), TOPIC_ID, LogConfig())
    log_dir = manager.dirs[0]
    manager.fail_dir(log_dir, StorageFailure("cannot append: [Errno 5] I/O error", f"{log_dir.path}/t-0/0.log"))
    manager.fail_dir(log_dir, StorageFailure("cannot flush: [Errno 5] I/O error", log_dir.path))
    assert [record.getMessage() for record in caplog.records] == [
        f"log directory offline dir={log_dir.path} partitions=2 "
        f"reason=cannot append: [Errno 5] I/O error ({log_dir.path}/t-0/0.log)"
    ]
    assert "append" in str(log_dir.failure)


@pytest.mark.parametrize("failing", ["a", "b"])
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_log_that_failed_while_it_was_made_and_was_made_elsewhere_is_there_once_at_the_next_start(
    faulty, manager_of, tmp_path, failing, is_removed
):
    """The disk that failed the creation may not even let the remains be removed."""
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    manager.create(TopicPartition("u", 0), TOPIC_ID, LogConfig())
    if failing == "b":  # it has the fewest
        manager.create(TopicPartition("u", 1), TOPIC_ID, LogConfig())
        manager.create(TopicPartition("u", 2), TOPIC_ID, LogConfig())
    target = tmp_path / failing
    faulty.break_("write_file", target, "partition.metadata.tmp")
    if not is_removed:
        faulty.break_("unlink", target, ".log", spared=1)  # making it begins with that, too
    log = None
    for number in range(2):
        log = manager.create(TopicPartition("t", number), TOPIC_ID, LogConfig())
    append(log, 3)
    manager.close(clean=False)
    assert (len(list(target.glob("t-*"))) == 0) is is_removed
    faulty.faults.clear()
    again = manager_of(tmp_path / "a", tmp_path / "b")
    assert again.logs[log.tp].log_end_offset == 3
    assert again.logs[log.tp].path == log.path
    again.deleted_logs.purge(1 << 62)
    assert not list(target.glob("t-*"))


def test_two_logs_that_were_used_are_refused(manager_of, tmp_path):
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    log = manager.create(TP, TOPIC_ID, LogConfig())
    append(log, 3)
    manager.close()
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    with pytest.raises(DuplicateLog):
        manager_of(tmp_path / "a", tmp_path / "b")


def test_a_failure_in_a_directory_that_lies_in_another_one_is_its_own(manager_of, tmp_path):
    manager = manager_of(tmp_path, tmp_path / "inner")
    outer, inner = manager.dirs
    assert manager.dir_at(str(tmp_path / "inner" / "t-0" / "0.log")) is inner
    assert manager.dir_at(str(tmp_path / "inner")) is inner
    assert manager.dir_at(str(tmp_path / "inner-2")) is outer
    assert manager.dir_at(str(tmp_path) + "-2") is None
    assert manager.dir_at(None) is None


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_the_identity_puts_its_directory_offline(manager_of, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "b" / "meta.properties")
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert [log_dir.is_online for log_dir in manager.dirs] == [True, False]
    assert "Not a regular file" in str(manager.dirs[1].failure)


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_a_checkpoint_is_passed_over(faulty, tmp_path, caplog):
    log_dir = opened(faulty, tmp_path / "a")
    os.mkfifo(tmp_path / "a" / "replication-offset-checkpoint")
    assert log_dir.read_checkpoint("replication-offset-checkpoint") == {}
    assert "Not a regular file" in caplog.text
