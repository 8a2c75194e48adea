"""The first page: everything at a glance."""

from __future__ import annotations

from broker.runtime.recent_lines import RecentLine
from broker.status.html.frame import health_section, page
from broker.status.html.groups import group_table
from broker.status.html.markup import Child, Html, element
from broker.status.html.numbers import (
    NO_VALUE,
    count,
    counted,
    duration,
    machine_moment,
    moment,
    percent,
    rate,
    size,
    wait,
)
from broker.status.html.sparkline import sparkline
from broker.status.html.tables import Column, bar, table
from broker.status.html.topics import topic_table
from broker.status.listing import top_groups, top_topics
from broker.status.model import DirRow, Job, MoveRow, Overview, Schedule, Series

TOP_COUNT = 8
LITTLE_ROOM = 0.9


def render_overview(status: Overview) -> str:
    """Write the page; before there is anything to serve, how far that is."""
    sections: tuple[Child, ...]
    if status.frame.health.is_ready:
        sections = (
            _traffic(status),
            _topics(status),
            _groups(status),
            _dirs(status),
            _moves(status) if status.move_count else None,
            _jobs(status.jobs),
        )
    else:
        sections = _jobs(status.jobs), _dirs(status)
    return page(status.frame, "", "/", health_section(status.frame), sections, _lines(status.lines))


def _section(name: str, title: str, *contents: Child) -> Html:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, contents, id=name, aria_labelledby=f"{name}-title")


# --- traffic ---


def _traffic(status: Overview) -> Html:
    cards = element("div", (_card(series) for series in status.traffic), class_="cards")
    connections = f"{counted(status.connection_count, 'connection')} open"
    note = f"{connections}, broker {percent(status.busy_share)} busy"
    first = status.traffic[0]
    if first.values:
        note = f"The last {duration(len(first.values) * first.interval_seconds)}. {note}"
    return _section("traffic", "Traffic", cards, element("p", note, class_="note"))


def _card(series: Series) -> Html:
    value = rate(series.now, series.unit)
    peak = f"peak {rate(max(series.values), series.unit)}" if series.values else "not measured yet"
    return element(
        "div",
        element("h3", series.name),
        element("p", value, class_="value"),
        sparkline(series),
        element("p", peak, class_="note"),
        class_="card",
    )


# --- topics and groups ---


def _topics(status: Overview) -> Html:
    topics = status.inventory.topics
    if not topics:
        return _section("topics", "Topics", element("p", "There are no topics yet.", class_="empty"))
    partitions = sum(row.partition_count for row in topics)
    total = size(sum(row.size_bytes for row in topics))
    note = f"{counted(len(topics), 'topic')}, {counted(partitions, 'partition')}, {total}"
    return _section(
        "topics",
        "Topics",
        topic_table(top_topics(topics, TOP_COUNT), "Busiest topics"),
        element("p", note, " · ", element("a", "All topics", href="/topics", id="all-topics"), class_="note"),
        _schedule(status.inventory.schedule, status.frame.identity.now_ms),
    )


def _schedule(schedule: Schedule | None, now_ms: int) -> Html | None:
    """Say what scheduled topics hold back; nothing where there are none."""
    if schedule is None:
        return None
    partitions = f"{count(schedule.holding_count)} of {counted(schedule.partition_count, 'partition')}"
    held = f"{counted(schedule.pending_count, 'record')} held back in {partitions}"
    if schedule.next_ms is not None:
        held += f", the next due in {wait(schedule.next_ms, now_ms)}"
    if schedule.mean_lateness_seconds is not None:
        late_ms = 1000 * schedule.mean_lateness_seconds
        held += f"; {counted(schedule.released_count, 'batch', 'es')} released, {late_ms:,.1f} ms late on average"
    return element("p", f"Scheduled delivery: {held}", class_="note", id="scheduled")


