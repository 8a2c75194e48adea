"""The HTTP server of whoever watches the broker: a table of pages, each asked with GET or HEAD.

HTTP/1.1 on the loop; every answer closes its connection. Bounds: the head of a request, its target, the time a client
may take to send and to read, how many are served at once, and what is held for those that do not read. Beyond the last
two whoever has kept us waiting longest has to go: a probe is answered however many hang about. No answer is cached or
framed, and a browser loads for it what it allows.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from broker.runtime.tasks import TaskOwner

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 16 * 1024
MAX_TARGET_LENGTH = 2048
"""Of path and query together; links of ours stay far below it."""
HEAD_TIMEOUT_SECONDS = 5.0
READING_TIMEOUT_SECONDS = 10.0
"""From the last byte of an answer that is ready until the client has all of it, or as good as."""
MAX_REQUESTS = 64
"""Each takes a file descriptor."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""Of answers whose readers are slow. One alone may be larger."""
NO_LINGERING = struct.pack("ii", 1, 0)
METHODS = ("GET", "HEAD")
TEXT = "text/plain; charset=utf-8"
NOTHING_ALLOWED = "default-src 'none'; frame-ancestors 'none'"


class Request(NamedTuple):
    """What is asked: path and query as they were sent, neither decoded."""

    path: str
    query: str
    accept: str
    accept_encoding: str = ""


class Response(NamedTuple):
    """What is answered, and what a browser may load for it."""

    status: str
    content_type: str
    body: bytes
    content_policy: str = NOTHING_ALLOWED
    is_gzip: bool = False


class RefusedRequest(Exception):
    """A request that makes no sense, with the status line's words and a line of text that says why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


Page = Callable[[Request], Awaitable[Response]]

Pages = Mapping[str, Page]
"""By path. One that ends with a slash serves all that lies under it."""


def text(body: str, status: str = "200 OK") -> Response:
    """Answer with a line of text."""
    return Response(status, TEXT, f"{body}\n".encode())


class HttpServer:
    """Serves a table of pages."""

    def __init__(self, pages: Pages, hint: str) -> None:
        self._pages = pages
        self._hint = hint  # for whoever asks for something else
        self._server: asyncio.Server | None = None
        self._tasks = TaskOwner("http")
        self._served: set[asyncio.StreamWriter] = set()
        self._awaited: dict[asyncio.StreamWriter, None] = {}  # who has to send or to read something; the oldest first

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
        if len(self._served) >= MAX_REQUESTS:
            self._send_away(next(iter(self._awaited), writer))
            if writer.transport.is_closing():
                return
        self._served.add(writer)
        self._awaited[writer] = None
        self._tasks.spawn("request", self._serve(reader, writer))

    def _send_away(self, writer: asyncio.StreamWriter) -> None:
        """Drop a client, whose task ends with that."""
        self._served.discard(writer)
        self._awaited.pop(writer, None)
        if writer.transport.get_write_buffer_size():  # the kernel too is to forget what it holds
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._asked(reader, writer)
            if writer in self._served:
                await self._send(answer, writer)
        except (asyncio.IncompleteReadError, TimeoutError, OSError):
            pass  # nobody there who could use an answer
        finally:
            self._send_away(writer)  # whatever has not been read by now

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_TIMEOUT_SECONDS)
        except asyncio.LimitOverrunError:
            too_long = text(f"a head has at most {MAX_HEAD_BYTES} bytes", "431 Request Header Fields Too Large")
            return _encoded(too_long, with_body=True)
        self._awaited.pop(writer, None)
        return await self._answer(head.decode("latin-1"))

    async def _send(self, answer: bytes, writer: asyncio.StreamWriter) -> None:
        """Send an answer and close. Raises: TimeoutError, OSError."""
        self._make_room(len(answer))
        self._awaited.pop(writer, None)
        self._awaited[writer] = None
        writer.write(answer)
        writer.close()
        await asyncio.wait_for(writer.wait_closed(), READING_TIMEOUT_SECONDS)

    def _make_room(self, size: int) -> None:
        unsent = {writer: writer.transport.get_write_buffer_size() for writer in self._awaited}
        excess = size + sum(unsent.values()) - MAX_UNSENT_BYTES
        for writer, held in unsent.items():
            if held and excess > 0:
                self._send_away(writer)
                excess -= held

    async def _answer(self, head: str) -> bytes:
        request_line, *lines = head.split("\r\n")
        method = request_line.partition(" ")[0]
        try:
            response = await self._response(_request(request_line, lines))
        except RefusedRequest as refused:
            response = text(str(refused), refused.status)
        except Exception:  # the border: a page that fails is its own trouble, and no other's
            logger.exception("http page failed request=%r", request_line[:MAX_TARGET_LENGTH])
            response = text("this page failed; the log says why", "500 Internal Server Error")
        return _encoded(response, with_body=method != "HEAD")

    async def _response(self, request: Request) -> Response:
        path = request.path
        page = self._pages.get(path) or self._pages.get(path[: path.find("/", 1) + 1])
        if page is None or path in ("", "*"):
            return text(self._hint, "404 Not Found")
        return await page(request)


def _request(request_line: str, lines: list[str]) -> Request:
    """Read the head of a request. Raises: RefusedRequest."""
    parts = request_line.split(" ")
    if len(parts) != 3:
        raise RefusedRequest("400 Bad Request", "bad request")
    method, target, _ = parts
    if target[:7].lower() == "http://":  # as it is sent to a proxy
        target = "/" + target[7:].partition("/")[2]
    if method not in METHODS:
        raise RefusedRequest("405 Method Not Allowed", "only GET and HEAD")
    if len(target) > MAX_TARGET_LENGTH:
        raise RefusedRequest("414 URI Too Long", f"a target has at most {MAX_TARGET_LENGTH} characters")
    path, _, query = target.partition("?")
    return Request(path, query, _header(lines, "accept"), _header(lines, "accept-encoding"))


def _header(lines: list[str], name: str) -> str:
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _encoded(response: Response, *, with_body: bool) -> bytes:
    headers = (
        f"HTTP/1.1 {response.status}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        *(("Content-Encoding: gzip", "Vary: Accept-Encoding") if response.is_gzip else ()),
        *((f"Allow: {', '.join(METHODS)}",) if response.status.startswith("405") else ()),
        f"Content-Security-Policy: {response.content_policy}",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Connection: close",
        "\r\n",
    )
    return "\r\n".join(headers).encode("latin-1") + (response.body if with_body else b"")
