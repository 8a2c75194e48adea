"""The history checker: a pure function from a history to the anomalies that no correct broker could have caused.

An unknown outcome may have gone either way, but one way: a transaction of which anything was read committed is a
committed one. Nobody is blamed for a record that may or may not be there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from tests.history.model import Answer, Ending, History, Partition, Transaction, WholeLog, Write


class Kind(Enum):
    """What can be wrong."""

    LOST_WRITE = "an acknowledged or already read record is not there"
    ABORTED_READ = "read_committed gave a record of a transaction that was aborted or not yet to be committed"
    TWO_VALUES = "one offset had two values"
    DUPLICATE = "one write is at two offsets"
    ORDER_INVERSION = "records of one producer stand in another order than it sent them"
    TORN_TRANSACTION = "only a part of a transaction is visible"
    NEVER_WRITTEN = "a record that nobody wrote, or whose write was refused"
    BACKWARDS = "the offsets of a session went backwards"
    SKIPPED = "a session passed over a record that it should have seen"


class Anomaly(NamedTuple):
    """One thing wrong, with what shows it."""

    kind: Kind
    partition: Partition
    what: str

    def __str__(self) -> str:
        return f"{self.kind.name} in {self.partition[0]}-{self.partition[1]}: {self.what} ({self.kind.value})"


class Seen(NamedTuple):
    """One record as somebody got it: by a read, by a whole log, or told by an acknowledgement."""

    partition: Partition
    offset: int
    value: str
    by: str
    is_committed: bool = False  # seen with read_committed
    at: float | None = None


class Facts:
    """The history from the sides that the rules look at it from."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.writes = {write.value: write for write in history.writes}
        assert len(self.writes) == len(history.writes), "a value names its write, so no two writes share one"
        self.seen = list(_seen(history))
        self.told = [
            Seen(write.partition, write.offset, write.value, "acknowledgement")
            for write in history.writes
            if write.answer is Answer.ACKNOWLEDGED and write.offset is not None
        ]
        self.logs: dict[tuple[Partition, bool], WholeLog] = {
            (log.partition, log.is_committed): log for log in history.logs
        }
        # The values that anybody got with read_committed.
        self.committed_values = {one.value for one in self.seen if one.is_committed}
        self.by_transaction: dict[str, list[Write]] = defaultdict(list)
        for write in history.writes:
            if write.transaction is not None:
                self.by_transaction[write.transaction].append(write)

    def values_of(self, partition: Partition, *, is_committed: bool) -> set[str] | None:
        """Give what the whole log holds, or None if it was not read."""
        log = self.logs.get((partition, is_committed))
        return None if log is None else {value for _, value in log.records}

    def transaction_of(self, write: Write) -> Transaction | None:
        return None if write.transaction is None else self.history.transactions[write.transaction]


def anomalies(history: History) -> list[Anomaly]:
    """Give everything that is wrong with a history; an empty list if a correct broker can have caused it."""
    facts = Facts(history)
    found = [anomaly for rule in RULES for anomaly in rule(facts)]
    return list(dict.fromkeys(found))


def _seen(history: History) -> Iterator[Seen]:
    for read in history.reads:
        session = history.sessions[read.session]
        yield Seen(session.partition, read.offset, read.value, session.name, session.is_committed, read.at)
    for log in history.logs:
        by = f"the whole log, read_{'' if log.is_committed else 'un'}committed"
        for offset, value in log.records:
            yield Seen(log.partition, offset, value, by, log.is_committed)


# --- rules: each looks for one kind ----------------------------------------------------------------------------------


def never_written(facts: Facts) -> Iterator[Anomaly]:
    """Find records that come from no write, or from one that was refused."""
    for one in facts.seen:
        write = facts.writes.get(one.value)
        if write is None or write.partition != one.partition:
            yield Anomaly(Kind.NEVER_WRITTEN, one.partition, f"{one.value!r} at {one.offset}, read by {one.by}")
        elif write.answer is Answer.REFUSED:
            yield Anomaly(Kind.NEVER_WRITTEN, one.partition, f"refused {one.value!r} at {one.offset}, read by {one.by}")


def two_values(facts: Facts) -> Iterator[Anomaly]:
    """Find offsets that had different values for different eyes or at different times."""
    first: dict[tuple[Partition, int], Seen] = {}
    for one in (*facts.told, *facts.seen):
        known = first.setdefault((one.partition, one.offset), one)
        if known.value != one.value:
            what = f"{one.offset} is {known.value!r} for {known.by}, {one.value!r} for {one.by}"
            yield Anomaly(Kind.TWO_VALUES, one.partition, what)


def duplicate(facts: Facts) -> Iterator[Anomaly]:
    """Find values at more than one offset, where the producer numbers what it sends."""
    offsets: dict[tuple[Partition, str], set[int]] = defaultdict(set)
    for one in (*facts.told, *facts.seen):
        offsets[one.partition, one.value].add(one.offset)
    for (partition, value), where in offsets.items():
        write = facts.writes.get(value)
        may_repeat = write is not None and facts.history.producers[write.producer].may_repeat
        if len(where) > 1 and not may_repeat:
            yield Anomaly(Kind.DUPLICATE, partition, f"{value!r} at {sorted(where)}")


