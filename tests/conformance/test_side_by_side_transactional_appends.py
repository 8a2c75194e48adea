"""Transactions as partitions and groups see them, asked of Odradek and of Apache Kafka: the same codes everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.broker import BrokerProcess
from tests.harness.groups import find_coordinator
from tests.harness.pair import Pair
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import (
    RawProducer,
    describe_producers,
    fetch_offset,
    wait_until_decided,
    write_marker,
)
from tests.harness.wire import Struct

pytestmark = pytest.mark.jvm

ADDED_BEFORE, ABORTABLE, ADDS = 10, 11, 12
NOT_ENOUGH_REPLICAS, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS = 19, 48, 51


def _begun(client: RawClient, topic: str, *, partitions: int = 2, transactional_id: str = "") -> RawProducer:
    if topic not in client.topic_names():
        client.create_topic(topic, partitions)
    return RawProducer(client, transactional_id or f"{topic}-id").init()


def _described(row: Struct, first_epoch: int = 0) -> tuple[int, ...]:
    return (
        row.producer_epoch - first_epoch,
        row.last_sequence,
        row.coordinator_epoch,
        row.current_txn_start_offset,
    )


def _words(answer: Struct) -> str | None:
    """Give the words of a refusal, of the one code for which Kafka does not leave them to its clients."""
    return getattr(answer, "error_message", None) if answer.error_code == INVALID_TXN_STATE else None


@pytest.mark.parametrize("version", [3, 8, ADDED_BEFORE, ABORTABLE, ADDS])
def test_a_partition_that_was_not_added(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        producer = _begun(client, unique)
        alone = producer.produce(unique, producer.batch("a"), version=version)
        assert producer.add(unique, 1) == [0]
        beside = producer.produce(unique, producer.batch("a"), version=version)
        there = producer.send(unique, "b", partition=1, version=version)
        ended = producer.end(commit=True)
        wait_until_decided(client, unique, 1)

        def send_late() -> Struct | None:
            """Send once the coordinator has noted the end, which may be a moment after the marker."""
            found = producer.produce(unique, producer.batch("c", sequence=1), 1, version=version)
            return None if found.error_code in (NOT_ENOUGH_REPLICAS, CONCURRENT_TRANSACTIONS) else found

        late = eventually(send_late, what="end of the transaction")
        return (
            [(one.error_code, one.base_offset, _words(one)) for one in (alone, beside, late)],
            [there, ended, client.end_offset(unique), client.end_offset(unique, 1)],
        )

    pair.same(run)


@pytest.mark.parametrize("version", [9, ABORTABLE, ADDS])
def test_who_is_let_in(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        producer = _begun(client, unique)
        seen: list[Any] = []

        def note(batch: bytes, partition: int = 0, **named: Any) -> None:
            found = producer.produce(unique, batch, partition, version=version, **named)
            seen.append((found.error_code, found.base_offset))

        assert producer.add(unique, 0, 1) == [0, 0]
        note(producer.batch("a"), transactional_id=None)
        note(producer.batch("a"), transactional_id="unknown")
        note(producer.batch("a", producer_id=producer.producer_id + 1))
        note(producer.batch("a", producer_epoch=producer.epoch + 1))
        note(producer.batch("a", producer_id=-1, producer_epoch=-1, base_sequence=-1))
        note(producer.batch("a"))
        note(producer.batch("a"))  # the same once more
        note(producer.batch("b", sequence=2))
        note(producer.batch("plain", sequence=1, attributes=0))
        note(producer.batch("b", sequence=1))
        two = {0: producer.batch("c", sequence=2), 1: producer.batch("c", producer_id=producer.producer_id + 1)}
        seen.append(producer.send_parts(unique, two, version))
        other = RawProducer(client, producer.transactional_id).init()
        seen.append(other.epoch - producer.epoch)
        note(producer.batch("c", sequence=2))
        note(producer.batch("c", sequence=0), 1)
        wait_until_decided(client, unique)
        seen.append((client.end_offset(unique), client.end_offset(unique, 1)))
        return seen

    pair.same(run)


@pytest.mark.parametrize("version", [9, ABORTABLE, ADDS])
def test_the_first_sequence_of_a_transaction(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        producer = _begun(client, unique)
        assert producer.add(unique, 0, 1) == [0, 0]
        codes = []
        for partition, sequence in ((0, 5), (0, 0), (0, 1), (1, 3), (1, 2), (1, 0)):
            batch = producer.batch("v", sequence=sequence)
            codes.append(producer.produce(unique, batch, partition, version=version).error_code)
        ended = producer.end(commit=True)
        wait_until_decided(client, unique)
        wait_until_decided(client, unique, 1)
        return codes, ended, client.end_offset(unique), client.end_offset(unique, 1)

    pair.same(run)


def test_a_failed_verification_lets_no_later_batch_overtake(pair: Pair, unique: str) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        producer = _begun(client, unique)
        codes = [producer.produce(unique, producer.batch("v", sequence=2), version=ABORTABLE).error_code]
        producer.add(unique, 0)
        for sequence in (4, 2, 3):
            batch = producer.batch("v", sequence=sequence)
            codes.append(producer.produce(unique, batch, version=ABORTABLE).error_code)
        return codes

    pair.same(run)


def test_both_flows_one_after_the_other(pair: Pair, unique: str) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        producer = _begun(client, unique)
        first = producer.epoch
        seen: list[Any] = []
        for commit in (True, False, True):
            producer.add(unique, 0)
            seen.append(producer.send(unique, "old flow"))
            seen.append(producer.end(commit=commit, version=4))
            wait_until_decided(client, unique)
        producer.init()
        for commit in (False, True, False):
            seen.append(producer.send(unique, "new flow", version=ADDS))
            seen.append((producer.end(commit=commit, version=5), producer.epoch - first))
            wait_until_decided(client, unique)
        described = describe_producers(client, unique)
        seen.append([_described(row, first) for row in described.active_producers])
        fetched = client.fetch(unique, 0, isolation=1)
        seen.append(
            [(row.producer_id == producer.producer_id, row.first_offset) for row in fetched.aborted_transactions]
        )
        return seen, fetched.last_stable_offset, fetched.high_watermark

    pair.same(run)


@pytest.mark.parametrize("transaction_version", [None, 0, 1, 2])
def test_markers(pair: Pair, unique: str, transaction_version: int | None) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        producer = _begun(client, unique)
        seen: list[Any] = []

        def marker(epoch: int, topic: str = unique, producer_id: int = producer.producer_id, **fields: Any) -> None:
            code = write_marker(client, topic, producer_id, epoch, transaction_version=transaction_version, **fields)
            rows = describe_producers(client, unique).active_producers
            seen.append((code, [_described(row) for row in rows if row.producer_id == producer.producer_id]))

        marker(0, "nowhere-to-be-found")
        marker(0, partition=7)
        marker(3, producer_id=producer.producer_id + 1000)
        producer.add(unique, 0)
        producer.send(unique, "a")
        marker(producer.epoch, coordinator_epoch=5)
        marker(producer.epoch, coordinator_epoch=5)
        marker(producer.epoch + 1, coordinator_epoch=5)
        marker(producer.epoch, coordinator_epoch=5)
        marker(producer.epoch + 1, coordinator_epoch=4)
        marker(producer.epoch + 1, coordinator_epoch=6, commit=True)
        marker(producer.epoch + 2, coordinator_epoch=6)
        seen.append((client.end_offset(unique), client.list_offset(unique, -1, isolation=1).offset))
        late = producer.produce(unique, producer.batch("late", sequence=1))
        seen.append((late.error_code, client.end_offset(unique)))
        return seen

    pair.same(run)


def test_what_describe_producers_refuses(pair: Pair, unique: str) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique)
        asked = [("bad name!", 0), ("", 0), (unique + "-missing", 0), (unique, 9), (unique, -1), (unique, 0)]
        rows = [describe_producers(client, topic, partition) for topic, partition in asked]
        return [(row.partition_index, row.error_code, row.active_producers) for row in rows]

    pair.same(run)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_offsets_in_a_transaction(pair: Pair, unique: str, version: int) -> None:
    group = f"{unique}-group"

    def run(_: BrokerProcess, client: RawClient) -> Any:
        find_coordinator(client, group)
        producer = _begun(client, unique)
        seen: list[Any] = []

        def look() -> None:
            seen.append(
                [fetch_offset(client, group, unique, n, stable=stable) for n in (0, 1) for stable in (False, True)]
            )

        seen.append(producer.commit_offsets(group, [(unique, 0, 5)], version=version))
        if version < 5:
            seen.append(producer.add_group(group))
        seen.append(
            producer.commit_offsets(group, [(unique, 0, 5), (unique, 9, 5), ("missing", 0, 5)], version=version)
        )
        look()
        seen.append(producer.commit_offsets(group, [(unique, 1, 6)], version=version, metadata="m" * 5000))
        seen.append(producer.commit_offsets(group, [(unique, 1, 6)], version=version, metadata=None))
        look()
        seen.append(producer.commit_offsets("", [(unique, 1, 6)], version=version))
        assert producer.end(commit=True, version=5 if version >= 5 else 3) == 0
        eventually(lambda: fetch_offset(client, group, unique, stable=True) == (5, 0), what="offsets applied")
        look()
        if version < 5:
            producer.add_group(group)
        seen.append(producer.commit_offsets(group, [(unique, 0, 7)], version=version))
        assert producer.end(commit=False, version=5 if version >= 5 else 3) == 0
        eventually(lambda: fetch_offset(client, group, unique, stable=True)[1] == 0, what="offsets dropped")
        look()
        stale = RawProducer(client, producer.transactional_id)
        stale.producer_id, stale.epoch = producer.producer_id, producer.epoch
        producer.init()
        seen.append(stale.commit_offsets(group, [(unique, 0, 8)], version=version))
        stale.producer_id += 1
        seen.append(stale.commit_offsets(group, [(unique, 0, 8)], version=version))
        stale.transactional_id = "unknown"
        seen.append(stale.commit_offsets(group, [(unique, 0, 8)], version=version))
        look()
        return seen

    pair.same(run)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_members_that_commit_in_a_transaction(pair: Pair, unique: str, version: int) -> None:
    group = f"{unique}-group"

    def run(_: BrokerProcess, client: RawClient) -> Any:
        find_coordinator(client, group)
        producer = _begun(client, unique)
        if version < 5:
            producer.add_group(group)
        seen: list[Any] = []
        for member in (
            {"generation_id": 3},
            {"generation_id": 3, "member_id": "m"},
            {"member_id": "m"},
            {"group_instance_id": "i"},
            {},
            {"generation_id": 3},
            {"generation_id": 3, "member_id": "m"},
            {"member_id": "m"},
        ):
            seen.append(producer.commit_offsets(group, [(unique, 0, 5)], version=version, **member))
        return seen

    pair.same(run)
