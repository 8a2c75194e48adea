"""Listeners: where they are, how many they let in, when they send away."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.net.connection import Connection
from broker.net.listener import Listeners
from broker.quota.connections import ConnectionRates
from broker.quota.rates import Windows
from broker.runtime.scheduler import Scheduler
from broker.runtime.tasks import start_inline
from config.views import ConnectionLimits, ListenerConfig, ListenerLimits, NetworkConfig


def listener(name: str = "PLAINTEXT", host: str = "127.0.0.1", port: int = 0, advertised: int = 0) -> ListenerConfig:
    return ListenerConfig(name, "PLAINTEXT", host, port, "broker.example", advertised)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Echo:
    """Answers each frame with itself; `wait` does not answer before the gate opens."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.through: list[str] = []

    def execute(self, data: memoryview, connection: Connection) -> tuple[bool, Any]:
        self.through.append(connection.listener.name)
        return start_inline(self._answer(bytes(data)))

    async def _answer(self, data: bytes) -> list[Any]:
        if data == b"wait":
            await self.gate
        return [frame(data)]


class NoPages:
    """Nothing here is read from files."""

    max_ahead_bytes = 0

    async def load(self, region: Any, position: int, size: int, ahead_end: int) -> None:
        raise AssertionError("no file was expected")

    def read_ahead(self, region: Any, position: int, end: int) -> None:
        raise AssertionError("no file was expected")


