"""PERF-01 and PERF-02: connection limits, floods of connections, idle and half-finished connections."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.groups import Member, find_coordinator, subscription
from tests.harness.raw import RawClient, eventually, fetch_row, fetch_values

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: close with a reset instead of a farewell."""
CYCLES = 2_000
AT_ONCE = 500
ANSWERED_WITHIN_S = 5.0
MAX_LATENCY_S = 1.0
FETCH_WAIT_MS = 500
"""A reset that comes together with a request is seen when the request is answered."""
MAX_IDLE_MS = 3_000
CLOSED_BETWEEN_S = (2.9, 8.0)
KEPT_OPEN_S = 9.0


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def settled(broker: BrokerProcess, expected: int) -> bool:
    """Wait until the broker has about as many descriptors as before."""
    return eventually(lambda: abs(descriptors(broker) - expected) <= 10, what="descriptors")


def reset(client: RawClient) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()


def works(client: RawClient) -> bool:
    return client.request("api_versions", 0).error_code == 0


def opened(broker: BrokerProcess) -> RawClient | None:
    """Connect and ask; None if the broker has closed the connection instead."""
    client = RawClient(address(broker))
    try:
        if works(client):
            return client
    except OSError:
        pass
    client.close()
    return None


@contextmanager
def running(body: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run something beside the test; what it raises fails the test at the end."""
    has_to_stop, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            body(has_to_stop)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        has_to_stop.set()
        thread.join()
    assert not failures, failures


def test_perf_01_the_limit_of_an_address_holds_and_its_places_come_free(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"max.connections.per.ip": "5"})
    with RawClient(address(broker)) as client:
        client.create_topic("t")
    before = descriptors(broker)
    for turn in range(20):
        # Whoever comes right after others have gone may be early: their places are free once the broker has seen it.
        clients = [eventually(lambda: opened(broker), what="a free place") for _ in range(5)]
        with RawClient(address(broker)) as sixth:
            sixth.expect_close()
        assert all(map(works, clients))
        for client in clients:
            if turn % 4 >= 2:
                values = fetch_values(
                    [{"topic": "t", "partitions": [fetch_row(0, 0)]}], version=11, max_wait_ms=FETCH_WAIT_MS
                )
                client.send("fetch", 11, **values)
            (reset if turn % 2 else RawClient.close)(client)
    assert settled(broker, before)


def test_perf_01_floods_of_connections_leave_nothing_and_disturb_nobody(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient(address(broker)) as client:
        client.create_topic("t")
    latencies_s = [0.0]

    def produce(has_to_stop: threading.Event) -> None:
        with RawClient(address(broker)) as producer:
            while not has_to_stop.is_set():
                began_s = time.monotonic()
                assert producer.produce("t", batches.simple("v")).error_code == 0
                latencies_s.append(time.monotonic() - began_s)

    before = descriptors(broker)
    with running(produce):
        for _ in range(CYCLES):
            socket.create_connection(address(broker), timeout=ANSWERED_WITHIN_S).close()
        with ExitStack() as stack:
            began_s = time.monotonic()
            clients = [stack.enter_context(RawClient(address(broker))) for _ in range(AT_ONCE)]
            sent = [client.send("api_versions", 0) for client in clients]
            answered = [client.receive("api_versions", 0)[0] for client in clients]
            took_s = time.monotonic() - began_s
            assert answered == sent
    assert took_s <= ANSWERED_WITHIN_S
    assert len(latencies_s) > 1 and max(latencies_s) < MAX_LATENCY_S
    assert settled(broker, before)


def test_perf_02_idle_and_half_finished_connections_are_closed_and_no_others(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"connections.max.idle.ms": str(MAX_IDLE_MS)})
    began_s = time.monotonic()

    def is_over() -> bool:
        return time.monotonic() - began_s > KEPT_OPEN_S

    def fetch(has_to_stop: threading.Event) -> None:
        values = fetch_values([{"topic": "t", "partitions": [fetch_row(0, 0)]}], version=11, max_wait_ms=2_000)
        with RawClient(address(broker)) as fetching:
            while not is_over():
                assert fetching.request("fetch", 11, **values).error_code == 0

    def ask(has_to_stop: threading.Event) -> None:
        with RawClient(address(broker)) as asking:
            while not is_over():
                assert works(asking)
                has_to_stop.wait(1 if not has_to_stop.is_set() else 0.2)

    def beat(has_to_stop: threading.Event) -> None:
        with RawClient(address(broker)) as connection:
            find_coordinator(connection, "g")
            member = Member(connection, "g", (("range", subscription("t")),))
            member.join()
            member.sync()
            while not is_over():
                assert member.heartbeat() == 0
                has_to_stop.wait(1 if not has_to_stop.is_set() else 0.2)

    with RawClient(address(broker)) as client:
        client.create_topic("t")
    with running(fetch), running(ask), running(beat), ExitStack() as stack:
        idle, short, cut = (stack.enter_context(RawClient(address(broker))) for _ in range(3))
        began_idle_s = time.monotonic()
        assert works(idle)
        short.socket.sendall(b"\x00\x00")
        cut.socket.sendall(struct.pack(">i", 100) + bytes(10))
        for client in (idle, short, cut):
            client.expect_close(within_s=CLOSED_BETWEEN_S[1])
            assert CLOSED_BETWEEN_S[0] <= time.monotonic() - began_idle_s <= CLOSED_BETWEEN_S[1]
