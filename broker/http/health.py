"""`/metrics`, `/healthz` and `/readyz`: for Prometheus and for whoever keeps us running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.http.server import Pages, Request, Response, text

Health = Callable[[], str]
"""Gives the empty string when all is well, else the reason."""

Scrape = Callable[[str, str], Awaitable[tuple[str, bytes, bool]]]
"""Gives content type and text of the metrics, and whether it is compressed, for what a scraper accepts of both."""

HINT = "try /metrics, /healthz or /readyz"


def health_pages(scrape: Scrape, not_ready_reason: Health) -> Pages:
    """Make the pages that are always there."""

    async def metrics(request: Request) -> Response:
        content_type, body, is_gzip = await scrape(request.accept, request.accept_encoding)
        return Response("200 OK", content_type, body, is_gzip=is_gzip)

    async def healthz(request: Request) -> Response:
        return text("ok")

    async def readyz(request: Request) -> Response:
        reason = not_ready_reason()
        return text(f"not ready: {reason}", "503 Service Unavailable") if reason else text("ready")

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}
