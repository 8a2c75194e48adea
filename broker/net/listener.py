"""Accept connections: one listening socket per listener, with the limits on how many may be open."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections import Counter

from broker.net.connection import Connection, Dispatcher, Shared
from broker.net.pages import Pages
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
        first_reserved_fd: int = sys.maxsize,
    ) -> None:
        self._config = config
        self._first_reserved_fd = first_reserved_fd
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskOwner("connections")
        self._pages = pages
        self._shared: Shared  # set by open
        self._sockets: list[tuple[socket.socket, ListenerConfig]] = []
        self._connections: dict[int, Connection] = {}
        self._per_host: Counter[str] = Counter()
        self._limits = config.limits  # replaced by limit
        self._limits_per_host = dict(config.limits.max_connections_per_ip_overrides)
        self._accepted = 0
        self._refused = 0
        self._refusals_are_quiet = False
        self._drained: asyncio.Future[None] | None = None

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return len(self._connections)

    @property
    def accepted_count(self) -> int:
        """Connections accepted since the start."""
        return self._accepted

    def limit(self, limits: ConnectionLimits) -> None:
        """Replace the limits for connections to come; those that are open stay."""
        self._limits = limits
        self._limits_per_host = dict(limits.max_connections_per_ip_overrides)

    def bind(self) -> tuple[ListenerConfig, ...]:
        """Bind every listener without accepting yet; a port 0 becomes the bound one, also where it is advertised."""
        for listener in self._config.listeners:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            try:
                sock.bind((listener.host, listener.port))
            except OSError as refused:
                sock.close()
                where = f"{listener.host}:{listener.port}"
                raise OSError(f"listener {listener.name} cannot bind {where}: {refused.strerror}") from refused
            port = sock.getsockname()[1]
            advertised_port = listener.advertised_port or port
            self._sockets.append((sock, listener._replace(port=port, advertised_port=advertised_port)))
        return tuple(listener for _, listener in self._sockets)

    def open(self, dispatcher: Dispatcher) -> None:
        """Listen and accept."""
        max_frame_bytes = self._config.socket_request_max_bytes
        self._shared = Shared(dispatcher, self._tasks, max_frame_bytes, self._pages, self._closed)
        for sock, listener in self._sockets:
            sock.listen(max(self._config.socket_listen_backlog_size, 1024))
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
            host = address[0]
            limit = self._limit_reached(host, peer.fileno())
            if limit is not None:
                peer.close()
                self._note_refusal(listener, host, limit)
                continue
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted += 1
            connection = Connection(self._shared, peer, listener, host, self._accepted)
            connection.context.client_port = address[1]
            self._connections[connection.id] = connection
            self._per_host[host] += 1
            connection.start()

    def _accept_again(self, sock: socket.socket, listener: ListenerConfig) -> None:
        if sock.fileno() >= 0:
            self._loop.add_reader(sock, self._accept, sock, listener)

    def _limit_reached(self, host: str, fd: int) -> str | None:
        """Name the limit that a new connection would break, with its value."""
        limits = self._limits
        if len(self._connections) >= limits.max_connections:
            return f"max.connections={limits.max_connections}"
        of_host = self._limits_per_host.get(host, limits.max_connections_per_ip)
        if self._per_host[host] >= of_host:
            return f"max.connections.per.ip={of_host}"
        return f"file descriptors={self._first_reserved_fd}" if fd >= self._first_reserved_fd else None

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
