"""Windows of appended bytes: when one is full, where the next begins, and that the recovery point is not moved."""

import pytest

from storage.env.posix import PosixFile
from storage.errors import StorageFailure
from tests.sim.logs import append, batch

SIZE = len(batch())


class Watched:
    """A log whose full windows are synced at once, as many times as it says that one is full."""

    def __init__(self, log) -> None:
        self.log = log
        self.told = 0
        self.ends: list[int] = []
        log.durability.watch(on_rolled=lambda: None, on_window_full=self._sync)

    def _sync(self) -> None:
        self.told += 1
        plan = self.log.durability.writeback_plan()
        if plan is not None:
            self.ends.append(plan.end)
            plan.run()
            self.log.durability.written_back(plan)


def test_a_full_window_is_synced_and_the_next_one_begins_there(open_log, monkeypatch):
    synced: list[str] = []
    monkeypatch.setattr(PosixFile, "sync", lambda file: synced.append(file.path))
    watched = Watched(open_log(writeback_window_bytes=3 * SIZE - 1))
    append(watched.log)
    append(watched.log)
    assert synced == []
    append(watched.log)
    assert [path[-4:] for path in synced] == [".log"]
    assert watched.ends == [3 * SIZE]
    for _ in range(3):
        append(watched.log)
    assert watched.ends == [3 * SIZE, 6 * SIZE]
    assert watched.log.recovery_point == 0


def test_an_append_larger_than_the_window_is_one_sync(open_log):
    watched = Watched(open_log(writeback_window_bytes=10))
    append(watched.log, 100)
    append(watched.log)
    assert len(watched.ends) == 2


def test_a_window_that_nobody_takes_is_told_of_with_every_append(open_log):
    log = open_log(writeback_window_bytes=SIZE)
    told: list[int] = []
    log.durability.watch(on_rolled=lambda: None, on_window_full=lambda: told.append(log.log_end_offset))
    for _ in range(3):
        append(log)
    assert len(told) == 3
    plan = log.durability.writeback_plan()
    assert plan is not None and plan.end == 3 * SIZE
    assert log.durability.writeback_plan() is None
    plan.release()


@pytest.mark.parametrize("settings", [{"writeback_window_bytes": 0}, {"flush_on_append": True}])
def test_without_a_window_or_with_a_sync_for_every_append_there_is_no_write_back(open_log, settings):
    watched = Watched(open_log(**{"writeback_window_bytes": 1, **settings}))
    for _ in range(5):
        append(watched.log)
    assert watched.told == 0
    assert watched.log.durability.writeback_plan() is None


def test_a_new_segment_counts_from_its_beginning_and_a_restart_from_the_end(open_log):
    settings = {"writeback_window_bytes": 2 * SIZE, "segment_bytes": 3 * SIZE}
    watched = Watched(open_log(**settings))
    for _ in range(5):
        append(watched.log)
    assert watched.ends == [2 * SIZE, 2 * SIZE]
    watched.log.close()
    watched = Watched(open_log(clean=True, **{**settings, "segment_bytes": 1000 * SIZE}))
    append(watched.log)
    assert watched.ends == []
    append(watched.log)
    assert watched.ends == [4 * SIZE]


def test_a_cut_begins_the_window_anew(open_log):
    watched = Watched(open_log(writeback_window_bytes=2 * SIZE))
    for _ in range(3):
        append(watched.log)
    watched.log.truncate_to(1)
    append(watched.log)
    assert watched.ends == [2 * SIZE]
    append(watched.log)
    assert watched.ends == [2 * SIZE, 3 * SIZE]


def test_a_failed_write_back_says_which_log(open_log, monkeypatch):
    log = open_log(writeback_window_bytes=1)
    append(log)
    plan = log.durability.writeback_plan()

    def refuse(file: PosixFile) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(PosixFile, "sync", refuse)
    with pytest.raises(StorageFailure) as caught:
        plan.run()
    assert caught.value.path.startswith(log.path)
    plan.release()
