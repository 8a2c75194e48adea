"""From results to text: tables of medians, spreads, ratios and verdicts, and the document around them."""

import math
from collections.abc import Iterable
from pathlib import Path

from tests.bench.kafka.brokers import OURS
from tests.bench.kafka.results import CPU, Measured, Results
from tests.bench.kafka.rows import SECTIONS, Row, Section

BEFORE = Path(__file__).with_name("reading.md")
AFTER = Path(__file__).with_name("shortfalls.md")
"""The words around the tables, written by hand, so that a new run keeps them."""

EVEN = 0.05
"""Ratios this near to 1 are called even where no goal was set."""


def number(value: float | None) -> str:
    """Show three digits that count, and all before the point."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def ratio_text(value: float | None) -> str:
    """Show a ratio."""
    if value is None or value == math.inf:
        return "-"
    return f"{value:.2f}" if value >= 0.2 else f"1/{1 / value:.1f}" if value > 0 else "0"


def verdict(row: Row, ratio: float | None, failures: Iterable[str] = ()) -> str:
    """Say whether the goal is met; without a goal, who is ahead."""
    if ratio is None:
        return "**failed**" if list(failures) else "-"
    if row.reach is not None and row.aim is not None:
        if row.is_met(ratio, row.aim):
            return "aim"
        return "reached" if row.is_met(ratio, row.reach) else "**short**"
    if abs(ratio - 1) <= EVEN:
        return "even"
    return "ahead" if row.is_met(ratio, 1.0) else "behind"


def goal_text(row: Row) -> str:
    """Show what was to be reached and what was hoped for."""
    if row.reach is None or row.aim is None:
        return ""
    sign = "≤" if row.lower_is_better else "≥"
    return f"{sign} {ratio_text(row.reach)}; {ratio_text(row.aim)}"


def cells(row: Row, results: Results) -> list[str]:
    """Give what a row shows, heading by heading."""
    measured = results.keys.get(row.key, Measured())
    used = results.keys.get(row.key + CPU, Measured())
    ratio = measured.ratio(OURS, row.beside)
    return [
        row.title,
        row.unit,
        _with_spread(measured, OURS),
        _with_spread(measured, row.beside),
        ratio_text(ratio),
        goal_text(row),
        verdict(row, ratio, results.failures_of(row.key)),
        number(used.median(OURS)),
        number(used.median(row.beside)),
        ratio_text(used.ratio(OURS, row.beside)),
    ]


def _with_spread(measured: Measured, side: str) -> str:
    spread = measured.spread(side)
    if spread is None:
        return "-"
    return f"{number(measured.median(side))} ({number(spread[0])}-{number(spread[1])})"


def section_lines(section: Section, results: Results) -> list[str]:
    """Write a section as a table."""
    other = section.beside.capitalize()
    headings = ("", "unit", "Odradek", other, "ratio", "goal", "verdict", "CPU: Odradek", other, "ratio")
    rulers = ("---", "---", "---:", "---:", "---:", "---", "---", "---:", "---:", "---:")
    rows = (_line(cells(row, results)) for row in section.rows)
    return [f"### {section.title}", "", _line(headings), _line(rulers), *rows, ""]


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def table(results: Results) -> str:
    """Show the rows that a run has measured, for the one who waits for it."""
    lines = []
    for section in SECTIONS:
        for row in section.rows:
            measured = results.keys.get(row.key)
            if measured is not None:
                title, unit, ours, theirs, ratio, _, said, *used = cells(row, results)
                lines.append(
                    f"{title[:58]:<58} {ours:>28} {theirs:>28} {unit:<14} {ratio:>6} {said:<10} cpu {' '.join(used)}"
                )
    failures = [f"{key}: {text}" for key, measured in results.keys.items() for text in measured.failures]
    return "\n".join([*lines, *failures])


def progress(results: Results, side: str, seconds: float) -> str:
    """Show in a line what a workload has just given."""
    found = ", ".join(f"{key} {number(measured.median(side))}" for key, measured in results.keys.items())
    return f"    {found} ({seconds:.1f} s)"


def missing(results: Results) -> list[str]:
    """Name the rows without samples of both sides or a failure that says why."""
    return [
        row.key
        for section in SECTIONS
        for row in section.rows
        if results.keys.get(row.key, Measured()).ratio(OURS, row.beside) is None and not results.failures_of(row.key)
    ]


def document(results: Results) -> str:
    """Write the page."""
    lines = [BEFORE.read_text(encoding="utf-8").strip(), ""]
    lines += ["## Where", "", *(f"- {name}: {value}" for name, value in results.facts.items()), *_origins(results), ""]
    lines += ["## Numbers", ""]
    for section in SECTIONS:
        lines += section_lines(section, results)
    lines += _failures(results)
    lines += [AFTER.read_text(encoding="utf-8").strip(), ""]
    return "\n".join(lines)


def _origins(results: Results) -> list[str]:
    """Say how the rows were measured: most in one line, the others by name."""
    by_origin: dict[str, list[str]] = {}
    for section in SECTIONS:
        for row in section.rows:
            one = results.keys.get(row.key)
            if one is not None:
                how = f"measured {one.date} at commit {one.commit} by `{one.command}`, {one.rounds} rounds"
                by_origin.setdefault(how, []).append(row.key)
    ordered = sorted(by_origin.items(), key=lambda item: -len(item[1]))
    lines = []
    for index, (how, keys) in enumerate(ordered):
        what = "all rows" if len(ordered) == 1 else "all other rows" if index == 0 else ", ".join(keys)
        lines.append(f"- {how}: {what}")
    return lines


def _failures(results: Results) -> list[str]:
    found = [f"- `{key}`: {text.splitlines()[0]}" for key, one in results.keys.items() for text in one.failures]
    return ["### What could not be measured", "", *found, ""] if found else []
