"""Stored transactional ids: bytes as Kafka's own serializer writes them, and every version read."""

from __future__ import annotations

import pytest

from broker.coordinator.shard import CoordinatorRecord
from broker.coordinator.transaction.records import (
    parse_key,
    parse_value,
    transaction_record,
    transaction_tombstone,
)
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.state import Transaction, TransactionState
from protocol.errors import ProtocolError
from storage.types import TopicPartition

ONGOING = Transaction(
    producer_id=4_000,
    timeout_ms=60_000,
    updated_ms=1_700_000_000_123,
    producer_epoch=5,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("orders", 3)}),
    started_ms=1_700_000_000_000,
    previous_producer_id=4_000,
    client_version=2,
)
EMPTY = Transaction(4_000, 60_000, 1_700_000_000_123, producer_epoch=0, previous_producer_id=4_000)
ENDED = ONGOING._replace(state=TransactionState.COMPLETE_ABORT, producer_epoch=6, partitions=frozenset())
OVERFLOWING = ONGOING._replace(
    state=TransactionState.PREPARE_COMMIT, producer_epoch=32_767, next_producer_id=9_000, previous_producer_id=3_999
)

# Written by org.apache.kafka.coordinator.transaction.TransactionLog of Apache Kafka 4.3.1.
_ONGOING_0 = (
    "00000000000000000fa000050000ea60010000000100066f726465727300000001000000030000018bcfe5687b0000018bcfe56800"
)
_ONGOING_1 = (
    "00010000000000000fa000050000ea600102076f72646572730200000003000000018bcfe5687b0000018bcfe568000200080000000000000f"
    "a002020002"
)
_EMPTY_0 = "00000000000000000fa000000000ea6000ffffffff0000018bcfe5687bffffffffffffffff"
_EMPTY_1 = "00010000000000000fa000000000ea6000000000018bcfe5687bffffffffffffffff0100080000000000000fa0"
_OVERFLOWING_1 = (
    "00010000000000000fa07fff0000ea600202076f72646572730200000003000000018bcfe5687b0000018bcfe568000300080000000000000f"
    "9f0108000000000000232802020002"
)
_ENDED_1 = "00010000000000000fa000060000ea6005010000018bcfe5687b0000018bcfe568000200080000000000000fa002020002"
REFERENCE = [
    (ONGOING._replace(client_version=0), 0, _ONGOING_0),
    (ONGOING, 1, _ONGOING_1),
    (ONGOING, 2, _ONGOING_1),
    (EMPTY, 0, _EMPTY_0),
    (EMPTY, 1, _EMPTY_1),
    (EMPTY, 2, _EMPTY_1),
    (OVERFLOWING, 2, _OVERFLOWING_1),
    (ENDED, 2, _ENDED_1),
]


@pytest.mark.parametrize(("transaction", "server_version", "expected"), REFERENCE)
def test_a_record_is_what_the_reference_writes(transaction: Transaction, server_version: int, expected: str) -> None:
    record = transaction_record("tx-é", transaction, server_version=server_version)
    assert record.key.hex() == "0000000574782dc3a9"
    assert record.value is not None
    assert record.value.hex() == expected


@pytest.mark.parametrize("transaction", [ONGOING, EMPTY, OVERFLOWING])
def test_what_was_written_is_read_back(transaction: Transaction) -> None:
    record = transaction_record("tx", transaction, server_version=2)
    assert record.value is not None
    assert parse_key(record.key) == "tx"
    assert parse_value(record.value) == transaction
    oldest = transaction_record("tx", transaction, server_version=0)
    assert oldest.value is not None
    assert parse_value(oldest.value) == transaction._replace(
        previous_producer_id=-1, next_producer_id=-1, client_version=0
    )


def test_many_partitions_are_stored_by_topic() -> None:
    partitions = frozenset(TopicPartition(topic, number) for topic in ("b", "a") for number in (2, 0, 1))
    record = transaction_record("tx", ONGOING._replace(partitions=partitions), server_version=2)
    assert record.value is not None
    stored = parse_value(record.value)
    assert stored is not None
    assert stored.partitions == partitions


def test_a_tombstone_has_the_key_alone() -> None:
    assert transaction_tombstone("tx") == (transaction_record("tx", EMPTY, server_version=2).key, None, None)


def test_a_key_of_another_kind_is_told_apart() -> None:
    assert parse_key(b"\x00\x01anything") is None


def test_a_value_of_a_later_version_is_told_apart() -> None:
    assert parse_value(b"\x00\x02anything") is None


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x00\x00", b"\x00\x01"])
def test_damaged_values_are_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_value(value)


def test_a_state_nobody_knows_is_refused() -> None:
    record = transaction_record("tx", EMPTY, server_version=0)
    assert record.value is not None
    position = 2 + 8 + 2 + 4
    with pytest.raises(ProtocolError, match="state 9"):
        parse_value(record.value[:position] + b"\x09" + record.value[position + 1 :])


@pytest.mark.parametrize("value", [None, b"", b"v", bytes.fromhex(_EMPTY_1)])
def test_a_record_of_a_later_kind_is_passed_over_whatever_its_value(value: bytes | None) -> None:
    shard = TransactionShard(0, lambda: 0, lambda: 2, lambda shard, transactional_id: None)
    shard.replay(CoordinatorRecord(b"\x00\x63later", value), offset=0, producer_id=-1)
    assert shard.transactions == {}
