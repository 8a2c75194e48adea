"""A connection over a socket pair: framing, order, parking, backpressure, regions, closing."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import tempfile
import termios
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.net.connection import (
    FIRST_ALLOCATION_BYTES,
    MAX_REQUESTS_PER_TURN,
    OWN_BUFFER_ABOVE_BYTES,
    CloseConnection,
    Connection,
    Shared,
)
from broker.runtime.tasks import TaskOwner, start_inline
from config.views import ListenerConfig

LISTENER = ListenerConfig("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)
MAX_FRAME_BYTES = 3 * 1024 * 1024


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Echo:
    """Answers each frame with a frame of the same bytes; some first letters do something else."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.gates: dict[bytes, asyncio.Future[None]] = {}
        self.regions: list[Region] = []
        self.throttle_ms = 3_600_000
        self.now_ns = 0
        # By how much each request moves the clock, and how many were seen at the end of the turn of the first one.
        self.request_ns = 0
        self.seen_in_turn: list[int] = []
        self.parked: list[Parked] = []

    def monotonic_ns(self) -> int:
        return self.now_ns

    def execute(self, data: memoryview, connection: Connection) -> tuple[bool, Any]:
        connection.context.outlives_peer = bytes(data).startswith(b"write")
        if bytes(data).startswith(b"park"):
            self.seen.append(bytes(data))
            self.parked.append(Parked())
            return False, self.parked[-1]
        return start_inline(self._answer(bytes(data), connection))

    async def _answer(self, data: bytes, connection: Connection) -> list[Any]:
        self.seen.append(data)
        self.now_ns += self.request_ns
        if len(self.seen) == 1:
            asyncio.get_running_loop().call_soon(lambda: self.seen_in_turn.append(len(self.seen)))
        if data.startswith((b"wait", b"write")):
            gate = self.gates[data] = asyncio.get_running_loop().create_future()
            await gate
        if data.endswith(b"mute"):
            connection.mute(self.throttle_ms)
        if data.startswith(b"close"):
            raise CloseConnection("asked to")
        if data.startswith(b"silent"):
            return []
        if data.startswith(b"file"):
            region = Region(int(data[4:]))
            self.regions.append(region)
            return [struct.pack(">i", len(region) + 4), b"head", region]
        return [frame(data)]


class Parked:
    """A request that waits without a task."""

    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Region:
    """A file region of known bytes."""

    def __init__(self, size: int, missing: int = 0) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self.content = bytes(i % 251 for i in range(size))
        self._file.write(self.content[: size - missing])
        self._file.flush()
        self.fd = self._file.fileno()
        self.position = 0
        self.released = 0

    def __len__(self) -> int:
        return len(self.content)

    def release(self) -> None:
        self.released += 1


class FakePages:
    """Writes down what should be loaded and prefetched."""

    def __init__(self, max_ahead_bytes: int = 4 << 20) -> None:
        self.max_ahead_bytes = max_ahead_bytes
        self.loaded: list[tuple[int, int]] = []
        self.hints: list[tuple[int, int]] = []
        self.loading: asyncio.Future[None] | None = None

    async def load(self, region: Region, position: int, size: int, ahead_end: int) -> None:
        self.loaded.append((position, size))
        if ahead_end:
            self.hints.append((position, ahead_end))
        if self.loading is not None:
            await self.loading

    def read_ahead(self, region: Region, position: int, end: int) -> None:
        self.hints.append((position, end))


