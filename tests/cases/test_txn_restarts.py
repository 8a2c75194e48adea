"""TXN-09: transactions that are open, or about to end, when the broker goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cases.conftest import address
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import (
    RawProducer,
    find_transaction_coordinator,
    markers_of,
    stable_offset,
    wait_until_decided,
)
from tests.harness.transactions import read_committed

PROPERTIES = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
PARTITIONS = (0, 1, 2)


def begin(client: RawClient, fresh: Callable[..., str]) -> tuple[str, RawProducer]:
    topic = fresh()
    client.create_topic(topic, len(PARTITIONS))
    producer = RawProducer(client, fresh("txn")).init()
    assert producer.add(topic, *PARTITIONS) == [0, 0, 0]
    send(producer, topic, "a")
    return topic, producer


def send(producer: RawProducer, topic: str, value: str) -> None:
    for partition in PARTITIONS:
        producer.send(topic, value, partition=partition)


def values(client: RawClient, topic: str) -> list[list[bytes | None]]:
    return [[record.value for record in read_committed(client, topic, partition=partition)] for partition in PARTITIONS]


def test_txn_09_an_open_transaction_goes_on_over_a_stop_and_a_kill(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str]
) -> None:
    topic, producer = begin(client, fresh)
    for end, value in ((broker.stop, "b"), (broker.kill, "c")):
        end()
        broker.start()
        producer.client = RawClient(address(broker))
        producer.client.wait_for_topic(topic, len(PARTITIONS))
        find_transaction_coordinator(producer.client, producer.transactional_id)
        assert [stable_offset(producer.client, topic, partition) for partition in PARTITIONS] == [0, 0, 0]
        send(producer, topic, value)
    with producer.client as later:
        assert producer.finish(commit=True) == 0
        assert [wait_until_decided(later, topic, partition) for partition in PARTITIONS] == [4, 4, 4]
        assert values(later, topic) == [[b"a", b"b", b"c"]] * 3


@pytest.mark.parametrize("version", [3, 5])
def test_txn_09_a_kill_right_after_an_end_leaves_one_outcome(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str], version: int
) -> None:
    topic, producer = begin(client, fresh)
    client.send(
        "end_txn",
        version,
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    broker.kill()
    broker.start()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, len(PARTITIONS))
        heir = RawProducer(later, producer.transactional_id).init()
        assert heir.producer_id == producer.producer_id
        assert heir.epoch > producer.epoch
        eventually(
            lambda: all(stable_offset(later, topic, partition) == 2 for partition in PARTITIONS),
            what="markers on all partitions",
        )
        outcomes = [[marker.is_commit for marker in markers_of(later, topic, partition)] for partition in PARTITIONS]
        assert outcomes in ([[True]] * 3, [[False]] * 3)
        assert values(later, topic) == ([[b"a"]] * 3 if outcomes[0][0] else [[]] * 3)
