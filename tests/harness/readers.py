"""Consumers of every client, each in a thread or a process of its own, that note what they get and when.

`READERS` has one class a client; each takes what to read (`Wanted`) and begins at once.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition

from tests.harness.client_host import ClientHost

POLL_S = 0.1
# Members of classic groups hear of a rebalance with a heartbeat.
HEARTBEAT_MS = 300
STOP_S = 30
EARLIEST, LATEST = "earliest", "latest"


def now_ms() -> float:
    """Return the time of this machine's clock, which the broker's is too."""
    return time.time() * 1000


class Seen(NamedTuple):
    """A record as a consumer got it, and when."""

    partition: int
    offset: int
    at_ms: float
    value: str


class Wanted(NamedTuple):
    """What a consumer reads: as a member of a group if there is one, else all partitions by itself.

    A start that is a number is the time of the first record wanted.
    """

    topic: str
    partitions: int
    start: str | int = EARLIEST
    group: str = ""
    protocol: str = "classic"
    is_committed: bool = False

    @property
    def isolation(self) -> str:
        """Return the isolation level in the words of Java and librdkafka."""
        return "read_committed" if self.is_committed else "read_uncommitted"


class Reader:
    """A consumer at work."""

    def __init__(self, bootstrap: str, wanted: Wanted) -> None:
        self.bootstrap = bootstrap
        self.wanted = wanted
        self.seen: list[Seen] = []
        self.began_ms = now_ms()
        # What its thread writes: whether it has its partitions, and where it has begun as far as it can tell.
        self.is_ready = False
        self.starts: dict[int, int] = {}
        self.failure: BaseException | None = None
        self._has_to_stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self.failure = failure
            raise

    def _run(self) -> None:
        raise NotImplementedError

    def _note(self, partition: int, offset: int, value: bytes | None, at_ms: float) -> None:
        self.seen.append(Seen(partition, offset, at_ms, (value or b"").decode()))

    def ask_to_stop(self) -> None:
        """Have it end, without waiting."""
        self._has_to_stop.set()

    def stop(self) -> None:
        """End it, and pass on what has ended it before."""
        self.ask_to_stop()
        self._thread.join(STOP_S)
        assert self.failure is None, self.failure
        assert not self._thread.is_alive(), f"{type(self).__name__} does not end"


class LibrdkafkaReader(Reader):
    """confluent-kafka."""

    def _run(self) -> None:
        wanted = self.wanted
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": wanted.group or "nobody",
                "group.protocol": wanted.protocol,
                "auto.offset.reset": wanted.start if wanted.group else EARLIEST,
                "enable.auto.commit": bool(wanted.group),
                "isolation.level": wanted.isolation,
                "log_level": 0,
                **({"heartbeat.interval.ms": HEARTBEAT_MS} if wanted.protocol == "classic" else {}),
            }
        )
        if wanted.group:
            consumer.subscribe([wanted.topic])
        else:
            consumer.assign(self._places(consumer))
            self.is_ready = True
        while not self._has_to_stop.is_set():
            messages = consumer.consume(1, POLL_S)
            at_ms = now_ms()
            for message in messages:
                assert message.error() is None, message.error()
                self._note(message.partition(), message.offset(), message.value(), at_ms)
            self.is_ready = self.is_ready or bool(consumer.assignment())
        consumer.close()

    def _places(self, consumer: Consumer) -> list[ConfluentPartition]:
        start = self.wanted.start
        offset = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}.get(str(start), start)
        places = [ConfluentPartition(self.wanted.topic, number, offset) for number in range(self.wanted.partitions)]
        if isinstance(start, int):
            places = consumer.offsets_for_times(places, timeout=STOP_S)
            self.starts = {one.partition: one.offset for one in places}
        return places


class KafkaPythonReader(Reader):
    """kafka-python, which has the classic protocol only."""

    def _run(self) -> None:
        wanted = self.wanted
        consumer = KafkaConsumer(
            *([wanted.topic] if wanted.group else ()),
            bootstrap_servers=self.bootstrap,
            group_id=wanted.group or None,
            auto_offset_reset=wanted.start if wanted.group else EARLIEST,
            enable_auto_commit=bool(wanted.group),
            isolation_level=wanted.isolation,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        # A leader that joins before its first metadata answer assigns nothing, for good: the client's own race.
        consumer.partitions_for_topic(wanted.topic)
        if not wanted.group:
            self._place(consumer)
        while not self._has_to_stop.is_set():
            found = consumer.poll(timeout_ms=int(POLL_S * 1000))
            at_ms = now_ms()
            for records in found.values():
                for record in records:
                    self._note(record.partition, record.offset, record.value, at_ms)
            self.is_ready = self.is_ready or bool(consumer.assignment())
        consumer.close()

    def _place(self, consumer: KafkaConsumer) -> None:
        start = self.wanted.start
        everything = [TopicPartition(self.wanted.topic, number) for number in range(self.wanted.partitions)]
        consumer.assign(everything)
        if isinstance(start, int):
            for partition, found in consumer.offsets_for_times(dict.fromkeys(everything, start)).items():
                if found is None:
                    consumer.seek_to_end(partition)
                else:
                    consumer.seek(partition, found.offset)
        else:
            {EARLIEST: consumer.seek_to_beginning, LATEST: consumer.seek_to_end}[start](*everything)
        self.starts = {one.partition: consumer.position(one) for one in everything}


class AiokafkaReader(Reader):
    """aiokafka, in a loop of its own; it has the classic protocol only."""

    def _run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        wanted = self.wanted
        consumer = AIOKafkaConsumer(
            *([wanted.topic] if wanted.group else ()),
            bootstrap_servers=self.bootstrap,
            group_id=wanted.group or None,
            auto_offset_reset=wanted.start if wanted.group else EARLIEST,
            enable_auto_commit=bool(wanted.group),
            isolation_level=wanted.isolation,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        await consumer.start()
        if not wanted.group:
            await self._place(consumer)
        while not self._has_to_stop.is_set():
            found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            at_ms = now_ms()
            for records in found.values():
                for record in records:
                    self._note(record.partition, record.offset, record.value, at_ms)
            self.is_ready = self.is_ready or bool(consumer.assignment())
        await consumer.stop()

    async def _place(self, consumer: AIOKafkaConsumer) -> None:
        start = self.wanted.start
        everything = [AioPartition(self.wanted.topic, number) for number in range(self.wanted.partitions)]
        consumer.assign(everything)
        if isinstance(start, int):
            found = await consumer.offsets_for_times(dict.fromkeys(everything, start))
            for partition, place in found.items():
                if place is None:
                    await consumer.seek_to_end(partition)
                else:
                    consumer.seek(partition, place.offset)
        elif start == LATEST:
            await consumer.seek_to_end(*everything)
        else:
            await consumer.seek_to_beginning(*everything)
        self.starts = {one.partition: await consumer.position(one) for one in everything}


class JavaReader(Reader):
    """Java's KafkaConsumer, in the JVM that all share."""

    def __init__(self, bootstrap: str, wanted: Wanted, host: ClientHost) -> None:
        self._host = host
        self.name = f"reader-{id(self)}"
        super().__init__(bootstrap, wanted)

    def _run(self) -> None:
        wanted, host = self.wanted, self._host
        settings: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "auto.offset.reset": wanted.start if wanted.group else EARLIEST,
            "isolation.level": wanted.isolation,
            "group.protocol": wanted.protocol,
            "enable.auto.commit": str(bool(wanted.group)).lower(),
        }
        if wanted.group:
            settings["group.id"] = wanted.group
            if wanted.protocol == "classic":
                settings["heartbeat.interval.ms"] = HEARTBEAT_MS
        host.make("consumer", self.name, settings, self._hear)
        where = "GROUP" if wanted.group else {EARLIEST: "BEGINNING", LATEST: "END"}.get(str(wanted.start), wanted.start)
        started: Future[str] = host.send("start", self.name, wanted.topic, where)
        while not self._has_to_stop.wait(0.01) and not self.is_ready:
            if started.done():
                began_us, _, places = started.result().split(" ")
                self.began_ms = int(began_us) / 1000
                self.starts = {int(p): int(o) for p, o in (one.split("=") for one in places.split(",") if one)}
                self.is_ready = True
        self._has_to_stop.wait()
        host.ask("close", self.name)

    def _hear(self, partition: int, offset: int, at_ms: float, value: str) -> None:
        self.seen.append(Seen(partition, offset, at_ms, value))


