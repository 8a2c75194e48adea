"""Conformance checks 91, 92, 95, 96, 98, 100, 102 and 103; the others of transactions are cases TXN-02 to TXN-08."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer

from tests.cases.conftest import address
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import (
    RawProducer,
    describe_producers,
    find_transaction_coordinator,
    init_producer_id,
    markers_of,
    stable_offset,
    wait_until_decided,
)
from tests.harness.transactions import read_committed
from tests.harness.wire import Struct

PROPERTIES = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
UNKNOWN_PARTITION, INVALID_TXN_STATE, CONCURRENT, NOT_ATTEMPTED, NO_SUCH_ID = 3, 48, 51, 55, 105


@pytest.fixture
def topic(client: RawClient, fresh: Callable[..., str]) -> Iterator[str]:
    name = fresh()
    client.create_topic(name, 2)
    yield name


@pytest.fixture
def producer(client: RawClient, fresh: Callable[..., str]) -> RawProducer:
    return RawProducer(client, fresh("txn")).init()


def described(client: RawClient, *names: str) -> list[Struct]:
    """Describe transactions once they are decided."""

    def ask() -> list[Struct] | None:
        rows = client.request("describe_transactions", 0, transactional_ids=list(names)).transaction_states
        return None if any(row.transaction_state.startswith("Prepare") for row in rows) else rows

    return eventually(ask, what="decided transactions")


def consume(broker: BrokerProcess, topic: str, isolation: str, count: int) -> list[bytes]:
    """Read partition 0 to its end with a stock client."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"{topic}-{isolation}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value())
            return False
        return message is not None and len(values) >= count

    eventually(read, every_s=0, what=f"{count} records")
    consumer.close()
    return values


def test_check_91_committed_records_alone_reach_a_read_committed_consumer(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh("txn")})
    producer.init_transactions(30)
    for outcome in ("first", "aborted", "second"):
        producer.begin_transaction()
        for number in range(100):
            producer.produce(topic, f"{outcome}-{number}")
        (producer.abort_transaction if outcome == "aborted" else producer.commit_transaction)(30)
        # What is aborted must have been sent, else there is nothing to hide.
        wait_until_decided(client, topic)
    sent = {name: [f"{name}-{number}".encode() for number in range(100)] for name in ("first", "aborted", "second")}
    assert consume(broker, topic, "read_committed", 200) == sent["first"] + sent["second"]
    uncommitted = consume(broker, topic, "read_uncommitted", 200)
    assert set(uncommitted) - set(sent["aborted"]) == {*sent["first"], *sent["second"]}
    assert client.end_offset(topic) == len(uncommitted) + len(markers_of(client, topic))
    found = client.fetch(topic, 0, isolation=1)
    assert len(found.aborted_transactions) <= 1, "check 92: an aborted transaction is named once"


def test_check_92_an_aborted_transaction_is_named_once(client: RawClient, topic: str, producer: RawProducer) -> None:
    producer.add(topic, 0)
    first, *_ = (producer.send(topic, f"{number}") for number in range(5))
    assert producer.finish(commit=False) == 0
    wait_until_decided(client, topic)
    found = client.fetch(topic, 0, isolation=1)
    assert [(row.producer_id, row.first_offset) for row in found.aborted_transactions] == [
        (producer.producer_id, first)
    ]
    assert client.fetch(topic, 0, isolation=0).aborted_transactions is None


