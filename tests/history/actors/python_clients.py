"""Actors on kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import ConsumerRebalanceListener as AioListener
from aiokafka.errors import KafkaError as AioError
from kafka import KafkaConsumer, KafkaProducer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError

from tests.history.actors.interface import Actor, ActorOptions, Reader
from tests.history.clients.interface import HEARTBEAT_MS, SESSION_MS, TRANSACTION_MS, MustEnd
from tests.history.gate import Gate

MOST_IN_FLIGHT = 50
COMMIT_EVERY_RECORDS = 40
QUICKLY = {"retry_backoff_ms": 50}
QUICKLY_BACK = {**QUICKLY, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}
CALL_S = 30.0


class PythonProducer(Actor):
    """kafka-python, idempotent."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        self._producer = KafkaProducer(
            bootstrap_servers=options.bootstrap, enable_idempotence=True, linger_ms=1, **QUICKLY_BACK
        )
        self.journal.producer(options.life)
        self._unanswered: list[Any] = []

    def step(self) -> None:
        self._unanswered = [future for future in self._unanswered if not future.is_done]
        if len(self._unanswered) < MOST_IN_FLIGHT:
            partition, value = self.partition(), self.value()
            self.journal.writing(self.options.life, partition, value)
            try:
                future = self._producer.send(partition[0], value.encode(), key=self.padding(), partition=partition[1])
            except KafkaError as failure:
                raise MustEnd(repr(failure)) from failure
            future.add_callback(lambda stored: self.journal.written(value, stored.offset))
            self._unanswered.append(future)
        self.rest()

    def finish(self) -> None:
        self._producer.flush(CALL_S)
        self._producer.close()


class _Moves(ConsumerRebalanceListener):  # type: ignore[misc]
    """Ends the sessions of what is assigned anew."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing is held back between polls."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._reader.forget([(one.topic, one.partition) for one in assigned])


class PythonConsumer(Reader):
    """kafka-python, in a classic group."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        self._consumer = KafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=self.settings["group"],
            group_instance_id=options.name if self.settings.get("is_static") else None,
            isolation_level=self.isolation_level,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **QUICKLY_BACK,
        )
        self._consumer.subscribe(sorted(options.topics), listener=_Moves(self))
        # A leader that joins before its first metadata answer assigns nothing, for good: the client's own race.
        for topic in options.topics:
            self._consumer.partitions_for_topic(topic)

    def step(self) -> None:
        try:
            found = self._consumer.poll(timeout_ms=100)
        except KafkaError as failure:
            raise MustEnd(repr(failure)) from failure
        for records in found.values():
            for one in records:
                self.note((one.topic, one.partition), one.offset, one.value)
        if self.uncommitted >= COMMIT_EVERY_RECORDS:
            self._commit()

    def _commit(self) -> None:
        with contextlib.suppress(KafkaError):
            self._consumer.commit(timeout_ms=int(CALL_S * 1000))
        self.uncommitted = 0

    def finish(self) -> None:
        self._commit()
        self._consumer.close()


class _AioActor(Actor):
    """Runs each step on a loop of its own."""

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(CALL_S):
                await self.begin()
            while not self.leaving.is_set():
                async with asyncio.timeout(CALL_S):
                    await self.act()
            async with asyncio.timeout(CALL_S):
                await self.end()
        except (AioError, TimeoutError, AssertionError) as failure:
            raise MustEnd(repr(failure)) from failure

    async def begin(self) -> None: ...

    async def act(self) -> None: ...

    async def end(self) -> None: ...

    def step(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError


class AioProducer(_AioActor):
    """aiokafka, transactional."""

    async def begin(self) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self.options.bootstrap,
            transactional_id=self.options.name,
            transaction_timeout_ms=TRANSACTION_MS,
            **QUICKLY,
        )
        await self._producer.start()
        self.journal.producer(self.options.life)
        self._transactions = 0

    async def act(self) -> None:
        self._transactions += 1
        name = f"{self.options.life}/{self._transactions}"
        self.journal.began(name)
        await self._producer.begin_transaction()
        sent = []
        for _ in range(self.rng.randint(1, 6)):
            partition, value = self.partition(), self.value()
            self.journal.writing(self.options.life, partition, value, name)
            future = await self._producer.send(partition[0], value.encode(), key=self.padding(), partition=partition[1])
            sent.append((value, future))
            await asyncio.sleep(0.01)
        # It does not look at failed sends by itself before a commit.
        for value, future in sent:
            self.journal.written(value, (await future).offset)
        if self.rng.random() < 0.3:
            await self._producer.abort_transaction()
            self.journal.aborted(name)
        else:
            self.journal.committing(name)
            await self._producer.commit_transaction()
            self.journal.committed(name)

    async def end(self) -> None:
        await self._producer.stop()


class _AioMoves(AioListener):  # type: ignore[misc]
    """Ends the sessions of what is assigned anew."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing is held back between polls."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._reader.forget([(one.topic, one.partition) for one in assigned])


class AioConsumer(_AioActor, Reader):
    """aiokafka, in a classic group."""

    async def begin(self) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self.options.bootstrap,
            group_id=self.settings["group"],
            group_instance_id=self.options.name if self.settings.get("is_static") else None,
            isolation_level=self.isolation_level,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            # It asks once for metadata, be the broker away or not; a leader that knows no topic assigns nothing.
            metadata_max_age_ms=1_000,
            **QUICKLY,
        )
        await self._consumer.start()
        self._consumer.subscribe(sorted(self.options.topics), listener=_AioMoves(self))

    async def act(self) -> None:
        for records in (await self._consumer.getmany(timeout_ms=100)).values():
            for one in records:
                self.note((one.topic, one.partition), one.offset, one.value)
        if self.uncommitted >= COMMIT_EVERY_RECORDS:
            await self._commit()

    async def _commit(self) -> None:
        with contextlib.suppress(AioError):
            await self._consumer.commit()
        self.uncommitted = 0

    async def end(self) -> None:
        await self._commit()
        await self._consumer.stop()
