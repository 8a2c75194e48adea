"""Accept connections: one listening socket per listener, with the limits on how many may be open."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from broker.net.connection import Connection, Dispatcher, Shared
from broker.net.pages import Pages
from broker.quota.connections import ConnectionRates
from broker.runtime.scheduler import Scheduler
from broker.runtime.tasks import TaskOwner
from config.views import ConnectionLimits, ListenerConfig, NetworkConfig

logger = logging.getLogger(__name__)

ACCEPTS_PER_TURN = 64
REFUSALS_EVERY_MS = 1_000
ACCEPT_PAUSE_MS = 100
"""How long accepting rests when the process is out of file descriptors."""


class Listeners:
    """All listening sockets and the connections that came through them."""

    def __init__(
        self,
        config: NetworkConfig,
        scheduler: Scheduler,
        pages: Pages,
        *,
        rates: ConnectionRates,
        first_reserved_fd: int = sys.maxsize,
    ) -> None:
        self._config = config
        self._rates = rates
        self._first_reserved_fd = first_reserved_fd
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskOwner("connections")
        self._pages = pages
        self._shared: dict[str, Shared] = {}  # by listener; set by open
        self.controller_listeners: tuple[ListenerConfig, ...] = ()  # those that are bound; set by bind
        self._sockets: list[tuple[socket.socket, ListenerConfig]] = []
        self._connections: dict[int, Connection] = {}
        self._per_host: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        # Accepted, but not let in yet, or never: whoever made connections too fast.
        self._held: set[socket.socket] = set()
        self.limit(config.limits)
        self._accepted = 0
        self._refused = 0
        self._refusals_are_quiet = False
        self._drained: asyncio.Future[None] | None = None

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections.values())

    @property
    def accepted_count(self) -> int:
        """Connections accepted since the start."""
        return self._accepted

    def limit(self, limits: ConnectionLimits) -> None:
        """Replace the limits for connections to come; those that are open stay."""
        self._limits = limits
        self._limits_per_host = dict(limits.max_connections_per_ip_overrides)
        self._rates.limit(limits)

    def bind(self) -> tuple[ListenerConfig, ...]:
        """Bind every listener without accepting yet; a port 0 becomes the bound one, also where it is advertised.

        Gives those of the broker.
        """
        for listener in self._config.listeners + self._config.controller_listeners:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            try:
                sock.bind((listener.host, listener.port))
            except OSError as refused:
                sock.close()
                raise _cannot("bind", listener, refused) from refused
            port = sock.getsockname()[1]
            advertised_port = listener.advertised_port or port
            self._sockets.append((sock, listener._replace(port=port, advertised_port=advertised_port)))
        bound = self.bound()
        self.controller_listeners = bound[len(self._config.listeners) :]
        return bound[: len(self._config.listeners)]

    def bound(self) -> tuple[ListenerConfig, ...]:
        """Return the listeners whose ports are held, those of the controller last."""
        return tuple(listener for _, listener in self._sockets)

    def open(self, dispatcher: Dispatcher, of_controller: Dispatcher | None = None) -> None:
        """Listen and accept; controller listeners have a dispatcher of their own."""
        max_frame_bytes = self._config.socket_request_max_bytes
        of_broker = Shared(dispatcher, self._tasks, max_frame_bytes, self._pages, self._closed)
        self._shared = dict.fromkeys((listener.name for _, listener in self._sockets), of_broker)
        if of_controller is not None:
            shared = Shared(of_controller, self._tasks, max_frame_bytes, self._pages, self._closed)
            self._shared.update(dict.fromkeys((listener.name for listener in self.controller_listeners), shared))
        for sock, listener in self._sockets:
            try:
                sock.listen(max(self._config.socket_listen_backlog_size, 1024))
            except OSError as refused:  # another process bound the port as well, and listened first
                raise _cannot("listen on", listener, refused) from refused
            self._loop.add_reader(sock, self._accept, sock, listener)
        max_idle_ms = self._config.connections_max_idle_ms
        if max_idle_ms >= 0:
            self._scheduler.every("idle-connections", min(60_000, max(100, max_idle_ms // 4)), self._close_idle)

    def _accept(self, sock: socket.socket, listener: ListenerConfig) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                peer, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                logger.error("accept failed listener=%s reason=%s", listener.name, failure)
                self._loop.remove_reader(sock)
                self._scheduler.call_later(ACCEPT_PAUSE_MS, self._accept_again, sock, listener)
                return
            delay_ms = self._rates.delay_ms(listener.name) if self._rates.is_active else 0
            if delay_ms:
                self._loop.remove_reader(sock)
                self._held.add(peer)
                self._scheduler.call_later(delay_ms, self._let_in_late, sock, peer, address, listener)
                return
            self._let_in(peer, address, listener)

    def _let_in(self, peer: socket.socket, address: tuple[Any, ...], listener: ListenerConfig) -> None:
        """Begin to serve a connection, or send it away."""
        host = address[0]
        limit = self._limit_reached(host, listener.name, peer.fileno())
        if limit is not None:
            peer.close()
            self._note_refusal(listener, host, limit)
            return
        refusal_ms = self._rates.refusal_ms(listener.name, host) if self._rates.is_active else 0
        if refusal_ms:
            self._held.add(peer)
            self._scheduler.call_later(refusal_ms, self._send_away, peer)
            self._note_refusal(listener, host, "connection_creation_rate")
            return
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted += 1
        connection = Connection(self._shared[listener.name], peer, listener, host, self._accepted)
        connection.context.client_port = address[1]
        self._connections[connection.id] = connection
        self._per_host[host] += 1
        self._per_listener[listener.name] += 1
        connection.start()

    def _let_in_late(
        self, sock: socket.socket, peer: socket.socket, address: tuple[Any, ...], listener: ListenerConfig
    ) -> None:
        """Go on accepting, first with the connection that came too fast."""
        if peer not in self._held:
            return  # we have stopped accepting meanwhile
        self._held.discard(peer)
        self._let_in(peer, address, listener)
        self._accept_again(sock, listener)

    def _send_away(self, peer: socket.socket) -> None:
        self._held.discard(peer)
        peer.close()

    def _accept_again(self, sock: socket.socket, listener: ListenerConfig) -> None:
        if sock.fileno() >= 0:
            self._loop.add_reader(sock, self._accept, sock, listener)

    def _limit_reached(self, host: str, listener: str, fd: int) -> str | None:
        """Name the limit that a new connection would break, with its value."""
        limits = self._limits
        if len(self._connections) >= limits.max_connections and not self._is_protected(listener):
            return f"max.connections={limits.max_connections}"
        of_listener = limits.of_listener(listener).max_connections
        if self._per_listener[listener] >= of_listener:
            return f"max.connections={of_listener}"
        of_host = self._limits_per_host.get(host, limits.max_connections_per_ip)
        if self._per_host[host] >= of_host:
            return f"max.connections.per.ip={of_host}"
        return f"file descriptors={self._first_reserved_fd}" if fd >= self._first_reserved_fd else None

    def _is_protected(self, listener: str) -> bool:
        """Tell whether a listener is kept for brokers: others must not use up its connections."""
        return len(self._config.listeners) > 1 and listener == self._config.inter_broker_listener_name

    def _note_refusal(self, listener: ListenerConfig, host: str, limit: str) -> None:
        """Log a refusal; of a flood, one line an interval."""
        self._refused += 1
        if self._refusals_are_quiet:
            return
        self._refusals_are_quiet = True
        self._scheduler.call_later(REFUSALS_EVERY_MS, self._end_quiet)
        logger.warning(
            "connection refused listener=%s peer=%s limit=%s refused=%d", listener.name, host, limit, self._refused
        )

    def _end_quiet(self) -> None:
        self._refusals_are_quiet = False

    def _close_idle(self) -> None:
        """Close connections without traffic; one with a request in progress is not idle."""
        oldest = self._loop.time() - self._config.connections_max_idle_ms / 1000
        for connection in tuple(self._connections.values()):
            if connection.last_active <= oldest and not connection.is_busy():
                connection.close()

    def _closed(self, connection: Connection) -> None:
        del self._connections[connection.id]
        self._per_listener[connection.listener.name] -= 1
        host = connection.client_host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if not self._connections and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        for sock, _ in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        for peer in self._held:
            peer.close()
        self._held.clear()

    async def drain(self, timeout_ms: float) -> None:
        """Let every connection finish its current request, then close what is left after `timeout_ms`."""
        for connection in tuple(self._connections.values()):
            connection.stop()
        if self._connections:
            self._drained = self._loop.create_future()
            await asyncio.wait([self._drained], timeout=timeout_ms / 1000)
        for connection in tuple(self._connections.values()):
            connection.close()
        await self._tasks.close()


def _cannot(do: str, listener: ListenerConfig, refused: OSError) -> OSError:
    where = f"{listener.host}:{listener.port}"
    return OSError(f"listeners: {listener.name} cannot {do} {where}: {refused.strerror}")
