"""Journals: what one client process records of itself, a line an event, and how a history comes from all of them.

A line is written before an action and another after its answer, each by one `write`, so a SIGKILL leaves an action
without an answer, never an answer that nobody noted before it was acted upon. Times are CLOCK_MONOTONIC, which all
processes of the machine share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.history.model import Answer, Ending, History, Partition, Producer, Read, Session, Transaction, Write


class Journal:
    """The events of one life of one client."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._sessions = 0

    def _note(self, event: str, **fields: Any) -> None:
        os.write(self._file, (json.dumps({"event": event, **fields}) + "\n").encode())

    # --- a producer

    def producer(self, name: str, *, may_repeat: bool = False) -> None:
        """Note a producer; its writes may be noted from now on."""
        self._note("producer", name=name, may_repeat=may_repeat)

    def writing(self, producer: str, partition: Partition, value: str, transaction: str | None = None) -> None:
        """Note a write that is about to be sent."""
        self._note("writing", producer=producer, partition=partition, value=value, transaction=transaction)

    def written(self, value: str, offset: int) -> None:
        """Note the acknowledgement of a write."""
        self._note("written", value=value, offset=offset)

    def refused(self, value: str) -> None:
        """Note an answer that says that a write was not stored."""
        self._note("refused", value=value)

    def began(self, transaction: str) -> None:
        """Note a transaction."""
        self._note("began", transaction=transaction)

    def committing(self, transaction: str) -> None:
        """Note that the commit is about to be asked for."""
        self._note("committing", transaction=transaction, at=time.monotonic())

    def committed(self, transaction: str) -> None:
        """Note that the commit is certain."""
        self._note("committed", transaction=transaction)

    def aborted(self, transaction: str) -> None:
        """Note that the abort is certain."""
        self._note("aborted", transaction=transaction)

    # --- a consumer

    def session(self, partition: Partition, *, is_committed: bool) -> str:
        """Note that a way through a partition begins; give its name."""
        self._sessions += 1
        name = f"{self.client}/{self._sessions}"
        self._note("session", name=name, partition=partition, is_committed=is_committed)
        return name

    def read(self, session: str, offset: int, value: str) -> None:
        """Note a record received."""
        self._note("read", session=session, offset=offset, value=value, at=time.monotonic())


def history_of(journals: Iterable[Path]) -> History:
    """Put the journals of all clients together; whole logs are for the caller to add."""
    history = History()
    for path in journals:
        # The last line of a client that was killed may be torn.
        whole_lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        _replay(history, [json.loads(line) for line in whole_lines])
    return history


def _replay(history: History, events: list[dict[str, Any]]) -> None:
    """Add the events of one journal; what has no answer in it has none."""
    answers = {one["value"]: one for one in events if one["event"] in ("written", "refused")}
    asked_at = {one["transaction"]: one["at"] for one in reversed(events) if one["event"] == "committing"}
    ends = {one["transaction"]: one["event"] for one in events if one["event"] in ("committed", "aborted")}
    for one in events:
        event = one["event"]
        if event == "producer":
            history.producers[one["name"]] = Producer(one["name"], one["may_repeat"])
        elif event == "writing":
            answer = answers.get(one["value"], {"event": "unknown"})
            said = {"written": Answer.ACKNOWLEDGED, "refused": Answer.REFUSED, "unknown": Answer.UNKNOWN}
            partition = (one["partition"][0], one["partition"][1])
            history.writes.append(
                Write(
                    one["producer"],
                    partition,
                    one["value"],
                    said[answer["event"]],
                    answer.get("offset"),
                    one["transaction"],
                )
            )
        elif event == "began":
            name = one["transaction"]
            # Nobody but its producer can ask for a commit, so without that it is an abort.
            default = "unknown" if name in asked_at else "aborted"
            ending = Ending(ends.get(name, default))
            history.transactions[name] = Transaction(name, ending, asked_at.get(name))
        elif event == "session":
            partition = (one["partition"][0], one["partition"][1])
            history.sessions[one["name"]] = Session(one["name"], partition, one["is_committed"])
        elif event == "read":
            history.reads.append(Read(one["session"], one["offset"], one["value"], one["at"]))
