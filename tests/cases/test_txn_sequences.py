"""TXN-07 and TXN-11: the sequence numbers of idempotent producers, on topics old and new."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import delete_records
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient
from tests.harness.wire import Struct

OUT_OF_ORDER = 45
MANY = 5
MAX_SEQUENCE = 2**31 - 1


class Idempotent:
    """A producer without transactions that sends the sequences it is told to."""

    def __init__(self, client: RawClient, topic: str, *, count: int = 1) -> None:
        self.client, self.topic, self.count = client, topic, count
        self.producer_id, self.epoch = client.producer_id(), 0

    def send(self, sequence: int, *, count: int | None = None) -> Struct:
        values = [f"{self.producer_id}-{sequence}-{index}" for index in range(count or self.count)]
        batch = batches.simple(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            timestamp=int(time.time() * 1000),  # an older one is of a producer that has expired
        )
        return self.client.produce(self.topic, batch)

    def accepted(self, *sequences: int, **options: int) -> list[int]:
        """Send batches and insist on success; return their offsets."""
        answers = [self.send(sequence, **options) for sequence in sequences]
        assert [answer.error_code for answer in answers] == [0] * len(answers)
        return [answer.base_offset for answer in answers]


@pytest.fixture
def topic(client: RawClient, fresh: Callable[..., str]) -> Iterator[str]:
    name = fresh()
    client.create_topic(name)
    yield name


@pytest.mark.parametrize("is_killed", [False, True], ids=["at once", "after a kill"])
def test_txn_07_the_last_five_batches_are_recognised_and_gaps_refused(
    broker: BrokerProcess, client: RawClient, topic: str, is_killed: bool, is_reference: bool
) -> None:
    producer = Idempotent(client, topic, count=MANY)
    offsets = producer.accepted(0, 5, 10, 15, 20, 25)
    assert offsets == [0, 5, 10, 15, 20, 25]
    if is_killed:
        broker.kill()
        broker.start()
    with RawClient(address(broker)) as later:
        producer.client = later
        later.wait_for_topic(topic, 1)
        for sequence in (25,) if is_killed and is_reference else (25, 5):  # Kafka's recovery keeps the last one alone
            assert producer.accepted(sequence) == [sequence], "where it was stored"
        for refused in (0, 40):  # older than what is remembered; ahead of what comes next
            assert producer.send(refused).error_code == OUT_OF_ORDER
        assert later.end_offset(topic) == 30
        assert producer.accepted(30) == [30]


@pytest.mark.parametrize("is_killed", [False, True], ids=["at once", "after a kill"])
def test_txn_07_sequences_begin_anew_behind_the_largest(
    broker: BrokerProcess, client: RawClient, topic: str, is_killed: bool, is_reference: bool
) -> None:
    producer = Idempotent(client, topic)
    assert producer.accepted(MAX_SEQUENCE - 1, count=4) == [0]  # ends with 1
    assert producer.accepted(2, count=4) == [4]
    if is_killed:
        broker.kill()
        broker.start()
    with RawClient(address(broker)) as later:
        producer.client = later
        later.wait_for_topic(topic, 1)
        if not (is_killed and is_reference):
            assert producer.accepted(MAX_SEQUENCE - 1, count=4) == [0]
        assert producer.accepted(2, count=4) == [4]
        assert producer.send(7).error_code == OUT_OF_ORDER
        assert later.end_offset(topic) == 8
        assert producer.accepted(6) == [8]


def test_txn_11_a_topic_created_again_knows_no_producer(client: RawClient, topic: str) -> None:
    producer = Idempotent(client, topic)
    producer.accepted(*range(8))
    client.delete_topic(topic)
    client.create_topic(topic)
    assert producer.accepted(8, 9) == [0, 1]
    assert producer.accepted(8) == [0], "a duplicate"
    assert producer.send(12).error_code == OUT_OF_ORDER
    assert client.end_offset(topic) == 2


def test_txn_11_a_producer_that_nobody_knows_begins_where_it_likes(client: RawClient, topic: str) -> None:
    producer = Idempotent(client, topic)
    assert producer.accepted(100, 101) == [0, 1]
    assert delete_records(client, topic, -1).low_watermark == 2
    assert producer.accepted(102) == [2]
    producer.epoch = 1
    assert producer.send(3).error_code == OUT_OF_ORDER, "a new epoch begins at 0"
    assert client.end_offset(topic) == 3
    assert producer.accepted(0) == [3]
