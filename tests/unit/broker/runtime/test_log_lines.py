"""A message of the log is one line, whatever names clients have chosen."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from broker.runtime.loggers import log_to, set_first_levels


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    before = logging.root.handlers[:], logging.root.level
    log_to(stream)
    yield stream
    logging.root.handlers[:], logging.root.level = before


def test_a_name_cannot_begin_a_line_of_its_own(stream: io.StringIO) -> None:
    logging.getLogger("here").warning("group deleted group=%s", "g\n2026-11-30 ERROR forged\x1b[31m\x85ü")
    [line] = stream.getvalue().splitlines()
    assert line.endswith("WARNING here group deleted group=g\\x0a2026-11-30 ERROR forged\\x1b[31m\\x85ü")


def test_a_traceback_keeps_its_lines(stream: io.StringIO) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("here").exception("failed")
    first, *others = stream.getvalue().splitlines()
    assert first.endswith("ERROR here failed")
    assert others[0] == "Traceback (most recent call last):" and others[-1] == "ValueError: why"


def test_levels_that_are_configured_hold_for_modules_of_ours(stream: io.StringIO) -> None:
    ours, theirs = logging.getLogger("broker.made.up"), logging.getLogger("kafka.server.KafkaApis")
    set_first_levels([("root", "OFF"), ("broker.made", "DEBUG"), (theirs.name, "ALL")])
    try:
        ours.debug("heard")
        theirs.critical("not heard")
        assert [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()] == ["DEBUG broker.made.up heard"]
    finally:
        logging.getLogger("broker.made").setLevel(logging.NOTSET)
