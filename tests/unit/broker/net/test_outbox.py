"""What is prefetched behind what is sent: by cold reads, by consumers that read on, and by nobody else."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.net.outbox import JOIN_BELOW_BYTES, MAX_FILES_AHEAD, Flushed, Outbox
from storage.env.posix import PosixFileSystem
from storage.segment.region import FileRegion, MemoryRegion
from tests.harness.machine import skip_in_memory

MIB = 1 << 20


class Region:
    """A range of a file."""

    def __init__(self, fd: int, position: int, size: int) -> None:
        self.fd, self.position, self.size = fd, position, size
        self.is_released = False

    def __len__(self) -> int:
        return self.size

    def release(self) -> None:
        self.is_released = True


class Pages:
    def __init__(self, max_ahead_bytes: int) -> None:
        self.max_ahead_bytes = max_ahead_bytes
        self.hints: list[tuple[int, int]] = []

    async def load(self, region: Any, position: int, size: int, ahead_end: int) -> None:
        raise AssertionError("the connection does this")

    def read_ahead(self, region: Any, position: int, end: int) -> None:
        self.hints.append((position, end))


class Rig:
    """An outbox whose peer takes everything, over files whose warmth the test decides."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, max_ahead_bytes: int = 4 * MIB) -> None:
        self.path = path
        self.path.write_bytes(bytes(1000))
        os.truncate(path, 64 * MIB)
        self.fd = os.open(path, os.O_RDONLY)
        self.is_cold = False
        self.looks = 0
        self.pages = Pages(max_ahead_bytes)
        self.ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.outbox = Outbox(self.theirs, self.pages)
        monkeypatch.setattr("broker.net.outbox.is_resident", self._is_resident)
        monkeypatch.setattr("broker.net.outbox.os.sendfile", lambda out, fd, position, size: size)

    def _is_resident(self, fd: int, position: int, size: int) -> bool:
        self.looks += 1
        return not self.is_cold

    def send(self, position: int, size: int, *, is_cold: bool = False, fd: int | None = None) -> list[tuple[int, int]]:
        """Send a region; give the hints (from, to) it led to, those of its loads first."""
        self.pages.hints.clear()
        self.is_cold = is_cold
        self.outbox.add([Region(self.fd if fd is None else fd, position, size)])
        hints = []
        while self.outbox.flush() is Flushed.COLD:
            _, at, _ = self.outbox.cold_range()
            end = self.outbox.ahead_of_cold()
            hints += [(at, end)] if end else []
            self.outbox.loaded()
        return hints + self.pages.hints


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig(tmp_path / "log", monkeypatch)
    yield rig
    for sock in (rig.ours, rig.theirs):
        sock.close()
    os.close(rig.fd)


def test_a_warm_read_hints_nothing(rig: Rig) -> None:
    for number in range(5):
        assert rig.send(number * MIB, MIB) == []
    assert rig.outbox._ahead is None


def test_a_cold_read_hints_its_window_and_as_much_again_once(rig: Rig) -> None:
    assert rig.send(3 * MIB, MIB, is_cold=True) == [(3 * MIB, 5 * MIB)]
    assert rig.send(20 * MIB, 3 * MIB, is_cold=True) == [(20 * MIB, 26 * MIB)]


def test_what_is_prefetched_is_bounded(rig: Rig) -> None:
    assert rig.send(0, 8 * MIB, is_cold=True) == [(0, 12 * MIB)]
    rig.pages.max_ahead_bytes = 0
    assert rig.send(30 * MIB, MIB, is_cold=True) == [(30 * MIB, 31 * MIB)]


def test_the_hint_moves_on_with_a_consumer_that_reads_on_and_ends_where_it_leaves(rig: Rig) -> None:
    rig.send(0, MIB, is_cold=True)
    assert rig.send(MIB, MIB) == [(2 * MIB, 3 * MIB)]
    assert rig.send(2 * MIB, MIB) == [(3 * MIB, 4 * MIB)]
    assert rig.send(3 * MIB, 1000) == []
    assert rig.send(3 * MIB + 1000, MIB) == [(4 * MIB, 5 * MIB + 1000)]
    assert rig.send(30 * MIB, MIB) == []
    assert rig.send(31 * MIB, MIB) == []
    assert not rig.outbox._ahead


@pytest.mark.parametrize("size", [1000, MIB])
def test_a_consumer_that_has_caught_up_pays_for_nothing(rig: Rig, size: int) -> None:
    os.truncate(rig.path, 2 * MIB)
    rig.send(0, MIB, is_cold=True)
    for position in range(MIB, 5 * MIB, size):
        os.truncate(rig.path, position + size)
        assert rig.send(position, size) == []
    assert not rig.outbox._ahead


def test_small_reads_are_not_worth_a_hint_each(rig: Rig) -> None:
    rig.send(0, MIB, is_cold=True)
    assert not any(rig.send(MIB + number * 1000, 1000) for number in range(2000))
    assert not rig.outbox._ahead


