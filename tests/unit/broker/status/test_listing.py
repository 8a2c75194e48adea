"""What a query may ask of a list, and what comes of it."""

from __future__ import annotations

from random import Random

import pytest

from broker.http.server import RefusedRequest
from broker.status import listing
from broker.status.listing import (
    GROUP_ORDERS,
    IN_ORDER,
    MAX_SEARCH_LENGTH,
    ROWS_PER_PAGE,
    TOPIC_ORDERS,
    View,
    decoded,
    in_order,
    shown,
    top_groups,
    top_topics,
    view_of,
)
from broker.status.model import GroupRow, TopicRow


def topic(
    name: str,
    *,
    bytes_in: float | None = 0.0,
    bytes_out: float = 0.0,
    size: int = 0,
    offline: int = 0,
    records: int = 0,
) -> TopicRow:
    return TopicRow(name, 1, offline, 1, size, records, 0.0, bytes_in, bytes_out)


def test_nothing_asked_is_the_first_page_in_the_usual_order() -> None:
    assert view_of("", TOPIC_ORDERS) == View("", "traffic", 1)
    assert view_of("", GROUP_ORDERS) == View("", "lag", 1)
    assert view_of("", IN_ORDER) == View("", "", 1)


def test_a_query_is_decoded() -> None:
    assert view_of("q=%C3%A4+b%26&sort=name&page=3", TOPIC_ORDERS) == View("ä b&", "name", 3)
    assert view_of("q=&sort=&page=1", TOPIC_ORDERS) == View("", "traffic", 1)


@pytest.mark.parametrize(
    "query",
    [
        "q=%ff",
        "q",
        "&&",
        "sort=color",
        "sort=lag",
        "page=0",
        "page=-1",
        "page=x",
        "page=",
        "page=%C2%B2",
        "page=" + "9" * 2000,
        "q=" + "x" * (MAX_SEARCH_LENGTH + 1),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query: str) -> None:
    with pytest.raises(RefusedRequest) as refused:
        view_of(query, TOPIC_ORDERS)
    assert refused.value.status == "400 Bad Request"


def test_a_name_in_a_path_is_decoded_or_refused() -> None:
    assert decoded("a%2Fb%20%E2%82%AC") == "a/b €"
    with pytest.raises(RefusedRequest):
        decoded("%80")


def test_searching_ignores_case_and_tells_how_many_there_are() -> None:
    found = shown(
        [topic("Orders"), topic("payments"), topic("reorder")],
        View("order", "name"),
        TOPIC_ORDERS,
        lambda row: row.name,
    )
    assert [row.name for row in found.rows] == ["Orders", "reorder"]
    assert (found.total, found.matching, found.page_count) == (3, 2, 1)


def test_pages_are_cut_and_one_beyond_the_last_is_the_last() -> None:
    rows = [topic(f"t{number:04}") for number in range(2 * ROWS_PER_PAGE + 1)]
    second = shown(rows, View("", "name", 2), TOPIC_ORDERS, lambda row: row.name)
    assert [second.rows[0].name, second.rows[-1].name] == ["t0050", "t0099"]
    assert second.page_count == 3
    last = shown(rows, View("", "name", 99), TOPIC_ORDERS, lambda row: row.name)
    assert (len(last.rows), last.view.page) == (1, 3)
    nothing = shown([], View("", "name", 7), TOPIC_ORDERS, lambda row: "")
    assert (nothing.rows, nothing.page_count, nothing.view.page) == ((), 1, 1)


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("traffic", ["c", "b", "a"]),
        ("in", ["b", "a", "c"]),
        ("out", ["c", "a", "b"]),
        ("name", ["a", "b", "c"]),
        ("size", ["c", "a", "b"]),
        ("records", ["a", "c", "b"]),
    ],
)
def test_topics_come_in_the_order_asked_for(order: str, names: list[str]) -> None:
    rows = [
        topic("a", bytes_in=None, size=5, records=9),
        topic("b", bytes_in=7.0, size=1, records=1),
        topic("c", bytes_in=0.0, bytes_out=9.0, size=8, records=2),
    ]
    assert [row.name for row in shown(rows, View("", order), TOPIC_ORDERS, lambda row: row.name).rows] == names


def test_a_first_look_shows_trouble_first_then_traffic() -> None:
    rows = [topic("busy", bytes_in=9.0), topic("large", size=99), topic("broken", offline=1), topic("small", size=1)]
    assert [row.name for row in top_topics(rows, 3)] == ["broken", "busy", "large"]


def test_groups_that_are_furthest_behind_come_first() -> None:
    rows = [GroupRow(name, "classic", "Stable", 1, 1, lag) for name, lag in (("b", 1), ("a", 1), ("c", 5))]
    assert [row.group_id for row in top_groups(rows, 2)] == ["c", "a"]


@pytest.mark.parametrize("first", [0, 1, 7, 95, 100, 1000])
def test_rows_out_of_the_middle_are_those_that_sorting_all_would_give(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SORTED_AT_ONCE", 8)
    random = Random(7)
    rows = [topic(str(number), size=random.randrange(5)) for number in range(100)]

    def key(row: TopicRow) -> int:
        return row.size_bytes

    assert in_order(rows, key, first, 10) == tuple(sorted(rows, key=key)[first : first + 10])
