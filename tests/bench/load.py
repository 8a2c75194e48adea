"""What every benchmark shares: cores, the pinned broker, the light load loop, the spread of rounds.

The load is pre-encoded bytes pushed through one socket; the loop counts answer bytes and decodes nothing. The load
process is pinned to one core and the broker to another, so that neither steals from the other.
"""

import contextlib
import dataclasses
import functools
import os
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.harness.broker import BrokerProcess

MEBIBYTE = 1 << 20


@functools.cache
def cores() -> tuple[int, int] | None:
    """Choose (load core, broker core), once, before this process keeps to its own; None where there is a single one."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[-1]) if len(usable) > 1 else None


class PinnedBroker(BrokerProcess):
    """A broker that lives on one core from its first instruction, started as installed: with compiled files."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, environment={"PYTHONDONTWRITEBYTECODE": ""})

    def default_properties(self) -> dict[str, str]:
        return {**super().default_properties(), "log.flush.interval.messages": "9223372036854775807"}

    def command(self) -> list[str]:
        chosen = cores()
        prefix = ["taskset", "-c", str(chosen[1])] if chosen and shutil.which("taskset") else []
        return prefix + super().command()


@contextlib.contextmanager
def scratch(directory: str | None) -> Iterator[Path]:
    """Give a temporary directory on the file system under test."""
    with tempfile.TemporaryDirectory(prefix="odradek-bench-", dir=directory) as name:
        yield Path(name)


@dataclasses.dataclass(slots=True)
class Result:
    """One measured quantity over all rounds."""

    name: str
    unit: str
    samples: list[float]
    target: str = ""

    def line(self) -> str:
        low, middle, high = min(self.samples), statistics.median(self.samples), max(self.samples)
        numbers = f"{low:>10,.2f} {middle:>10,.2f} {high:>10,.2f}"
        return f"{self.name:<44} {numbers} {self.unit:<8} {self.target}"


HEADING = f"{'':<44} {'min':>10} {'median':>10} {'max':>10}"


def connect(address: tuple[str, int]) -> socket.socket:
    """Open a connection with buffers large enough for a deep pipeline."""
    connection = socket.create_connection(address, timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MEBIBYTE)
    return connection


def pump(connection: socket.socket, blocks: Sequence[bytes], answer_size: Callable[[int], int], window: int) -> float:
    """Send all blocks, at most ``window`` of them unanswered; return the seconds until the last answer byte.

    ``answer_size(index)`` is the number of bytes that answers block ``index``.
    """
    buffer = memoryview(bytearray(2 * MEBIBYTE))
    sent = answered = received = 0
    due = answer_size(0)
    started = time.perf_counter()
    while answered < len(blocks):
        while sent < len(blocks) and sent - answered < window:
            connection.sendall(blocks[sent])
            sent += 1
        count = connection.recv_into(buffer)
        if not count:
            raise ConnectionError("closed under load")
        received += count
        while received >= due and answered < len(blocks):
            received -= due
            answered += 1
            due = answer_size(answered) if answered < len(blocks) else 1 << 62
    elapsed = time.perf_counter() - started
    assert received == 0, f"{received} bytes too many"
    return elapsed