class Peer:
    """The client's side and everything behind the broker's."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.ours.setblocking(False)
        self.echo = Echo()
        self.tasks = TaskOwner("test")
        self.pages = FakePages()
        self.closed: list[Connection] = []
        self.shared = Shared(self.echo, self.tasks, max_frame_bytes, self.pages, self.closed.append)
        self.connection = Connection(self.shared, theirs, LISTENER, "127.0.0.1", 1)
        self.connection.start()
        self.loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.ours, data)

    async def receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            piece = await asyncio.wait_for(self.loop.sock_recv(self.ours, size - len(received)), 5)
            assert piece, f"closed after {received[:50]!r}"
            received += piece
        return received

    async def ended(self) -> bool:
        return await asyncio.wait_for(self.loop.sock_recv(self.ours, 1), 5) == b""

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - what is waited for is a state, not an event
                await asyncio.sleep(0)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    yield peer
    peer.connection.close()
    await peer.tasks.close()
    peer.ours.close()


async def test_a_frame_split_at_every_byte_is_one_request(peer: Peer) -> None:
    for byte in frame(b"hello"):
        await peer.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await peer.receive(9) == frame(b"hello")
    assert peer.echo.seen == [b"hello"]


async def test_many_frames_in_one_write_are_answered_in_order(peer: Peer) -> None:
    names = [b"n%05d" % i for i in range(3 * MAX_REQUESTS_PER_TURN + 7)]
    await peer.send(b"".join(map(frame, names)))
    assert await peer.receive(10 * len(names)) == b"".join(map(frame, names))


@pytest.mark.parametrize(("request_ns", "in_turn"), [(1_000, 200), (3_000_000, 16)])
async def test_slow_requests_in_one_write_leave_turns_to_others(peer: Peer, request_ns: int, in_turn: int) -> None:
    peer.echo.request_ns = request_ns
    frames = [frame(b"%03d" % number) for number in range(200)]
    await peer.send(b"".join(frames))
    assert await peer.receive(7 * 200) == b"".join(frames)
    assert peer.echo.seen_in_turn == [in_turn]


async def test_a_parked_request_holds_back_what_follows_it(peer: Peer) -> None:
    await peer.send(frame(b"one") + frame(b"wait") + frame(b"three"))
    assert await peer.receive(7) == frame(b"one")
    await peer.until(lambda: b"wait" in peer.echo.gates)
    await peer.send(frame(b"four"))
    await asyncio.sleep(0)
    assert peer.echo.seen == [b"one", b"wait"]
    peer.echo.gates[b"wait"].set_result(None)
    assert await peer.receive(25) == frame(b"wait") + frame(b"three") + frame(b"four")


async def test_a_request_that_waits_without_a_task_is_answered_in_its_turn(peer: Peer) -> None:
    await peer.send(frame(b"park") + frame(b"next"))
    await peer.until(lambda: bool(peer.echo.parked))
    assert peer.echo.seen == [b"park"] and peer.connection.is_busy()
    peer.connection.answer_parked([frame(b"park")])
    assert await peer.receive(16) == frame(b"park") + frame(b"next")
    assert not peer.connection.is_busy()


async def test_a_request_that_waits_without_a_task_ends_with_its_peer_or_its_failure(peer: Peer) -> None:
    await peer.send(frame(b"park"))
    await peer.until(lambda: bool(peer.echo.parked))
    peer.connection.fail_parked(CloseConnection("it cannot be answered"))
    assert peer.closed == [peer.connection]
    other = Peer()
    await other.send(frame(b"park"))
    await other.until(lambda: bool(other.echo.parked))
    other.ours.close()
    await other.until(lambda: other.closed == [other.connection])
    assert other.echo.parked[0].is_cancelled and not peer.echo.parked[0].is_cancelled


async def test_a_peer_that_goes_while_its_request_is_parked_ends_the_wait(peer: Peer) -> None:
    await peer.send(frame(b"wait"))
    await peer.until(lambda: b"wait" in peer.echo.gates)
    peer.ours.shutdown(socket.SHUT_WR)
    await peer.until(lambda: peer.echo.gates[b"wait"].cancelled())
    assert peer.closed == [peer.connection]


async def test_what_a_peer_sent_before_it_went_is_executed(peer: Peer) -> None:
    names = [b"silent%05d" % i for i in range(3 * MAX_REQUESTS_PER_TURN + 7)]
    await peer.send(b"".join(map(frame, names)) + frame(b"silent torn")[:-1])
    peer.ours.close()
    await peer.until(lambda: peer.connection.closed)
    assert peer.echo.seen == names


async def test_a_request_in_the_middle_of_a_change_outlives_its_peer(peer: Peer) -> None:
    await peer.send(frame(b"write") + frame(b"silent") + frame(b"write more") + frame(b"silent too"))
    await peer.until(lambda: b"write" in peer.echo.gates)
    peer.ours.close()
    await asyncio.sleep(0.01)
    assert peer.echo.seen == [b"write"]
    peer.echo.gates[b"write"].set_result(None)
    await peer.until(lambda: b"write more" in peer.echo.gates)
    peer.connection.close()
    peer.echo.gates[b"write more"].set_result(None)
    await peer.until(lambda: not peer.connection.is_busy())
    assert peer.echo.seen == [b"write", b"silent", b"write more"]
    assert not peer.echo.gates[b"write more"].cancelled()


async def test_a_request_that_would_only_wait_is_given_up_when_the_peer_has_gone(peer: Peer) -> None:
    await peer.send(frame(b"write") + frame(b"wait") + frame(b"never"))
    await peer.until(lambda: b"write" in peer.echo.gates)
    peer.ours.shutdown(socket.SHUT_WR)
    await asyncio.sleep(0.01)
    peer.echo.gates[b"write"].set_result(None)
    await peer.until(lambda: b"wait" in peer.echo.gates and peer.echo.gates[b"wait"].cancelled())
    assert peer.connection.closed
    assert peer.echo.seen == [b"write", b"wait"]


async def test_a_large_frame_arrives_whole_and_the_next_one_after_it(peer: Peer) -> None:
    large = os.urandom(MAX_FRAME_BYTES)
    assert len(large) > OWN_BUFFER_ABOVE_BYTES
    sending = asyncio.ensure_future(peer.send(frame(large) + frame(b"next")))
    assert await peer.receive(4 + len(large) + 8) == frame(large) + frame(b"next")
    await sending


@pytest.mark.parametrize("size", [-1, MAX_FRAME_BYTES + 1, 0x16030100, 0x47455420])
async def test_an_illegal_size_closes_at_once_and_without_a_word(peer: Peer, size: int) -> None:
    await peer.send(struct.pack(">i", size))
    assert await peer.ended()
    assert peer.echo.seen == []


async def test_answers_given_before_a_close_still_arrive(peer: Peer) -> None:
    await peer.send(frame(b"one") + frame(b"close") + frame(b"never"))
    assert await peer.receive(7) == frame(b"one")
    assert await peer.ended()
    assert peer.echo.seen == [b"one", b"close"]


async def test_answers_given_before_an_illegal_size_still_arrive(peer: Peer) -> None:
    await peer.send(frame(b"one") + struct.pack(">i", -1))
    assert await peer.receive(7) == frame(b"one")
    assert await peer.ended()


async def test_a_request_without_answer_is_followed_by_the_next(peer: Peer) -> None:
    await peer.send(frame(b"silent") + frame(b"two"))
    assert await peer.receive(7) == frame(b"two")


async def test_regions_leave_whole_between_heads_and_are_released_once(peer: Peer) -> None:
    size = 5 * 1024 * 1024
    await peer.send(frame(b"file%d" % size) + frame(b"after"))
    received = await peer.receive(4 + 4 + size + 9)
    await peer.until(lambda: bool(peer.echo.regions) and peer.echo.regions[0].released == 1)
    region = peer.echo.regions[0]
    assert received == struct.pack(">i", size + 4) + b"head" + region.content + frame(b"after")
    assert region.released == 1


async def test_nothing_more_is_executed_while_the_peer_does_not_read(peer: Peer) -> None:
    size = 8 * 1024 * 1024
    await peer.send(frame(b"file%d" % size) + frame(b"second"))
    await peer.until(lambda: bool(peer.echo.regions))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(peer.echo.seen) == 1
    assert peer.connection.is_busy()
    await peer.receive(8 + size)
    assert await peer.receive(10) == frame(b"second")


async def test_a_file_shorter_than_promised_closes_the_connection(peer: Peer) -> None:
    region = Region(1000, missing=10)

    async def answer(data: bytes, connection: Connection) -> list[Any]:
        return [struct.pack(">i", 1000), region]

    peer.echo._answer = answer  # type: ignore[method-assign]
    await peer.send(frame(b"x"))
    assert await peer.receive(4 + 990) == struct.pack(">i", 1000) + region.content[:990]
    assert await peer.ended()
    assert region.released == 1


async def test_stop_answers_the_request_in_progress_and_then_closes(peer: Peer) -> None:
    await peer.send(frame(b"wait") + frame(b"later"))
    await peer.until(lambda: b"wait" in peer.echo.gates)
    peer.connection.stop()
    assert not peer.connection.closed
    peer.echo.gates[b"wait"].set_result(None)
    assert await peer.receive(8) == frame(b"wait")
    assert await peer.ended()
    assert peer.echo.seen == [b"wait"]


async def test_a_cold_region_leaves_while_the_request_behind_it_is_parked(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a consumer would wait for data that are there as long as for those that are not."""
    monkeypatch.setattr("broker.net.outbox.is_resident", lambda fd, position, size: False)
    size = 3 * 1024 * 1024
    await peer.send(frame(b"file%d" % size) + frame(b"wait") + frame(b"after"))
    received = await peer.receive(8 + size)
    assert received[8:] == peer.echo.regions[0].content
    assert [count for _, count in peer.pages.loaded] == [1024 * 1024] * 3
    assert not peer.echo.gates[b"wait"].done()
    peer.echo.gates[b"wait"].set_result(None)
    assert await peer.receive(17) == frame(b"wait") + frame(b"after")


