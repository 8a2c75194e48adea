"""One socket: receive frames, run one request at a time, send the responses in order.

- Small frames are executed where they lie in a buffer shared by all connections of the loop, so an idle connection owns
  no buffer. A frame that does not fit is received into its own buffer, grown as its bytes arrive.
- A request that suspends (long poll, join) parks the connection: what comes behind it is kept, up to a bound, and
  executed afterwards, never before. Reading goes on meanwhile only to notice that the peer has gone.
- A connection that is muted, since its client has exceeded a quota, has to wait likewise before its next request.
- Nothing new is executed while the socket does not take what was answered already.
- When the peer ends its side, whole requests that arrived before are still executed: a producer that asks for no
  acknowledgements closes as soon as it has sent. A parked request is given up, unless it is in the middle of a change.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from broker.api.route import RequestContext
from broker.net.outbox import Flushed, Outbox, ShortFile, release_region
from broker.net.pages import Pages
from broker.runtime.tasks import TaskOwner
from config.views import ListenerConfig
from protocol.errors import ProtocolError
from protocol.frame import SIZE_BYTES, unpack_size
from storage.errors import StorageFailure

logger: Final = logging.getLogger(__name__)

SHARED_BUFFER_BYTES: Final = 256 * 1024
OWN_BUFFER_ABOVE_BYTES: Final = SHARED_BUFFER_BYTES // 2
"""Frames above this, size field included, get a buffer of their own. What is kept of a smaller one stays below it, so
that reading goes on, and always fits before a full read."""
FIRST_ALLOCATION_BYTES: Final = 1024 * 1024
"""A peer may announce 100 MiB and send nothing: more is allocated only as bytes arrive."""
MAX_SPARE_BUFFERS: Final = 4
"""So many of that size are kept for the large frames to come: zeroing new ones costs as much as filling them."""
MAX_REQUESTS_PER_TURN: Final = 256
MAX_TURN_NS: Final = 20_000_000
"""After so many requests, or so long, the other connections have their turn."""
REQUESTS_PER_LOOK: Final = 8
"""The clock is looked at after so many, a power of two: most turns are shorter, and cost no look at all."""
MAX_UNSENT_BYTES: Final = 1024 * 1024
"""With so much to send, requests that follow in the same read wait."""
_PLAIN: Final = (bytes, bytearray)


class CloseConnection(Exception):
    """Raised by the dispatcher where the protocol's answer is to hang up."""


class Parked(Protocol):
    """A request that waits without a task and then calls back."""

    def cancel(self) -> None:
        """Give it up; nobody is called."""


class Dispatcher(Protocol):
    """Turns a request frame into response pieces."""

    monotonic_ns: Callable[[], int]
    """The clock."""

    def execute(
        self, frame: memoryview, connection: Connection
    ) -> tuple[bool, list[Any] | Coroutine[Any, Any, list[Any]] | Parked]:
        """Run one request: (True, pieces) or (False, what waits): a coroutine that gives the pieces when it has waited,
        or a request that calls back.

        Raises: ProtocolError for malformed bytes, CloseConnection.
        """


