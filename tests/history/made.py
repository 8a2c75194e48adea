"""Histories out of nothing: what a correct broker and its clients could have recorded, and one thing wrong planted."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.history.checker import Kind
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

PARTITIONS: tuple[Partition, ...] = (("t", 0), ("t", 1), ("u", 0))


@dataclass
class _Broker:
    """What is stored: values by offset, with None where a marker is; and which transactions were committed."""

    logs: dict[Partition, list[str | None]] = field(default_factory=lambda: {one: [] for one in PARTITIONS})
    committed: set[str] = field(default_factory=set)

    def visible(self, history: History, partition: Partition, *, is_committed: bool) -> list[tuple[int, str]]:
        of = {write.value: write.transaction for write in history.writes}
        return [
            (offset, value)
            for offset, value in enumerate(self.logs[partition])
            if value is not None and (not is_committed or of[value] is None or of[value] in self.committed)
        ]


def valid(rng: random.Random) -> History:
    """Make a history in which everything happened that may happen."""
    history, broker = History(), _Broker()
    for number in range(3):
        for kind in ("plain", "once", "transactional"):
            history.producers[f"{kind}-{number}"] = Producer(f"{kind}-{number}", may_repeat=kind == "plain")
    open_transactions: dict[str, str] = {}
    for step in range(rng.randint(20, 80)):
        producer = rng.choice(list(history.producers))
        if not producer.startswith("transactional"):
            _write(history, broker, rng, producer, f"v{step}", None)
            continue
        if producer not in open_transactions:
            open_transactions[producer] = f"{producer}/{step}"
        transaction = open_transactions[producer]
        for index in range(rng.randint(1, 3)):
            _write(history, broker, rng, producer, f"v{step}.{index}", transaction)
        if rng.random() < 0.5:
            _end(history, broker, rng, open_transactions.pop(producer), float(step))
    for transaction in open_transactions.values():
        _end(history, broker, rng, transaction, 100.0, is_left_open=True)
    for partition in PARTITIONS:
        for is_committed in (False, True):
            records = broker.visible(history, partition, is_committed=is_committed)
            history.logs.append(WholeLog(partition, is_committed, tuple(records)))
            for number in range(rng.randint(1, 2)):
                _read_some(
                    history, rng, Session(f"s{len(history.sessions)}/{number}", partition, is_committed), records
                )
    return history


def _write(
    history: History, broker: _Broker, rng: random.Random, producer: str, value: str, transaction: str | None
) -> None:
    partition = rng.choice(PARTITIONS)
    log = broker.logs[partition]
    answer = rng.choices(list(Answer), (8, 1, 1))[0]
    offset = None
    if answer is Answer.ACKNOWLEDGED or (answer is Answer.UNKNOWN and rng.random() < 0.5):
        log.append(value)
        offset = len(log) - 1 if answer is Answer.ACKNOWLEDGED else None
        if history.producers[producer].may_repeat and answer is Answer.UNKNOWN:
            log.append(value)
    history.writes.append(Write(producer, partition, value, answer, offset, transaction))


def _end(
    history: History, broker: _Broker, rng: random.Random, name: str, at: float, *, is_left_open: bool = False
) -> None:
    ending = Ending.ABORTED if is_left_open else rng.choices(list(Ending), (3, 1, 1))[0]
    if ending is Ending.COMMITTED or (ending is Ending.UNKNOWN and rng.random() < 0.5):
        broker.committed.add(name)
    history.transactions[name] = Transaction(name, ending, None if ending is Ending.ABORTED else at)
    for partition in {write.partition for write in history.writes if write.transaction == name}:
        broker.logs[partition].append(None)


def _read_some(history: History, rng: random.Random, session: Session, records: list[tuple[int, str]]) -> None:
    history.sessions[session.name] = session
    start = rng.randint(0, len(records))
    for offset, value in records[start : rng.randint(start, len(records))]:
        history.reads.append(Read(session.name, offset, value, 1000.0))


# --- plants: each puts one thing wrong into a valid history, or says that this history has no place for it -----------

Plant = Callable[[History, random.Random], bool]


def _log_index(history: History, rng: random.Random, *, is_committed: bool, at_least: int) -> int | None:
    fitting = [
        index
        for index, log in enumerate(history.logs)
        if log.is_committed == is_committed and len(log.records) >= at_least
    ]
    return rng.choice(fitting) if fitting else None


def _edit(history: History, index: int, change: Callable[[list[tuple[int, str]]], object]) -> None:
    log = history.logs[index]
    records = list(log.records)
    change(records)
    history.logs[index] = log._replace(records=tuple(records))


def plant_lost_write(history: History, rng: random.Random) -> bool:
    """Take an acknowledged record out of everything that was ever read."""
    acknowledged = [write for write in history.writes if write.answer is Answer.ACKNOWLEDGED]
    if not acknowledged:
        return False
    gone = rng.choice(acknowledged)
    for index in range(len(history.logs)):
        _edit(history, index, lambda records: _keep(records, gone.value))
    history.reads = [read for read in history.reads if read.value != gone.value]
    return True


def _keep(records: list[tuple[int, str]], without: str) -> None:
    records[:] = [record for record in records if record[1] != without]


def plant_aborted_read(history: History, rng: random.Random) -> bool:
    """Let a read_committed session get a stored record of an aborted transaction."""
    stored = {value: offset for log in history.logs if not log.is_committed for offset, value in log.records}
    aborted = [
        write
        for write in history.writes
        if write.transaction is not None
        and history.transactions[write.transaction].ending is Ending.ABORTED
        and write.value in stored
    ]
    if not aborted:
        return False
    write = rng.choice(aborted)
    history.sessions["planted"] = Session("planted", write.partition, True)
    history.reads.append(Read("planted", stored[write.value], write.value, 1000.0))
    return True


def plant_two_values(history: History, rng: random.Random) -> bool:
    """Let a session get another value of the partition at an offset of a record."""
    index = _log_index(history, rng, is_committed=False, at_least=2)
    if index is None:
        return False
    log = history.logs[index]
    (offset, _), (_, other) = rng.sample(log.records, 2)
    if dict(log.records)[offset] == other:
        return False
    history.sessions["planted"] = Session("planted", log.partition, False)
    history.reads.append(Read("planted", offset, other, 1000.0))
    return True


def plant_duplicate(history: History, rng: random.Random) -> bool:
    """Store a record of a producer that numbers its batches once more, at the end."""
    producer_of = {write.value: history.producers[write.producer] for write in history.writes}
    once = [
        (index, value)
        for index, log in enumerate(history.logs)
        if not log.is_committed
        for _, value in log.records
        if not producer_of[value].may_repeat
    ]
    if not once:
        return False
    index, value = rng.choice(once)
    _edit(history, index, lambda records: records.append((records[-1][0] + 10, value)))
    return True


def plant_order_inversion(history: History, rng: random.Random) -> bool:
    """Let two records of one producer be stored, acknowledged and read in each other's place."""
    by_pair: dict[tuple[Partition, str], list[Write]] = {}
    for write in history.writes:
        if write.answer is Answer.ACKNOWLEDGED and not history.producers[write.producer].may_repeat:
            by_pair.setdefault((write.partition, write.producer), []).append(write)
    pairs = [writes for writes in by_pair.values() if len(writes) >= 2]
    if not pairs:
        return False
    one, other = rng.sample(rng.choice(pairs), 2)
    swapped = {one.value: other.value, other.value: one.value}
    offsets = {one.value: other.offset, other.value: one.offset}
    history.writes = [write._replace(offset=offsets.get(write.value, write.offset)) for write in history.writes]
    history.reads = [read._replace(value=swapped.get(read.value, read.value)) for read in history.reads]
    for index, log in enumerate(history.logs):
        records = tuple((offset, swapped.get(value, value)) for offset, value in log.records)
        history.logs[index] = log._replace(records=records)
    return True


