"""The HTTP side: metrics, health, readiness and what else a stranger may send."""

from __future__ import annotations

import asyncio
import gzip
import select
import socket
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from broker.http import server
from broker.http.health import HINT, health_pages
from broker.http.server import MAX_HEAD_BYTES, MAX_REQUESTS, MAX_TARGET_LENGTH, HttpServer, Request, Response, text
from broker.metrics.library import format_for
from broker.metrics.page import compressed, takes_gzip

LARGE = bytes(16 * 1024 * 1024)
"""More than the kernel takes for a client that does not read."""
SOON_S = 30.0


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is sent away goes for another reason than the time it takes, however slow the machine is."""
    for timeout in ("HEAD_TIMEOUT_SECONDS", "READING_TIMEOUT_SECONDS"):
        monkeypatch.setattr(server, timeout, 2 * SOON_S)


def deaf(port: int) -> socket.socket:
    """Connect somebody who does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    return connection


async def reset(connection: socket.socket) -> None:
    """Wait until the other side has dropped a connection."""
    dropped = select.epoll()
    dropped.register(connection, select.EPOLLHUP)
    assert await asyncio.to_thread(dropped.poll, SOON_S)
    dropped.close()


class Rig:
    def __init__(self) -> None:
        registry = CollectorRegistry()
        Gauge("some_gauge", "A number", registry=registry).set(7)
        self.reason = ""
        pages = {
            **health_pages(self.scrape, lambda: self.reason),
            "/": self.echo,
            "/under/": self.echo,
            "/broken": self.fail,
            "/held": self.hold,
            "/large": self.give_much,
        }
        self.server = HttpServer(pages, HINT)
        self.registry = registry
        self.port = 0
        self.may_answer = asyncio.Event()
        self.arrived: asyncio.Queue[str] = asyncio.Queue()

    async def scrape(self, accept: str, accept_encoding: str) -> tuple[str, bytes, bool]:
        chosen = format_for(accept)
        is_gzip = takes_gzip(accept_encoding)
        body = chosen.encode(self.registry)
        return chosen.content_type, compressed([body]) if is_gzip else body, is_gzip

    async def echo(self, request: Request) -> Response:
        return text(f"{request.path} {request.query}")

    async def fail(self, request: Request) -> Response:
        raise ValueError("of ours")

    async def hold(self, request: Request) -> Response:
        self.arrived.put_nowait(request.path)
        await self.may_answer.wait()
        return text("at last")

    async def give_much(self, request: Request) -> Response:
        self.arrived.put_nowait(request.path)
        return Response("200 OK", "application/octet-stream", LARGE)

    async def ask(self, request: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
        """Send bytes; give the status line, the headers and the body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        status, *lines = head.split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        return status, headers, body

    async def get(self, path: str, *headers: str) -> tuple[bytes, dict[bytes, bytes], bytes]:
        return await self.ask("\r\n".join((f"GET {path} HTTP/1.1", "Host: x", *headers, "", "")).encode())


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    rig.port = await rig.server.open("127.0.0.1", 0)
    yield rig
    await rig.server.close()


async def test_metrics_are_served_as_text(rig: Rig) -> None:
    status, headers, body = await rig.get("/metrics")
    assert status == b"HTTP/1.1 200 OK"
    assert headers[b"Content-Type"].startswith(b"text/plain; version=")
    assert int(headers[b"Content-Length"]) == len(body)
    assert b"\nsome_gauge 7.0\n" in body


@pytest.mark.parametrize("accepted", ["gzip", "deflate, GZIP;q=1.0, *;q=0.5"])
async def test_a_scraper_that_takes_gzip_gets_it(rig: Rig, accepted: str) -> None:
    _, headers, body = await rig.get("/metrics", f"Accept-Encoding: {accepted}")
    assert (headers[b"Content-Encoding"], headers[b"Vary"]) == (b"gzip", b"Accept-Encoding")
    assert int(headers[b"Content-Length"]) == len(body)
    assert b"\nsome_gauge 7.0\n" in gzip.decompress(body)


@pytest.mark.parametrize("accepted", ["identity", "gzip;q=0", "gzip; q=0.0, br", ""])
async def test_a_scraper_that_does_not_take_gzip_gets_plain_text(rig: Rig, accepted: str) -> None:
    _, headers, body = await rig.get("/metrics", f"Accept-Encoding: {accepted}")
    assert b"Content-Encoding" not in headers and b"\nsome_gauge 7.0\n" in body


async def test_a_scraper_that_asks_for_openmetrics_gets_it(rig: Rig) -> None:
    _, headers, body = await rig.get("/metrics?x=1", "accept: application/openmetrics-text; version=1.0.0")
    assert headers[b"Content-Type"].startswith(b"application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize("version", ["banana", "1.x.0", "", "\u00b2"])
async def test_a_format_version_that_is_none_is_answered_all_the_same(rig: Rig, version: str) -> None:
    status, _, body = await rig.get("/metrics", f"Accept: application/openmetrics-text; version={version}")
    assert status == b"HTTP/1.1 200 OK"
    assert b"\nsome_gauge 7.0\n" in body


async def test_health_is_there_from_the_start_and_readiness_tells_its_reason(rig: Rig) -> None:
    rig.reason = "log recovery"
    assert (await rig.get("/healthz"))[0] == b"HTTP/1.1 200 OK"
    status, _, body = await rig.get("/readyz")
    assert (status, body) == (b"HTTP/1.1 503 Service Unavailable", b"not ready: log recovery\n")
    rig.reason = ""
    status, _, body = await rig.get("/readyz")
    assert (status, body) == (b"HTTP/1.1 200 OK", b"ready\n")


async def test_head_gives_the_length_without_the_body(rig: Rig) -> None:
    status, headers, body = await rig.ask(b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert int(headers[b"Content-Length"]) > 0
    assert body == b""


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /elsewhere HTTP/1.1", b"404"),
        (b"GET  HTTP/1.1", b"404"),
        (b"GET * HTTP/1.1", b"404"),
        (b"GET http://x/elsewhere HTTP/1.1", b"404"),
        (b"GET ftp://x/metrics HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"nonsense", b"400"),
        (b"GET /?" + b"x" * MAX_TARGET_LENGTH + b" HTTP/1.1", b"414"),
    ],
)
async def test_everything_else_is_refused(rig: Rig, request_line: bytes, status: bytes) -> None:
    line, _, _ = await rig.ask(request_line + b"\r\n\r\n")
    assert line.split()[1] == status


async def test_a_path_that_ends_with_a_slash_serves_what_lies_under_it_as_it_was_sent(rig: Rig) -> None:
    assert (await rig.get("/under/a%2Fb/c?q=%41"))[2] == b"/under/a%2Fb/c q=%41\n"
    assert (await rig.get("/?q"))[2] == b"/ q\n"
    assert (await rig.get("/under"))[0] == b"HTTP/1.1 404 Not Found"


async def test_no_answer_is_kept_framed_or_taken_for_what_it_is_not(rig: Rig) -> None:
    for path in ("/metrics", "/healthz", "/elsewhere"):
        _, headers, _ = await rig.get(path)
        assert headers[b"Cache-Control"] == b"no-store"
        assert headers[b"X-Content-Type-Options"] == b"nosniff"
        assert headers[b"Referrer-Policy"] == b"no-referrer"
        assert headers[b"Content-Security-Policy"] == b"default-src 'none'; frame-ancestors 'none'"
        assert headers[b"Connection"] == b"close"


async def test_a_page_that_fails_is_answered_and_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = await rig.get("/broken")
    assert status == b"HTTP/1.1 500 Internal Server Error"
    assert b"of ours" not in body
    assert "http page failed request='GET /broken HTTP/1.1'" in caplog.text


@pytest.mark.parametrize("target", ["http://x/healthz", "HTTP://x:1/healthz?a=http://b/"])
async def test_an_absolute_target_is_taken_for_its_path(rig: Rig, target: str) -> None:
    assert (await rig.get(target))[2] == b"ok\n"


async def test_another_method_is_told_which_there_are(rig: Rig) -> None:
    _, headers, _ = await rig.ask(b"POST /metrics HTTP/1.1\r\n\r\n")
    assert headers[b"Allow"] == b"GET, HEAD"
    assert b"Allow" not in (await rig.get("/metrics"))[1]


async def test_a_head_without_end_is_refused(rig: Rig) -> None:
    status, _, _ = await rig.ask(b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * MAX_HEAD_BYTES))
    assert status == b"HTTP/1.1 431 Request Header Fields Too Large"
    assert (await rig.get("/healthz"))[0] == b"HTTP/1.1 200 OK"


async def test_beyond_the_bound_whoever_keeps_us_waiting_longest_is_sent_away(rig: Rig) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", rig.port) for _ in range(MAX_REQUESTS)]
    assert (await rig.get("/healthz"))[0] == b"HTTP/1.1 200 OK"
    assert await asyncio.wait_for(silent[0][0].read(), SOON_S) == b""
    silent[1][1].write(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert b"ok" in await asyncio.wait_for(silent[1][0].read(), SOON_S)
    for _, writer in silent:
        writer.close()


async def test_whoever_connects_beyond_the_bound_is_sent_away_while_all_others_are_worked_for(rig: Rig) -> None:
    rig.may_answer.clear()
    asked = [asyncio.ensure_future(rig.get("/held")) for _ in range(MAX_REQUESTS)]
    for _ in asked:
        await rig.arrived.get()
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    assert await asyncio.wait_for(reader.read(), SOON_S) == b""
    writer.close()
    rig.may_answer.set()
    assert {status for status, _, _ in await asyncio.gather(*asked)} == {b"HTTP/1.1 200 OK"}


async def test_whoever_does_not_read_is_dropped_after_a_while(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READING_TIMEOUT_SECONDS", 0.05)
    with deaf(rig.port) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        await reset(connection)


async def test_whoever_does_not_read_has_to_go_for_others_when_too_much_is_held(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_UNSENT_BYTES", len(LARGE))
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)  # older, but nothing is held for it
    with deaf(rig.port) as first, deaf(rig.port) as second:
        first.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        await rig.arrived.get()
        second.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        await reset(first)
        assert not second.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert b"ok" in await asyncio.wait_for(reader.read(), SOON_S)
    writer.close()


async def test_a_client_that_goes_away_hurts_nobody(rig: Rig) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(b"GET /met")
    writer.close()
    await writer.wait_closed()
    assert (await rig.get("/healthz"))[0] == b"HTTP/1.1 200 OK"


async def test_closing_drops_a_client_that_has_not_asked_yet_and_reports_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    rig.port = await rig.server.open("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(b"GET /metrics")
    await rig.get("/healthz")  # by now the one before has been accepted
    await rig.server.close()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await asyncio.sleep(0)
    assert not caplog.records
