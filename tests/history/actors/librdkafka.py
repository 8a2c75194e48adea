"""Actors on librdkafka: an idempotent producer, a transactional one, and a member of a group of either protocol."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.history.actors.interface import Actor, ActorOptions, Reader
from tests.history.clients.confluent import CALL_S, PATIENCE, assign_explicitly, call, is_fatal
from tests.history.clients.interface import HEARTBEAT_MS, SESSION_MS, TRANSACTION_MS, MustAbort, MustEnd
from tests.history.gate import Gate

MOST_IN_FLIGHT = 100
COMMIT_EVERY_RECORDS = 40
FLUSH_S = 50.0


class _Sender(Actor):
    """Sends and notes acknowledgements."""

    producer: Producer

    def send(self, transaction: str | None = None) -> None:
        """Send the next value to a random partition."""
        partition, value = self.partition(), self.value()
        self.journal.writing(self.options.life, partition, value, transaction)
        self.producer.produce(
            partition[0], value.encode(), self.padding(), partition=partition[1], on_delivery=self._delivered
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None:
            assert offset is not None and value is not None
            self.journal.written(value.decode(), offset)
        elif error.fatal():
            self.failed = str(error)

    failed = ""


class OnceProducer(_Sender):
    """Keeps several batches in flight."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        settings = {"enable.idempotence": True, "linger.ms": 1, "compression.type": self.settings.get("codec", "none")}
        self.producer = Producer({"bootstrap.servers": options.bootstrap, **PATIENCE, **settings})
        self.journal.producer(options.life)

    def step(self) -> None:
        if self.failed:
            raise MustEnd(self.failed)
        if len(self.producer) >= MOST_IN_FLIGHT:
            self.producer.poll(0.02)
            return
        for _ in range(self.rng.randint(1, 5)):
            self.send()
        self.producer.poll(0)
        self.rest()

    def finish(self) -> None:
        assert self.producer.flush(FLUSH_S) == 0, "not everything was answered"
        if self.failed:
            raise MustEnd(self.failed)


class TransactionalProducer(_Sender):
    """Commits most of its transactions."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        self.producer = Producer(
            {
                "bootstrap.servers": options.bootstrap,
                **PATIENCE,
                "client.id": options.life,
                "transactional.id": options.name,
                "transaction.timeout.ms": TRANSACTION_MS,
                "linger.ms": 1,
            }
        )
        call(self.producer.init_transactions, CALL_S)
        self.journal.producer(options.life)
        self._transactions = 0

    def step(self) -> None:
        self._transactions += 1
        name = f"{self.options.life}/{self._transactions}"
        self.journal.began(name)
        try:
            call(self.producer.begin_transaction)
            for _ in range(self.rng.randint(1, 10)):
                self.send(name)
                self.rest()
            if self.rng.random() < 0.3:
                # librdkafka ends a transaction that the coordinator does not know yet, and takes the answer for fatal.
                self.producer.flush(FLUSH_S)
                raise MustAbort("freely")
            self.journal.committing(name)
            call(self.producer.commit_transaction, CALL_S)
            self.journal.committed(name)
        except MustAbort:
            call(self.producer.abort_transaction, CALL_S)
            self.journal.aborted(name)

    def finish(self) -> None:
        self.producer.flush(FLUSH_S)


class GroupConsumer(Reader):
    """Commits now and then what it has noted."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        settings: dict[str, Any] = {
            "bootstrap.servers": options.bootstrap,
            **PATIENCE,
            "client.id": options.life,
            "group.id": self.settings["group"],
            "group.protocol": self.settings["protocol"],
            "isolation.level": self.isolation_level,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if self.settings["protocol"] == "classic":
            settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        if self.settings.get("is_static"):
            settings["group.instance.id"] = options.name
        self._consumer = Consumer(settings)
        self._consumer.subscribe(sorted(options.topics), on_assign=self._assigned)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.forget([(one.topic, one.partition) for one in partitions])
        assign_explicitly(self._consumer, partitions, self.settings["protocol"])

    def step(self) -> None:
        message = self._consumer.poll(0.1)
        if message is not None:
            error, topic, partition = message.error(), message.topic(), message.partition()
            offset, value = message.offset(), message.value()
            if error is None:
                assert topic is not None and partition is not None and offset is not None and value is not None
                self.note((topic, partition), offset, value)
            elif is_fatal(error):
                raise MustEnd(f"{error}")
        if self.uncommitted >= COMMIT_EVERY_RECORDS:
            self._commit()

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as failure:
            # Not acknowledged, so nothing is promised; a fatal error comes by the next poll as well.
            if failure.args[0].fatal():
                raise MustEnd(str(failure)) from failure
        self.uncommitted = 0

    def finish(self) -> None:
        self._commit()
        self._consumer.close()
