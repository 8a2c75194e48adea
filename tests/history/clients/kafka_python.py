"""kafka-python, whose consumer fetches offsets that are stable and whose producer shows its membership."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

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

CALL_S = 10.0


class _Moves(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells the client what it has been assigned."""

    def __init__(self, client: KafkaPythonClient) -> None:
        self._client = client

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Nothing is held back between polls."""

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._client.when_moved([(one.topic, one.partition) for one in assigned])


class KafkaPythonClient(TransformClient):
    """The producer is initialized before the consumer asks where the group stands."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        shared = {
            "bootstrap_servers": options.bootstrap,
            "reconnect_backoff_ms": 20,
            "reconnect_backoff_max_ms": 100,
            "retry_backoff_ms": 50,
        }
        self._producer = KafkaProducer(
            **shared, transactional_id=options.worker, transaction_timeout_ms=TRANSACTION_MS, linger_ms=2
        )
        self._call(self._producer.init_transactions)
        self._consumer = KafkaConsumer(
            **shared,
            group_id=options.group,
            group_instance_id=options.worker if options.is_static else None,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        self._consumer.subscribe([options.source], listener=_Moves(self))
        # A leader that joins before its first metadata answer assigns nothing, for good: the client's own race.
        self._consumer.partitions_for_topic(options.source)
        self._membership: Any = None

    def poll(self, limit: int) -> list[Input]:
        found = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=limit)
        self._membership = self._consumer.group_metadata()
        return [Input(one.partition, one.offset, one.value.decode()) for records in found.values() for one in records]

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, partition: int, value: str, acknowledged: Callable[[int], None]) -> None:
        def send() -> None:
            future = self._producer.send(self.options.target, value.encode(), partition=partition)
            future.add_callback(lambda stored: acknowledged(stored.offset))

        self._call(send)

    def flush(self) -> None:
        self._call(self._producer.flush)

    def send_offsets(self, offsets: Mapping[int, int]) -> None:
        if self._membership.generation_id < 0:
            raise MustAbort("no member of the group")
        positions = {
            TopicPartition(self.options.source, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        self._call(self._producer.send_offsets_to_transaction, positions, self._membership)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)
        # kafka-python 3.0 keeps offsets whose commit was refused and sends them again with the next transaction's.
        self._producer._transaction_manager._pending_txn_offset_commits.clear()

    def rewind(self) -> None:
        for one in self._consumer.assignment():
            committed = self._call(self._consumer.committed, one)
            if committed is None:
                self._consumer.seek_to_beginning(one)
            else:
                self._consumer.seek(one, committed)
            self.when_moved([(one.topic, one.partition)])

    def close(self) -> None:
        self._consumer.close()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call until it works, or say what must come instead."""
        while True:
            try:
                return _bounded(function, *arguments)
            except KafkaTimeoutError:
                continue
            except KafkaError as failure:
                manager = self._producer._transaction_manager
                if manager.has_abortable_error() and not manager.has_fatal_error():
                    raise MustAbort(repr(failure)) from failure
                raise MustEnd(f"{function.__name__}: {failure!r}") from failure


def _bounded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call, but not for ever: kafka-python 3.0 loses a request of a transaction whose coordinator it cannot reach."""
    outcome: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((function(*arguments), None))
        except Exception as failure:
            outcome.put((None, failure))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, failure = outcome.get(timeout=CALL_S)
    except queue.Empty:
        raise MustEnd(f"{function.__name__}: no answer") from None
    if failure is not None:
        raise failure
    return result
