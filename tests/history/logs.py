"""Whole logs, as a stock consumer reads them once everything else is over."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.history.model import Partition, WholeLog

READ_S = 60.0


def settled(client: RawClient, partitions: list[Partition]) -> None:
    """Wait until no transaction is open in any of these partitions: the last stable offset is the end."""

    def ends(isolation: int) -> list[int]:
        return [client.list_offset(topic, -1, number, isolation=isolation).offset for topic, number in partitions]

    eventually(lambda: ends(1) == ends(0), what="every transaction has ended")


def whole_logs(broker: BrokerProcess, partitions: list[Partition]) -> list[WholeLog]:
    """Read each partition to its end, once in each isolation."""
    return [
        log for is_committed in (False, True) for log in _read_to_the_end(broker, partitions, is_committed=is_committed)
    ]


def _read_to_the_end(broker: BrokerProcess, partitions: list[Partition], *, is_committed: bool) -> list[WholeLog]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "whole-logs",
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    records: dict[Partition, list[tuple[int, str]]] = {one: [] for one in partitions}
    unfinished = set(partitions)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in partitions])
    try:
        while unfinished:
            message = consumer.poll(READ_S)
            assert message is not None, f"nothing more of {unfinished}"
            partition = (message.topic() or "", message.partition() or 0)
            error, offset, value = message.error(), message.offset(), message.value()
            if error is None:
                assert offset is not None and value is not None
                records[partition].append((offset, value.decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(partition)
    finally:
        consumer.close()
    return [WholeLog(one, is_committed, tuple(found)) for one, found in records.items()]
