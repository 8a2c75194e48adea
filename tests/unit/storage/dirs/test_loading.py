import os

import pytest

from config.views import LogConfig
from storage.dirs.errors import DuplicateLog
from storage.dirs.loading import DirLoading
from storage.dirs.manager import LogManager
from storage.env.clock import SeededRng
from storage.errors import CorruptRecord, StorageFailure
from storage.types import TopicPartition
from tests.sim.logs import append, batch

CONFIG = LogConfig(validate_on_open=False)
TOPIC_ID = bytes(range(16))
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def manager_of(fs, clock):
    """Open the directories of a new manager; every call is a start of the broker."""
    started = []

    def start(*paths) -> LogManager:
        manager = LogManager(fs, clock, SeededRng(1), [str(path) for path in paths])
        started.append(manager)
        manager.open_dirs(1)
        return manager

    yield start
    for manager in started:
        manager.close(clean=False)


def config_for(tp: TopicPartition) -> LogConfig:
    return CONFIG


def fill(manager: LogManager, count: int, *, clean: bool) -> None:
    """Make logs of one batch, of two, and so on; then stop."""
    manager.load_all(config_for)
    for number in range(count):
        log = manager.create(TopicPartition("t", number), TOPIC_ID, CONFIG)
        for _ in range(number + 1):
            append(log)
    manager.close(clean=clean)


def work(loading: DirLoading) -> None:
    loading.work(loading.add_worker())


def test_how_much_is_left_is_known_at_every_moment(manager_of, tmp_path):
    fill(manager_of(tmp_path), 3, clean=False)
    manager = manager_of(tmp_path)
    seen = []

    def watching(tp: TopicPartition) -> LogConfig:
        seen.append((loading.logs_left, loading.scanned_bytes))
        return CONFIG

    (loading,) = manager.begin_loading(watching)
    loading.prepare()
    size = len(batch())
    assert (loading.is_clean, loading.log_count, loading.logs_left, loading.bytes_to_scan) == (False, 3, 3, 6 * size)
    work(loading)
    assert seen == [(3, 0), (2, size), (1, 3 * size)]
    assert (loading.logs_left, loading.scanned_bytes, loading.cut_bytes) == (0, 6 * size, 0)
    manager.finish_loading()
    assert (manager.stats.scanned_bytes, manager.stats.recovered_segments) == (6 * size, 3)
    assert (loading.log_count, loading.logs_left) == (3, 0)


def test_only_what_lies_above_the_recovery_points_is_expected_to_be_scanned(manager_of, tmp_path):
    manager = manager_of(tmp_path)
    manager.load_all(config_for)
    log = manager.create(TopicPartition("t", 0), TOPIC_ID, LogConfig(segment_bytes=3 * len(batch())))
    for _ in range(8):
        append(log)
    log.flush()
    append(log)
    manager.checkpoint_recovery_points()
    manager.close(clean=False)
    (loading,) = manager_of(tmp_path).begin_loading(config_for)
    loading.prepare()
    assert loading.bytes_to_scan == 3 * len(batch())


def test_a_clean_start_scans_nothing_unless_it_is_asked_to(manager_of, tmp_path):
    fill(manager_of(tmp_path), 3, clean=True)
    manager = manager_of(tmp_path)
    manager.load_all(config_for)
    assert (manager.loading[0].bytes_to_scan, manager.stats.scanned_bytes) == (0, 0)
    manager.close()
    manager = manager_of(tmp_path)
    manager.load_all(lambda tp: LogConfig(validate_on_open=True))
    assert manager.stats.scanned_bytes == 6 * len(batch())


def test_the_order_of_the_logs_is_that_of_the_listing_whoever_loaded_them(manager_of, tmp_path):
    fill(manager_of(tmp_path), 6, clean=True)
    manager = manager_of(tmp_path)
    (loading,) = manager.begin_loading(config_for)
    loading.prepare()
    loading._queue.reverse()
    work(loading)
    manager.finish_loading()
    assert [tp.partition for tp in manager.logs] == [0, 1, 2, 3, 4, 5]


