"""librdkafka, with either group protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.history.clients.interface import (
    HEARTBEAT_MS,
    POLL_S,
    SESSION_MS,
    TRANSACTION_MS,
    Input,
    MustAbort,
    MustEnd,
    Options,
    TransformClient,
)

CALL_S = 20.0

PATIENCE: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    # The default, to bootstrap anew once the only broker is down, leaves librdkafka 2.16 with a dead handle as the
    # group's coordinator, to which it then sends offsets of transactions for minutes.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}

# Said by a call that may be made again though nothing marks it so.
_TIMEOUTS = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class ConfluentClient(TransformClient):
    """The producer is initialized before the consumer asks where the group stands."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        shared = {"bootstrap.servers": options.bootstrap, "client.id": options.life, **PATIENCE}
        self._producer = Producer(
            {**shared, "transactional.id": options.worker, "transaction.timeout.ms": TRANSACTION_MS, "linger.ms": 2}
        )
        call(self._producer.init_transactions, CALL_S)
        settings: dict[str, Any] = {
            **shared,
            "group.id": options.group,
            "group.protocol": options.protocol,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if options.protocol == "classic":
            settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        if options.is_static:
            settings["group.instance.id"] = options.worker
        self._consumer = Consumer(settings)
        self._consumer.subscribe([options.source], on_assign=self._assigned, on_revoke=self._revoked)
        # Partitions taken away while a poll collects; their records are another's now.
        self._lost: set[int] = set()
        self._membership: Any = None

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.when_moved([(one.topic, one.partition) for one in partitions])
        assign_explicitly(self._consumer, partitions, self.options.protocol)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._lost |= {one.partition for one in partitions}

    def poll(self, limit: int) -> list[Input]:
        found: list[Input] = []
        self._lost.clear()
        message = self._consumer.poll(POLL_S)
        while message is not None:
            error = message.error()
            if error is None:
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None and offset is not None and value is not None
                found.append(Input(partition, offset, value.decode()))
            elif is_fatal(error):
                raise MustEnd(f"consumer: {error}")
            message = self._consumer.poll(0) if len(found) < limit else None
        if self._lost:
            # A partition may have come back meanwhile, from its committed offset; only what is read now counts.
            self._rewind_if_owned(found)
            return []
        if found:
            self._membership = self._consumer.consumer_group_metadata()
        return found

    def _rewind_if_owned(self, found: list[Input]) -> None:
        if found:
            self.rewind()

    def begin(self) -> None:
        call(self._producer.begin_transaction)

    def send(self, partition: int, value: str, acknowledged: Callable[[int], None]) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                acknowledged(offset)

        self._producer.produce(self.options.target, value.encode(), partition=partition, on_delivery=delivered)

    def flush(self) -> None:
        self._producer.flush(CALL_S)

    def send_offsets(self, offsets: Mapping[int, int]) -> None:
        positions = [TopicPartition(self.options.source, partition, offset) for partition, offset in offsets.items()]
        call(self._producer.send_offsets_to_transaction, positions, self._membership, CALL_S)

    def commit(self) -> None:
        call(self._producer.commit_transaction, CALL_S)

    def abort(self) -> None:
        call(self._producer.abort_transaction, CALL_S)

    def rewind(self) -> None:
        owned = self._consumer.assignment()
        if not owned:
            return
        for one in call(self._consumer.committed, owned, CALL_S):
            try:
                self._consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))
            except KafkaException as failure:
                raise MustEnd(f"seek: {failure}") from failure
        self.when_moved([(one.topic, one.partition) for one in owned])

    def close(self) -> None:
        self._consumer.close()


def assign_explicitly(consumer: Consumer, partitions: list[TopicPartition], protocol: str) -> None:
    """Take over partitions at their committed offsets, or at 0, where every log of these tests begins.

    Left to itself librdkafka asks for the first offset. A late answer to that, after a revocation while the broker was
    away, makes it fetch a partition that it does not own, and deliver the same or the wrong records once it does again.
    """
    start = [
        TopicPartition(one.topic, one.partition, max(one.offset, 0))
        for one in call(consumer.committed, partitions, CALL_S)
    ]
    if protocol == "classic":
        consumer.assign(start)
    else:
        consumer.incremental_assign(start)


def is_fatal(error: KafkaError) -> bool:
    """Tell whether a consumer cannot go on; the event that says so is not marked as fatal itself."""
    return error.fatal() or error.code() == KafkaError._FATAL


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call until it works, or say what must come instead."""
    while True:
        try:
            return function(*arguments)
        except KafkaException as failure:
            error = failure.args[0]
            if error.fatal():
                raise MustEnd(f"{function.__name__}: {error}") from failure
            if error.txn_requires_abort():
                raise MustAbort(str(error)) from failure
            if not error.retriable() and error.code() not in _TIMEOUTS:
                raise MustEnd(f"{function.__name__}: {error}") from failure
