"""Transactions as partitions have them: over restarts and kills, and while a partition moves to another directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.conftest import REFERENCE_PROPERTIES, address
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.groups import find_coordinator
from tests.harness.log_dirs import create_in, log_dirs, move, new_directories, places, wait_for_leaders
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import RawProducer, describe_producers, fetch_offset, wait_until_decided
from tests.harness.transactions import read_committed

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
    "replica.fetch.backoff.ms": "100",
}
OUT_OF_ORDER, FENCED = 45, 47


def begin(broker_factory: BrokerFactory, *directories: Path) -> BrokerProcess:
    reference = REFERENCE_PROPERTIES if reference_wanted() else {}
    return broker_factory({**PROPERTIES, **reference, **log_dirs(*directories)})


def stable(client: RawClient, topic: str) -> int:
    return client.list_offset(topic, -1, isolation=1).offset


def values(client: RawClient, topic: str) -> list[bytes | None]:
    return [record.value for record in read_committed(client, topic)]


def move_and_wait(client: RawClient, destination: Path) -> None:
    assert move(client, destination, "t") == 0
    eventually(lambda: list(places(client, "t")) == [str(destination)], what="move")


def open_producers(client: RawClient, topic: str) -> list[tuple[int, int]]:
    """Give the epoch and the start of each open transaction."""
    rows = describe_producers(client, topic).active_producers
    return [(row.producer_epoch, row.current_txn_start_offset) for row in rows if row.current_txn_start_offset >= 0]


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_an_open_transaction_goes_on_after_a_restart(
    broker_factory: BrokerFactory, tmp_path: Path, is_killed: bool, is_commit: bool
) -> None:
    broker = begin(broker_factory, *new_directories(tmp_path, 1))
    with RawClient(address(broker)) as client:
        client.create_topic("t")
        find_coordinator(client, "g")
        producer = RawProducer(client, "id").init()
        producer.add("t", 0)
        assert producer.send("t", "a") == 0
        producer.add_group("g")
        assert producer.commit_offsets("g", [("t", 0, 5)]) == [0]
    broker.kill() if is_killed else broker.stop()
    broker.start()
    with RawClient(address(broker)) as client:
        wait_for_leaders(broker, "t")
        find_coordinator(client, "g")
        assert stable(client, "t") == 0
        assert open_producers(client, "t") == [(producer.epoch, 0)]
        assert fetch_offset(client, "g", "t", stable=True)[1] == 88
        producer.client = client
        assert producer.produce("t", producer.batch("gap", sequence=7)).error_code == OUT_OF_ORDER
        assert producer.produce("t", producer.batch("a")).base_offset == 0, "recognised as the one before the restart"
        assert producer.send("t", "b") == 1
        eventually(lambda: producer.end(commit=is_commit) == 0, what="end of the transaction")
        assert wait_until_decided(client, "t") == 3
        eventually(lambda: fetch_offset(client, "g", "t", stable=True) == ((5 if is_commit else -1), 0))
        assert values(client, "t") == ([b"a", b"b"] if is_commit else [])


def test_who_is_silent_past_the_timeout_writes_no_more(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = begin(broker_factory, *new_directories(tmp_path, 1))
    with RawClient(address(broker)) as client:
        client.create_topic("t")
        producer = RawProducer(client, "id", timeout_ms=1000).init()
        producer.add("t", 0)
        producer.send("t", "a")
        end = wait_until_decided(client, "t")
        assert end == 2
        for version in (9, 11, 12):
            late = producer.produce("t", producer.batch("late", sequence=1), version=version)
            assert late.error_code == FENCED, version
        assert (client.end_offset("t"), stable(client, "t")) == (end, end)
        assert values(client, "t") == []


def test_a_partition_moves_with_its_open_transaction(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        aborting, committing = RawProducer(client, "aborting").init(), RawProducer(client, "committing").init()
        for producer in (aborting, committing):
            producer.add("t", 0)
        aborting.send("t", "x")
        committing.send("t", "a")
        move_and_wait(client, b)
        assert stable(client, "t") == 0
        assert len(open_producers(client, "t")) == 2
        committing.send("t", "b")
        assert committing.end(commit=True) == 0
        aborting.send("t", "y")
        move_and_wait(client, a)
        assert aborting.end(commit=False) == 0
        assert wait_until_decided(client, "t") == 6
        move_and_wait(client, b)
        assert values(client, "t") == [b"a", b"b"]