def test_with_nothing_ahead_every_window_is_hinted_by_itself(rig: Rig) -> None:
    rig.pages.max_ahead_bytes = 0
    rig.send(0, MIB, is_cold=True)
    assert rig.send(MIB, MIB) == []
    assert rig.send(2 * MIB, MIB, is_cold=True) == [(2 * MIB, 3 * MIB)]


def test_a_region_that_turns_cold_midway_is_hinted_from_there(rig: Rig) -> None:
    rig.is_cold = False
    rig.outbox.add([Region(rig.fd, 0, 3 * MIB)])
    rig.outbox._send_region(rig.outbox._items[0])
    rig.is_cold = True
    assert rig.outbox.flush() is Flushed.COLD
    assert rig.outbox.cold_range()[1] == MIB
    assert rig.outbox.ahead_of_cold() == 5 * MIB


def test_files_remembered_are_bounded_and_independent(rig: Rig) -> None:
    files = [os.dup(rig.fd) for _ in range(MAX_FILES_AHEAD + 10)]
    for fd in files:
        assert rig.send(0, MIB, is_cold=True, fd=fd) == [(0, 2 * MIB)]
    assert rig.outbox._ahead is not None and len(rig.outbox._ahead) == MAX_FILES_AHEAD
    assert rig.send(MIB, MIB, fd=files[0]) == []
    assert rig.send(MIB, MIB, fd=files[-1]) == [(2 * MIB, 3 * MIB)]
    for fd in files:
        os.close(fd)


def test_bytes_in_memory_need_no_hint(rig: Rig) -> None:
    rig.is_cold = True
    rig.outbox.add([MemoryRegion(b"tail", 7)])
    assert rig.outbox.flush() is Flushed.DRAINED
    assert rig.ours.recv(10) == b"tail"
    assert rig.looks == 0


def test_bytes_from_memory_leave_in_their_place_without_sendfile() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    outbox = Outbox(theirs, Pages(0))
    outbox.add([b"head", MemoryRegion(b"newest batches", 100), b"", MemoryRegion(b"", 0), b"tail"])
    assert outbox.size_bytes == 22
    assert outbox.flush() is Flushed.DRAINED
    assert ours.recv(100) == b"headnewest batchestail"
    ours.close()
    theirs.close()


# --- small regions ---


class Small:
    """An outbox that counts what it hands to the kernel, over one file of known bytes."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fs = PosixFileSystem()
        self.content = bytes(i % 251 for i in range(1 << 20))
        path.write_bytes(self.content)
        self.file = fs.open(str(path))
        self.sent_files = 0
        self.ours, self.theirs = socket.socketpair()
        self.outbox = Outbox(self.theirs, Pages(4 * MIB))
        sendfile = os.sendfile

        def counted(*args: int) -> int:
            self.sent_files += 1
            return sendfile(*args)

        monkeypatch.setattr("broker.net.outbox.os.sendfile", counted)

    def region(self, position: int, size: int) -> FileRegion:
        return FileRegion(self.file, position, size)

    def close(self) -> None:
        self.file.close()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Small]:
    small = Small(tmp_path / "small", monkeypatch)
    yield small
    small.close()


@pytest.mark.pure  # what is replaced here is bound when it is compiled
def test_a_small_cached_region_leaves_with_what_is_around_it(small: Small, tmp_path: Path) -> None:
    skip_in_memory(tmp_path)
    region = small.region(100, 1000)
    small.outbox.add([b"head", region, b"tail"])
    assert small.outbox.size_bytes == 1008
    assert small.outbox.flush() is Flushed.DRAINED
    assert small.ours.recv(2000) == b"head" + small.content[100:1100] + b"tail"
    assert not small.sent_files and region._file is None, "its pin is given back"


@pytest.mark.pure
def test_a_large_region_and_one_too_many_small_ones_leave_from_the_file(small: Small) -> None:
    regions = [small.region(0, JOIN_BELOW_BYTES + 1), *(small.region(9, JOIN_BELOW_BYTES) for _ in range(5))]
    small.outbox.add(regions)
    received = bytearray()
    while small.outbox.flush() is not Flushed.DRAINED or len(received) < sum(map(len, regions)):
        received += small.ours.recv(1 << 20)
    assert received == small.content[: JOIN_BELOW_BYTES + 1] + 5 * small.content[9 : 9 + JOIN_BELOW_BYTES]
    assert small.sent_files >= 2, "the large one, and what is above the bound of copies"


def test_a_small_region_that_is_not_cached_stays_a_region(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise BlockingIOError

    region = small.region(0, 100)
    monkeypatch.setattr(os, "preadv", refuse)
    small.outbox.add([region])
    assert small.outbox.flush() is Flushed.COLD
    assert small.outbox.cold_range() == (region, 0, 100)
    small.outbox.drop()
