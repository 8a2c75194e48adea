"""Producers of every client behind one face: a record is sent alone, to a partition, with a time.

A record that is refused raises `NotTaken` with what the client says of it.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import KafkaException, Message, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from tests.harness.client_host import ClientHost, Refused

TIMEOUT_S = 30


class NotTaken(Exception):
    """The broker has refused a record; the text begins with the client's name of the error."""


class Sender(Protocol):
    """A producer. With a transactional id it begins, commits and aborts."""

    def send(self, topic: str, partition: int, timestamp_ms: int, value: str) -> int:
        """Send one record as a batch of its own; return its offset once the broker has it."""

    def send_all(self, topic: str, partition: int, times_ms: Sequence[int]) -> None:
        """Send one record for each time, without waiting for any; return once the broker has all."""

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Commit it."""

    def abort(self) -> None:
        """Abort it."""

    def close(self) -> None:
        """End."""


class LibrdkafkaSender:
    """confluent-kafka."""

    def __init__(self, bootstrap: str, transactional_id: str = "", **options: Any) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0, **options}
        if transactional_id:
            settings["transactional.id"] = transactional_id
        self._producer = Producer(settings)
        if transactional_id:
            self._producer.init_transactions(TIMEOUT_S)

    def send(self, topic: str, partition: int, timestamp_ms: int, value: str) -> int:
        done: list[tuple[Any, Message]] = []
        self._producer.produce(
            topic, value, partition=partition, timestamp=timestamp_ms, on_delivery=lambda *told: done.append(told)
        )
        assert self._producer.flush(TIMEOUT_S) == 0
        [(error, message)] = done
        if error is not None:
            raise NotTaken(f"{error.name()}: {error.str()}, retriable {error.retriable()}, fatal {error.fatal()}")
        offset = message.offset()
        assert offset is not None
        return offset

    def send_all(self, topic: str, partition: int, times_ms: Sequence[int]) -> None:
        for time_ms in times_ms:
            self._producer.produce(topic, str(time_ms), partition=partition, timestamp=time_ms)
        assert self._producer.flush(TIMEOUT_S) == 0

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as failure:
            raise NotTaken(str(failure)) from failure

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.flush(TIMEOUT_S)


class KafkaPythonSender:
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str = "", **options: Any) -> None:
        if transactional_id:
            options["transactional_id"] = transactional_id
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0, **options)
        if transactional_id:
            self._producer.init_transactions()

    def send(self, topic: str, partition: int, timestamp_ms: int, value: str) -> int:
        sent = self._producer.send(topic, value.encode(), partition=partition, timestamp_ms=timestamp_ms)
        try:
            offset: int = sent.get(timeout=TIMEOUT_S).offset
        except KafkaError as failure:
            raise NotTaken(f"{type(failure).__name__}: {failure}, retriable {failure.retriable}") from failure
        return offset

    def send_all(self, topic: str, partition: int, times_ms: Sequence[int]) -> None:
        sent = [
            self._producer.send(topic, str(time_ms).encode(), partition=partition, timestamp_ms=time_ms)
            for time_ms in times_ms
        ]
        for one in sent:
            one.get(timeout=TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except KafkaError as failure:
            raise NotTaken(f"{type(failure).__name__}: {failure}") from failure

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close()


class AiokafkaSender:
    """aiokafka, in a thread with a loop of its own."""

    def __init__(self, bootstrap: str, transactional_id: str = "", **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        if transactional_id:
            options["transactional_id"] = transactional_id

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **options)
            await producer.start()
            return producer

        self._producer = self._wait(start())

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def send(self, topic: str, partition: int, timestamp_ms: int, value: str) -> int:
        work = self._producer.send_and_wait(topic, value.encode(), partition=partition, timestamp_ms=timestamp_ms)
        try:
            offset: int = self._wait(work).offset
        except AioError as failure:
            raise NotTaken(f"{type(failure).__name__}: {failure}, retriable {failure.retriable}") from failure
        return offset

    def send_all(self, topic: str, partition: int, times_ms: Sequence[int]) -> None:
        async def send() -> None:
            sent = [
                await self._producer.send(topic, str(time_ms).encode(), partition=partition, timestamp_ms=time_ms)
                for time_ms in times_ms
            ]
            await asyncio.gather(*sent)

        self._wait(send())

    def begin(self) -> None:
        self._wait(self._producer.begin_transaction())

    def commit(self) -> None:
        try:
            self._wait(self._producer.commit_transaction())
        except AioError as failure:
            raise NotTaken(f"{type(failure).__name__}: {failure}") from failure

    def abort(self) -> None:
        self._wait(self._producer.abort_transaction())

    def close(self) -> None:
        self._wait(self._producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()


class JavaSender:
    """Java's KafkaProducer, in the JVM that all share."""

    _numbers = itertools.count()

    def __init__(self, bootstrap: str, transactional_id: str = "", *, host: ClientHost, **options: object) -> None:
        self._host = host
        self._name = f"sender-{next(self._numbers)}"
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, **options}
        if transactional_id:
            settings["transactional.id"] = transactional_id
        host.make("producer", self._name, settings)
        if transactional_id:
            self._ask("init")

    def _ask(self, verb: str, *arguments: object) -> str:
        try:
            return self._host.ask(verb, self._name, *arguments)
        except Refused as refused:
            raise NotTaken(str(refused)) from refused

    def send(self, topic: str, partition: int, timestamp_ms: int, value: str) -> int:
        return int(self._ask("send", topic, partition, timestamp_ms, value))

    def send_all(self, topic: str, partition: int, times_ms: Sequence[int]) -> None:
        self._ask("sendAll", topic, partition, ",".join(map(str, times_ms)))

    def begin(self) -> None:
        self._ask("begin")

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def retries(self) -> int:
        """Return how many records it has sent again."""
        return int(self._ask("retries"))

    def close(self) -> None:
        self._ask("close")


# What makes a sender: make(bootstrap, transactional_id).
MakeSender = Callable[..., Sender]

PYTHON_SENDERS: dict[str, MakeSender] = {
    "librdkafka": LibrdkafkaSender,
    "kafka-python": KafkaPythonSender,
    "aiokafka": AiokafkaSender,
}


def senders(host: ClientHost | None) -> dict[str, MakeSender]:
    """Give the clients there are here."""
    found = dict(PYTHON_SENDERS)
    if host is not None:
        found["java"] = lambda *arguments, **options: JavaSender(*arguments, host=host, **options)
    return found
