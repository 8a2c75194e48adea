"""What is prefetched behind what is sent: by cold reads, by consumers that read on, and by nobody else."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.net.outbox import MAX_FILES_AHEAD, Flushed, Outbox
from storage.segment.region import MemoryRegion

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
