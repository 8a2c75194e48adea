"""aiokafka, on an event loop in a thread of its own.

It cannot ask for stable offsets, does not say which member commits, and joins again in the midst of a transaction: in a
group its loop is not safe. So it assigns itself all partitions, and its producer waits at its start until the last
life's transaction has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.history.clients.interface import (
    POLL_S,
    TRANSACTION_MS,
    Input,
    MustAbort,
    MustEnd,
    Options,
    TransformClient,
)

CALL_S = 30.0
_T = TypeVar("_T")


class AioClient(TransformClient):
    """The producer is initialized before the consumer asks where the group stands."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._sent: list[tuple[asyncio.Future[Any], Callable[[int], None]]] = []
        self._call(self._start())

    async def _start(self) -> None:
        options = self.options
        self._producer = AIOKafkaProducer(
            bootstrap_servers=options.bootstrap,
            transactional_id=options.worker,
            transaction_timeout_ms=TRANSACTION_MS,
            retry_backoff_ms=50,
        )
        await self._producer.start()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=50,
        )
        await self._consumer.start()
        self._consumer.assign([TopicPartition(options.source, number) for number in range(options.partitions)])

    def poll(self, limit: int) -> list[Input]:
        found = self._call(self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=limit))
        return [Input(one.partition, one.offset, one.value.decode()) for records in found.values() for one in records]

    def begin(self) -> None:
        self._sent.clear()
        self._call(self._producer.begin_transaction())

    def send(self, partition: int, value: str, acknowledged: Callable[[int], None]) -> None:
        future = self._call(self._producer.send(self.options.target, value.encode(), partition=partition))
        self._sent.append((future, acknowledged))

    def flush(self) -> None:
        """Wait for the answers, as this client does not by itself before a commit."""
        sent, self._sent = self._sent, []

        async def answers() -> list[Any]:
            return await asyncio.gather(*(future for future, _ in sent))

        for (_, acknowledged), stored in zip(sent, self._call(answers()), strict=True):
            acknowledged(stored.offset)

    def send_offsets(self, offsets: Mapping[int, int]) -> None:
        positions = {TopicPartition(self.options.source, partition): offset for partition, offset in offsets.items()}
        self._call(self._producer.send_offsets_to_transaction(positions, self.options.group))

    def commit(self) -> None:
        self._call(self._producer.commit_transaction())
        self.flush()

    def abort(self) -> None:
        self._call(self._producer.abort_transaction())

    def rewind(self) -> None:
        self._call(self._consumer.seek_to_committed())
        self.when_moved([(one.topic, one.partition) for one in self._consumer.assignment()])

    def close(self) -> None:
        self._call(self._consumer.stop())

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run to the end, or say what must come instead."""

        async def bounded() -> _T:
            async with asyncio.timeout(CALL_S):
                return await coroutine

        try:
            return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result()
        except KafkaError as failure:
            manager = self._producer._txn_manager
            if manager is not None and manager.state.name == "ABORTABLE_ERROR":
                raise MustAbort(repr(failure)) from failure
            raise MustEnd(repr(failure)) from failure
        except (TimeoutError, AssertionError) as failure:
            raise MustEnd(repr(failure)) from failure
