"""Load that survives the broker's death, and a ledger of what the broker promised to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.raw import ConnectionClosed, RawClient, eventually

# Enough for a batch or two in flight at every moment; small enough that a round's tail is read in no time.
IN_FLIGHT_RECORDS = 400
VALUE_BYTES = 400
COMMIT_EVERY_RECORDS = 50

# UNKNOWN_TOPIC_OR_PARTITION and NOT_LEADER_OR_FOLLOWER: said for a moment after a start; nothing was stored.
NOT_YET_LEADING = (3, 6)

# How soon the client tries again, and that it does not print each refusal; the rest is its default.
PATIENCE = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}


class Ledger:
    """What one partition has acknowledged, held against what it returns after each restart."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._lock = threading.Lock()
        # Acknowledged since the last check; the load's thread writes, the check takes.
        self._acknowledged: dict[int, bytes] = {}
        # The partition's records by offset, as first read; only the check writes.
        self._records: list[bytes] = []
        self._values: set[bytes] = set()
        self.acknowledged_count = 0

    def acknowledge(self, offset: int, values: list[bytes]) -> None:
        """Note that the broker promised these values at consecutive offsets."""
        with self._lock:
            self.acknowledged_count += len(values)
            for index, value in enumerate(values):
                assert offset + index not in self._acknowledged, f"offset {offset + index} was given out twice"
                self._acknowledged[offset + index] = value

    def check(self, client: RawClient) -> None:
        """Read what is new: offsets are dense, no value is there twice, each promise since the last check is kept."""
        with self._lock:
            promises, self._acknowledged = self._acknowledged, {}
        # Ready may come a moment before leadership is known again.
        eventually(lambda: client.start_offset(self.topic) == 0)
        assert client.end_offset(self.topic) >= len(self._records), "records that were readable have gone"
        for value in read_values(client, self.topic, len(self._records)):
            assert value not in self._values, f"{value[:40]!r} is there twice"
            self._values.add(value)
            self._records.append(value)
        for offset, value in promises.items():
            assert offset < len(self._records), (
                f"acknowledged offset {offset} is lost; the log ends at {len(self._records)}"
            )
            assert self._records[offset] == value

    def check_from_the_start(self, client: RawClient) -> None:
        """Read the whole partition again: nothing that was once readable has changed."""
        self.check(client)
        assert read_values(client, self.topic, 0)[: len(self._records)] == self._records


def read_values(client: RawClient, topic: str, start: int) -> list[bytes]:
    """Fetch a partition from an offset to its end; batches must follow each other without a gap and be intact."""
    values: list[bytes] = []
    for batch in batches.parse(client.fetch_all(topic, offset=start)):
        assert batch.crc_is_right
        assert batch.count == batch.last_offset_delta + 1
        skipped = start + len(values) - batch.base_offset
        assert skipped == 0 or (not values and 0 < skipped < batch.count), "a gap between two batches"
        values += [record.value or b"" for record in batch.records()[skipped:]]
    return values


class Load:
    """A thread that repeats one step until it is told to stop; a failed step does not end it."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        # What ended the thread though nobody told it to.
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the current step end, and say if the thread died of something unexpected."""
        self.stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.step()
            self.finish()
        except BaseException as failure:
            self.failure = failure

    def step(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Do what is due once no further step comes."""


class PlainProducer(Load):
    """One raw connection, acks=all, no idempotence: a value whose answer was cut off may be there or not."""

    def __init__(self, broker: BrokerProcess, ledger: Ledger) -> None:
        super().__init__()
        self._address = (broker.host, broker.port)
        self._ledger = ledger
        self._number = 0
        self._client: RawClient | None = None

    def step(self) -> None:
        values = [f"plain-{self._number + index}-".encode().ljust(VALUE_BYTES, b".") for index in range(3)]
        self._number += len(values)
        try:
            if self._client is None:
                self._client = RawClient(self._address, timeout_s=10)
            result = self._client.produce(self._ledger.topic, batches.simple(*values))
        except (ConnectionClosed, OSError):
            self._drop()
            self.stopping.wait(0.02)
            return
        if result.error_code in NOT_YET_LEADING:
            self.stopping.wait(0.02)
            return
        assert result.error_code == 0, result
        self._ledger.acknowledge(result.base_offset, values)

    def finish(self) -> None:
        self._drop()

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


class IdempotentProducer(Load):
    """One librdkafka producer that lives through all restarts: every value is there exactly once, in order."""

    def __init__(self, broker: BrokerProcess, ledger: Ledger) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **PATIENCE})
        self._ledger = ledger
        self.count = 0

    def step(self) -> None:
        if len(self._producer) >= IN_FLIGHT_RECORDS:
            self._producer.poll(0.02)
            return
        value = f"once-{self.count}-".encode().ljust(VALUE_BYTES, b".")
        self._producer.produce(self._ledger.topic, value=value, partition=0, on_delivery=self._delivered)
        self.count += 1
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(50) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset, value = message.offset(), message.value()
        assert offset is not None and value is not None
        self._ledger.acknowledge(offset, [value])


class GroupMember(Load):
    """One librdkafka consumer that reads a topic and commits what it has read."""

    def __init__(self, broker: BrokerProcess, topic: str, group: str) -> None:
        super().__init__()
        self._consumer = consumer(broker, group)
        self._consumer.subscribe([topic])
        self._topic = topic
        self._next_offset = 0
        self._uncommitted = 0
        self.seen: set[int] = set()
        # The highest offset whose commit the broker has acknowledged.
        self.committed = 0

    def step(self) -> None:
        for message in self._consumer.consume(COMMIT_EVERY_RECORDS, timeout=0.05):
            offset = message.offset()
            if message.error() is None and offset is not None:
                self.seen.add(offset)
                self._next_offset = offset + 1
                self._uncommitted += 1
        if self._uncommitted >= COMMIT_EVERY_RECORDS:
            self._commit()

    def _commit(self) -> None:
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, self._next_offset)], asynchronous=False)
        except KafkaException:
            return  # not acknowledged, so nothing was promised
        self._uncommitted = 0
        self.committed = self._next_offset

    def finish(self) -> None:
        self._consumer.close()


def consumer(broker: BrokerProcess, group: str, **options: Any) -> Consumer:
    """Make a consumer that commits only when told to."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False, **PATIENCE}
    return Consumer({**settings, "auto.offset.reset": "earliest", **options})


def committed_offset(broker: BrokerProcess, group: str, topic: str) -> int:
    """Ask the broker where a group stands."""
    asking = consumer(broker, group)
    try:
        [found] = asking.committed([TopicPartition(topic, 0)], timeout=20)
    finally:
        asking.close()
    return int(found.offset)


def all_of(loads: list[Load], action: Callable[[Load], None]) -> None:
    """Do the same to each load, and raise the first failure only after the last."""
    failures = []
    for load in loads:
        try:
            action(load)
        except BaseException as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
