"""Which directory takes a new log, and when none may."""

import os

import pytest

from config.views import LogConfig
from storage.dirs import placement
from storage.dirs.manager import LogManager
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.sim.moves import begin

TOPIC_ID = bytes(range(16))
CONFIG = LogConfig()
A, B, C = range(3)


@pytest.fixture
def manager(fs, clock, rng, tmp_path):
    manager = LogManager(fs, clock, rng, [str(tmp_path / name) for name in "abc"])
    manager.open_dirs(1)
    manager.load_all(lambda tp: CONFIG)
    yield manager
    manager.close(clean=False)


def place(manager: LogManager, number: int, **options) -> int:
    """Create a log and return the number of the directory that took it."""
    tp = TopicPartition("t", number)
    manager.create(tp, TOPIC_ID, CONFIG, **options)
    return manager.dirs.index(manager.dir_of(tp))


def prefer(manager: LogManager, number: int, where: int) -> None:
    manager.prefer(TopicPartition("t", number), manager.dirs[where].path)


def test_the_directory_with_the_fewest_logs_takes_the_next_one(manager):
    for number, where in enumerate((A, A, B)):
        prefer(manager, number, where)
        assert place(manager, number) == where
    assert place(manager, 3) == C


def test_equal_counts_are_decided_by_the_configured_order(manager):
    assert [place(manager, number) for number in range(6)] == [A, B, C, A, B, C]


def test_copies_count(manager):
    assert [place(manager, number) for number in range(2)] == [A, B]
    begin(manager, TopicPartition("t", 0), manager.dirs[C].path)
    assert place(manager, 2) == A


def test_a_preference_wins_over_the_count_and_is_used_once(manager):
    tp = TopicPartition("t", 0)
    prefer(manager, 0, B)
    prefer(manager, 0, C)
    assert manager.preferred == {tp: manager.dirs[C].path}
    assert place(manager, 0) == C
    assert manager.preferred == {}
    manager.delete(tp)
    assert place(manager, 0) == A


def test_a_preference_is_used_up_by_a_copy(manager):
    place(manager, 0)
    prefer(manager, 0, B)
    begin(manager, TopicPartition("t", 0), manager.dirs[B].path)
    assert manager.preferred == {}


def test_a_directory_that_the_metadata_names_wins_over_the_count_and_a_preference_over_it(manager):
    assert place(manager, 0) == A
    assert place(manager, 1, directory_id=manager.dirs[A].directory_id) == A
    prefer(manager, 2, B)
    assert place(manager, 2, directory_id=manager.dirs[A].directory_id) == B


@pytest.mark.parametrize("number", [0, 1, 2, 99])
def test_a_reserved_id_names_no_directory(manager, number):
    place(manager, 0)
    assert place(manager, 1, directory_id=number.to_bytes(16, "big")) == B


def test_cordoned_directories_are_passed_over(manager):
    manager.cordoned = frozenset({manager.dirs[A].path, manager.dirs[C].path})
    assert [place(manager, number) for number in range(3)] == [B, B, B]
    manager.cordoned = frozenset()
    assert place(manager, 3) == A


def test_where_all_are_cordoned_the_first_takes_what_is_under_way(manager):
    manager.cordoned = frozenset(log_dir.path for log_dir in manager.dirs)
    assert [place(manager, number) for number in range(2)] == [A, A]
    manager.fail_dir(manager.dirs[A], StorageFailure("EIO", manager.dirs[A].path))
    assert place(manager, 2) == B


def test_what_asked_for_a_directory_by_name_gets_it_cordoned_or_not(manager):
    """Kafka's rule: a request for a cordoned directory is refused, one that came before it was cordoned holds."""
    prefer(manager, 0, B)
    manager.cordoned = frozenset({manager.dirs[B].path})
    assert place(manager, 0) == B
    assert place(manager, 1, directory_id=manager.dirs[B].directory_id) == B


def test_a_preferred_directory_that_is_offline_is_not_replaced_by_another(manager):
    prefer(manager, 0, B)
    manager.fail_dir(manager.dirs[B], StorageFailure("EIO", manager.dirs[B].path))
    with pytest.raises(StorageFailure, match="no log directory can take"):
        place(manager, 0)
    assert manager.preferred == {TopicPartition("t", 0): manager.dirs[B].path}
    assert place(manager, 1) == A


def test_a_directory_that_takes_nothing_goes_offline_and_the_next_is_tried(manager, tmp_path):
    (tmp_path / "a" / "t-0").touch()
    assert place(manager, 0) == B
    assert [log_dir.is_online for log_dir in manager.dirs] == [False, True, True]
    os.rename(tmp_path / "b", tmp_path / "elsewhere")
    os.rename(tmp_path / "c", tmp_path / "elsewhere2")
    with pytest.raises(StorageFailure, match="no log directory can take"):
        place(manager, 1)
    assert not any(log_dir.is_online for log_dir in manager.dirs)


def test_a_log_is_not_begun_anew_beside_an_unfinished_copy(manager):
    tp = TopicPartition("t", 0)
    place(manager, 0)
    future = begin(manager, tp, manager.dirs[B].path)
    manager.fail_dir(manager.dirs[A], StorageFailure("EIO", manager.dirs[A].path))
    with pytest.raises(StorageFailure, match=f"unfinished copy.*{future.log.path}"):
        manager.ensure_not_elsewhere(tp, manager.dirs[A].directory_id)


def test_preferences_are_bounded_and_the_oldest_go_first(manager, monkeypatch):
    monkeypatch.setattr(placement, "MAX_PREFERRED", 3)
    monkeypatch.setattr(placement, "FORGOTTEN_AT_ONCE", 1)
    for number in (0, 1, 2, 0, 3):
        prefer(manager, number, B)
    assert [tp.partition for tp in manager.preferred] == [2, 0, 3]
