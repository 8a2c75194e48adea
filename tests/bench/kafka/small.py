"""Small requests over raw sockets: one in flight on one and on many connections, and a fixed rate.

A request has one record of 100 B. The generator sends bytes that were built before and counts the bytes of answers, so
that it takes little of the processor it shares with the broker.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Sequence

from tests.bench.kafka.session import Session
from tests.bench.kafka.wires import produce_answer_size, produce_frame
from tests.bench.load import connect

BROKER_WARM_UP_S = 4.0
WARM_UP_S = 0.7
MEASURE_S = 2.5
RATE_PER_S = 5_000
RATE_CONNECTIONS = 10
RATE_S = 6.0
RATE_WARM_UP_S = 1.0
IN_FLIGHT = {"one-in-flight-1": 1, "one-in-flight-64": 64}
_ANSWER_BYTES = 4096


def warm_up(session: Session) -> None:
    """Have a JVM compile the way of a small request, which takes it some ten thousand of them."""
    topic = "warm-up-small"
    session.client.create_topic(topic)
    request = produce_frame(topic)
    answer_size = produce_answer_size(session.client, request)
    connections = [connect(session.address) for _ in range(max(IN_FLIGHT.values()))]
    try:
        take_turns(connections, request, answer_size, BROKER_WARM_UP_S * session.scale)
    finally:
        for connection in connections:
            connection.close()
    session.client.delete_topic(topic)


def one_in_flight(session: Session, name: str) -> None:
    """Note how many requests a second are answered where each connection waits for its answer."""
    count = IN_FLIGHT[name]
    session.client.create_topic(name)
    request = produce_frame(name)
    answer_size = produce_answer_size(session.client, request)
    connections = [connect(session.address) for _ in range(count)]
    try:
        load = alternate if count == 1 else take_turns
        sent = 1 + load(connections, request, answer_size, WARM_UP_S)[0]
        before = session.cpu_seconds()
        done, seconds = load(connections, request, answer_size, max(MEASURE_S * session.scale, 0.2))
        used = session.cpu_seconds() - before
    finally:
        for connection in connections:
            connection.close()
    session.check_held(name, 1, sent + done)
    session.note(name, done / seconds)
    session.note_cpu(name, used, done)
    session.client.delete_topic(name)


def alternate(
    connections: Sequence[socket.socket], request: bytes, answer_size: int, for_s: float
) -> tuple[int, float]:
    """Send and wait, on one connection; return how many requests were answered and the seconds."""
    [connection] = connections
    began = time.perf_counter()
    done = 0
    while done & 15 or time.perf_counter() - began < for_s:
        connection.sendall(request)
        missing = answer_size
        while missing:
            got = len(connection.recv(missing))
            if not got:
                raise ConnectionError("closed under load")
            missing -= got
        done += 1
    return done, time.perf_counter() - began


def take_turns(
    connections: Sequence[socket.socket], request: bytes, answer_size: int, for_s: float
) -> tuple[int, float]:
    """Send the next request on each connection as soon as the last is answered; return the same."""
    by_descriptor = {connection.fileno(): connection for connection in connections}
    missing = dict.fromkeys(by_descriptor, answer_size)
    poll = select.epoll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    began = time.perf_counter()
    for connection in connections:
        connection.sendall(request)
    done, open_count = 0, len(connections)
    while open_count:
        goes_on = time.perf_counter() - began < for_s
        for descriptor, _ in poll.poll(60):
            connection = by_descriptor[descriptor]
            got = len(connection.recv(_ANSWER_BYTES))
            if not got:
                raise ConnectionError("closed under load")
            missing[descriptor] -= got
            if not missing[descriptor]:
                done += 1
                missing[descriptor] = answer_size
                if goes_on:
                    connection.send(request)
                else:
                    open_count -= 1
    seconds = time.perf_counter() - began
    poll.close()
    return done, seconds


def fixed_rate(session: Session, name: str) -> None:
    """Send 5,000 requests a second whatever the answers do; note p50 and p99 from the moment each was due."""
    session.client.create_topic(name)
    request = produce_frame(name)
    answer_size = produce_answer_size(session.client, request)
    connections = [connect(session.address) for _ in range(RATE_CONNECTIONS)]
    try:
        warmed = len(beat(connections, request, answer_size, RATE_WARM_UP_S))
        before = session.cpu_seconds()
        latencies = sorted(beat(connections, request, answer_size, max(RATE_S * session.scale, 0.2)))
        used = session.cpu_seconds() - before
    finally:
        for connection in connections:
            connection.close()
    session.check_held(name, 1, 1 + warmed + len(latencies))
    session.note(f"{name}-p50", latencies[len(latencies) // 2] * 1e3)
    session.note(f"{name}-p99", latencies[len(latencies) * 99 // 100] * 1e3)
    session.note_cpu(f"{name}-p50", used, len(latencies))
    session.client.delete_topic(name)


def beat(connections: Sequence[socket.socket], request: bytes, answer_size: int, for_s: float) -> list[float]:
    """Send at the rate, on one connection after the other; return seconds from when each request was due to its answer.

    It never sleeps between requests, since the kernel's timers are coarser than what is measured.
    """
    poll = select.epoll()
    due: dict[int, deque[float]] = {}
    received: dict[int, int] = {}
    by_descriptor = {connection.fileno(): connection for connection in connections}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
        due[descriptor], received[descriptor] = deque(), 0
    order = list(by_descriptor)
    latencies: list[float] = []
    count = int(RATE_PER_S * for_s)
    began = time.perf_counter()
    sent = 0
    while len(latencies) < count:
        while sent < count and time.perf_counter() >= (next_s := began + sent / RATE_PER_S):
            descriptor = order[sent % len(order)]
            due[descriptor].append(next_s)
            by_descriptor[descriptor].sendall(request)
            sent += 1
        for descriptor, _ in poll.poll(0):
            got = len(by_descriptor[descriptor].recv(_ANSWER_BYTES))
            if not got:
                raise ConnectionError("closed under load")
            now = time.perf_counter()
            received[descriptor] += got
            while received[descriptor] >= answer_size:
                received[descriptor] -= answer_size
                latencies.append(now - due[descriptor].popleft())
    poll.close()
    return latencies
