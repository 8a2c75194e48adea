"""A steady load: a small request every millisecond, whatever the answers do.

The latency of each is taken from the moment it was due, so a broker that stops for a while is seen by all that
were due meanwhile.
"""

import select
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable

from tests.harness.raw import RawClient, produce_values

VERSION = 9
INTERVAL_NS = 1_000_000
MIN_REQUESTS = 3_000
ASK_EVERY_NS = 20_000_000


def run(connection: socket.socket, frame: bytes, answer_size: int, is_over: Callable[[], bool]) -> list[float]:
    """Send a request every millisecond until it is over, which is asked often; return latencies in milliseconds."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    latencies: list[float] = []
    due: deque[int] = deque()
    received = 0
    next_ns = time.perf_counter_ns()
    asked_ns = next_ns
    goes_on = True
    while goes_on or due:
        now_ns = time.perf_counter_ns()
        if goes_on and now_ns >= next_ns:
            connection.sendall(frame)
            due.append(next_ns)
            next_ns += INTERVAL_NS
            if now_ns - asked_ns > ASK_EVERY_NS:
                asked_ns = now_ns
                goes_on = len(latencies) < MIN_REQUESTS or not is_over()
        elif poll.poll(0 if goes_on else 1_000):
            received += len(connection.recv(65536))
            now_ns = time.perf_counter_ns()
            while received >= answer_size:
                received -= answer_size
                latencies.append((now_ns - due.popleft()) / 1e6)
    return latencies


def for_seconds(seconds: float) -> Callable[[], bool]:
    """Give what is over after so many seconds."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def note(samples: dict[str, list[float]], latencies: list[float]) -> None:
    """Add a round's median, p99 and maximum."""
    cuts = statistics.quantiles(latencies, n=100)
    for name, value in (("p50", cuts[49]), ("p99", cuts[98]), ("max", max(latencies))):
        samples[name].append(value)


def frame_of(client: RawClient, topic: str, batch: bytes) -> tuple[bytes, int]:
    """Encode a request and send it once; return its bytes and the size of its answer."""
    _, frame = client.frame("produce", VERSION, **produce_values(topic, {0: batch}, acks=1))
    client.socket.sendall(frame)
    return frame, len(client.receive_frame()) + 4
