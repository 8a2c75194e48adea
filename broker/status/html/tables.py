"""Tables, their links from page to page, and bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from broker.status.html.markup import Child, Html, element
from broker.status.html.numbers import count, counted, percent
from broker.status.listing import PAGE, SEARCH, SORT, Shown, View


class Column(NamedTuple):
    """A column: its head, whether it holds numbers, and the order that its head asks for."""

    head: str
    is_number: bool = False
    sort: str = ""


def table(
    name: str, caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Child]], view: View | None = None
) -> Html:
    """Write a table that scrolls by itself where it is too wide; the first cell of each row is its head."""
    body = [
        element(
            "tr",
            (
                element("td" if number else "th", cell, class_=_cell_class(column), scope=None if number else "row")
                for number, (column, cell) in enumerate(zip(columns, row, strict=True))
            ),
        )
        for row in rows
    ]
    head = element("tr", (_head(column, view) for column in columns))
    whole = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head),
        element("tbody", body),
    )
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption, id=f"{name}-table")


def _head(column: Column, view: View | None) -> Html:
    if view is None or not column.sort:
        return element("th", column.head, scope="col", class_=_cell_class(column))
    is_sorted = view.sort == column.sort
    link = element("a", column.head, href=link_to(view._replace(sort=column.sort, page=1)), id=f"sort-{column.sort}")
    direction = ("ascending" if column.sort in ("name", "state") else "descending") if is_sorted else None
    return element("th", link, scope="col", class_=_cell_class(column), aria_sort=direction)


def _cell_class(column: Column) -> str | None:
    return "number" if column.is_number else None


def link_to(view: View) -> str:
    """Write the query that asks for a view."""
    pairs = {SEARCH: view.search, SORT: view.sort, PAGE: str(view.page) if view.page > 1 else ""}
    return "?" + urlencode({key: value for key, value in pairs.items() if value})


def search_form(view: View, label: str) -> Html:
    """Write the form that searches a list by name."""
    return element(
        "form",
        element("label", label, for_="search"),
        element("input", type="search", id="search", name=SEARCH, value=view.search, maxlength=255, autocomplete="off"),
        element("input", type="hidden", name=SORT, value=view.sort),
        element("button", "Search", type="submit"),
        method="get",
        role="search",
        class_="search",
    )


def summary(found: Shown[Any], noun: str) -> Html:
    """Say how many there are, and which are shown."""
    of = f"{count(found.matching)} of " if found.view.search else ""
    pages = f", page {found.view.page} of {count(found.page_count)}" if found.page_count > 1 else ""
    return element("p", f"{of}{counted(found.total, noun)}{pages}", class_="note")


def page_links(found: Shown[Any]) -> Html | None:
    """Write the links to the pages around, if there are any."""
    view = found.view
    if found.page_count == 1:
        return None
    links = []
    if view.page > 1:
        links.append(
            element("a", "Previous", href=link_to(view._replace(page=view.page - 1)), rel="prev", id="previous")
        )
    if view.page < found.page_count:
        links.append(element("a", "More", href=link_to(view._replace(page=view.page + 1)), rel="next", id="next"))
    return element("nav", links, class_="pages", aria_label="Pages of the list")


def bar(share: float, label: str, *, level: str = "") -> Html:
    """Draw how much of something is done or used."""
    return element(
        "progress", percent(share), value=f"{share:.3f}", max=1, aria_label=label, class_=f"bar {level}".strip()
    )
