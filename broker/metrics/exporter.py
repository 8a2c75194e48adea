"""The HTTP side: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever keeps us running.

A small HTTP/1.1 server on the loop; every answer closes its connection. Bounds: the head of a request, the time it may
take, and how many are served at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.runtime.tasks import TaskOwner

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 16 * 1024
HEAD_TIMEOUT_SECONDS = 5.0
MAX_REQUESTS = 64
"""Beyond it whoever connects is sent away: each takes a file descriptor."""
TEXT = "text/plain; charset=utf-8"

Health = Callable[[], str]
"""Gives the empty string when all is well, else the reason."""

Render = Callable[[str], Awaitable[tuple[str, bytes]]]
"""Gives content type and text of the metrics for what a scraper accepts."""


class Exporter:
    """Serves metrics and health."""

    def __init__(self, render: Render, is_ready: Health) -> None:
        self._render = render
        self._is_ready = is_ready
        self._server: asyncio.Server | None = None
        self._tasks = TaskOwner("http")

    async def open(self, host: str, port: int) -> int:
        """Start to listen and give the bound port."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=MAX_HEAD_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening and drop who is being served."""
        if self._server is not None:
            self._server.close()
            await self._tasks.close()
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MAX_REQUESTS:
            writer.close()
            return
        self._tasks.spawn("request", self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_TIMEOUT_SECONDS)
            writer.write(await self._answer(head.decode("latin-1")))
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            pass  # nobody there who could use an answer
        finally:
            writer.close()

    async def _answer(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        parts = request.split(" ")
        if len(parts) != 3:
            return _response("400 Bad Request", TEXT, b"bad request\n")
        method, target, _ = parts
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", TEXT, b"only GET and HEAD\n")
        status, content_type, body = await self._page(target.partition("?")[0], _header(lines, "accept"))
        return _response(status, content_type, body, with_body=method == "GET")

    async def _page(self, path: str, accept: str) -> tuple[str, str, bytes]:
        if path == "/metrics":
            return "200 OK", *await self._render(accept)
        if path == "/healthz":
            return "200 OK", TEXT, b"ok\n"
        if path == "/readyz":
            reason = self._is_ready()
            if reason:
                return "503 Service Unavailable", TEXT, f"not ready: {reason}\n".encode()
            return "200 OK", TEXT, b"ready\n"
        return "404 Not Found", TEXT, b"try /metrics, /healthz or /readyz\n"


def _header(lines: list[str], name: str) -> str:
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _response(status: str, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if with_body else b"")
