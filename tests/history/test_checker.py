"""The history checker: finds each anomaly in a history that contains it, and blames nobody for an open outcome."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.history.checker import RULES, Kind, anomalies
from tests.history.made import PLANTS, valid
from tests.history.model import (
    Answer,
    Ending,
    History,
    Partition,
    Producer,
    Read,
    Session,
    Transaction,
    WholeLog,
    Write,
)

P: Partition = ("t", 0)
OTHER: Partition = ("t", 1)


def make(
    *writes: Write,
    ending: Ending = Ending.COMMITTED,
    asked_at: float | None = None,
    stored: list[tuple[int, str]] | None = None,
    visible: list[tuple[int, str]] | None = None,
    reads: list[tuple[int, str]] | None = None,
    is_committed: bool = True,
    at: float | None = None,
) -> History:
    """Make a history of one partition, one transaction `x`, one session."""
    history = History(writes=list(writes), transactions={"x": Transaction("x", ending, asked_at)})
    for write in writes:
        history.producers[write.producer] = Producer(write.producer, may_repeat=write.producer.startswith("plain"))
    for records, isolation in ((stored, False), (visible, True)):
        if records is not None:
            history.logs.append(WholeLog(P, isolation, tuple(records)))
    history.sessions["s"] = Session("s", P, is_committed)
    history.reads = [Read("s", offset, value, at) for offset, value in reads or []]
    return history


def acknowledged(value: str, offset: int, *, transaction: str | None = None, producer: str = "p") -> Write:
    return Write(producer, P, value, Answer.ACKNOWLEDGED, offset, transaction)


def unknown(value: str, *, transaction: str | None = None, producer: str = "p") -> Write:
    return Write(producer, P, value, Answer.UNKNOWN, None, transaction)


def kinds(history: History) -> set[Kind]:
    return {anomaly.kind for anomaly in anomalies(history)}


A, B = acknowledged("a", 0), acknowledged("b", 1)
XA, XB = acknowledged("a", 0, transaction="x"), acknowledged("b", 1, transaction="x")
BOTH = [(0, "a"), (1, "b")]
REFUSED = Write("p", P, "r", Answer.REFUSED)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param(make(A, B, stored=[(0, "a")]), {Kind.LOST_WRITE}, id="an acknowledged record is gone"),
        pytest.param(make(A, B, stored=BOTH, visible=[(0, "a")]), {Kind.LOST_WRITE}, id="a plain record is hidden"),
        pytest.param(
            make(A, unknown("b"), visible=[(0, "a")], reads=BOTH), {Kind.LOST_WRITE}, id="a record was read and is gone"
        ),
        pytest.param(make(XA, XB, stored=BOTH, visible=[]), {Kind.LOST_WRITE}, id="a whole transaction is lost"),
        pytest.param(
            make(XA, XB, ending=Ending.ABORTED, reads=BOTH), {Kind.ABORTED_READ}, id="an aborted transaction is read"
        ),
        pytest.param(
            make(XA, XB, asked_at=5.0, reads=BOTH, at=4.0), {Kind.ABORTED_READ}, id="an open transaction is read"
        ),
        pytest.param(
            make(A, unknown("b"), reads=[(0, "b")]), {Kind.TWO_VALUES}, id="an acknowledged offset has another value"
        ),
        pytest.param(
            make(unknown("a"), unknown("b"), stored=[(0, "b")], reads=[(0, "a")], is_committed=False),
            {Kind.TWO_VALUES, Kind.LOST_WRITE},
            id="an offset changes its value after a read",
        ),
        pytest.param(make(A, stored=[(0, "a"), (1, "a")]), {Kind.DUPLICATE}, id="a retry is stored again"),
        pytest.param(make(A, stored=[(1, "a")]), {Kind.DUPLICATE}, id="the offset is not the acknowledged one"),
        pytest.param(
            make(unknown("a"), unknown("b"), stored=[(0, "b"), (1, "a")]),
            {Kind.ORDER_INVERSION},
            id="two records change places",
        ),
        pytest.param(
            make(XA, XB, ending=Ending.COMMITTED, visible=[(1, "b")]), {Kind.TORN_TRANSACTION}, id="half is visible"
        ),
        pytest.param(
            make(XA, XB, ending=Ending.UNKNOWN, visible=[(1, "b")]),
            {Kind.TORN_TRANSACTION},
            id="half is visible of a commit without an answer",
        ),
        pytest.param(make(A, stored=[(0, "a"), (1, "z")]), {Kind.NEVER_WRITTEN}, id="nobody wrote it"),
        pytest.param(make(REFUSED, stored=[(0, "r")]), {Kind.NEVER_WRITTEN}, id="it was refused"),
        pytest.param(
            make(Write("p", OTHER, "a", Answer.UNKNOWN), stored=[(0, "a")]),
            {Kind.NEVER_WRITTEN},
            id="it was written to another partition",
        ),
        pytest.param(make(A, B, stored=BOTH, visible=BOTH, reads=BOTH[::-1]), {Kind.BACKWARDS}, id="offsets fall"),
        pytest.param(
            make(A, B, acknowledged("c", 2), visible=[*BOTH, (2, "c")], reads=[(0, "a"), (2, "c")]),
            {Kind.SKIPPED},
            id="a record is passed over",
        ),
    ],
)
def test_each_anomaly_is_found(history: History, expected: set[Kind]) -> None:
    assert kinds(history) == expected


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(make(), id="nothing happened"),
        pytest.param(make(A, B, stored=BOTH, visible=BOTH, reads=BOTH), id="all is well"),
        pytest.param(make(A, unknown("b"), stored=[(0, "a")]), id="an unanswered write is not there"),
        pytest.param(make(A, unknown("b"), stored=BOTH), id="an unanswered write is there"),
        pytest.param(make(REFUSED, stored=[]), id="a refused write is not there"),
        pytest.param(make(XA, XB, ending=Ending.UNKNOWN, stored=BOTH, visible=[]), id="a commit may have failed"),
        pytest.param(make(XA, XB, ending=Ending.UNKNOWN, stored=BOTH, visible=BOTH), id="a commit may have worked"),
        pytest.param(
            make(XA, unknown("b", transaction="x"), visible=[(0, "a")]), id="a commit without its unanswered write"
        ),
        pytest.param(make(XA, XB, ending=Ending.ABORTED, stored=BOTH, visible=[]), id="an abort leaves its records"),
        pytest.param(
            make(XA, XB, ending=Ending.ABORTED, reads=BOTH, is_committed=False), id="read_uncommitted reads an abort"
        ),
        pytest.param(make(XA, XB, asked_at=5.0, reads=BOTH, at=6.0), id="a commit is read before its answer"),
        pytest.param(
            make(unknown("a", producer="plain"), stored=[(0, "a"), (1, "a")]), id="a plain producer repeats itself"
        ),
        pytest.param(
            make(A, acknowledged("b", 2), visible=[(0, "a"), (2, "b")], reads=[(0, "a"), (2, "b")]),
            id="a marker takes an offset",
        ),
    ],
)
def test_nobody_is_blamed_for_what_may_happen(history: History) -> None:
    assert anomalies(history) == []


def test_an_anomaly_says_what_shows_it() -> None:
    [anomaly] = anomalies(make(A, B, stored=[(0, "a")]))
    assert str(anomaly).startswith("LOST_WRITE in t-0: acknowledged 'b' at 1")


def test_each_kind_has_a_plant_and_each_rule_a_use() -> None:
    assert set(PLANTS) == set(Kind)
    assert len(RULES) == len(Kind)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_nothing_is_found_in_any_history_of_a_correct_broker(seed: int) -> None:
    assert anomalies(valid(random.Random(seed))) == []


@pytest.mark.parametrize("kind", list(Kind))
@given(seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_what_is_planted_is_found(kind: Kind, seed: int) -> None:
    rng = random.Random(seed)
    history = valid(rng)
    if PLANTS[kind](history, rng):
        assert kind in kinds(history)