class Rig:
    """Listeners that the test opens with a configuration of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.scheduler = Scheduler()
        self.echo = Echo()
        self.peers: list[socket.socket] = []
        self.listeners: Listeners
        self.now_ms = 0
        self.first_reserved_fd = sys.maxsize

    def open(self, *listeners_wanted: ListenerConfig, **network: Any) -> tuple[ListenerConfig, ...]:
        bound = self.bind(*listeners_wanted, **network)
        self.listeners.open(self.echo)
        return bound

    def bind(self, *listeners_wanted: ListenerConfig, **network: Any) -> tuple[ListenerConfig, ...]:
        config = NetworkConfig(listeners=listeners_wanted or (listener(),), **network)
        self.rates = ConnectionRates(
            Windows(), lambda: self.now_ms, [one.name for one in config.listeners], config.inter_broker_listener_name
        )
        self.listeners = Listeners(
            config, self.scheduler, NoPages(), rates=self.rates, first_reserved_fd=self.first_reserved_fd
        )
        return self.listeners.bind()

    async def connect(self, bound: ListenerConfig, host: str = "127.0.0.1") -> socket.socket:
        peer = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        peer.setblocking(False)
        self.peers.append(peer)
        await self.loop.sock_connect(peer, (host, bound.port))
        return peer

    async def ask(self, peer: socket.socket, payload: bytes) -> bytes:
        """Give the answer, or nothing where the peer was sent away."""
        try:
            await self.loop.sock_sendall(peer, frame(payload))
            return await self.receive(peer)
        except (BrokenPipeError, ConnectionResetError):
            return b""

    async def receive(self, peer: socket.socket) -> bytes:
        return await asyncio.wait_for(self.loop.sock_recv(peer, 4096), 5)

    async def is_closed(self, peer: socket.socket) -> bool:
        try:
            return await self.receive(peer) == b""
        except ConnectionResetError:
            return True

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - what is waited for is a state, not an event
                await asyncio.sleep(0)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    for peer in rig.peers:
        peer.close()
    rig.listeners.stop_accepting()
    rig.echo.gate.cancel()
    await rig.listeners.drain(1000)
    await rig.scheduler.close()


async def test_port_0_becomes_the_bound_port_also_where_it_is_advertised(rig: Rig) -> None:
    first, second = rig.open(listener("A"), listener("B", advertised=1234))
    assert first.port == first.advertised_port > 0
    assert second.port > 0 and second.advertised_port == 1234
    assert (first.advertised_host, first.name) == ("broker.example", "A")


async def test_each_connection_knows_the_listener_it_came_through(rig: Rig) -> None:
    first, second = rig.open(listener("A"), listener("B"))
    for bound in (second, first):
        assert await rig.ask(await rig.connect(bound), b"hello") == frame(b"hello")
    assert rig.echo.through == ["B", "A"]


async def test_controller_listeners_have_a_dispatcher_of_their_own(rig: Rig) -> None:
    bound = rig.bind(listener("A"), controller_listeners=(listener("C"),))
    assert [one.name for one in bound] == ["A"]
    (controllers,) = rig.listeners.controller_listeners
    assert controllers.port
    theirs = Echo()
    rig.listeners.open(rig.echo, theirs)
    for one in (*bound, controllers):
        assert await rig.ask(await rig.connect(one), b"hello") == frame(b"hello")
    assert (rig.echo.through, theirs.through) == (["A"], ["C"])


async def test_nobody_is_served_between_bind_and_open(rig: Rig) -> None:
    """A port is taken early, so that a second broker fails before a long recovery; clients wait or are refused."""
    (bound,) = rig.bind()
    with pytest.raises(ConnectionRefusedError):
        await rig.connect(bound)
    rig.listeners.open(rig.echo)
    assert await rig.ask(await rig.connect(bound), b"hello") == frame(b"hello")


async def test_a_port_that_is_taken_is_named(rig: Rig) -> None:
    (bound,) = rig.open()
    config = NetworkConfig(listeners=(listener("B", port=bound.port),))
    again = Listeners(config, rig.scheduler, NoPages(), rates=rig.rates)
    with pytest.raises(OSError, match=rf"listeners: B cannot bind 127\.0\.0\.1:{bound.port}"):
        again.bind()


async def test_a_port_that_somebody_else_has_bound_too_and_listens_on_first_is_named(rig: Rig) -> None:
    (bound,) = rig.bind()
    config = NetworkConfig(listeners=(listener("B", port=bound.port),))
    again = Listeners(config, rig.scheduler, NoPages(), rates=rig.rates)
    again.bind()
    rig.listeners.open(rig.echo)
    with pytest.raises(
        OSError, match=rf"listeners: B cannot listen on 127\.0\.0\.1:{bound.port}: Address already in use"
    ):
        again.open(rig.echo)
    again.stop_accepting()


async def test_connections_above_the_limit_are_sent_away_and_room_is_given_again(rig: Rig) -> None:
    (bound,) = rig.open(limits=ConnectionLimits(max_connections=2))
    peers = [await rig.connect(bound) for _ in range(2)]
    for peer in peers:
        await rig.ask(peer, b"hello")
    assert await rig.is_closed(await rig.connect(bound))
    assert (rig.listeners.connection_count, rig.listeners.accepted_count) == (2, 2)
    peers[0].close()
    await rig.until(lambda: rig.listeners.connection_count == 1)
    assert await rig.ask(await rig.connect(bound), b"hello") == frame(b"hello")
    assert rig.listeners.accepted_count == 3


async def test_new_limits_hold_for_connections_to_come(rig: Rig) -> None:
    (bound,) = rig.open(limits=ConnectionLimits(max_connections=1))
    first = await rig.connect(bound)
    await rig.ask(first, b"hello")
    rig.listeners.limit(ConnectionLimits(max_connections=2))
    assert await rig.ask(await rig.connect(bound), b"hello") == frame(b"hello")
    rig.listeners.limit(ConnectionLimits(max_connections=9, max_connections_per_ip_overrides=(("127.0.0.1", 1),)))
    assert await rig.is_closed(await rig.connect(bound))
    assert await rig.ask(first, b"hello") == frame(b"hello")


async def test_the_limit_per_address_has_exceptions(rig: Rig) -> None:
    (bound,) = rig.open(
        limits=ConnectionLimits(max_connections_per_ip=1, max_connections_per_ip_overrides=(("127.0.0.2", 2),))
    )
    await rig.ask(await rig.connect(bound), b"hello")
    assert await rig.is_closed(await rig.connect(bound))
    for expected in (True, True, False):
        peer = socket.socket()
        peer.setblocking(False)
        peer.bind(("127.0.0.2", 0))
        rig.peers.append(peer)
        await rig.loop.sock_connect(peer, ("127.0.0.1", bound.port))
        if expected:
            assert await rig.ask(peer, b"hello") == frame(b"hello")
        else:
            assert await rig.is_closed(peer)


async def test_the_last_descriptors_are_not_given_to_connections(rig: Rig) -> None:
    highest = max(map(int, os.listdir("/proc/self/fd")))
    rig.first_reserved_fd = highest + 10
    (bound,) = rig.open()
    peers = [await rig.connect(bound)]
    assert await rig.ask(peers[0], b"first") == frame(b"first")
    for _ in range(highest + 10):  # lower numbers that are free go first
        peers.append(await rig.connect(bound))
        if await rig.ask(peers[-1], b"next") != frame(b"next"):
            break
    else:
        pytest.fail("every connection was let in")
    assert rig.listeners.connection_count == len(peers) - 1
    assert await rig.ask(peers[0], b"again") == frame(b"again")
    for peer in peers[1:]:
        peer.close()
    await rig.until(lambda: rig.listeners.connection_count == 1)
    assert await rig.ask(await rig.connect(bound), b"room") == frame(b"room")


async def test_idle_connections_are_closed_but_not_those_that_wait_for_an_answer(rig: Rig) -> None:
    (bound,) = rig.open(connections_max_idle_ms=30)
    idle, waiting = await rig.connect(bound), await rig.connect(bound)
    await rig.loop.sock_sendall(waiting, frame(b"wait"))
    assert await rig.is_closed(idle)
    assert rig.listeners.connection_count == 1
    rig.echo.gate.set_result(None)
    assert await rig.receive(waiting) == frame(b"wait")
    assert await rig.is_closed(waiting)


async def test_a_negative_idle_time_closes_nobody(rig: Rig) -> None:
    (bound,) = rig.open(connections_max_idle_ms=-1)
    peer = await rig.connect(bound)
    assert await rig.ask(peer, b"hello") == frame(b"hello")
    assert not rig.scheduler._jobs._tasks


async def test_a_drain_answers_requests_in_progress_and_takes_no_further_ones(rig: Rig) -> None:
    (bound,) = rig.open()
    idle, busy = await rig.connect(bound), await rig.connect(bound)
    await rig.ask(idle, b"hello")
    await rig.loop.sock_sendall(busy, frame(b"wait") + frame(b"never"))
    await rig.until(lambda: len(rig.echo.through) == 2)
    rig.listeners.stop_accepting()
    draining = asyncio.ensure_future(rig.listeners.drain(60_000))
    assert await rig.is_closed(idle)
    with pytest.raises(ConnectionRefusedError):
        await rig.connect(bound)
    assert not draining.done()
    rig.echo.gate.set_result(None)
    assert await rig.receive(busy) == frame(b"wait")
    assert await rig.is_closed(busy)
    await asyncio.wait_for(draining, 5)
    assert rig.listeners.connection_count == 0
    assert len(rig.echo.through) == 2


async def test_a_drain_ends_at_its_deadline(rig: Rig) -> None:
    (bound,) = rig.open()
    peer = await rig.connect(bound)
    await rig.loop.sock_sendall(peer, frame(b"wait"))
    await rig.until(lambda: len(rig.echo.through) == 1)
    rig.listeners.stop_accepting()
    await asyncio.wait_for(rig.listeners.drain(20), 5)
    assert rig.echo.gate.cancelled(), "the wait was given up with its connection"
    assert await rig.is_closed(peer)


async def test_refusals_name_the_limit_and_a_flood_of_them_is_one_line(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    (bound,) = rig.open(listener(), limits=ConnectionLimits(max_connections=1))
    await rig.ask(await rig.connect(bound), b"first")
    with caplog.at_level("WARNING"):
        for _ in range(5):
            assert await rig.is_closed(await rig.connect(bound))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "limit=max.connections=1 refused=1" in line


async def test_who_comes_too_fast_to_a_listener_waits_and_so_do_those_behind(rig: Rig) -> None:
    first, second = rig.open(
        listener("A"),
        listener("B"),
        limits=ConnectionLimits(of_listeners=(("a", ListenerLimits(max_connection_creation_rate=100)),)),
    )
    rig.rates.limit(ConnectionLimits(of_listeners=(("a", ListenerLimits(max_connection_creation_rate=1)),)))
    for _ in range(10):
        assert await rig.ask(await rig.connect(first), b"in time") == frame(b"in time")
    began = rig.loop.time()
    late, later = await rig.connect(first), await rig.connect(first)
    asked = asyncio.gather(rig.ask(late, b"late"), rig.ask(later, b"later"))
    assert await rig.ask(await rig.connect(second), b"other") == frame(b"other")
    assert not asked.done()
    rig.now_ms += 60_000
    assert await asked == [frame(b"late"), frame(b"later")]
    assert rig.loop.time() - began >= 0.99


async def test_an_address_that_comes_too_fast_is_kept_for_its_throttle_time_and_sent_away(rig: Rig) -> None:
    (bound,) = rig.open()
    rig.rates.follow({(("ip", "127.0.0.1"),): {"connection_creation_rate": 10.0}})
    for _ in range(100):
        peer = await rig.connect(bound)
        assert await rig.ask(peer, b"hello") == frame(b"hello")
    began = rig.loop.time()
    assert await rig.is_closed(await rig.connect(bound))
    assert rig.loop.time() - began >= 0.09
    assert rig.listeners.accepted_count == 100


async def test_a_stop_lets_go_of_connections_that_were_not_let_in(rig: Rig) -> None:
    (bound,) = rig.open(limits=ConnectionLimits(max_connection_creation_rate=1))
    for _ in range(10):
        await rig.ask(await rig.connect(bound), b"hello")
    peer = await rig.connect(bound)
    await rig.until(lambda: bool(rig.rates.throttled_ms))
    rig.listeners.stop_accepting()
    assert await rig.is_closed(peer)


async def test_a_listener_has_a_limit_of_its_own_and_the_one_between_brokers_always_room(rig: Rig) -> None:
    inner, outer = rig.open(
        listener("PLAINTEXT"),
        listener("OUTER"),
        limits=ConnectionLimits(
            max_connections=3,
            of_listeners=(("outer", ListenerLimits(max_connections=2)), ("plaintext", ListenerLimits())),
        ),
    )
    held = [await rig.connect(outer) for _ in range(2)]
    for peer in held:
        assert await rig.ask(peer, b"hello") == frame(b"hello")
    assert await rig.is_closed(await rig.connect(outer))
    for _ in range(3):
        assert await rig.ask(await rig.connect(inner), b"broker") == frame(b"broker")
    held[0].close()
    await rig.until(lambda: rig.listeners.connection_count == 4)
    assert await rig.is_closed(await rig.connect(outer)), "three are all that the broker has for others"
