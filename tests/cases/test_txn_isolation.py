"""TXN-01 and TXN-10: what consumers see of transactions, and what the markers that end them look like."""

from __future__ import annotations

import asyncio
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.stored import stored_batches
from tests.harness.transacting import RawProducer, stable_offset, wait_until_decided

PROPERTIES = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
TRANSACTIONS = 30
PAUSE_S = 0.1

Read = list[tuple[int, str]]
"""Offset and value of each record, in the order in which they came."""


class ConfluentReader:
    """Reads committed records of a partition with librdkafka until told to end."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.read: Read = []
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"{group}-confluent",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        self._topic = topic

    def run(self, ended: threading.Event) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append((message.offset(), message.value().decode()))
        consumer.close()


class AioReader:
    """Reads the same with aiokafka."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.read: Read = []
        self._bootstrap, self._topic, self._group = bootstrap, topic, f"{group}-aio"

    def run(self, ended: threading.Event) -> None:
        asyncio.run(self._run(ended))

    async def _run(self, ended: threading.Event) -> None:
        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            while not ended.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    self.read += [(record.offset, record.value.decode()) for record in records]
        finally:
            await consumer.stop()


Reader = ConfluentReader | AioReader


@contextmanager
def reading(*readers: Reader) -> Iterator[None]:
    """Let readers run beside the block."""
    ended = threading.Event()
    threads = [threading.Thread(target=reader.run, args=(ended,)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def run_transactions(
    broker: BrokerProcess, topic: str, transactional_id: str, rng: random.Random, committed: Read
) -> None:
    """Do half of the transactions, each open for a while, and note what was committed."""
    with RawClient(address(broker)) as client:
        producer = RawProducer(client, transactional_id).init()
        for number in range(TRANSACTIONS // 2):
            producer.add(topic, 0)
            values = [f"{transactional_id}-{number}-{index}" for index in range(rng.randint(1, 3))]
            sent = [(producer.send(topic, value), value) for value in values]
            time.sleep(PAUSE_S)
            is_commit = rng.random() < 0.6
            eventually(lambda is_commit=is_commit: producer.end(commit=is_commit) == 0, what="end of the transaction")
            if is_commit:
                committed += sent


def test_txn_01_consumers_get_what_was_committed_and_nothing_else(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str], rng: random.Random
) -> None:
    topic = fresh()
    client.create_topic(topic)
    wanted: Read = []

    def readers(group: str) -> list[Reader]:
        return [kind(broker.bootstrap, topic, group) for kind in (ConfluentReader, AioReader)]

    def wait_for(readers: list[Reader]) -> None:
        eventually(lambda: all(len(one.read) >= len(wanted) for one in readers), what="all that was committed")

    live, later = readers(f"{topic}-live"), readers(f"{topic}-later")
    with reading(*live):
        threads = [
            threading.Thread(
                target=run_transactions, args=(broker, topic, fresh("txn"), random.Random(rng.random()), wanted)
            )
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        number = 0
        while any(thread.is_alive() for thread in threads):
            wanted.append((client.append(topic, batches.simple(f"plain-{number}")), f"plain-{number}"))
            number += 1
            time.sleep(PAUSE_S / 4)
        wait_until_decided(client, topic)
        wait_for(live)
    with reading(*later):
        wait_for(later)
    wanted.sort()
    assert [one.read for one in (*live, *later)] == [wanted] * 4


@pytest.mark.parametrize("version", range(4, 18))
def test_txn_01_fetch_ends_at_the_oldest_open_transaction(
    client: RawClient, fresh: Callable[..., str], version: int
) -> None:
    if not client.offers("fetch", version):
        pytest.skip(f"Fetch v{version} is not offered")
    topic = fresh()
    client.create_topic(topic)
    first, second = (RawProducer(client, fresh("txn")).init() for _ in range(2))

    def fetched(offset: int = 0) -> tuple[int, list[int], list[tuple[int, int]]]:
        row = client.fetch(topic, offset, version=version, isolation=1)
        assert row.error_code == 0
        assert row.high_watermark == client.end_offset(topic)
        found = [batch.base_offset for batch in batches.parse(row.records)]
        return row.last_stable_offset, found, [(one.producer_id, one.first_offset) for one in row.aborted_transactions]

    plain = batches.simple("plain", timestamp=int(time.time() * 1000))  # in the segment of the others
    client.append(topic, plain)
    for producer in (first, second):
        producer.add(topic, 0)
    first.send(topic, "a")  # at 1
    second.send(topic, "b")  # at 2
    client.append(topic, plain)  # at 3
    assert fetched() == (1, [0], [])
    assert first.end(commit=False) == 0  # the marker is at 4
    eventually(lambda: stable_offset(client, topic) == 2, what="abort of the first")
    assert fetched() == (2, [0, 1], [(first.producer_id, 1)])
    assert second.end(commit=False) == 0  # the marker is at 5
    assert wait_until_decided(client, topic) == 6
    assert fetched() == (6, [0, 1, 2, 3, 4, 5], [(first.producer_id, 1), (second.producer_id, 2)])
    assert fetched(5) == (6, [5], [(second.producer_id, 2)])
    first.add(topic, 0)
    first.sequences[topic, 0] = 1
    first.send(topic, "c")  # at 6
    assert fetched(6) == (6, [], [])
    assert first.end(commit=True) == 0
    assert wait_until_decided(client, topic) == 8
    assert fetched(6) == (8, [6, 7], [])


@pytest.mark.parametrize("version", [3, 5])
def test_txn_10_a_marker_is_a_batch_of_one_record_and_takes_one_offset(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str], version: int
) -> None:
    topic = fresh()
    client.create_topic(topic)
    producer = RawProducer(client, fresh("txn")).init()
    epochs = []
    for is_commit in (True, False):
        producer.add(topic, 0)
        producer.send(topic, "x", "y")
        epochs.append(producer.epoch + (version >= 5))  # such a client gets another epoch with each transaction
        assert producer.end(commit=is_commit, version=version) == 0
        wait_until_decided(client, topic)
    on_the_wire = batches.parse(client.fetch_all(topic))
    on_disk = stored_batches(broker.data_directory, topic)
    assert [batch.raw for batch in on_the_wire] == [batch.raw for batch in on_disk]
    assert [(batch.base_offset, batch.next_offset) for batch in on_disk] == [(0, 2), (2, 3), (3, 5), (5, 6)]
    [place] = client.topic("__transaction_state").partitions
    for batch, epoch, kind in zip(on_disk[1::2], epochs, (1, 0), strict=True):
        assert batch.attributes == batches.TRANSACTIONAL | batches.CONTROL
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer.producer_id, epoch, -1)
        assert batch.crc_is_right
        [record] = batch.records()
        assert record.key == struct.pack(">hh", 0, kind)
        assert record.value == struct.pack(">hi", 0, place.leader_epoch)
        assert not record.headers
