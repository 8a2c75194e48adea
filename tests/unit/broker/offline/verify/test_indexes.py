"""Indexes against the batches of their segment."""

from __future__ import annotations

import pytest

from broker.offline.verify.findings import Findings
from broker.offline.verify.indexes import IndexSource, OffsetIndexCheck, TimeIndexCheck
from protocol.records.batch import parse_header
from storage.segment.offset_index import ENTRY as OFFSET
from storage.segment.time_index import ENTRY as TIME
from tests.harness import batches

BASE = 100
# (position, header): ten batches of two records each, from offset 100 on, at times 1000, 1010, …
BATCHES = [
    (number * 200, parse_header(batches.simple("a", "b", base_offset=BASE + 2 * number, timestamp=1000 + 10 * number)))
    for number in range(10)
]


def source(data: bytes, *, may_have_room: bool = False) -> IndexSource:
    return IndexSource("path", BASE, data, Findings(), may_have_room, False)


def offset_kinds(*entries: tuple[int, int], rest: bytes = b"", may_have_room: bool = False) -> list[str]:
    made = source(b"".join(OFFSET.pack(*entry) for entry in entries) + rest, may_have_room=may_have_room)
    check = OffsetIndexCheck(made)
    for position, header in BATCHES:
        check.take(position, header)
    check.finish(2000)
    return [finding.kind for finding in made.findings.all()]


def time_kinds(*entries: tuple[int, int], rest: bytes = b"", may_have_room: bool = False) -> list[str]:
    made = source(b"".join(TIME.pack(*entry) for entry in entries) + rest, may_have_room=may_have_room)
    check = TimeIndexCheck(made)
    for _, header in BATCHES:
        check.take(header)
    check.finish()
    return [finding.kind for finding in made.findings.all()]


def test_entries_that_name_the_end_of_a_batch_at_its_start_are_right() -> None:
    assert offset_kinds() == []
    assert offset_kinds((3, 200), (7, 600), (19, 1800)) == []


def test_an_entry_for_an_append_of_several_batches_is_right() -> None:
    assert offset_kinds((7, 200), (19, 800)) == []


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ([(3, 201)], "index-position"),
        ([(3, 200), (9, 2000)], "index-position"),
        ([(2, 200)], "index-offset"),
        ([(7, 200), (9, 400)], "index-offset"),
        ([(3, 200), (3, 400)], "index-order"),
        ([(5, 400), (3, 600)], "index-order"),
        ([(3, 400), (5, 400)], "index-order"),
    ],
)
def test_wrong_entries_are_told(entries: list[tuple[int, int]], kind: str) -> None:
    assert offset_kinds(*entries) == [kind]


def test_room_behind_the_entries_is_right_for_who_may_have_it() -> None:
    assert offset_kinds((3, 200), rest=bytes(80), may_have_room=True) == []
    assert offset_kinds((3, 200), rest=bytes(80)) == ["index-size"]
    assert offset_kinds((3, 200), rest=b"\1\2\3") == ["index-size"]
    assert offset_kinds(rest=bytes(8)) == ["index-size"]
    assert time_kinds((1090, 19), rest=bytes(120), may_have_room=True) == []


def test_time_entries_name_the_newest_time_so_far() -> None:
    assert time_kinds((1000, 1), (1050, 11), (1090, 19)) == []
    # Older versions named the record, not the batch's end.
    assert time_kinds((1000, 0), (1050, 10), (1090, 18)) == []


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ([(1000, 1), (1051, 11), (1090, 19)], "timeindex-entry"),
        ([(1000, 3), (1090, 19)], "timeindex-entry"),
        ([(1090, 19), (1100, 25)], "timeindex-entry"),
        ([(1050, 11), (1040, 13)], "timeindex-order"),
        ([(1050, 11), (1090, 9)], "timeindex-order"),
        ([(1000, 1)], "timeindex-incomplete"),
        ([], "timeindex-incomplete"),
    ],
)
def test_wrong_times_are_told(entries: list[tuple[int, int]], kind: str) -> None:
    assert time_kinds(*entries) == [kind]


def test_the_active_segment_of_a_killed_broker_may_lack_its_last_entry() -> None:
    assert time_kinds((1000, 1), may_have_room=True) == []
