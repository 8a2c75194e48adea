"""The status page as long as nobody has asked for it: its paths, and a word to load the rest in a thread."""

from __future__ import annotations

from broker.http.server import Page, Pages, Request, Response
from broker.runtime.garbage import Undisturbed
from broker.runtime.pools import RunBeside
from broker.status.parts import Parts

PATHS = ("/", "/status.json", "/topics", "/topics/", "/groups", "/groups/", "/style.css", "/live.js", "/icon.svg")
HINT = "try /, /metrics, /healthz or /readyz"


class LateStatus:
    """Answers for the paths of the status page."""

    def __init__(self, parts: Parts, run_beside: RunBeside, undisturbed: Undisturbed) -> None:
        self._parts = parts
        self._run_beside = run_beside
        self._undisturbed = undisturbed
        self._answer: Page | None = None  # set with the first request

    def pages(self) -> Pages:
        """Name what is answered here."""
        return dict.fromkeys(PATHS, self._serve)

    async def _serve(self, request: Request) -> Response:
        with self._undisturbed():  # lists of all there is
            if self._answer is None:
                self._answer = await self._run_beside(self._load)
            return await self._answer(request)

    def _load(self) -> Page:
        from broker.status.pages import StatusPages

        return StatusPages(self._parts, self._run_beside).answer
