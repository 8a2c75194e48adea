"""Which rows of a long list are shown: what a query asks for, and the sorting, searching and cutting that it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote

from broker.http.server import RefusedRequest
from broker.status.model import GroupRow, TopicRow

Row = TypeVar("Row")

ROWS_PER_PAGE = 50
SORTED_AT_ONCE = 1_000
"""Rows: a millisecond at most."""
MAX_SEARCH_LENGTH = 255
MAX_PAGE = 100_000
SEARCH, SORT, PAGE = "q", "sort", "page"

BAD_REQUEST = "400 Bad Request"

Key = Callable[[Any], Any]

TOPIC_ORDERS: Mapping[str, Key] = {
    "traffic": lambda row: (-(row.bytes_in or 0) - (row.bytes_out or 0), -row.size_bytes, row.name),
    "in": lambda row: (-(row.bytes_in or 0), row.name),
    "out": lambda row: (-(row.bytes_out or 0), row.name),
    "name": lambda row: row.name,
    "partitions": lambda row: (-row.partition_count, row.name),
    "records": lambda row: (-row.record_count, row.name),
    "size": lambda row: (-row.size_bytes, row.name),
}
"""The first one of each is the usual one."""

GROUP_ORDERS: Mapping[str, Key] = {
    "lag": lambda row: (-row.lag, row.group_id),
    "name": lambda row: row.group_id,
    "state": lambda row: (row.state, row.group_id),
    "members": lambda row: (-row.member_count, row.group_id),
}

IN_ORDER: Mapping[str, Key] = {"": lambda row: 0}
"""For lists that have an order of their own."""


class View(NamedTuple):
    """Which part of a list is asked for."""

    search: str = ""
    sort: str = ""
    page: int = 1


class Shown(NamedTuple, Generic[Row]):
    """The rows that are shown, and of how many."""

    rows: tuple[Row, ...]
    total: int
    matching: int
    page_count: int
    view: View


def view_of(query: str, orders: Mapping[str, Key]) -> View:
    """Read a query. Raises: RefusedRequest."""
    try:
        pairs = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"))
    except ValueError as error:  # also what is no UTF-8
        raise RefusedRequest(BAD_REQUEST, "the query cannot be decoded") from error
    search, sort, page = pairs.get(SEARCH, ""), pairs.get(SORT) or next(iter(orders)), pairs.get(PAGE, "1")
    if len(search) > MAX_SEARCH_LENGTH:
        raise RefusedRequest(BAD_REQUEST, f"{SEARCH} has at most {MAX_SEARCH_LENGTH} characters")
    if sort not in orders:
        raise RefusedRequest(BAD_REQUEST, f"{SORT} is one of {', '.join(orders)}")
    if not (page.isascii() and page.isdigit() and 1 <= int(page[:9]) <= MAX_PAGE):
        raise RefusedRequest(BAD_REQUEST, f"{PAGE} is a number from 1 to {MAX_PAGE}")
    return View(search.strip(), sort, int(page))


def decoded(segment: str) -> str:
    """Decode a name in a path. Raises: RefusedRequest."""
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise RefusedRequest(BAD_REQUEST, "the path cannot be decoded") from error


def shown(rows: Iterable[Row], view: View, orders: Mapping[str, Key], name: Callable[[Row], str]) -> Shown[Row]:
    """Search, sort and cut; a page beyond the last one is the last one."""
    every = list(rows)
    needle = view.search.casefold()
    found = [row for row in every if needle in name(row).casefold()] if needle else every
    page_count = max(-(-len(found) // ROWS_PER_PAGE), 1)
    page = min(view.page, page_count)
    part = in_order(found, orders[view.sort], (page - 1) * ROWS_PER_PAGE, ROWS_PER_PAGE)
    return Shown(part, len(every), len(found), page_count, view._replace(page=page))


def in_order(rows: Sequence[Row], key: Key, first: int, count: int) -> tuple[Row, ...]:
    """Give some rows out of the middle of what sorting all would give.

    The interpreter does nothing else while it sorts: a run at a time is sorted, so that the loop waits for none.
    """
    runs = (sorted(rows[start : start + SORTED_AT_ONCE], key=key) for start in range(0, len(rows), SORTED_AT_ONCE))
    return tuple(islice(merge(*runs, key=key), first, first + count))


def top_topics(rows: Sequence[TopicRow], count: int) -> tuple[TopicRow, ...]:
    """Give the topics that a first look should see: those with trouble, then the busiest and largest."""
    usual = TOPIC_ORDERS["traffic"]
    return in_order(rows, lambda row: (not row.offline_count, usual(row)), 0, count)


def top_groups(rows: Sequence[GroupRow], count: int) -> tuple[GroupRow, ...]:
    """Give the groups that are furthest behind."""
    return in_order(rows, GROUP_ORDERS["lag"], 0, count)
