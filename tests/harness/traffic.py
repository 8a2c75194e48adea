"""A producer with acks=all and a group's consumer that go on while something happens to the broker."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.harness.broker import BrokerProcess
from tests.harness.raw import eventually

PAUSE_S = 0.002
VALUE_BYTES = 500


class Traffic:
    """Both clients on threads of their own; what was acknowledged, what was read, and every error they were told of."""

    def __init__(self, broker: BrokerProcess, topic: str, partitions: int, group: str) -> None:
        self._bootstrap = broker.bootstrap
        self._topic = topic
        self._partitions = partitions
        self._group = group
        self._stopping = threading.Event()
        self._settled = threading.Event()  # nothing more will be acknowledged
        self.errors: list[str] = []
        self.acknowledged: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.read: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self.slowest_s = 0.0  # the longest a producer had to wait for an acknowledgement
        self._threads = [threading.Thread(target=self._guarded, args=(run,)) for run in (self._produce, self._consume)]

    def _guarded(self, run: Any) -> None:
        try:
            run()
        except BaseException as failure:
            self.errors.append(repr(failure))
            self._settled.set()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        eventually(lambda: self.errors or self.read, what="the consumer reads")

    @property
    def count(self) -> int:
        """How much has been acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def wait_for_more(self, count: int = 200) -> None:
        """Wait until so many more are acknowledged and the clients have seen no error."""
        goal = self.count + count
        eventually(lambda: self.errors or self.count >= goal, what="acknowledgements")
        assert not self.errors, self.errors

    def stop(self) -> None:
        """End both, and assert that no error was seen and each acknowledged record was read once and in order."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not self.errors, self.errors
        assert self.count
        for partition, acknowledged in self.acknowledged.items():
            assert [offset for offset, _ in acknowledged] == sorted({offset for offset, _ in acknowledged})
            assert self.read[partition] == acknowledged, f"partition {partition}"

    def _note(self, error: KafkaError) -> None:
        self.errors.append(str(error))

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "acks": "all", "error_cb": self._note})
        number = 0
        while not self._stopping.is_set() and not self.errors:
            sent = time.monotonic()

            def delivered(error: KafkaError | None, message: Message, sent: float = sent) -> None:
                self.slowest_s = max(self.slowest_s, time.monotonic() - sent)
                partition, offset, value = message.partition(), message.offset(), message.value()
                if error is not None or partition is None or offset is None or value is None:
                    self.errors.append(f"produce: {error}")
                else:
                    self.acknowledged[partition].append((offset, value))

            value = b"traffic-%d-" % number
            producer.produce(
                self._topic,
                value.ljust(VALUE_BYTES, b"."),
                partition=number % self._partitions,
                on_delivery=delivered,
            )
            number += 1
            producer.poll(PAUSE_S)
        if producer.flush(60):
            self.errors.append("produce: not answered")
        self._settled.set()

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "error_cb": self._note,
            }
        )
        consumer.subscribe([self._topic])
        try:
            while not self._is_complete() and not self.errors:
                for message in consumer.consume(500, timeout=0.05):
                    if message.error() is not None:
                        self.errors.append(f"consume: {message.error()}")
                        continue
                    partition, offset, value = message.partition(), message.offset(), message.value()
                    assert partition is not None and offset is not None and value is not None
                    if value.startswith(b"traffic-"):
                        self.read[partition].append((offset, value))
        finally:
            consumer.close()

    def _is_complete(self) -> bool:
        if not self._settled.is_set():
            return False
        last = {partition: offsets[-1][0] for partition, offsets in self.acknowledged.items()}
        return all(self.read[partition] and self.read[partition][-1][0] >= last[partition] for partition in last)


@contextmanager
def traffic(broker: BrokerProcess, topic: str, partitions: int = 1, group: str = "traffic") -> Iterator[Traffic]:
    """Let traffic run for the length of a block, and check it at its end."""
    running = Traffic(broker, topic, partitions, group)
    running.start()
    try:
        yield running
    except BaseException:
        running.errors.append("the test failed")
        for thread in running._threads:
            thread.join(60)
        raise
    running.stop()
