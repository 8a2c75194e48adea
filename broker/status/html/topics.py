"""The list of topics, and one topic with its partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import quote

from broker.status.html.frame import NOT_KNOWN, page
from broker.status.html.markup import Child, Html, element
from broker.status.html.numbers import count, rate, size, wait
from broker.status.html.tables import Column, page_links, search_form, summary, table
from broker.status.listing import Shown, View
from broker.status.model import Frame, PartitionRow, TopicDetail, TopicRow

Cell = TypeVar("Cell")

_COLUMNS = (
    Column("Topic", sort="name"),
    Column("In", is_number=True, sort="in"),
    Column("Out", is_number=True, sort="out"),
    Column("Records in", is_number=True),
    Column("Size", is_number=True, sort="size"),
    Column("Records", is_number=True, sort="records"),
    Column("Partitions", is_number=True, sort="partitions"),
    Column("Segments", is_number=True),
)


def topic_link(name: str) -> str:
    """Write the path of a topic's page."""
    return f"/topics/{quote(name, safe='')}"


def topic_table(rows: Iterable[TopicRow], caption: str, view: View | None = None) -> Html:
    """Write a table of topics."""
    return table("topics", caption, _COLUMNS, (_topic(row) for row in rows), view)


def _topic(row: TopicRow) -> tuple[Child, ...]:
    name: Child = element("a", row.name, href=topic_link(row.name))
    if row.offline_count:
        name = (name, " ", element("span", f"{count(row.offline_count)} offline", class_="tag bad"))
    if row.pending_count:
        name = (name, " ", element("span", f"{count(row.pending_count)} held back", class_="tag"))
    return (
        name,
        rate(row.bytes_in, "B"),
        rate(row.bytes_out, "B"),
        rate(row.records_in),
        size(row.size_bytes),
        count(row.record_count),
        count(row.partition_count),
        count(row.segment_count),
    )


def render_topics(frame: Frame, found: Shown[TopicRow]) -> str:
    """Write the list of topics."""
    return page(
        frame,
        "Topics",
        "/topics",
        element("h1", "Topics"),
        search_form(found.view, "Name contains"),
        element(
            "section",
            summary(found, "topic"),
            topic_table(found.rows, "Topics", found.view)
            if found.rows
            else element("p", "There is no such topic." if frame.health.is_ready else NOT_KNOWN, class_="empty"),
            page_links(found),
            id="list",
        ),
    )


_LOG_END = Column("Log end", is_number=True)
_PARTITION_COLUMNS = (
    Column("Partition"),
    Column("Leader"),
    Column("Size", is_number=True),
    Column("Log start", is_number=True),
    Column("High watermark", is_number=True),
    _LOG_END,
    Column("Segments", is_number=True),
    Column("Directory"),
)
_SCHEDULED_COLUMNS = (Column("Held back", is_number=True), Column("Next in", is_number=True))


def render_topic(topic: TopicDetail, found: Shown[PartitionRow]) -> str:
    """Write one topic with a part of its partitions."""
    columns: tuple[Column, ...] = _PARTITION_COLUMNS
    cells = [_partition(row) for row in found.rows]
    if any(row.pending_count is not None for row in topic.partitions):
        now_ms = topic.frame.identity.now_ms
        columns = _with_schedule(columns, _SCHEDULED_COLUMNS)
        cells = [_with_schedule(row, _schedule(one, now_ms)) for row, one in zip(cells, found.rows, strict=True)]
    return page(
        topic.frame,
        topic.name,
        "/topics",
        element("p", element("a", "Topics", href="/topics", id="up"), class_="note"),
        element("h1", topic.name),
        element(
            "section",
            summary(found, "partition"),
            table("partitions", f"Partitions of {topic.name}", columns, cells),
            page_links(found),
            id="list",
        ),
    )


def _partition(row: PartitionRow) -> tuple[Child, ...]:
    is_here = row.log_dir != ""
    return (
        count(row.number),
        "none" if row.leader is None else str(row.leader),
        size(row.size_bytes),
        count(row.log_start_offset),
        count(row.high_watermark),
        count(row.log_end_offset),
        count(row.segment_count),
        row.log_dir if is_here else element("span", "offline", class_="tag bad"),
    )


def _with_schedule(row: tuple[Cell, ...], schedule: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Put it behind the other offsets."""
    at = _PARTITION_COLUMNS.index(_LOG_END) + 1
    return (*row[:at], *schedule, *row[at:])


def _schedule(row: PartitionRow, now_ms: int) -> tuple[Child, ...]:
    return count(row.pending_count), wait(row.next_ms, now_ms)
