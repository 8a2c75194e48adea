"""A `.log` written past the page cache against a byte string: appends, plans, truncations and changes of settings."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.env.posix import PosixFileSystem
from storage.segment.log_file import Allocation, LogFile, WriteQueue
from tests.sim.crash_fs import CrashFS

BLOCK = 512
EDGES = st.sampled_from([1, BLOCK - 1, BLOCK, BLOCK + 1, 4096, 4097])
SIZES = st.one_of(EDGES, st.integers(1, 3000))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SIZES),
        st.tuples(st.just("append"), SIZES),
        st.tuples(st.just("truncate"), st.integers(0, 4000)),
        st.tuples(st.just("plan"), st.just(0)),
        st.tuples(st.just("settle"), st.just(0)),
        st.tuples(st.just("allocate"), st.sampled_from([0, 1, 5000])),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=30,
)


class Driver:
    """Drives one file and keeps what it must hold."""

    def __init__(self, fs, path: str, cache_bytes: int, *, is_deferred: bool) -> None:
        self.queue = WriteQueue()
        self.queue.is_deferred = is_deferred
        self.log = LogFile(fs, path, 0, Allocation(1 << 16, cache_bytes), self.queue)
        self.log.open(create=True)
        self.path = Path(path)
        self.model = bytearray()
        self.running = None
        self.written = 0  # what a plan that was noted has covered

    def step(self, kind: str, number: int) -> None:
        getattr(self, kind)(number)
        assert self.log.size == len(self.model)
        assert self.log.read(0, len(self.model)) == self.model
        tail = self.log.tail
        written = len(self.model) if tail is None else tail.written
        content = self.path.read_bytes()
        assert content[:written] == self.model[:written]
        if tail is not None and not self.queue.is_deferred:
            assert len(content) - len(self.model) < BLOCK
            assert not any(content[len(self.model) :])

    def append(self, size: int) -> None:
        data = bytes((len(self.model) + n) % 251 for n in range(size))
        assert self.log.append(data) == len(self.model)
        self.model += data
        start = max(0, len(self.model) - size - 10)
        region = self.log.region(start, len(self.model))
        assert region.read() == self.model[start:]
        region.release()

    def plan(self, _: int) -> None:
        if self.running is None and self.log.tail is not None:
            self.running = self.log.tail.plan()
            if self.running is not None:
                self.running.run()

    def settle(self, _: int) -> None:
        if self.running is not None:
            self.log.note_written(self.running)
            self.running = None

    def _drain(self) -> None:
        self.settle(0)
        while self.queue.files:
            self.plan(0)
            self.settle(0)

    def truncate(self, back: int) -> None:
        size = max(0, len(self.model) - back)
        if self.log.tail is not None and not self._is_unwritten(size):
            self._drain()
        self.log.truncate(size)
        del self.model[size:]

    def _is_unwritten(self, size: int) -> bool:
        end = self.log.tail.written if self.running is None else max(self.running.end, self.log.tail.written)
        return size >= end

    def allocate(self, cache_bytes: int) -> None:
        self.log.allocate(Allocation(1 << 16, cache_bytes) if cache_bytes else None)

    def reopen(self, _: int) -> None:
        self._drain()
        self.log.trim()
        assert self.path.stat().st_size == len(self.model)
        self.log.close()
        assert not self.queue.files


@pytest.mark.parametrize("is_deferred", [False, True])
@pytest.mark.parametrize("is_real", [False, True])
@settings(max_examples=60)
@given(steps=STEPS, cache_bytes=st.sampled_from([0, 1000, 100_000]))
def test_the_file_holds_what_was_appended(steps, cache_bytes, is_deferred, is_real):
    with tempfile.TemporaryDirectory() as folder:
        fs = PosixFileSystem() if is_real else CrashFS(folder, direct_block_bytes=BLOCK)
        driver = Driver(fs, f"{folder}/file.log", cache_bytes, is_deferred=is_deferred)
        for kind, number in steps:
            driver.step(kind, number)
        driver.step("reopen", 0)