def lost_write(facts: Facts) -> Iterator[Anomaly]:
    """Find what was promised, or once read, and is in no whole log."""
    for write in facts.history.writes:
        if write.answer is Answer.ACKNOWLEDGED:
            transaction = facts.transaction_of(write)
            stored = facts.values_of(write.partition, is_committed=False)
            visible = facts.values_of(write.partition, is_committed=True)
            if stored is not None and write.value not in stored:
                yield Anomaly(Kind.LOST_WRITE, write.partition, f"acknowledged {write.value!r} at {write.offset}")
            elif transaction is None and visible is not None and write.value not in visible:
                yield Anomaly(Kind.LOST_WRITE, write.partition, f"{write.value!r} is hidden from read_committed")
    for one in facts.seen:
        left = facts.values_of(one.partition, is_committed=one.is_committed)
        if left is not None and one.value not in left:
            yield Anomaly(Kind.LOST_WRITE, one.partition, f"{one.value!r} at {one.offset}, once read by {one.by}")
    yield from _lost_transactions(facts)


def _lost_transactions(facts: Facts) -> Iterator[Anomaly]:
    """Find committed transactions of which nothing at all is visible."""
    for name, visible, hidden in _visibility(facts):
        if facts.history.transactions[name].ending is Ending.COMMITTED and hidden and not visible:
            yield Anomaly(Kind.LOST_WRITE, hidden[0].partition, f"all of the committed transaction {name}")


def torn_transaction(facts: Facts) -> Iterator[Anomaly]:
    """Find transactions of which something is visible and something acknowledged is not."""
    for name, visible, hidden in _visibility(facts):
        if visible and hidden:
            what = f"{name}: {visible[0].value!r} is visible, {hidden[0].value!r} is not"
            yield Anomaly(Kind.TORN_TRANSACTION, hidden[0].partition, what)


def _visibility(facts: Facts) -> Iterator[tuple[str, list[Write], list[Write]]]:
    """Give of each transaction what read_committed showed to anybody, and what is acknowledged and not in the end."""
    for name, writes in facts.by_transaction.items():
        visible = [write for write in writes if write.value in facts.committed_values]
        hidden = []
        for write in writes:
            values = facts.values_of(write.partition, is_committed=True)
            if write.answer is Answer.ACKNOWLEDGED and values is not None and write.value not in values:
                hidden.append(write)
        yield name, visible, hidden


def aborted_read(facts: Facts) -> Iterator[Anomaly]:
    """Find what read_committed gave out of aborted transactions, or before anybody had asked for the commit."""
    for one in facts.seen:
        write = facts.writes.get(one.value)
        transaction = None if write is None else facts.transaction_of(write)
        if transaction is None or not one.is_committed:
            continue
        where = f"{one.value!r} at {one.offset} of {transaction.name}, read by {one.by}"
        if transaction.ending is Ending.ABORTED:
            yield Anomaly(Kind.ABORTED_READ, one.partition, where)
        elif one.at is not None and transaction.commit_asked_at is not None and one.at < transaction.commit_asked_at:
            yield Anomaly(Kind.ABORTED_READ, one.partition, f"{where} before its commit")


def order_inversion(facts: Facts) -> Iterator[Anomaly]:
    """Find producers whose records lie in another order than they were sent in; of a repeated one the first counts."""
    number = {write.value: index for index, write in enumerate(facts.history.writes)}
    first: dict[tuple[Partition, str], int] = {}
    for one in (*facts.told, *facts.seen):
        key = (one.partition, one.value)
        first[key] = min(one.offset, first.get(key, one.offset))
    by_producer: dict[tuple[Partition, str], list[tuple[int, str]]] = defaultdict(list)
    for (partition, value), offset in first.items():
        write = facts.writes.get(value)
        if write is not None and facts.history.producers[write.producer].is_ordered:
            by_producer[partition, write.producer].append((offset, value))
    for (partition, producer), records in by_producer.items():
        for (low, before), (high, after) in pairwise(sorted(records)):
            if number[before] > number[after]:
                what = f"{producer} sent {after!r}, now at {high}, before {before!r}, now at {low}"
                yield Anomaly(Kind.ORDER_INVERSION, partition, what)


def backwards(facts: Facts) -> Iterator[Anomaly]:
    """Find sessions whose offsets do not rise."""
    last: dict[str, int] = {}
    for read in facts.history.reads:
        session = facts.history.sessions[read.session]
        if read.offset <= last.get(session.name, -1):
            what = f"{session.name} got {read.offset} after {last[session.name]}"
            yield Anomaly(Kind.BACKWARDS, session.partition, what)
        last[session.name] = read.offset


def skipped(facts: Facts) -> Iterator[Anomaly]:
    """Find records of the whole log that lie between two that a session got one after the other."""
    offsets = {key: [offset for offset, _ in log.records] for key, log in facts.logs.items()}
    index = {key: {offset: at for at, offset in enumerate(all_of)} for key, all_of in offsets.items()}
    last: dict[str, int] = {}
    for read in facts.history.reads:
        session = facts.history.sessions[read.session]
        key = (session.partition, session.is_committed)
        before, last[session.name] = last.get(session.name), read.offset
        if before is None or key not in index or not {before, read.offset} <= index[key].keys():
            continue
        passed = offsets[key][index[key][before] + 1 : index[key][read.offset]]
        if passed:
            what = f"{session.name} got {before}, then {read.offset}, never {passed}"
            yield Anomaly(Kind.SKIPPED, session.partition, what)


RULES = (
    never_written,
    two_values,
    duplicate,
    lost_write,
    torn_transaction,
    aborted_read,
    order_inversion,
    backwards,
    skipped,
)