class Shared:
    """What all connections of one loop share."""

    __slots__ = ("buffer", "dispatcher", "loop", "max_frame_bytes", "on_close", "pages", "spares", "tasks")

    def __init__(
        self,
        dispatcher: Dispatcher,
        tasks: TaskOwner,
        max_frame_bytes: int,
        pages: Pages,
        on_close: Callable[[Connection], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(SHARED_BUFFER_BYTES))
        self.spares: list[bytearray] = []  # of FIRST_ALLOCATION_BYTES each; whoever has taken one gives it back
        self.dispatcher = dispatcher
        self.tasks = tasks
        self.max_frame_bytes = max_frame_bytes
        self.pages = pages
        self.on_close = on_close


class Connection:
    """A client connection from accept to close."""

    __slots__ = (
        "_has_ended",
        "_loading",
        "_own_size",
        "_reading",
        "_shared",
        "_socket",
        "_stopping",
        "client_host",
        "closed",
        "context",
        "id",
        "kept",
        "last_active",
        "listener",
        "muted",
        "outbox",
        "own",
        "own_filled",
        "waiting",
    )

    def __init__(
        self, shared: Shared, sock: socket.socket, listener: ListenerConfig, client_host: str, connection_id: int
    ) -> None:
        self._shared = shared
        self._socket = sock
        self.listener = listener
        self.client_host = client_host
        self.id = connection_id
        self.context = RequestContext(connection_id, listener, client_host)
        self.outbox = Outbox(sock, shared.pages)
        self.kept = bytearray()  # bytes received and not executed yet
        self.own: bytearray | None = None  # the frame that is too large for the shared buffer
        self.own_filled = 0
        self._own_size = 0
        # What the next request has to wait for: the parked one, or the end of a mute.
        self.waiting: asyncio.Task[Any] | Parked | asyncio.TimerHandle | None = None
        self.muted = False
        self._loading: asyncio.Task[None] | None = None  # the load of the cold region that is to be sent next
        self._reading = False
        self._has_ended = False  # the peer sends no more
        self._stopping = False
        self.closed = False
        self.last_active = shared.loop.time()

    def start(self) -> None:
        """Begin to read."""
        self._read(True)

    def is_busy(self) -> bool:
        """Tell whether a request is being executed, its response is not out yet, or the next one has to wait."""
        return self.waiting is not None or bool(self.outbox)

    def stop(self) -> None:
        """Take no further request; close as soon as the current one has been answered."""
        self._stopping = True
        if self.muted:
            self._unmute()
        elif not self.is_busy():
            self.close()

    def mute(self, throttle_ms: int) -> None:
        """Execute nothing more for so long, counted from the answer to the request that is being executed."""
        if self.closed or self._stopping:
            return
        self.context.outlives_peer = False
        self.muted = True
        self.waiting = self._shared.loop.call_later(throttle_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        waiting = self.waiting
        self.muted = False
        self.waiting = None
        if waiting is not None and not self.closed:
            waiting.cancel()
            self._resume()

    # --- receiving ---

    def _read(self, wanted: bool) -> None:
        if wanted is self._reading or self.closed:
            return
        self._reading = wanted
        if wanted:
            self._shared.loop.add_reader(self._socket, self._on_readable)
        else:
            self._shared.loop.remove_reader(self._socket)

    def _on_readable(self) -> None:
        if self.kept or self.own is not None:
            self._receive_more()
            return
        shared = self._shared
        buffer = shared.buffer
        try:
            count = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not count:
            self._end()
            return
        self.last_active = shared.loop.time()
        if self.waiting is not None:
            self._keep_received(count)
        elif (
            SIZE_BYTES <= count <= shared.max_frame_bytes + SIZE_BYTES
            and unpack_size(buffer)[0] == count - SIZE_BYTES
            and not self._stopping
        ):
            self._run_only(buffer[SIZE_BYTES:count])
        else:
            self._run(buffer, count)

    def _receive_more(self) -> None:
        """Receive what follows bytes that wait: the rest of a frame, or what comes behind a parked request."""
        shared = self._shared
        kept = self.kept
        own = self.own
        try:
            if own is not None:
                count = self._socket.recv_into(memoryview(own)[self.own_filled : self._own_size])
            else:
                count = self._socket.recv_into(shared.buffer[len(kept) :])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not count:
            self._end()
            return
        self.last_active = shared.loop.time()
        if own is not None:
            self.own_filled += count
            self._continue_own(own)
            return
        shared.buffer[: len(kept)] = kept
        end = count + len(kept)
        if self.waiting is not None:
            self._keep_received(end)
        else:
            self.kept = bytearray()
            self._run(shared.buffer, end)

    def _keep_received(self, end: int) -> None:
        """Keep what came behind the request that waits."""
        self.kept = bytearray(self._shared.buffer[:end])
        if end >= OWN_BUFFER_ABOVE_BYTES:
            self._read(False)

    def _continue_own(self, own: bytearray) -> None:
        if self.own_filled == self._own_size:
            self.own = None
            self._run_frame(memoryview(own)[: self._own_size])
            if len(own) == FIRST_ALLOCATION_BYTES and len(self._shared.spares) < MAX_SPARE_BUFFERS:
                self._shared.spares.append(own)
            self._after_turn()
        elif self.own_filled == len(own):
            own.extend(bytes(min(len(own), self._own_size - len(own))))

    def _end(self) -> None:
        """The peer sends no more: close, once what it sent is executed."""
        self._has_ended = True
        if self.waiting is None and self.kept:
            self._run_kept()
        else:
            self._after_turn()

    # --- executing ---

    def _run_only(self, frame: memoryview) -> None:
        """Execute the one frame that was received, and nothing else was: what clients do that wait for each answer.

        The same as `_run` and `_after_turn` for it. While we read and no request waits, everything is sent.
        """
        try:
            done, outcome = self._shared.dispatcher.execute(frame, self)
        except (ProtocolError, CloseConnection) as reason:
            self._hang_up(reason)
            return
        if not done:
            self._park(outcome)  # type: ignore[arg-type]
        elif len(outcome) == 1 and type(outcome[0]) in _PLAIN:  # type: ignore[arg-type,index]
            self._send_only(outcome[0])  # type: ignore[index]
            return
        else:
            self.outbox.add(outcome)  # type: ignore[arg-type]
        self._after_turn()

    def _send_only(self, answer: bytes | bytearray) -> None:
        """Send all that there is to send; what the socket does not take goes the usual way."""
        try:
            sent = self._socket.send(answer)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as failure:
            self._hang_up(failure)
            return
        if sent < len(answer):
            self.outbox.add((memoryview(answer)[sent:],))
        elif not self._stopping:
            return
        self._after_turn()

    def _run(self, buffer: memoryview, end: int) -> None:
        """Execute the frames in buffer[:end]; keep what cannot be executed now."""
        position = 0
        turns = MAX_REQUESTS_PER_TURN
        until_ns = 0
        limit = self._shared.max_frame_bytes
        while end - position >= SIZE_BYTES and turns and self._may_execute():
            size = unpack_size(buffer, position)[0]
            if not 0 <= size <= limit:
                self._flush()  # answers to the requests before are still owed
                self._hang_up(ProtocolError(f"frame of {size} bytes, legal are 0 to {limit}"))
                return
            start = position + SIZE_BYTES
            if start + size > end:
                if SIZE_BYTES + size > OWN_BUFFER_ABOVE_BYTES:
                    self._begin_own(buffer[start:end], size)
                    position = end
                break
            position = start + size
            self._run_frame(buffer[start:position])
            turns -= 1
            if not turns % REQUESTS_PER_LOOK:
                now_ns = self._shared.dispatcher.monotonic_ns()
                until_ns = until_ns or now_ns + MAX_TURN_NS
                if now_ns >= until_ns:
                    turns = 0
        if self.closed:
            return
        if position < end:
            self.kept = bytearray(buffer[position:end])
            if not turns:
                self._shared.loop.call_soon(self._run_kept)
                self._after_turn()
                return
            if self._has_ended and self.waiting is None:
                self.kept = bytearray()  # the beginning of a request that will never be whole
        self._after_turn()

    def _may_execute(self) -> bool:
        if self.closed or self.waiting is not None or self._stopping:
            return False
        return self.outbox.size_bytes < MAX_UNSENT_BYTES or self._flush()

    def _begin_own(self, received: memoryview, size: int) -> None:
        # A buffer that is to grow must be a new one: somebody may still have a view of an old one.
        spares = self._shared.spares
        own = spares.pop() if spares and size <= FIRST_ALLOCATION_BYTES else bytearray(FIRST_ALLOCATION_BYTES)
        own[: len(received)] = received
        self.own = own
        self.own_filled = len(received)
        self._own_size = size

    def _run_frame(self, frame: memoryview) -> None:
        try:
            done, outcome = self._shared.dispatcher.execute(frame, self)
        except (ProtocolError, CloseConnection) as reason:
            self._flush()
            self._hang_up(reason)
            return
        if done:
            self.outbox.add(outcome)  # type: ignore[arg-type]
        else:
            self._park(outcome)  # type: ignore[arg-type]

    def _park(self, work: Coroutine[Any, Any, list[Any]] | Parked) -> None:
        if not isinstance(work, Coroutine):
            self.waiting = work
            return
        self.waiting = self._shared.tasks.spawn(f"request-{self.id}", self._finish(work))

    async def _finish(self, work: Coroutine[Any, Any, list[Any]]) -> None:
        """Wait for a parked request and answer it."""
        try:
            pieces = await work
        except (ProtocolError, CloseConnection) as reason:
            self.waiting = None
            self._hang_up(reason)
            return
        if not self.muted:
            self.waiting = None
        if self.closed:
            for piece in pieces:
                release_region(piece)
            return
        self.outbox.add(pieces)
        self._resume()

    def answer_parked(self, pieces: list[Any]) -> None:
        """Answer a request that has waited without a task."""
        self.waiting = None
        self.outbox.add(pieces)
        self._resume()

    def fail_parked(self, reason: CloseConnection) -> None:
        """Hang up on a request that has waited without a task and cannot be answered."""
        self.waiting = None
        self._hang_up(reason)

    def _resume(self) -> None:
        """Go on with what was kept, then with the socket."""
        if self.kept and not self._stopping and self.waiting is None:
            self._run_kept()
        else:
            self._after_turn()

    def _run_kept(self) -> None:
        kept = self.kept
        if self.closed or not kept or not self._may_execute():
            return
        self.kept = bytearray()
        self._run(memoryview(kept), len(kept))

    def _after_turn(self) -> None:
        """Send what was answered; read on when nothing is in the way."""
        if self.closed or not self._flush():
            return
        if self.waiting is None:
            if self._stopping or (self._has_ended and not self.kept):
                self.close()
                return
        elif self._has_ended and not self.context.outlives_peer and not (self.muted and self.kept):
            self._shared.loop.call_soon(self.close)  # its task must have begun, to clean up when it is cancelled
            return
        self._read(not self._has_ended and len(self.kept) < OWN_BUFFER_ABOVE_BYTES)

    # --- sending ---

    def _flush(self) -> bool:
        """Send; True when everything is out. Otherwise reading has stopped and goes on by itself later."""
        if not self.outbox:
            return True
        try:
            state = self.outbox.flush()
        except (ShortFile, OSError) as failure:
            self._hang_up(failure)
            return False
        if state is Flushed.DRAINED:
            return True
        if self._has_ended:
            self.close()  # nobody reads any more
            return False
        self._read(False)
        if state is Flushed.SOCKET_FULL:
            self._shared.loop.add_writer(self._socket, self._on_writable)
        elif self._loading is None:
            self._loading = self._shared.tasks.spawn(f"load-{self.id}", self._load_cold())
        return False

    def _on_writable(self) -> None:
        self._shared.loop.remove_writer(self._socket)
        self.last_active = self._shared.loop.time()
        if self._flush():
            self._resume()

    async def _load_cold(self) -> None:
        try:
            await self._shared.pages.load(*self.outbox.cold_range(), self.outbox.ahead_of_cold())
        except StorageFailure as failure:
            self._loading = None
            self._hang_up(failure)
            return
        self._loading = None
        if not self.closed:
            self.outbox.loaded()
            if self._flush():
                self._resume()

    # --- closing ---

    def _hang_up(self, reason: Exception) -> None:
        logger.debug("closing connection id=%d peer=%s reason=%s", self.id, self.client_host, reason)
        self.close()

    def close(self) -> None:
        """Close at once: drop what is unsent, give up the parked request unless it is in the middle of a change."""
        if self.closed:
            return
        self.closed = True
        loop = self._shared.loop
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        self._socket.close()
        self.outbox.drop()
        self.own = None
        self.kept = bytearray()
        if self.waiting is not None and not self.context.outlives_peer:
            self.waiting.cancel()
        if self._loading is not None:
            self._loading.cancel()
        self._shared.on_close(self)
