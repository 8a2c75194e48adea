"""The progress bar: when it shows, what it says, that it goes away."""

from __future__ import annotations

import io

from broker.cli.progress import Progress, short


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_long_work_on_a_terminal_shows_how_much_is_done_and_leaves_nothing_behind():
    terminal, times = Terminal(), iter([0.0, 0.2, 2.0, 2.0, 2.05])
    with Progress("checking", 4000, stream=terminal, now_s=lambda: next(times)) as progress:
        progress.advance(500)
        assert terminal.getvalue() == ""
        progress.advance(500)
        drawn = terminal.getvalue()
        assert drawn == "\r\x1b[Kchecking [#######.......................]  25% 1k of 4k 500/s"
        progress.advance(1)
        assert terminal.getvalue() == drawn
    assert terminal.getvalue() == drawn + "\r\x1b[K"


def test_without_a_terminal_nothing_shows_and_no_clock_is_asked():
    stream, times = io.StringIO(), iter([0.0])
    with Progress("checking", 10, stream=stream, now_s=lambda: next(times)) as progress:
        progress.advance(7)
    assert stream.getvalue() == "" and progress.done == 7


def test_a_total_that_nobody_knows_gives_a_count():
    terminal, times = Terminal(), iter([0.0, 1.0, 1.0])
    Progress("sending", stream=terminal, now_s=lambda: next(times)).advance(1234567)
    assert terminal.getvalue() == "\r\x1b[Ksending 1.23M 1.23M/s"


def test_numbers_are_said_in_few_digits():
    assert [short(count) for count in (0, 999, 1000, 1234567, 5e9, 2e13)] == ["0", "999", "1k", "1.23M", "5G", "20T"]