class KcatReader(Reader):
    """kcat, in a process of its own; a record has come when its line has."""

    def __init__(self, bootstrap: str, wanted: Wanted, kcat: str = "kcat") -> None:
        self._kcat = kcat
        super().__init__(bootstrap, wanted)

    def _run(self) -> None:
        process = subprocess.Popen(
            [self._kcat, "-b", self.bootstrap, "-u", "-f", "%p %o %s\n", *self._mode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None and process.stderr is not None
        saying = threading.Thread(target=self._watch, args=(process.stderr,), daemon=True)
        saying.start()
        ending = threading.Thread(target=lambda: (self._has_to_stop.wait(), process.terminate()), daemon=True)
        ending.start()
        for line in process.stdout:
            at_ms = now_ms()
            partition, offset, value = line.rstrip(b"\n").split(b" ", 2)
            self._note(int(partition), int(offset), value, at_ms)
        process.wait(STOP_S)
        assert self._has_to_stop.is_set(), "kcat has ended by itself"

    def _mode(self) -> list[str]:
        wanted = self.wanted
        options = ["-X", f"isolation.level={wanted.isolation}"]
        if wanted.group:
            options += ["-X", f"auto.offset.reset={wanted.start}", "-X", f"heartbeat.interval.ms={HEARTBEAT_MS}"]
            return [*options, "-G", wanted.group, wanted.topic]
        place = {EARLIEST: "beginning", LATEST: "end"}.get(str(wanted.start), f"s@{wanted.start}")
        self.is_ready = True
        return [*options, "-C", "-t", wanted.topic, "-o", place]

    def _watch(self, errors: object) -> None:
        for line in errors:  # type: ignore[attr-defined]
            with suppress(UnicodeDecodeError):
                self.is_ready = self.is_ready or "assigned:" in line.decode()


# What makes a reader: make(bootstrap, wanted).
MakeReader = Callable[[str, Wanted], Reader]

PYTHON_READERS: dict[str, MakeReader] = {
    "librdkafka": LibrdkafkaReader,
    "kafka-python": KafkaPythonReader,
    "aiokafka": AiokafkaReader,
}


def readers(host: ClientHost | None, kcat: str | None) -> dict[str, MakeReader]:
    """Give the clients there are here."""
    found = dict(PYTHON_READERS)
    if kcat is not None:
        found["kcat"] = lambda bootstrap, wanted: KcatReader(bootstrap, wanted, kcat)
    if host is not None:
        found["java"] = lambda bootstrap, wanted: JavaReader(bootstrap, wanted, host)
    return found
