"""The hints of a read ahead: which range, in which pieces, and that they never matter but for speed."""

import errno
import os

import pytest

from storage.env.page_cache import HINT_PIECE_BYTES, is_resident, load, read_ahead_end, read_resident, will_need
from tests.harness.machine import skip_in_memory

MIB = 1 << 20


@pytest.fixture
def fd(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"")
    os.truncate(path, 32 * MIB)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def hints(monkeypatch) -> list[tuple[int, int]]:
    given: list[tuple[int, int]] = []

    def advise(fd: int, position: int, size: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        given.append((position, size))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    return given


def covered(hints: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the contiguous range that the hints cover."""
    at = hints[0][0]
    for position, size in hints:
        assert position == at and 0 < size <= 131072
        at += size
    return hints[0][0], at


@pytest.mark.parametrize(
    ("position", "window", "most", "end", "calls"),
    [
        (5000, MIB, 4 * MIB, 5000 + 2 * MIB, 16),
        (0, 8 * MIB, 4 * MIB, 12 * MIB, 96),
        (4096, MIB, 0, 4096 + MIB, 8),
        (31 * MIB, MIB, 4 * MIB, 32 * MIB, 8),
        (31 * MIB + 7, 1000, 4 * MIB, 31 * MIB + 2007, 1),
        (40 * MIB, MIB, 4 * MIB, None, 0),
    ],
)
def test_a_range_is_hinted_in_pieces_up_to_the_end_of_the_file(fd, hints, position, window, most, end, calls):
    will_need(fd, position, read_ahead_end(position, window, most))
    assert len(hints) == calls
    if end is not None:
        assert covered(hints) == (position, end)
        assert HINT_PIECE_BYTES == 131072


def test_a_kernel_that_refuses_hints_is_no_failure(fd, monkeypatch):
    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    will_need(fd, 0, MIB)
    load(fd, 0, MIB)


def test_without_hints_in_the_system_nothing_is_done(fd, monkeypatch):
    monkeypatch.delattr(os, "posix_fadvise")
    will_need(fd, 0, MIB)
    load(fd, 0, MIB)


def test_a_closed_file_is_no_failure(hints):
    will_need(2**20, 0, MIB)
    assert hints == []


def test_what_cannot_be_read_is_not_there_and_what_cannot_be_told_is(monkeypatch):
    """Whoever loads the unreadable range finds out what the disk says."""
    for code, is_there in ((errno.EIO, False), (errno.EAGAIN, False), (errno.EOPNOTSUPP, True)):

        def preadv(fd, buffers, position, flags, code=code):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "preadv", preadv)
        assert is_resident(0, 0, 100) is is_there


def test_a_small_range_is_read_whole_and_without_waiting_or_not_at_all(tmp_path, monkeypatch):
    skip_in_memory(tmp_path)
    path = tmp_path / "small"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    flags = []
    preadv = os.preadv

    def noted(fd: int, buffers, position: int, flag: int) -> int:
        flags.append(flag)
        return preadv(fd, buffers, position, flag)

    monkeypatch.setattr(os, "preadv", noted)
    assert read_resident(fd, 3, 5) == b"34567"
    assert read_resident(fd, 3, 8) is None, "the file ends before"
    assert set(flags) == {getattr(os, "RWF_NOWAIT", 0)}

    def refuse(*_) -> int:
        raise BlockingIOError(errno.EAGAIN, "cold")

    monkeypatch.setattr(os, "preadv", refuse)
    assert read_resident(fd, 3, 5) is None
    os.close(fd)
