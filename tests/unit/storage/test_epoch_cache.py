import pytest

from storage.env.posix import PosixFileSystem
from storage.epochs.cache import LeaderEpochCache


@pytest.fixture
def cache(fs, tmp_path) -> LeaderEpochCache:
    cache = LeaderEpochCache(fs, str(tmp_path))
    cache.load()
    return cache


def test_saved_assignments_are_written_as_kafka_writes_them(cache, tmp_path):
    assert cache.assign(0, 0)
    assert cache.assign(3, 5)
    assert not cache.assign(3, 9)
    assert cache.lacks_file(6)
    cache.plan_save().run()
    assert not cache.lacks_file(6)
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n3 5\n"


def test_contradicting_later_entries_go(cache):
    for epoch, start in ((0, 0), (3, 5), (7, 9)):
        cache.assign(epoch, start)
    cache.assign(4, 8)
    assert cache.entries() == [(0, 0), (3, 5), (4, 8)]
    cache.assign(5, 5)
    assert cache.entries() == [(0, 0), (5, 5)]


def test_end_offsets(cache):
    assert cache.end_offset_for(0, 10) == (-1, -1)
    cache.assign(2, 4)
    cache.assign(5, 8)
    assert cache.end_offset_for(-1, 10) == (-1, -1)
    assert cache.end_offset_for(5, 10) == (5, 10)
    assert cache.end_offset_for(6, 10) == (-1, -1)
    assert cache.end_offset_for(1, 10) == (1, 4)
    assert cache.end_offset_for(2, 10) == (2, 8)
    assert cache.end_offset_for(4, 10) == (2, 8)
    assert cache.epoch_for_offset(3) == -1
    assert cache.epoch_for_offset(8) == 5


def test_truncations(cache, fs, tmp_path):
    for epoch, start in ((0, 0), (3, 5), (7, 9)):
        cache.assign(epoch, start)
    cache.truncate_from_end(9)
    assert cache.entries() == [(0, 0), (3, 5)]
    cache.truncate_from_start(6)
    assert cache.entries() == [(3, 6)]
    assert cache.latest_epoch == 3


def test_the_file_follows_a_new_log_start_when_it_is_saved_next(cache, fs, tmp_path):
    for epoch, start in ((0, 0), (3, 5)):
        cache.assign(epoch, start)
    cache.plan_save().run()
    assert not cache.is_worth_saving(8)
    cache.truncate_from_start(0)
    assert not cache.is_worth_saving(8)
    cache.truncate_from_start(6)
    again = LeaderEpochCache(fs, str(tmp_path))
    again.load()
    assert again.entries() == [(0, 0), (3, 5)]
    assert cache.is_worth_saving(8)
    cache.plan_save().run()
    again.load()
    assert again.entries() == [(3, 6)]
    assert not cache.is_worth_saving(8)


def test_a_damaged_file_counts_as_empty(fs, tmp_path):
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n2\n3 5\n0 0\n")
    cache = LeaderEpochCache(fs, str(tmp_path))
    cache.load()
    assert cache.entries() == []
    assert cache.latest_epoch == -1


def test_the_file_lacks_what_batches_tell_of_and_no_epoch_without_batches(cache):
    cache.assign(3, 5)
    assert [cache.lacks_file(end) for end in (5, 6)] == [False, True]
    cache.assign(4, 8)
    assert [cache.lacks_file(end) for end in (5, 6, 8)] == [False, True, True]
    save = cache.plan_save()
    assert not cache.lacks_file(9)
    cache.assign(5, 9)
    assert [cache.lacks_file(end) for end in (9, 10)] == [False, True]
    cache.save_failed(save)
    assert [cache.lacks_file(end) for end in (5, 6)] == [False, True]


def test_a_write_has_the_entries_of_its_plan_and_leaves_alone_what_has_taken_the_directory(cache, tmp_path):
    file = tmp_path / "leader-epoch-checkpoint"
    cache.assign(3, 5)
    save = cache.plan_save()
    cache.assign(4, 8)
    save.run()
    assert file.read_bytes() == b"0\n1\n3 5\n"
    file.unlink()
    cache.move_to_directory(str(tmp_path / "elsewhere"))
    save.run()
    assert not file.exists()


class InterruptedFS(PosixFileSystem):
    """Lets something happen in the middle of the write that a flush has planned."""

    __slots__ = ("meanwhile", "when")

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        self.meanwhile = None

    def _come(self, where: str) -> None:
        if where == self.when and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()

    def write_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        super().write_file(path, data, sync=sync)
        self._come("written")

    def rename(self, source: str, target: str) -> None:
        self._come("about to be renamed")
        super().rename(source, target)


@pytest.mark.parametrize("when", ["written", "about to be renamed"])
def test_a_truncation_in_the_middle_of_a_flush_has_the_last_word(tmp_path, when):
    fs = InterruptedFS(when)
    cache = LeaderEpochCache(fs, str(tmp_path))
    for epoch, start in ((0, 0), (3, 5), (7, 9)):
        cache.assign(epoch, start)
    save = cache.plan_save()
    fs.meanwhile = lambda: cache.truncate_from_end(6)
    save.run()
    cache.saved(save)
    if when == "about to be renamed":
        assert cache.lacks_file(6), "it came too late to stop the rename, so the next flush writes again"
        cache.plan_save().run()
    assert [path.name for path in tmp_path.iterdir()] == ["leader-epoch-checkpoint"]
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n3 5\n"
