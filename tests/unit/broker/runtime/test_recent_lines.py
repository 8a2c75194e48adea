"""What is kept of the log for whoever looks at the broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from broker.runtime.recent_lines import MAX_LINES, MAX_TEXT_LENGTH, RecentLines


@pytest.fixture
def lines() -> Iterator[RecentLines]:
    lines = RecentLines()
    lines.open()
    yield lines
    lines.close()


def test_warnings_and_worse_of_ours_are_kept_newest_first(lines: RecentLines) -> None:
    logging.getLogger("broker.x").info("all is well")
    logging.getLogger("broker.x").warning("degraded topic=%s", "t")
    logging.getLogger("storage.y").error("lost")
    logging.getLogger("a.host.program").error("a secret of its own")
    kept = lines.newest_first()
    assert [(one.level, one.logger, one.text, one.times) for one in kept] == [
        ("ERROR", "storage.y", "lost", 1),
        ("WARNING", "broker.x", "degraded topic=t", 1),
    ]
    assert kept[0].time_ms >= kept[1].time_ms > 1_600_000_000_000


def test_a_line_that_comes_again_and_again_takes_one_place_and_is_counted(lines: RecentLines) -> None:
    for text in ("a", "b", "b", "b", "a"):
        logging.getLogger("broker").warning(text)
    assert [(one.text, one.times) for one in lines.newest_first()] == [("a", 1), ("b", 3), ("a", 1)]


def test_what_is_kept_is_bounded_and_has_no_control_characters(lines: RecentLines) -> None:
    for number in range(2 * MAX_LINES):
        logging.getLogger("broker").warning("%d\n\x1b[31m%s", number, "x" * 10_000)
    kept = lines.newest_first()
    assert len(kept) == MAX_LINES
    assert kept[0].text.startswith("99\\x0a\\x1b[31mxxx")
    assert len(kept[0].text) <= MAX_TEXT_LENGTH + 10


def test_after_the_end_nothing_is_taken(lines: RecentLines) -> None:
    lines.close()
    logging.getLogger("broker").error("too late")
    assert lines.newest_first() == ()


def test_a_message_that_does_not_fit_its_arguments_hurts_nobody(
    lines: RecentLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logging.getLogger("broker").warning("%d", "no number")
    assert lines.newest_first() == ()
