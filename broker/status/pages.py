"""The paths of the status page: read on the loop, rendered in a thread; HTML for a browser, JSON for a script.

Loaded when the first of them is asked for. Nothing here changes anything.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.coordinator.errors import CoordinatorError
from broker.http.server import RefusedRequest, Request, Response
from broker.runtime.pools import RunBeside
from broker.status.html.frame import CONTENT_POLICY
from broker.status.html.groups import render_group, render_groups
from broker.status.html.overview import render_overview
from broker.status.html.topics import render_topic, render_topics
from broker.status.listing import GROUP_ORDERS, IN_ORDER, TOPIC_ORDERS, Shown, View, decoded, shown, view_of
from broker.status.model import GroupRow, OffsetRow, Overview, PartitionRow, TopicDetail, TopicRow
from broker.status.parts import Parts
from broker.status.plain import encoded, overview_part
from broker.status.read.groups import read_group
from broker.status.read.health import read_frame
from broker.status.read.inventory import read_inventory, read_topic
from broker.status.read.traffic import read_traffic
from broker.status.read.work import read_jobs, read_moves

HTML = "text/html; charset=utf-8"
JSON = "application/json"
ASSETS = {
    "/style.css": "text/css; charset=utf-8",
    "/live.js": "text/javascript; charset=utf-8",
    "/icon.svg": "image/svg+xml",
}
TOPIC, GROUP = "/topics/", "/groups/"


class Answer(NamedTuple):
    """What was read, and what is to be made of it beside the loop."""

    html: Callable[[], str]
    plain: Callable[[], Any]


class StatusPages:
    """Answers for every path of the status page."""

    def __init__(self, parts: Parts, run_beside: RunBeside) -> None:
        self._parts = parts
        self._run_beside = run_beside
        self._assets = {path: Response("200 OK", kind, _asset(path)) for path, kind in ASSETS.items()}

    async def answer(self, request: Request) -> Response:
        """Answer a request for one of the paths. Raises: RefusedRequest."""
        if request.path in self._assets:
            return self._assets[request.path]
        answer = await self._read(request)
        if request.path == "/status.json" or request.accept.partition(",")[0].startswith(JSON):
            return Response("200 OK", JSON, await self._run_beside(lambda: encoded(answer.plain())))
        return Response("200 OK", HTML, await self._run_beside(lambda: answer.html().encode()), CONTENT_POLICY)

    async def _read(self, request: Request) -> Answer:
        path, query = request.path, request.query
        if path == "/topics":
            return await self._topics(view_of(query, TOPIC_ORDERS))
        if path == "/groups":
            return await self._groups(view_of(query, GROUP_ORDERS))
        if path.startswith(TOPIC):
            return await self._topic(decoded(path.removeprefix(TOPIC)), view_of(query, IN_ORDER))
        if path.startswith(GROUP):
            return await self._group(decoded(path.removeprefix(GROUP)), view_of(query, IN_ORDER))
        return await self._overview()

    async def _overview(self) -> Answer:
        parts = self._parts
        inventory = await read_inventory(parts)
        status = Overview(
            read_frame(parts),
            read_traffic(parts),
            inventory,
            parts.watched.connections.connection_count,
            parts.loop_watch.busy_share,
            read_moves(parts),
            len(parts.watched.moves.running()),
            read_jobs(parts),
            parts.lines.newest_first(),
        )
        return Answer(lambda: render_overview(status), lambda: overview_part(status))

    async def _topics(self, view: View) -> Answer:
        topics = (await read_inventory(self._parts)).topics
        frame = read_frame(self._parts)

        def found() -> Shown[TopicRow]:
            return shown(topics, view, TOPIC_ORDERS, lambda row: row.name)

        return Answer(lambda: render_topics(frame, found()), found)

    async def _groups(self, view: View) -> Answer:
        inventory = await read_inventory(self._parts)
        frame = read_frame(self._parts)

        def found() -> Shown[GroupRow]:
            return shown(inventory.groups, view, GROUP_ORDERS, lambda row: row.group_id)

        return Answer(lambda: render_groups(frame, found(), inventory.groups_reason), found)

    async def _topic(self, name: str, view: View) -> Answer:
        partitions = await read_topic(self._parts, name)
        if partitions is None:
            raise RefusedRequest("404 Not Found", "there is no such topic")
        detail = TopicDetail(read_frame(self._parts), name, partitions)

        def found() -> Shown[PartitionRow]:
            return shown(detail.partitions, view, IN_ORDER, lambda row: str(row.number))

        return Answer(lambda: render_topic(detail, found()), lambda: detail)

    async def _group(self, group_id: str, view: View) -> Answer:
        try:
            detail = await read_group(self._parts, group_id)
        except CoordinatorError as refusal:
            raise RefusedRequest("503 Service Unavailable", str(refusal) or type(refusal).__name__) from refusal
        if detail is None:
            raise RefusedRequest("404 Not Found", "there is no such group")

        def found() -> Shown[OffsetRow]:
            return shown(detail.offsets, view, IN_ORDER, lambda row: row.topic)

        return Answer(lambda: render_group(detail, found()), lambda: detail)


def _asset(path: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), "assets", path.removeprefix("/")), "rb") as file:
        return file.read()
