"""TransactionsCommand: what is open, whose it is, what hangs, and how an operator ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import Tools
from tests.harness.transacting import RawProducer, wait_until_decided
from tests.harness.transactions import is_abort

pytestmark = pytest.mark.jvm

TRANSACTIONS = "kafka-transactions"
HOUR_MS = 3_600_000


@pytest.fixture
def client(shared_broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient((shared_broker.host, shared_broker.port)) as connection:
        yield connection


def rows(table: str) -> list[list[str]]:
    """Give the cells of a tool's table without its head."""
    return [line.split() for line in table.splitlines()[1:]]


def test_transactions_are_listed_by_how_long_they_run_and_by_a_pattern(
    tools: Tools, client: RawClient, unique: str
) -> None:
    client.create_topic(unique)
    first, second = RawProducer(client, f"{unique}-a").init(), RawProducer(client, f"{unique}-b").init()
    first.add(unique, 0)
    first.send(unique, "x")

    def listed(*options: str) -> list[list[str]]:
        return [row for row in rows(tools.run(TRANSACTIONS, "list", *options)) if row[0].startswith(unique)]

    ongoing = [first.transactional_id, "1", str(first.producer_id), "Ongoing"]
    empty = [second.transactional_id, "1", str(second.producer_id), "Empty"]
    assert sorted(listed()) == [ongoing, empty]
    # An id without any transaction counts as one that began long ago, in Kafka as well.
    assert listed("--duration-filter", str(HOUR_MS)) == [empty]
    assert sorted(listed("--duration-filter", "0")) == [ongoing, empty]
    assert listed("--transactional-id-pattern", f"{unique}-[a]") == [ongoing]
    assert listed("--transactional-id-pattern", unique) == [], "the whole id has to match"
    assert listed("--transactional-id-pattern", f"{unique}.*", "--duration-filter", str(HOUR_MS)) == [empty]
    assert "INVALID_REGULAR_EXPRESSION" in tools.refusal(TRANSACTIONS, "list", "--transactional-id-pattern", "a(")

    assert first.end(commit=True) == 0
    wait_until_decided(client, unique)
    eventually(lambda: listed("--transactional-id-pattern", f"{unique}-a")[0][3] == "CompleteCommit")


def test_a_transaction_and_the_producers_of_a_partition_are_described(
    tools: Tools, client: RawClient, unique: str
) -> None:
    client.create_topic(unique, 2)
    producer = RawProducer(client, unique, timeout_ms=50_000).init()
    producer.add(unique, 0, 1)
    producer.send(unique, "x", "y")
    [row] = rows(tools.run(TRANSACTIONS, "describe", "--transactional-id", unique))
    began_ms, duration_ms = int(row[6]), int(row[7])
    assert row[:6] == ["1", unique, str(producer.producer_id), str(producer.epoch), "Ongoing", "50000"]
    assert 0 <= duration_ms < HOUR_MS and abs(began_ms + duration_ms - time.time() * 1000) < 60_000
    assert set(row[8].split(",")) == {f"{unique}-0", f"{unique}-1"}

    def described(partition: int, *options: str) -> list[list[str]]:
        asked = ("--topic", unique, "--partition", str(partition))
        return rows(tools.run(TRANSACTIONS, "describe-producers", *asked, *options))

    [open_one] = described(0, "--broker-id", "1")
    assert open_one[:4] == [str(producer.producer_id), str(producer.epoch), "-1", "1"] and open_one[5] == "0"
    assert described(1) == []
    assert producer.end(commit=False) == 0
    wait_until_decided(client, unique)
    eventually(lambda: described(0)[0][5] == "None")
    assert "the ID could not be found" in tools.refusal(
        TRANSACTIONS, "describe", "--transactional-id", f"{unique}-missing"
    )


def test_a_transaction_that_its_coordinator_knows_is_ended_through_it(
    tools: Tools, client: RawClient, unique: str
) -> None:
    client.create_topic(unique)
    producer = RawProducer(client, unique).init()
    producer.add(unique, 0)
    producer.send(unique, "x")
    assert rows(tools.run(TRANSACTIONS, "find-hanging", "--topic", unique, "--max-transaction-timeout", "0")) == []
    tools.run(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", unique)
    wait_until_decided(client, unique)
    assert producer.end(commit=True) in (47, 90), "whoever had it is fenced"
    [data, marker] = batches.parse(client.fetch_all(unique))
    assert data.producer_id == marker.producer_id == producer.producer_id and is_abort(marker)


@pytest.mark.parametrize("by", ["offset", "producer"])
def test_a_hanging_transaction_is_found_and_aborted(tools: Tools, client: RawClient, unique: str, by: str) -> None:
    """A producer of the past could append after the end of its transaction; without verification one still can."""
    client.create_topic(unique, 2)
    verification = ("kafka-configs", "--broker-defaults", "--alter")
    producer = RawProducer(client, unique).init()
    client.append(unique, batches.simple("before"))
    tools.run(*verification, "--add-config", "transaction.partition.verification.enable=false")
    try:
        long_ago = int(time.time() * 1000) - HOUR_MS

        def appended() -> bool:
            result = producer.produce(unique, producer.batch("x", timestamp=long_ago), version=9)
            return result.error_code == 0

        eventually(appended, what="an append that nobody verifies")
    finally:
        tools.run(*verification, "--delete-config", "transaction.partition.verification.enable")

    def hanging(*options: str) -> list[list[str]]:
        return rows(tools.run(TRANSACTIONS, "find-hanging", *options))

    [found] = hanging("--topic", unique)
    assert found[:6] == [unique, "0", str(producer.producer_id), str(producer.epoch), "-1", "1"]
    assert 59 <= int(found[7]) <= 65
    assert [row for row in hanging("--broker-id", "1", "--max-transaction-timeout", "15") if row[0] == unique] == [
        found
    ]
    assert hanging("--topic", unique, "--partition", "0") == [found]
    assert hanging("--topic", unique, "--partition", "1") == []
    assert hanging("--topic", unique, "--max-transaction-timeout", "100") == [], "not late enough"
    assert "requires either --topic or --broker-id" in tools.refusal(TRANSACTIONS, "find-hanging")

    assert client.list_offset(unique, -1, isolation=1).offset == 1, "nobody gets past it"
    where = ("abort", "--topic", unique, "--partition", "0")
    assert "any open transactions starting at offset 0" in tools.refusal(TRANSACTIONS, *where, "--start-offset", "0")
    whose = ("--producer-id", str(producer.producer_id), "--producer-epoch", str(producer.epoch))
    tools.run(
        *(TRANSACTIONS, *where),
        *(("--start-offset", "1") if by == "offset" else (*whose, "--coordinator-epoch", "0")),
    )
    assert hanging("--topic", unique) == []
    assert client.list_offset(unique, -1, isolation=1).offset == client.end_offset(unique) == 3
