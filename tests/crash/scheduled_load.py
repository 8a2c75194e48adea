"""Load for a scheduled topic that lives through the broker's death, and what must be true of each record that comes.

A record's value says when it is due, so that who reads it can tell whether it is early. The broker runs on this
machine, by the same clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.crash.load import PATIENCE, Load, consumer
from tests.harness.broker import BrokerProcess

# More than there are requests on their way, yet so few that a slow machine acknowledges them before they are due.
IN_FLIGHT_RECORDS = 10
SEND_EVERY_S = 0.004
DELAYS_MS = (-500, 50, 300, 700, 1500, 2500)
COMMIT_EVERY_RECORDS = 20


Places = Sequence[tuple[str, int]]
Delivered = Callable[[KafkaError | None, Message], None]


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Promises:
    """The records that were acknowledged or committed, by place; the producers write, the checks read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.kept: dict[Place, bytes] = {}
        self.void: set[bytes] = set()  # of transactions that were aborted

    def keep(self, records: dict[Place, bytes]) -> None:
        with self._lock:
            assert not self.kept.keys() & records.keys(), "an offset was given out twice"
            self.kept.update(records)

    def pending_count(self) -> int:
        """Return how many of them are not due yet."""
        with self._lock:
            return sum(int(value.split()[0]) > now_ms() for value in self.kept.values())


class ScheduledProducer(Load):
    """An idempotent librdkafka producer, one record a batch, each due at a time of its own."""

    def __init__(self, broker: BrokerProcess, places: Places, promises: Promises) -> None:
        super().__init__()
        settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 1, **PATIENCE}
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
        self._places, self._promises = places, promises
        self.count = 0

    def step(self) -> None:
        self._producer.poll(0)
        self.stopping.wait(SEND_EVERY_S)
        if len(self._producer) < IN_FLIGHT_RECORDS:
            send(self._producer, self._places[self.count % len(self._places)], self.count, self._delivered)
            self.count += 1

    def finish(self) -> None:
        assert self._producer.flush(50) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self._promises.keep(dict([placed(message)]))


class ScheduledTransactions(Load):
    """Transactions of a few records, of which every third is aborted."""

    def __init__(self, broker: BrokerProcess, places: Places, promises: Promises) -> None:
        super().__init__()
        self._settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "scheduled", "linger.ms": 0}
        self._producer: Producer | None = None
        self._places, self._promises = places, promises
        self._number = 0
        self.committed = 0

    def step(self) -> None:
        try:
            if self._producer is None:
                self._producer = Producer({**self._settings, **PATIENCE})
                self._producer.init_transactions(20)
            self._transact(self._producer)
        except KafkaException:
            self._producer = None  # the next one ends what this one has left open
        self.stopping.wait(0.02)

    def _transact(self, producer: Producer) -> None:
        records: dict[Place, bytes] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                records.update([placed(message)])

        producer.begin_transaction()
        for place in self._places[:: len(self._places) // 3]:
            send(producer, place, 1_000_000 + self._number, delivered)
            self._number += 1
        if self._number % 9:
            producer.commit_transaction(20)
            self._promises.keep(records)
            self.committed += 1
        else:
            producer.flush(20)
            producer.abort_transaction(20)
            self._promises.void.update(records.values())


def send(producer: Producer, place: tuple[str, int], number: int, delivered: Delivered) -> None:
    due_ms = now_ms() + DELAYS_MS[number * number % 31 % len(DELAYS_MS)]
    value = b"%d %d" % (due_ms, number)
    topic, partition = place
    producer.produce(topic, value=value, partition=partition, timestamp=due_ms, on_delivery=delivered)


def placed(message: Message) -> tuple[Place, bytes]:
    topic, partition = message.topic(), message.partition()
    offset, value = message.offset(), message.value()
    assert topic is not None and partition is not None and offset is not None and value is not None
    return Place(topic, partition, offset), value


class ScheduledConsumer(Load):
    """A librdkafka consumer of all partitions that notes what comes, and that none of it is early."""

    def __init__(self, broker: BrokerProcess, places: Places, uncertainty_ms: int) -> None:
        super().__init__()
        self._uncertainty_ms = uncertainty_ms
        self._places = places
        self._consumer = self.connect(broker)
        self.seen: dict[Place, bytes] = {}
        self.positions = dict.fromkeys(places, 0)

    def connect(self, broker: BrokerProcess) -> Consumer:
        made = consumer(broker, "nobody", **{"isolation.level": "read_committed"})
        made.assign([TopicPartition(*place, 0) for place in self._places])
        return made

    def step(self) -> None:
        for message in self._consumer.consume(100, timeout=0.05):
            if message.error() is None:
                self.take(*placed(message))

    def take(self, place: Place, value: bytes) -> None:
        due_ms = int(value.split()[0]) + self._uncertainty_ms
        assert now_ms() >= due_ms, f"{place} is {due_ms - now_ms()} ms early"
        assert self.seen.setdefault(place, value) == value, f"{place} has changed"
        self.check_position(place)
        self.positions[place[:2]] = place.offset + 1

    def check_position(self, place: Place) -> None:
        """One that follows its position gets each record once, in order."""
        assert place.offset >= self.positions[place[:2]], f"{place} has come again"

    def finish(self) -> None:
        self._consumer.close()


class ScheduledMember(ScheduledConsumer):
    """The same as the only member of a group: it may begin again, at what was committed last."""

    group = "scheduled"

    def connect(self, broker: BrokerProcess) -> Consumer:
        made = consumer(broker, self.group, **{"isolation.level": "read_committed"})
        made.subscribe([*{topic for topic, _ in self._places}])
        return made

    def __init__(self, broker: BrokerProcess, places: Places, uncertainty_ms: int) -> None:
        super().__init__(broker, places, uncertainty_ms)
        self.committed = dict.fromkeys(places, 0)
        self._uncommitted = 0

    def step(self) -> None:
        super().step()
        if self._uncommitted >= COMMIT_EVERY_RECORDS:
            positions = {place: offset for place, offset in self.positions.items() if offset > 0}
            offsets = [TopicPartition(*place, offset) for place, offset in positions.items()]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException:
                return  # not acknowledged, so nothing was promised
            self.committed.update(positions)
            self._uncommitted = 0

    def check_position(self, place: Place) -> None:
        self._uncommitted += 1
        committed = self.committed[place[:2]]
        assert place.offset >= committed, f"{place} has come again, {committed} was committed"
