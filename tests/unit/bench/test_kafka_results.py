"""Samples of both brokers: medians, ratios, and what a later run replaces."""

import math
from pathlib import Path

import pytest

from tests.bench.kafka import results
from tests.bench.kafka.brokers import KAFKA, OURS
from tests.bench.kafka.results import Measured, Results


def _run(commit: str, **samples: tuple[list[float], list[float]]) -> Results:
    run = Results(facts={"kernel": commit})
    for key, (ours, theirs) in samples.items():
        for value in ours:
            run.note(key, OURS, value)
        for value in theirs:
            run.note(key, KAFKA, value)
    run.stamp(commit=commit, date="2026-01-01", command="make bench-kafka")
    return run


def test_the_ratio_is_that_of_the_medians() -> None:
    measured = _run("a", row=([1.0, 30.0, 3.0], [2.0, 100.0, 1.0])).keys["row"]
    assert measured.ratio(OURS, KAFKA) == 1.5
    assert measured.spread(OURS) == (1.0, 30.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio"), [([1.0], [], None), ([0.0], [0.0], 1.0), ([1.0], [0.0], math.inf), ([0.0], [1.0], 0.0)]
)
def test_a_ratio_to_nothing_is_no_accident(ours: list[float], theirs: list[float], ratio: float | None) -> None:
    assert Measured({OURS: ours, KAFKA: theirs}).ratio(OURS, KAFKA) == ratio


def test_a_later_run_replaces_whole_rows_and_leaves_the_others() -> None:
    everything = _run("a", one=([1.0], [1.0]), other=([2.0], [2.0]))
    everything.merge(_run("b", one=([5.0], [6.0])))
    assert everything.keys["one"].samples == {OURS: [5.0], KAFKA: [6.0]}
    assert everything.keys["one"].commit == "b"
    assert everything.keys["other"].commit == "a"


def test_sessions_of_one_run_add_up() -> None:
    run = Results()
    for value in (1.0, 2.0):
        session = Results()
        session.note("row", OURS, value)
        session.fail("row", f"failed {value}")
        run.extend(session)
    assert run.keys["row"].samples == {OURS: [1.0, 2.0]}
    assert run.keys["row"].failures == ["failed 1.0", "failed 2.0"]


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    run = _run("a", row=([1.5], [2.5]))
    run.fail("row", "once")
    results.save(tmp_path / "deep" / "file.json", run)
    found = results.load(tmp_path / "deep" / "file.json")
    assert found.keys == run.keys
    assert found.facts == run.facts


def test_a_file_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert results.load(tmp_path / "none.json").keys == {}
