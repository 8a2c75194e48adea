import pytest

from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.log.deletions import Deletions, unlink_files


def test_files_are_due_from_their_time_on_in_the_order_of_due_times():
    deletions = Deletions()
    deletions.schedule(200, ["b"])
    deletions.schedule(100, ["a", "c"])
    deletions.schedule(100, ["d"])
    assert (deletions.next_due_ms(), len(deletions)) == (100, 4)
    assert deletions.take_due(99) == []
    assert deletions.take_due(100) == ["a", "c", "d"]
    assert deletions.next_due_ms() == 200
    assert deletions.take_due(1 << 62) == ["b"]
    assert deletions.take_due(1 << 62) == []
    assert deletions.next_due_ms() is None


def test_nothing_to_unlink_is_not_scheduled():
    deletions = Deletions()
    deletions.schedule(100, [])
    assert deletions.next_due_ms() is None


def test_a_missing_file_is_no_error_when_it_is_unlinked(tmp_path):
    there = tmp_path / "there"
    there.write_bytes(b"x")
    unlink_files(PosixFileSystem(), [str(tmp_path / "missing"), str(there)])
    assert not there.exists()


def test_a_failed_unlink_names_the_path(tmp_path):
    with pytest.raises(StorageFailure) as failed:
        unlink_files(PosixFileSystem(), [str(tmp_path)])
    assert failed.value.path == str(tmp_path)
