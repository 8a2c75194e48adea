"""The document: verdicts, numbers, and that nothing that was not measured looks as if it was."""

import pytest

from tests.bench.kafka import render, workloads
from tests.bench.kafka.brokers import KAFKA, OURS
from tests.bench.kafka.results import Results
from tests.bench.kafka.rows import SECTIONS, Row

MORE = Row("more", "more", "records/s", False, 1.0, 1.3)
LESS = Row("less", "less", "MB", True, 1 / 6, 1 / 10)


def _complete(commit: str = "abc") -> Results:
    results = Results(facts={"kernel": "Linux"})
    for section in SECTIONS:
        for row in section.rows:
            for side in (OURS, row.beside):
                results.note(row.key, side, 1.0)
    results.stamp(commit=commit, date="2026-01-01", command="make bench-kafka")
    return results


@pytest.mark.parametrize(
    ("row", "ratio", "said"),
    [
        (MORE, 1.3, "aim"),
        (MORE, 1.29, "reached"),
        (MORE, 0.99, "**short**"),
        (LESS, 0.1, "aim"),
        (LESS, 0.12, "reached"),
        (LESS, 0.2, "**short**"),
        (Row("plain", "", ""), 1.04, "even"),
        (Row("plain", "", ""), 1.2, "ahead"),
        (Row("plain", "", ""), 0.8, "behind"),
        (Row("plain", "", "", True), 0.8, "ahead"),
    ],
)
def test_a_verdict_says_whether_the_goal_is_met(row: Row, ratio: float, said: str) -> None:
    assert render.verdict(row, ratio) == said


def test_a_row_without_numbers_says_whether_it_failed() -> None:
    assert render.verdict(MORE, None) == "-"
    assert render.verdict(MORE, None, ["odradek: broken"]) == "**failed**"


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.8, "1,234,568"), (99.94, "99.9"), (1.234, "1.23"), (0.0123, "0.012"), (None, "-")]
)
def test_numbers_have_three_digits_that_count(value: float | None, text: str) -> None:
    assert render.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.456, "1.46"), (0.21, "0.21"), (0.1, "1/10.0"), (None, "-")])
def test_small_ratios_are_fractions(value: float | None, text: str) -> None:
    assert render.ratio_text(value) == text


def test_a_row_measured_on_one_side_only_is_missing() -> None:
    results = _complete()
    del results.keys["produce-1k"].samples[KAFKA]
    assert render.missing(results) == ["produce-1k"]
    results.fail("produce-1k", "kafka: why")
    assert render.missing(results) == []
    assert "- `produce-1k`: kafka: why" in render.document(results)


def test_a_workload_that_failed_speaks_for_all_its_rows() -> None:
    results = _complete()
    for key in [key for key in results.keys if key.startswith("partitions")]:
        del results.keys[key]
    assert len(render.missing(results)) > 5
    results.fail("partitions", "kafka: slow")
    assert render.missing(results) == []
    assert "| **failed** |" in render.document(results)


def test_rows_of_another_commit_are_named() -> None:
    results = _complete("abc")
    later = Results()
    for side in (OURS, KAFKA):
        later.note("compaction", side, 2.0)
    later.stamp(commit="def", date="2026-02-02", command="make bench-kafka ARGS=x")
    results.merge(later)
    text = render.document(results)
    assert "- measured 2026-01-01 at commit abc by `make bench-kafka`, 1 rounds: all other rows" in text
    assert "- measured 2026-02-02 at commit def by `make bench-kafka ARGS=x`, 1 rounds: compaction" in text


def test_every_row_is_in_the_document_with_both_hand_written_parts() -> None:
    text = render.document(_complete())
    assert all(f"| {row.title} |" in text for section in SECTIONS for row in section.rows)
    assert render.BEFORE.read_text(encoding="utf-8").strip() in text
    assert render.AFTER.read_text(encoding="utf-8").strip() in text


def test_every_row_comes_from_a_workload() -> None:
    names = [*workloads.names(), "start"]
    orphans = [
        row.key for section in SECTIONS for row in section.rows if not any(row.key.startswith(name) for name in names)
    ]
    assert orphans == []


def test_workloads_are_chosen_by_the_beginning_of_their_names() -> None:
    main, tuned = workloads.KINDS["main"], workloads.KINDS["tuned"]
    assert list(workloads.chosen(main, ["one-in-flight"])) == ["one-in-flight-1", "one-in-flight-64"]
    assert workloads.chosen(tuned, ["one-in-flight"]) == {}
    assert list(workloads.chosen(tuned, ["tuned-consume"])) == ["consume-1k"]
    assert list(workloads.chosen(main, ["produce-1k"])) == ["produce-1k"], "a whole name is not a beginning"
    assert set(workloads.chosen(main, [])) == set(main.workloads)


def test_the_table_of_a_run_shows_only_what_it_has_measured() -> None:
    results = Results()
    for side, value in ((OURS, 2.0), (KAFKA, 1.0)):
        results.note("compaction", side, value)
    [line] = render.table(results).splitlines()
    assert "compaction" in line
    assert "2.00" in line