async def test_closing_gives_up_the_load_of_a_cold_region(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.net.outbox.is_resident", lambda fd, position, size: False)
    loading = peer.pages.loading = peer.loop.create_future()
    await peer.send(frame(b"file100"))
    await peer.until(lambda: bool(peer.pages.loaded))
    peer.connection.close()
    await peer.until(loading.cancelled)
    assert peer.echo.regions[0].released == 1


async def test_large_frames_share_a_few_buffers_and_never_each_other_s_bytes(peer: Peer) -> None:
    sizes = [OWN_BUFFER_ABOVE_BYTES + 1, 900_000, 200_000, 1 << 20, (1 << 20) + 1, OWN_BUFFER_ABOVE_BYTES + 1, 900_001]
    for size in sizes:
        sent = frame(os.urandom(min(size, MAX_FRAME_BYTES)))
        sending = asyncio.ensure_future(peer.send(sent + frame(b"next")))
        assert await peer.receive(len(sent) + 8) == sent + frame(b"next")
        await sending
    assert [len(spare) for spare in peer.shared.spares] == [FIRST_ALLOCATION_BYTES]


@pytest.mark.parametrize("size", range(OWN_BUFFER_ABOVE_BYTES - 6, OWN_BUFFER_ABOVE_BYTES + 2))
async def test_a_frame_around_the_limit_of_the_shared_buffer_may_arrive_without_its_last_byte(
    peer: Peer, size: int
) -> None:
    whole = frame(b"x" * size)
    sending = asyncio.ensure_future(peer.send(whole[:-1]))
    await peer.until(lambda: sending.done() and not pending_bytes(peer))
    assert peer.echo.seen == []
    await peer.send(whole[-1:])
    assert await peer.receive(len(whole)) == whole


def pending_bytes(peer: Peer) -> int:
    """Bytes that were sent and not received yet by the broker's side."""
    return int.from_bytes(fcntl.ioctl(peer.ours, termios.TIOCOUTQ, bytes(4)), "little")


async def test_a_muted_connection_is_answered_at_once_and_executes_nothing_more(peer: Peer) -> None:
    await peer.send(frame(b"one") + frame(b"mute") + frame(b"three"))
    assert await peer.receive(15) == frame(b"one") + frame(b"mute")
    await peer.send(frame(b"four"))
    await asyncio.sleep(0.01)
    assert peer.echo.seen == [b"one", b"mute"]
    assert peer.connection.is_busy(), "it is not idle"


@pytest.mark.parametrize("first", [b"mute", b"wait mute"])
async def test_a_mute_ends_and_what_came_meanwhile_is_executed(peer: Peer, first: bytes) -> None:
    peer.echo.throttle_ms = 20
    began = peer.loop.time()
    await peer.send(frame(first) + frame(b"two"))
    if first.startswith(b"wait"):
        await peer.until(lambda: first in peer.echo.gates)
        peer.echo.gates[first].set_result(None)
    await peer.receive(4 + len(first))
    await peer.send(frame(b"three"))
    assert await peer.receive(7 + 9) == frame(b"two") + frame(b"three")
    assert peer.loop.time() - began >= 0.019
    assert not peer.connection.is_busy()


async def test_a_frame_that_does_not_fit_waits_for_the_end_of_a_mute_too(peer: Peer) -> None:
    peer.echo.throttle_ms = 20
    large = b"x" * (2 * OWN_BUFFER_ABOVE_BYTES)
    sending = asyncio.ensure_future(peer.send(frame(b"mute") + frame(large)))
    assert await peer.receive(8) == frame(b"mute")
    assert await peer.receive(4 + len(large)) == frame(large)
    await sending


async def test_a_peer_that_goes_while_it_is_muted_is_let_go(peer: Peer) -> None:
    await peer.send(frame(b"write mute"))
    await peer.until(lambda: b"write mute" in peer.echo.gates)
    peer.echo.gates[b"write mute"].set_result(None)
    await peer.receive(14)
    peer.ours.shutdown(socket.SHUT_WR)
    await peer.until(lambda: peer.connection.closed)


async def test_what_a_muted_peer_sent_before_it_went_is_executed_in_its_time(peer: Peer) -> None:
    peer.echo.throttle_ms = 20
    await peer.send(frame(b"silent mute") + frame(b"silent two") + frame(b"torn")[:-1])
    peer.ours.close()
    await peer.until(lambda: peer.connection.closed)
    assert peer.echo.seen == [b"silent mute", b"silent two"]


async def test_a_stop_does_not_wait_for_the_end_of_a_mute(peer: Peer) -> None:
    await peer.send(frame(b"mute") + frame(b"two"))
    assert await peer.receive(8) == frame(b"mute")
    peer.connection.stop()
    assert await peer.ended()
    assert peer.echo.seen == [b"mute"]


async def test_a_connection_that_stops_is_not_muted_any_more(peer: Peer) -> None:
    await peer.send(frame(b"wait mute"))
    await peer.until(lambda: b"wait mute" in peer.echo.gates)
    peer.connection.stop()
    peer.echo.gates[b"wait mute"].set_result(None)
    assert await peer.receive(13) == frame(b"wait mute")
    assert await peer.ended()


async def test_the_answer_to_a_lone_frame_that_the_socket_takes_in_parts_arrives_whole(peer: Peer) -> None:
    peer.connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    large = frame(bytes(100_000))
    await peer.send(large)
    await peer.until(lambda: bool(peer.echo.seen))
    assert peer.connection.is_busy(), "the socket took all of it"
    await peer.send(frame(b"next"))
    assert await peer.receive(len(large) + 8) == large + frame(b"next")


async def test_a_lone_frame_is_held_to_a_limit_below_the_buffer() -> None:
    peer = Peer(max_frame_bytes=100)
    await peer.send(frame(bytes(100)))
    assert await peer.receive(104) == frame(bytes(100))
    await peer.send(frame(bytes(101)))
    assert await peer.ended()
    assert len(peer.echo.seen) == 1
    peer.ours.close()


async def test_lone_frames_without_answer_or_with_a_wait_are_followed_by_the_next(peer: Peer) -> None:
    for name in (b"silent", b"wait", b"plain"):
        await peer.send(frame(name))
        await peer.until(lambda name=name: name in peer.echo.seen)  # type: ignore[misc]
        if name in peer.echo.gates:
            peer.echo.gates[name].set_result(None)
            assert await peer.receive(8) == frame(b"wait")
    assert await peer.receive(9) == frame(b"plain")
    await peer.send(frame(b"close"))
    assert await peer.ended()