@pytest.mark.parametrize("version", range(6))
def test_check_95_whoever_takes_an_open_transaction_over_waits_for_its_abort(
    client: RawClient, topic: str, producer: RawProducer, version: int
) -> None:
    producer.add(topic, 0)
    producer.send(topic, "old")
    mine = {"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}
    at_once = client.request(
        "init_producer_id",
        version,
        transactional_id=producer.transactional_id,
        transaction_timeout_ms=60_000,
        **mine,
    )
    assert (at_once.error_code, at_once.producer_id, at_once.producer_epoch) == (CONCURRENT, -1, -1)
    answer = init_producer_id(client, producer.transactional_id, version)
    assert (answer.error_code, answer.producer_id) == (0, producer.producer_id)
    assert answer.producer_epoch > producer.epoch
    assert wait_until_decided(client, topic) == 2
    assert read_committed(client, topic) == []


@pytest.mark.parametrize("version", range(4))
def test_check_96_partitions_are_added_all_or_none(
    client: RawClient, topic: str, producer: RawProducer, fresh: Callable[..., str], version: int
) -> None:
    missing = fresh("missing")
    answer = client.request(
        "add_partitions_to_txn",
        version,
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[{"name": name, "partitions": [0]} for name in (topic, missing)],
    )
    codes = {
        row.name: [one.partition_error_code for one in row.results_by_partition]
        for row in answer.results_by_topic_v3_and_below
    }
    assert codes == {topic: [NOT_ATTEMPTED], missing: [UNKNOWN_PARTITION]}
    [row] = described(client, producer.transactional_id)
    assert (row.error_code, row.transaction_state, row.topics) == (0, "Empty", [])


def test_check_98_a_producer_of_the_second_kind_adds_no_partitions(
    client: RawClient, topic: str, producer: RawProducer
) -> None:
    before = producer.epoch
    for partition in (0, 1):
        producer.send(topic, "v", partition=partition, version=12)
    [row] = described(client, producer.transactional_id)
    assert row.transaction_state == "Ongoing"
    assert {one.topic: sorted(one.partitions) for one in row.topics} == {topic: [0, 1]}
    assert producer.finish(commit=True, version=5) == 0
    assert producer.epoch == before + 1
    for partition in (0, 1):
        wait_until_decided(client, topic, partition)
        assert [record.value for record in read_committed(client, topic, partition=partition)] == [b"v"]


@pytest.mark.parametrize("version", range(5))
def test_check_100_there_must_be_something_to_end(
    client: RawClient, topic: str, producer: RawProducer, version: int
) -> None:
    assert [producer.finish(commit=commit, version=version) for commit in (True, False)] == [INVALID_TXN_STATE] * 2
    producer.add(topic, 0)
    assert [producer.finish(commit=commit, version=version) for commit in (True, False)] == [0, INVALID_TXN_STATE]


def test_check_102_what_was_open_at_a_kill_is_aborted_by_the_next_owner(
    broker: BrokerProcess, topic: str, producer: RawProducer
) -> None:
    producer.add(topic, 0)
    producer.send(topic, "lost")
    broker.kill()
    broker.start()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, 2)
        assert stable_offset(later, topic) == 0
        heir = RawProducer(later, producer.transactional_id).init()
        assert heir.producer_id == producer.producer_id
        assert heir.epoch > producer.epoch
        assert wait_until_decided(later, topic) == 2
        assert read_committed(later, topic) == []


def test_check_103_transactions_are_listed_and_described_with_their_partitions(
    client: RawClient, topic: str, producer: RawProducer, fresh: Callable[..., str]
) -> None:
    idle = RawProducer(client, fresh("txn")).init()
    producer.add(topic, 1)
    producer.send(topic, "v", partition=1)
    unknown = fresh("nobody")
    find_transaction_coordinator(client, unknown)
    rows = described(client, producer.transactional_id, idle.transactional_id, unknown)
    assert [(row.error_code, row.transaction_state) for row in rows] == [(0, "Ongoing"), (0, "Empty"), (NO_SUCH_ID, "")]
    assert (rows[0].producer_id, rows[0].producer_epoch, rows[0].transaction_timeout_ms) == (
        producer.producer_id,
        producer.epoch,
        producer.timeout_ms,
    )
    assert [(one.topic, one.partitions) for one in rows[0].topics] == [(topic, [1])]
    listing = client.request("list_transactions", 0, state_filters=["Ongoing"], producer_id_filters=[])
    found = {row.transactional_id: (row.producer_id, row.transaction_state) for row in listing.transaction_states}
    assert found[producer.transactional_id] == (producer.producer_id, "Ongoing")
    assert idle.transactional_id not in found
    [active] = describe_producers(client, topic, 1).active_producers
    assert (active.producer_id, active.producer_epoch, active.current_txn_start_offset) == (
        producer.producer_id,
        producer.epoch,
        0,
    )
    assert producer.finish(commit=False) == 0
    wait_until_decided(client, topic, 1)
    assert describe_producers(client, topic, 1).active_producers[0].current_txn_start_offset == -1