def _groups(status: Overview) -> Html:
    inventory = status.inventory
    if inventory.groups_reason:
        text = f"Groups cannot be listed now: {inventory.groups_reason}"
        return _section("groups", "Groups", element("p", text, class_="empty"))
    if not inventory.groups:
        return _section("groups", "Groups", element("p", "There are no groups yet.", class_="empty"))
    groups = inventory.groups
    note = f"{counted(len(groups), 'group')}, {counted(sum(row.member_count for row in groups), 'member')}"
    return _section(
        "groups",
        "Groups",
        group_table(top_groups(groups, TOP_COUNT), "Groups that are furthest behind"),
        element("p", note, " · ", element("a", "All groups", href="/groups", id="all-groups"), class_="note"),
    )


# --- directories ---

_DIR_COLUMNS = (
    Column("Directory"),
    Column("State"),
    Column("Logs", is_number=True),
    Column("Size of logs", is_number=True),
    Column("Room used"),
    Column("Room left", is_number=True),
)


def _dirs(status: Overview) -> Html:
    rows = (_dir(row) for row in status.inventory.log_dirs)
    return _section("dirs", "Log directories", table("dirs", "Log directories", _DIR_COLUMNS, rows))


def _dir(row: DirRow) -> tuple[Child, ...]:
    if not row.is_online:
        state = element("span", "offline", class_="tag bad")
    else:
        state = element(
            "span", "cordoned" if row.is_cordoned else "online", class_="tag" if row.is_cordoned else "tag ok"
        )
    used: Child = NO_VALUE
    if row.total_bytes and row.usable_bytes is not None:
        share = 1 - row.usable_bytes / row.total_bytes
        used = (
            bar(share, f"{percent(share)} of the file system used", level="warn" if share > LITTLE_ROOM else ""),
            element("span", percent(share), class_="beside"),
        )
    return (
        row.path,
        state,
        count(row.log_count),
        size(row.size_bytes),
        used,
        size(row.usable_bytes),
    )


_MOVE_COLUMNS = (
    Column("Partition"),
    Column("To"),
    Column("Copied"),
    Column("Left", is_number=True),
    Column("Rate", is_number=True),
    Column("Time left", is_number=True),
)


def _moves(status: Overview) -> Html:
    rest = status.move_count - len(status.moves)
    note = element("p", f"and {count(rest)} more", class_="note") if rest else None
    rows = (_move(row) for row in status.moves)
    return _section("moves", "Moves between directories", table("moves", "Moves that run", _MOVE_COLUMNS, rows), note)


def _move(row: MoveRow) -> tuple[Child, ...]:
    share = row.done_bytes / max(row.done_bytes + row.left_bytes, 1)
    copied = (
        bar(share, f"{percent(share)} of {row.partition} copied", level="warn" if row.failure else ""),
        element("span", percent(share), class_="beside"),
    )
    left = "held up" if row.failure else duration(row.left_seconds)
    return row.partition, row.destination, copied, size(row.left_bytes), rate(row.bytes_per_second, "B"), left


# --- work ---

_JOB_COLUMNS = (Column("Work"), Column("State"), Column("Details"))


def _jobs(jobs: tuple[Job, ...]) -> Html:
    rows = (_job(job) for job in jobs)
    return _section("work", "Background work", table("work", "Background work", _JOB_COLUMNS, rows))


def _job(job: Job) -> tuple[Child, ...]:
    if job.progress is None:
        return job.name, job.state, job.detail
    progress = bar(job.progress, f"{job.name}: {percent(job.progress)} done")
    return job.name, (progress, element("span", percent(job.progress), class_="beside")), job.detail


# --- the log ---


def _lines(lines: tuple[RecentLine, ...]) -> Html:
    if not lines:
        return _section("log", "Recent warnings", element("p", "Nothing since the start.", class_="empty"))
    return _section("log", "Recent warnings", element("ol", (_line(line) for line in lines), class_="lines"))


def _line(line: RecentLine) -> Html:
    is_bad = line.level not in ("WARNING", "INFO")
    return element(
        "li",
        element("time", moment(line.time_ms), datetime=machine_moment(line.time_ms)),
        " ",
        element("span", line.level.lower(), class_=f"tag {'bad' if is_bad else 'warn'}"),
        " ",
        element("span", line.text, class_="line"),
        f" ({count(line.times)} times)" if line.times > 1 else None,
    )
