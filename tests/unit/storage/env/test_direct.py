import errno
import os

import pytest

from storage.env import posix
from storage.env.aligned import WRITE_STEP_BYTES, AlignedBuffers
from storage.env.direct import direct_block_bytes, reserve_blocks
from storage.env.posix import PosixFileSystem

SHM = "/dev/shm"


@pytest.fixture
def direct(fs, tmp_path):
    """A direct handle of an empty file, where the test directory's file system has such a thing."""
    path = str(tmp_path / "file")
    fs.open(path, create=True).close()
    file = fs.open_direct(path)
    if file is None:
        pytest.skip("the file system of the test directory does not tell how to write past the page cache")
    yield file
    file.close()


def test_reserving_takes_blocks_and_leaves_the_length(fs, tmp_path):
    file = fs.open(str(tmp_path / "file"), create=True)
    try:
        file.reserve(1 << 20)
    except OSError as error:
        pytest.skip(f"the file system of the test directory reserves nothing: {error}")
    status = os.fstat(file.fd)
    assert (status.st_size, status.st_blocks * 512 >= 1 << 20) == (0, True)
    file.truncate(0)
    assert os.fstat(file.fd).st_blocks == 0
    file.close()


def test_a_reservation_beyond_the_disk_is_refused_and_takes_nothing(fs, tmp_path):
    file = fs.open(str(tmp_path / "file"), create=True)
    space = os.fstatvfs(file.fd)
    too_much = (space.f_bavail + 1) * space.f_frsize
    with pytest.raises(OSError, match="No space left"):
        file.reserve(too_much)
    assert os.fstat(file.fd).st_blocks == 0
    file.close()


def test_a_refused_reservation_says_why():
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError) as refused:
            reserve_blocks(writing, 4096)
        assert refused.value.errno in (errno.ESPIPE, errno.ENODEV)
        assert direct_block_bytes(writing) is None
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(not os.path.isdir(SHM), reason="there is no tmpfs at hand")
def test_a_file_system_in_memory_has_no_direct_files(fs):
    path = f"{SHM}/odradek-test-{os.getpid()}"
    fs.open(path, create=True).close()
    try:
        assert fs.open_direct(path) is None
    finally:
        os.unlink(path)


def test_a_missing_file_is_an_error_and_no_answer(fs, tmp_path):
    with pytest.raises(FileNotFoundError):
        fs.open_direct(str(tmp_path / "missing"))


@pytest.mark.parametrize("blocks", [1, 7, 3 * WRITE_STEP_BYTES // 512 + 1])
def test_what_is_written_past_the_page_cache_is_read_through_it(fs, direct, blocks):
    size = blocks * direct.block_bytes
    data = os.urandom(size)
    reader = fs.open(direct.path)
    assert reader.read_at(size, 0) == b""
    direct.writev_at((data[:100], memoryview(data)[100:101], bytearray(data[101:])), 0)
    assert reader.read_at(size + 1, 0) == data
    direct.write_at(bytes(direct.block_bytes), 0)
    assert reader.read_at(size, 0) == bytes(direct.block_bytes) + data[direct.block_bytes :]
    reader.close()


def test_a_short_direct_write_goes_on_from_the_last_whole_block(direct, monkeypatch):
    block = direct.block_bytes
    data = os.urandom(8 * block)
    lengths = iter([3 * block + 5, block, block + block // 2])
    calls = []

    def short(fd, view, position):
        calls.append((len(view), position))
        count = min(len(view), next(lengths, len(view)))
        kept = count - count % block
        os.pwrite(fd, view[:kept], position)
        return count

    monkeypatch.setattr(posix, "pwrite", short)
    direct.write_at(data, 0)
    assert calls == [(8 * block, 0), (5 * block, 3 * block), (4 * block, 4 * block), (3 * block, 5 * block)]
    assert PosixFileSystem().read_file(direct.path) == data


def test_a_direct_write_without_progress_is_an_error(direct, monkeypatch):
    monkeypatch.setattr(posix, "pwrite", lambda fd, view, position: 10)
    with pytest.raises(OSError, match="no progress"):
        direct.write_at(bytes(direct.block_bytes), 0)


def test_aligned_memory_is_lent_again_and_a_few_spare_pieces_are_kept():
    buffers = AlignedBuffers()
    lent = [buffers.take() for _ in range(10)]
    assert all(len(memory) == WRITE_STEP_BYTES for memory in lent)
    for memory in lent:
        buffers.give_back(memory)
    kept = [buffers.take() for _ in range(10)]
    assert sum(any(memory is one for one in lent) for memory in kept) == 4
