"""Transactional ids as `__transaction_state` stores them.

Key: int16 0, then the id. Value: int16 version, then the fields; a null value forgets the id. Version 0 is written
while transaction.version is 0, version 1, which adds the ids before and after, from 1 on; both are read.
Source: TransactionLog.
"""

from __future__ import annotations

from broker.coordinator.shard import CoordinatorRecord
from broker.coordinator.transaction.state import Transaction, TransactionState
from protocol.codec import decode, encode_bytes
from protocol.errors import ProtocolError
from protocol.stored.transaction import PartitionsSchema, TransactionLogKey, TransactionLogValue
from storage.types import TopicPartition

_VERSION_SIZE = 2
_FIRST_FLEXIBLE_VERSION = 1


def transaction_record(transactional_id: str, transaction: Transaction, *, server_version: int) -> CoordinatorRecord:
    """Write the state of an id."""
    version = min(server_version, _FIRST_FLEXIBLE_VERSION)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_partitions(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= _FIRST_FLEXIBLE_VERSION:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return CoordinatorRecord(_key(transactional_id), _framed(version, encode_bytes(value, version)))


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    """Forget an id."""
    return CoordinatorRecord(_key(transactional_id), None)


def parse_key(key: bytes) -> str | None:
    """Read the id of a key; None for a key of a kind we do not know. Raises: ProtocolError."""
    if _version_of(key) != TransactionLogKey.RECORD_TYPE:
        return None
    return decode(TransactionLogKey, 0, key, _VERSION_SIZE).transactional_id


def parse_value(value: bytes) -> Transaction | None:
    """Read the state of an id; None for a version that came later. Raises: ProtocolError."""
    version = _version_of(value)
    if not TransactionLogValue.MIN_VERSION <= version <= TransactionLogValue.MAX_VERSION:
        return None
    parsed = decode(TransactionLogValue, version, value, _VERSION_SIZE)
    try:
        state = TransactionState(parsed.transaction_status)
    except ValueError as unknown:
        raise ProtocolError(f"a transaction has no state {parsed.transaction_status}") from unknown
    return Transaction(
        producer_id=parsed.producer_id,
        timeout_ms=parsed.transaction_timeout_ms,
        updated_ms=parsed.transaction_last_update_timestamp_ms,
        producer_epoch=parsed.producer_epoch,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in parsed.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=parsed.transaction_start_timestamp_ms,
        previous_producer_id=parsed.previous_producer_id,
        next_producer_id=parsed.next_producer_id,
        client_version=parsed.client_transaction_version,
    )


def by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by topic, both in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _partitions(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    return [
        PartitionsSchema(topic=topic, partition_ids=numbers)
        for topic, numbers in by_topic(transaction.partitions).items()
    ]


def _key(transactional_id: str) -> bytes:
    key = TransactionLogKey(transactional_id=transactional_id)
    return _framed(TransactionLogKey.RECORD_TYPE, encode_bytes(key, 0))


def _version_of(stored: bytes) -> int:
    if len(stored) < _VERSION_SIZE:
        raise ProtocolError(f"{len(stored)} stored bytes have no version")
    return int.from_bytes(stored[:_VERSION_SIZE], "big", signed=True)


def _framed(version: int, body: bytes) -> bytes:
    return version.to_bytes(_VERSION_SIZE, "big", signed=True) + body
