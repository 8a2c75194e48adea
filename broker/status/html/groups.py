"""The list of groups, and one group with its members and its offsets. Group and client ids are what clients made up."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from broker.status.html.frame import NOT_KNOWN, page
from broker.status.html.markup import Child, Html, element
from broker.status.html.numbers import count
from broker.status.html.tables import Column, page_links, search_form, summary, table
from broker.status.html.topics import topic_link
from broker.status.listing import Shown, View
from broker.status.model import Frame, GroupDetail, GroupRow, MemberRow, OffsetRow

_COLUMNS = (
    Column("Group", sort="name"),
    Column("Lag", is_number=True, sort="lag"),
    Column("State", sort="state"),
    Column("Members", is_number=True, sort="members"),
    Column("Partitions", is_number=True),
    Column("Kind"),
)


def group_link(group_id: str) -> str:
    """Write the path of a group's page."""
    return f"/groups/{quote(group_id, safe='')}"


def group_table(rows: Iterable[GroupRow], caption: str, view: View | None = None) -> Html:
    """Write a table of groups."""
    return table("groups", caption, _COLUMNS, (_group(row) for row in rows), view)


def _group(row: GroupRow) -> tuple[Child, ...]:
    return (
        element("a", row.group_id, href=group_link(row.group_id)),
        count(row.lag),
        _state(row.state),
        count(row.member_count),
        count(row.partition_count),
        row.kind,
    )


def _state(state: str) -> Html:
    level = {"Stable": "ok", "Empty": "", "Dead": "bad"}.get(state, "warn")
    return element("span", state, class_=f"tag {level}".strip())


def render_groups(frame: Frame, found: Shown[GroupRow], reason: str) -> str:
    """Write the list of groups, or why there is none."""
    if reason:
        contents: Child = element("p", f"Groups cannot be listed now: {reason}", class_="empty")
    elif found.rows:
        contents = (summary(found, "group"), group_table(found.rows, "Groups", found.view), page_links(found))
    else:
        contents = (
            summary(found, "group"),
            element("p", "There is no such group." if frame.health.is_ready else NOT_KNOWN, class_="empty"),
        )
    return page(
        frame,
        "Groups",
        "/groups",
        element("h1", "Groups"),
        search_form(found.view, "Name contains"),
        element("section", contents, id="list"),
    )


_MEMBER_COLUMNS = (Column("Client"), Column("Host"), Column("Assignment"), Column("Member"))
_OFFSET_COLUMNS = (
    Column("Topic"),
    Column("Partition", is_number=True),
    Column("Committed", is_number=True),
    Column("High watermark", is_number=True),
    Column("Lag", is_number=True),
)


def render_group(group: GroupDetail, found: Shown[OffsetRow]) -> str:
    """Write one group with its members and a part of its offsets."""
    row = group.group
    protocol = f", {group.protocol}" if group.protocol else ""
    members = group.members
    rest = row.member_count - len(members)
    return page(
        group.frame,
        row.group_id,
        "/groups",
        element("p", element("a", "Groups", href="/groups", id="up"), class_="note"),
        element("h1", row.group_id),
        element(
            "section",
            element("p", _state(row.state), f" {row.kind}{protocol}, lag {count(row.lag)}", class_="facts-line"),
            element("h2", "Members", id="members-title"),
            table("members", "Members", _MEMBER_COLUMNS, map(_member, members))
            if members
            else element("p", "Nobody is in the group.", class_="empty"),
            element("p", f"and {count(rest)} more", class_="note") if rest else None,
            element("h2", "Offsets", id="offsets-title"),
            _offsets(found),
            id="list",
        ),
    )


def _offsets(found: Shown[OffsetRow]) -> Child:
    if not found.rows:
        return element("p", "Nothing has been committed.", class_="empty")
    return (
        summary(found, "partition"),
        table("offsets", "Offsets", _OFFSET_COLUMNS, map(_offset, found.rows)),
        page_links(found),
    )


def _member(row: MemberRow) -> tuple[Child, ...]:
    member = f"{row.member_id} ({row.instance_id})" if row.instance_id else row.member_id
    assigned = [element("div", one) for one in row.assignment] or "nothing"
    return row.client_id, row.client_host, assigned, element("span", member, class_="id")


def _offset(row: OffsetRow) -> tuple[Child, ...]:
    return (
        element("a", row.topic, href=topic_link(row.topic)),
        str(row.partition),
        count(row.committed_offset),
        count(row.log_end_offset),
        count(row.lag),
    )
