"""What is said of what was found."""

from __future__ import annotations

from broker.offline.verify.findings import KINDS, MAX_OF_A_KIND, RECOVERED, Finding, Findings


def test_a_line_says_where_what_and_what_becomes_of_it() -> None:
    line = Finding(True, "index-size", "/d/t-0/0.index", 16, "19 bytes are no multiple of 8").line()
    assert line == (
        "fault: /d/t-0/0.index:16: 19 bytes are no multiple of 8 [index-size]; at a start: rebuilt from the log"
    )
    assert Finding(False, "leftover", "/d", None, "x").line().startswith("note: /d: x [leftover]; at a start: removed")


def test_a_note_says_what_recovery_does() -> None:
    assert Finding(False, "batch-crc", "p", 0, "x").at_start == "recovery cuts the log here"
    assert RECOVERED.keys() <= KINDS.keys()


def test_very_many_of_a_kind_are_counted() -> None:
    findings = Findings()
    for number in range(25):
        findings.fault("records", "p", "x", number)
    findings.note("records", "p", "excused")
    told = findings.all()
    assert len(told) == MAX_OF_A_KIND + 2
    assert told[-1].what == "15 more of the kind"
    assert told[-1].is_fault
