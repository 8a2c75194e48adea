"""TXN-02 to TXN-06: who gets a producer id, who is fenced, how a transaction ends and who may write in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.groups import find_coordinator
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import (
    RawProducer,
    find_transaction_coordinator,
    init_producer_id,
    markers_of,
    stable_offset,
    wait_until_decided,
)
from tests.harness.transactions import read_committed

PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
OUT_OF_TIME_S = 6.0
INVALID_REQUEST, FENCED_BEFORE, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, INVALID_TIMEOUT = 42, 47, 48, 49, 50
CONCURRENT_TRANSACTIONS, FENCED, ABORTABLE = 51, 90, 120


# --- TXN-02


@pytest.mark.parametrize("version", range(6))
def test_txn_02_who_asks_for_a_producer_id_must_ask_well(
    client: RawClient, fresh: Callable[..., str], version: int
) -> None:
    name = fresh("txn")
    find_transaction_coordinator(client, name)
    codes = [init_producer_id(client, name, version, timeout_ms=ms).error_code for ms in (0, -1, 900_001, 900_000)]
    assert codes == [INVALID_TIMEOUT] * 3 + [0]
    assert init_producer_id(client, "", version).error_code == INVALID_REQUEST


def test_txn_02_a_producer_id_is_handed_out_once(broker: BrokerProcess, client: RawClient) -> None:
    before = [init_producer_id(client, None) for _ in range(2)]
    broker.kill()
    broker.start()
    with RawClient(address(broker)) as later:
        answers = [*before, init_producer_id(later, None)]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(0, 0)] * 3
    ids = [answer.producer_id for answer in answers]
    assert len(set(ids)) == 3
    assert ids == sorted(ids)


# --- TXN-03


@pytest.mark.parametrize("is_killed", [False, True], ids=["silent", "silent over a kill"])
def test_txn_03_an_abandoned_transaction_is_aborted_and_its_owner_fenced(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str], is_killed: bool
) -> None:
    topic = fresh()
    client.create_topic(topic)
    lost = RawProducer(client, fresh("txn"), timeout_ms=2000).init()
    lost.add(topic, 0)
    lost.send(topic, "lost", "lost too")
    client.append(topic, batches.simple("plain"))
    assert [record.value for record in read_committed(client, topic)] == []
    if is_killed:
        broker.kill()
        broker.start()
    with RawClient(address(broker)) as later:
        eventually(
            lambda: stable_offset(later, topic) == later.end_offset(topic) == 4,
            within_s=OUT_OF_TIME_S,
            what="abort of the abandoned transaction",
        )
        [marker] = markers_of(later, topic)
        assert not marker.is_commit
        lost.client = later
        for version in later.offered("produce", 3, 8, 11, 12):
            late = lost.produce(topic, lost.batch("late", sequence=2), version=version)
            assert late.error_code == FENCED_BEFORE, version
        for version in later.offered("end_txn"):
            # From v5 on it passes for a repeat of the end that raised the epoch, which was an abort.
            wanted = INVALID_TXN_STATE if version >= 5 else FENCED if version >= 2 else FENCED_BEFORE
            assert lost.finish(commit=True, version=version) == wanted, version
        found = RawProducer(later, lost.transactional_id).init()
        assert found.producer_id == lost.producer_id
        found.add(topic, 0)
        found.send(topic, "found")
        assert found.end(commit=True) == 0
        wait_until_decided(later, topic)
        assert [record.value for record in read_committed(later, topic)] == [b"plain", b"found"]


# --- TXN-04


def _begin(client: RawClient, fresh: Callable[..., str], topic: str | None = None) -> tuple[str, RawProducer]:
    if topic is None:
        topic = fresh()
        client.create_topic(topic, 2)
    producer = RawProducer(client, fresh("txn")).init()
    _go_on(producer, topic)
    return topic, producer


def _go_on(producer: RawProducer, topic: str) -> None:
    assert producer.add(topic, 0, 1) == [0, 0]
    for partition in (0, 1):
        producer.send(topic, "x", partition=partition)


def _outcomes(client: RawClient, topic: str) -> list[list[bool]]:
    """Wait until all is decided; give the outcomes in each partition."""
    for partition in (0, 1):
        wait_until_decided(client, topic, partition)
    return [[marker.is_commit for marker in markers_of(client, topic, partition)] for partition in (0, 1)]


@pytest.mark.parametrize("version", range(5))
def test_txn_04_an_end_is_repeated_but_not_contradicted(
    client: RawClient, fresh: Callable[..., str], version: int
) -> None:
    topic, producer = _begin(client, fresh)
    codes = [producer.finish(commit=commit, version=version) for commit in (True, True, False, True)]
    assert codes == [0, 0, INVALID_TXN_STATE, 0]
    assert _outcomes(client, topic) == [[True], [True]]
    _go_on(producer, topic)
    codes = [producer.finish(commit=commit, version=version) for commit in (False, False, True, False)]
    assert codes == [0, 0, INVALID_TXN_STATE, 0]
    assert _outcomes(client, topic) == [[True, False], [True, False]]


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_txn_04_a_repeat_before_the_next_epoch_is_told_that_epoch(
    client: RawClient, fresh: Callable[..., str], is_commit: bool
) -> None:
    topic, producer = _begin(client, fresh)
    before = producer.epoch
    for _ in range(2):
        producer.epoch = before
        assert producer.finish(commit=is_commit, version=5) == 0
        assert producer.epoch == before + 1
    producer.epoch = before
    assert producer.finish(commit=not is_commit, version=5) == INVALID_TXN_STATE
    assert _outcomes(client, topic) == [[is_commit], [is_commit]]


@pytest.mark.parametrize("version", [3, 5])
def test_txn_04_two_ends_at_once_write_one_marker(
    client: RawClient, connect: Callable[..., RawClient], fresh: Callable[..., str], version: int
) -> None:
    topic, producer = _begin(client, fresh)
    both = (client, connect())
    for one in both:
        one.send(
            "end_txn",
            version,
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=True,
        )
    codes = sorted(one.receive("end_txn", version)[1].error_code for one in both)
    assert codes in ([0, 0], [0, CONCURRENT_TRANSACTIONS])
    assert _outcomes(client, topic) == [[True], [True]]


# --- TXN-05


@pytest.mark.parametrize("version", range(3, 12))
def test_txn_05_nobody_writes_to_a_partition_outside_the_transaction(
    client: RawClient, fresh: Callable[..., str], version: int
) -> None:
    if not client.offers("produce", version):
        pytest.skip(f"Produce v{version} is not offered")
    topic = fresh()
    client.create_topic(topic, 2)
    refusal = ABORTABLE if version >= 11 else INVALID_TXN_STATE
    producer = RawProducer(client, fresh("txn")).init()

    def refused(code: int, partition: int = 0, **batch: int) -> None:
        end = client.end_offset(topic, partition)
        answer = producer.produce(topic, producer.batch("x", **batch), partition, version=version)
        assert answer.error_code == code
        assert client.end_offset(topic, partition) == end

    refused(refusal)
    producer.add(topic, 1)
    refused(refusal)
    producer.send(topic, "in it", partition=1, version=version)
    refused(INVALID_TXN_STATE, 1, sequence=1, attributes=0)
    assert producer.finish(commit=True) == 0
    wait_until_decided(client, topic, 1)
    refused(refusal, 1, sequence=1)
    assert [stable_offset(client, topic, partition) for partition in (0, 1)] == [0, 2]


# --- TXN-06


def test_txn_06_who_was_followed_by_another_is_fenced_everywhere(client: RawClient, fresh: Callable[..., str]) -> None:
    topic, group = fresh(), fresh("group")
    client.create_topic(topic)
    find_coordinator(client, group)
    old = RawProducer(client, fresh("txn")).init()
    new = RawProducer(client, old.transactional_id).init()
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)

    def told(version: int) -> int:
        return FENCED if version >= 2 else FENCED_BEFORE

    new.add(topic, 0)
    new.send(topic, "new")
    for version in client.offered("produce", *range(3, 13)):
        assert old.produce(topic, old.batch("old"), version=version).error_code == FENCED_BEFORE, version
    for version in client.offered("add_partitions_to_txn", 0, 1, 2, 3):
        assert old.add(topic, 0, version=version) == [told(version)], version
    for version in client.offered("add_offsets_to_txn"):
        assert old.add_group(group, version=version) == told(version), version
    for version in client.offered("end_txn"):
        assert old.finish(commit=True, version=version) == told(version), version
    for version in client.offered("txn_offset_commit"):
        codes = old.commit_offsets(group, [(topic, 0, 1)], version=version)
        assert codes[0] in (FENCED_BEFORE, FENCED), version
    assert new.finish(commit=True) == 0
    wait_until_decided(client, topic)
    assert [record.value for record in read_committed(client, topic)] == [b"new"]
    for version in client.offered("init_producer_id", 3, 4, 5):
        mine = {"producer_id": old.producer_id, "epoch": old.epoch}
        answer = init_producer_id(client, old.transactional_id, version, **mine)
        assert answer.error_code == (FENCED if version >= 4 else FENCED_BEFORE), version


def test_txn_06_an_id_that_does_not_fit_is_no_ones(client: RawClient, fresh: Callable[..., str]) -> None:
    topic, producer = _begin(client, fresh)
    stranger = RawProducer(client, fresh("nobody"))
    stranger.producer_id, stranger.epoch = producer.producer_id, producer.epoch
    mistaken = RawProducer(client, producer.transactional_id)
    mistaken.producer_id, mistaken.epoch = producer.producer_id + 1000, producer.epoch
    for one in (stranger, mistaken):
        for version in client.offered("end_txn"):
            assert one.finish(commit=True, version=version) == INVALID_PRODUCER_ID_MAPPING, version
    assert producer.finish(commit=True) == 0
    assert _outcomes(client, topic) == [[True], [True]]


def test_txn_06_librdkafka_says_at_once_that_it_is_fenced(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": fresh("txn")}
    old, new = Producer(settings), Producer(settings)
    old.init_transactions(30)
    old.begin_transaction()
    old.produce(topic, b"old")
    old.flush(30)
    new.init_transactions(30)
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(30)
    error = caught.value.args[0]
    assert error.fatal()
    assert error.code() == KafkaError._FENCED
    wait_until_decided(client, topic)
    assert [record.value for record in read_committed(client, topic)] == []