def test_a_directory_that_fails_while_loading_takes_none_of_the_others_with_it(manager_of, tmp_path):
    for name in ("a", "b"):
        fill(manager_of(tmp_path / name), 2, clean=False)
    os.rename(tmp_path / "b/t-0", tmp_path / "b/u-0")
    os.rename(tmp_path / "b/t-1", tmp_path / "b/u-1")
    manager = manager_of(tmp_path / "a")
    log_file = tmp_path / "a/t-1/00000000000000000000.log"
    log_file.unlink()
    log_file.mkdir()
    (tmp_path / "a/t-1/00000000000000000000.index").unlink()
    (tmp_path / "a/t-1/00000000000000000000.timeindex").unlink()
    manager.close(clean=False)
    (tmp_path / "b/meta.properties").write_bytes((tmp_path / "a/meta.properties").read_bytes())
    lines = (tmp_path / "b/meta.properties").read_text().splitlines()
    (tmp_path / "b/meta.properties").write_text("\n".join(x for x in lines if not x.startswith("directory.id")) + "\n")
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    manager.load_all(config_for)
    assert [log_dir.is_online for log_dir in manager.dirs] == [False, True]
    assert set(manager.logs) == {TopicPartition("u", 0), TopicPartition("u", 1)}
    manager.close()
    assert not (tmp_path / "a" / MARKER).exists()
    assert (tmp_path / "b" / MARKER).exists()


def test_the_first_of_several_failures_is_reported(manager_of, tmp_path, monkeypatch):
    fill(manager_of(tmp_path), 4, clean=False)
    manager = manager_of(tmp_path)

    def failing(tp: TopicPartition) -> LogConfig:
        if tp.partition in (1, 2):
            raise StorageFailure(f"{tp}", str(tmp_path))
        return CONFIG

    (loading,) = manager.begin_loading(failing)
    loading.prepare()
    third = loading._queue[2]
    work(loading)
    third.failure = StorageFailure("as if another thread had been faster")
    assert str(loading.first_failure()) == str(TopicPartition("t", 1))
    assert loading.logs_left > 0, "what follows a failure is not begun"


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_start_that_is_given_up_leaves_neither_marker_nor_checkpoints(manager_of, tmp_path, was_clean):
    fill(manager_of(tmp_path / "a"), 2, clean=was_clean)
    (tmp_path / "a/recovery-point-offset-checkpoint").write_bytes(b"0\n2\nt 0 1\nt 1 2\n")
    before = (tmp_path / "a/recovery-point-offset-checkpoint").read_bytes()
    manager = manager_of(tmp_path / "a")
    manager.close()
    assert (tmp_path / "a" / MARKER).exists() == was_clean, "nothing has been loaded and nothing has changed"
    manager = manager_of(tmp_path / "a")

    def confusing(tp: TopicPartition) -> LogConfig:
        if tp.partition == 1:
            raise CorruptRecord("makes no sense")
        return CONFIG

    with pytest.raises(CorruptRecord):
        manager.load_all(confusing)
    manager.close()
    assert not (tmp_path / "a" / MARKER).exists()
    assert (tmp_path / "a/recovery-point-offset-checkpoint").read_bytes() == before


def test_duplicates_are_refused_before_anything_is_recovered(manager_of, tmp_path):
    fill(manager_of(tmp_path / "a", tmp_path / "b"), 1, clean=False)
    (there,) = [name for name in ("a", "b") if (tmp_path / name / "t-0").exists()]
    other = "b" if there == "a" else "a"
    (tmp_path / other / "t-0").mkdir()
    (tmp_path / other / "t-0" / f"{5:020}.log").write_bytes(b"")  # empty, but it had records once
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    opened = []
    with pytest.raises(DuplicateLog):
        manager.load_all(opened.append)
    assert not opened
