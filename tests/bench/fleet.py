"""Many connections driven by one poll loop: frames that were built before, answers that are only counted.

`exchange` sends one frame on each connection and waits for all answers; `pipeline` keeps a window of frames under way
on each; `beat` sends each connection's frame at its turn in an interval, whatever the answers do.
"""

import contextlib
import heapq
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_SIZE = struct.Struct(">i")
_RECEIVE_BYTES = 65536
TIMEOUT_S = 60.0


class Link:
    """One connection and the bytes of answers that have not ended."""

    __slots__ = ("buffer", "socket")

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def received(self) -> list[bytes]:
        """Take in what has come; give whole answers, without their lengths."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionError("closed under load")
        buffer = self.buffer
        buffer += data
        answers: list[bytes] = []
        position = 0
        while len(buffer) - position >= 4:
            (size,) = _SIZE.unpack_from(buffer, position)
            if len(buffer) - position - 4 < size:
                break
            answers.append(bytes(buffer[position + 4 : position + 4 + size]))
            position += 4 + size
        del buffer[:position]
        return answers


class Fleet:
    """All connections of a load."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        self.links = [Link(address) for _ in range(count)]
        self._poll = select.epoll()
        self._by_descriptor: dict[int, int] = {}
        for index, link in enumerate(self.links):
            self._poll.register(link.socket, select.EPOLLIN)
            self._by_descriptor[link.socket.fileno()] = index

    def __len__(self) -> int:
        return len(self.links)

    def close(self) -> None:
        """Close every connection."""
        self._poll.close()
        for link in self.links:
            link.socket.close()

    def send(self, index: int, frame: bytes) -> None:
        """Send one frame."""
        self.links[index].socket.sendall(frame)

    def answers(self, timeout_s: float = TIMEOUT_S) -> Iterator[tuple[int, bytes]]:
        """Yield what arrives until nothing has come for so long; each with the number of its connection."""
        for descriptor, _ in self._poll.poll(timeout_s):
            index = self._by_descriptor[descriptor]
            for answer in self.links[index].received():
                yield index, answer

    def exchange(self, frames: Sequence[bytes | None]) -> list[bytes | None]:
        """Send a frame on each connection that has one; return the answers."""
        found: list[bytes | None] = [None] * len(self.links)
        missing = 0
        for index, frame in enumerate(frames):
            if frame is not None:
                self.send(index, frame)
                missing += 1
        deadline = time.monotonic() + TIMEOUT_S
        while missing:
            assert time.monotonic() < deadline, f"{missing} answers are missing"
            for index, answer in self.answers():
                found[index] = answer
                missing -= 1
        return found

    def pipeline(
        self, next_frame: Callable[[int], bytes | None], window: int, check: Callable[[bytes], None]
    ) -> list[float]:
        """Keep `window` frames under way on each connection until `next_frame` gives none; return all latencies, ms."""
        under_way: list[deque[int]] = [deque() for _ in self.links]
        latencies: list[float] = []
        open_count = 0

        def refill(index: int) -> int:
            sent = 0
            pieces: list[bytes] = []
            while len(under_way[index]) < window and (frame := next_frame(index)) is not None:
                pieces.append(frame)
                under_way[index].append(time.perf_counter_ns())
                sent += 1
            if pieces:
                self.send(index, b"".join(pieces))
            return sent

        for index in range(len(self.links)):
            open_count += refill(index)
        while open_count:
            touched: set[int] = set()
            for index, answer in self.answers():
                check(answer)
                latencies.append((time.perf_counter_ns() - under_way[index].popleft()) / 1e6)
                open_count -= 1
                touched.add(index)
            for index in touched:
                open_count += refill(index)
        return latencies

    def beat(
        self, frames: Sequence[bytes], interval_s: float, for_s: float, check: Callable[[bytes], None]
    ) -> list[float]:
        """Send each connection's frame once an interval, evenly spread; return latencies in ms, from when due."""
        started = time.perf_counter()
        schedule = [(started + interval_s * index / len(frames), index) for index in range(len(frames))]
        heapq.heapify(schedule)
        due: list[float] = [0.0] * len(frames)
        latencies: list[float] = []
        missing = 0
        while schedule or missing:
            now = time.perf_counter()
            while schedule and schedule[0][0] <= now:
                due_at, index = heapq.heappop(schedule)
                assert not due[index], "a heartbeat was not answered within its interval"
                due[index] = due_at
                self.send(index, frames[index])
                missing += 1
                if due_at + interval_s < started + for_s:
                    heapq.heappush(schedule, (due_at + interval_s, index))
            wait_s = max(schedule[0][0] - time.perf_counter(), 0) if schedule else TIMEOUT_S
            for index, answer in self.answers(wait_s):
                check(answer)
                latencies.append((time.perf_counter() - due[index]) * 1e3)
                due[index] = 0.0
                missing -= 1
        return latencies


@contextlib.contextmanager
def fleet(address: tuple[str, int], count: int) -> Iterator[Fleet]:
    """Open so many connections, and close them."""
    opened = Fleet(address, count)
    try:
        yield opened
    finally:
        opened.close()


class CpuMeter:
    """The share of a core that a process has used since the meter was made."""

    def __init__(self, pid: int) -> None:
        self._path = Path(f"/proc/{pid}/stat")
        self._used = self._ticks()
        self._started = time.perf_counter()

    def _ticks(self) -> int:
        fields = self._path.read_text(encoding="ascii").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def percent(self) -> float:
        """Give the percentage of one core."""
        return (self._ticks() - self._used) / (time.perf_counter() - self._started)