def plant_torn_transaction(history: History, rng: random.Random) -> bool:
    """Hide one of several acknowledged records of a transaction that is visible otherwise."""
    committed = {value for log in history.logs if log.is_committed for _, value in log.records}
    whole = [
        writes
        for name in history.transactions
        if len(
            writes := [
                write
                for write in history.writes
                if write.transaction == name and write.value in committed and write.answer is Answer.ACKNOWLEDGED
            ]
        )
        >= 2
    ]
    if not whole:
        return False
    hidden = rng.choice(rng.choice(whole))
    committed_sessions = {session.name for session in history.sessions.values() if session.is_committed}
    for index, log in enumerate(history.logs):
        if log.is_committed:
            _edit(history, index, lambda records: _keep(records, hidden.value))
    history.reads = [
        read for read in history.reads if read.value != hidden.value or read.session not in committed_sessions
    ]
    return True


def plant_never_written(history: History, rng: random.Random) -> bool:
    """Let the log end with a record that nobody wrote, or that was refused."""
    index = rng.choice([at for at, log in enumerate(history.logs) if not log.is_committed])
    partition = history.logs[index].partition
    refused = [one.value for one in history.writes if (one.answer, one.partition) == (Answer.REFUSED, partition)]
    value = rng.choice([*refused, "from nowhere"])
    _edit(history, index, lambda records: records.append((records[-1][0] + 1 if records else 0, value)))
    return True


def plant_backwards(history: History, rng: random.Random) -> bool:
    """Let a session get a record again that it has already had."""
    if not history.reads:
        return False
    again = rng.choice(history.reads)
    history.reads.append(again)
    return True


def plant_skipped(history: History, rng: random.Random) -> bool:
    """Let a session miss a record between two others."""
    by_session: dict[str, list[Read]] = {}
    for read in history.reads:
        by_session.setdefault(read.session, []).append(read)
    long = [reads for reads in by_session.values() if len(reads) >= 3]
    if not long:
        return False
    history.reads.remove(rng.choice(rng.choice(long)[1:-1]))
    return True


PLANTS: dict[Kind, Plant] = {
    Kind.LOST_WRITE: plant_lost_write,
    Kind.ABORTED_READ: plant_aborted_read,
    Kind.TWO_VALUES: plant_two_values,
    Kind.DUPLICATE: plant_duplicate,
    Kind.ORDER_INVERSION: plant_order_inversion,
    Kind.TORN_TRANSACTION: plant_torn_transaction,
    Kind.NEVER_WRITTEN: plant_never_written,
    Kind.BACKWARDS: plant_backwards,
    Kind.SKIPPED: plant_skipped,
}
