"""Journals: what a history makes of clients that died before, between and after their answers."""

from __future__ import annotations

from pathlib import Path

from tests.history.journal import Journal, history_of
from tests.history.model import Answer, Ending, Producer, Session

P = ("t", 0)


def test_a_write_has_the_answer_that_was_noted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "c")
    journal.producer("c", may_repeat=True)
    for value in ("stored", "refused", "open"):
        journal.writing("c", P, value)
    journal.written("stored", 7)
    journal.refused("refused")
    history = history_of([tmp_path / "j"])
    assert history.producers == {"c": Producer("c", may_repeat=True)}
    assert [(write.partition, write.value, write.answer, write.offset) for write in history.writes] == [
        (P, "stored", Answer.ACKNOWLEDGED, 7),
        (P, "refused", Answer.REFUSED, None),
        (P, "open", Answer.UNKNOWN, None),
    ]


def test_a_transaction_is_unknown_only_once_its_commit_was_asked_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "c")
    for name in ("never asked", "asked", "answered", "given up"):
        journal.began(name)
    for name in ("asked", "answered", "given up"):
        journal.committing(name)
    journal.committed("answered")
    journal.aborted("given up")
    transactions = history_of([tmp_path / "j"]).transactions
    assert {name: one.ending for name, one in transactions.items()} == {
        "never asked": Ending.ABORTED,
        "asked": Ending.UNKNOWN,
        "answered": Ending.COMMITTED,
        "given up": Ending.ABORTED,
    }
    assert [one.commit_asked_at is None for one in transactions.values()] == [True, False, False, False]


def test_sessions_of_several_clients_stay_apart_and_a_torn_line_counts_for_nothing(tmp_path: Path) -> None:
    for client in ("a", "b"):
        journal = Journal(tmp_path / client, client)
        session = journal.session(P, is_committed=True)
        journal.read(session, 3, "v")
    with (tmp_path / "b").open("a") as torn:
        torn.write('{"event": "read", "sess')
    history = history_of([tmp_path / "a", tmp_path / "b"])
    assert history.sessions == {name: Session(name, P, True) for name in ("a/1", "b/1")}
    assert [(read.session, read.offset, read.value) for read in history.reads] == [("a/1", 3, "v"), ("b/1", 3, "v")]
