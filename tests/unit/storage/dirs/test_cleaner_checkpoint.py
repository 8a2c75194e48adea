"""How far each log is clean, across restarts, deletions and lost tails."""

import pytest

from config.views import LogConfig
from storage.dirs.manager import LogManager
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.sim.logs import append

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
TOPIC_ID = bytes(range(16))


@pytest.fixture
def start(fs, clock, rng, tmp_path):
    started = []

    def start() -> LogManager:
        for manager in started:
            manager.close(clean=False)
        manager = LogManager(fs, clock, rng, [str(tmp_path)])
        started.append(manager)
        manager.open_dirs(1)
        manager.load_all(lambda tp: LogConfig())
        return manager

    yield start
    for manager in started:
        manager.close(clean=False)


def create(manager: LogManager, *partitions: TopicPartition, count: int = 5) -> None:
    for tp in partitions:
        append(manager.create(tp, TOPIC_ID, LogConfig()), count)


def test_offsets_are_known_after_a_restart(start, tmp_path):
    manager = start()
    create(manager, TP, OTHER)
    assert manager.cleaner_checkpoint(TP) is None
    manager.set_cleaner_checkpoint(TP, 3)
    manager.checkpoint_cleaner_offsets()
    assert (tmp_path / "cleaner-offset-checkpoint").read_bytes() == b"0\n1\nt 0 3\n"
    manager = start()
    assert (manager.cleaner_checkpoint(TP), manager.cleaner_checkpoint(OTHER)) == (3, None)


def test_an_offset_above_the_end_of_the_log_is_forgotten_at_once(start, tmp_path):
    create(start(), TP, OTHER)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 6\nt 1 5\n")
    manager = start()
    assert (manager.cleaner_checkpoint(TP), manager.cleaner_checkpoint(OTHER)) == (None, 5)


def test_a_deleted_log_takes_its_offset_with_it(start, tmp_path):
    manager = start()
    create(manager, TP, OTHER)
    for tp in (TP, OTHER):
        manager.set_cleaner_checkpoint(tp, 2)
    manager.checkpoint_cleaner_offsets()
    manager.delete(TP)
    manager.checkpoint_cleaner_offsets()
    assert (tmp_path / "cleaner-offset-checkpoint").read_bytes() == b"0\n1\nt 1 2\n"
    create(manager, TP)
    assert manager.cleaner_checkpoint(TP) is None


def test_an_offset_of_a_log_that_is_gone_is_not_taken(start):
    manager = start()
    create(manager, TP)
    manager.fail_dir(manager.dirs[0], StorageFailure("EIO", manager.dirs[0].path))
    manager.set_cleaner_checkpoint(TP, 2)
    assert manager.cleaner_checkpoint(TP) is None
