"""Transactions per second, of one producer and of many: one record in each, begun and ended as by current clients."""

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import crc32c

from tests.bench.fleet import CpuMeter, Fleet, fleet
from tests.bench.load import PinnedBroker, Result
from tests.bench.members import decoded, frame
from tests.harness import batches
from tests.harness.raw import RawClient, produce_values
from tests.harness.transacting import find_transaction_coordinator, init_producer_id

PRODUCE, END = 12, 5
"""The broker adds the partition of the first batch to the transaction, and each transaction has an epoch of its own."""

NOT_YET = 51
SECONDS = 5.0


def run(directory: Path, rounds: int) -> Iterator[Result]:
    """Measure with one producer and with twenty."""
    broker = PinnedBroker(directory / "transactions")
    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            client.create_topic("transactions", 20)
            find_transaction_coordinator(client, "any")
            for count in (1, 20):
                rates, percents, waits = [], [], []
                for number in range(rounds):
                    with fleet(client.address, count) as load:
                        producers = [_Producer(client, load, index, f"id-{number}-{index}") for index in range(count)]
                        meter = CpuMeter(broker.pid)
                        ended, waited, elapsed_s = _run(load, producers)
                        percents.append(meter.percent())
                        rates.append(ended / elapsed_s)
                        waits.append(100 * waited / ended)
                yield Result(f"transactions of {count} producers", "/s", rates, "for information")
                yield Result("  produced too early, and again", "%", waits)
                yield Result("  broker", "% CPU", percents)
    finally:
        broker.close()


class _Producer:
    """One that produces a record and commits, over and over, patching the epochs into frames built once."""

    def __init__(self, client: RawClient, load: Fleet, index: int, transactional_id: str) -> None:
        self._load = load
        self._index = index
        answer = init_producer_id(client, transactional_id)
        assert answer.error_code == 0, answer
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        batch = batches.simple(
            "x" * 100,
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=0,
            attributes=batches.TRANSACTIONAL,
            timestamp=int(time.time() * 1000),
        )
        self._produce = bytearray(
            frame("produce", PRODUCE, **produce_values("transactions", {index: batch}, -1, transactional_id))
        )
        self._batch_at = self._produce.index(batch)
        self._batch_end = self._batch_at + len(batch)
        self._end = bytearray(
            frame(
                "end_txn",
                END,
                transactional_id=transactional_id,
                producer_id=self._producer_id,
                producer_epoch=0x7ABC,
                committed=True,
            )
        )
        self._end_epoch_at = self._end.index(struct.pack(">qh", self._producer_id, 0x7ABC)) + 8
        self._is_ending = False
        self._stamp()

    def _stamp(self) -> None:
        at = self._batch_at
        struct.pack_into(">h", self._produce, at + 51, self._epoch)
        crc = crc32c.crc32c(bytes(self._produce[at + 21 : self._batch_end]))
        struct.pack_into(">I", self._produce, at + 17, crc)
        struct.pack_into(">h", self._end, self._end_epoch_at, self._epoch)

    def send(self) -> None:
        """Send what comes next."""
        self._load.send(self._index, self._end if self._is_ending else self._produce)

    def take(self, answer: bytes) -> tuple[bool, bool]:
        """Take an answer in; tell whether a transaction has ended, and whether the transaction before was still ending.

        The producer id changes when the epochs are used up, which does not happen in so few seconds.
        """
        if not self._is_ending:
            [row] = decoded("produce", PRODUCE, answer).responses[0].partition_responses
            assert row.error_code in (0, NOT_YET), row
            self._is_ending = row.error_code == 0
            return False, row.error_code == NOT_YET
        ended = decoded("end_txn", END, answer)
        if ended.error_code == NOT_YET:
            return False, True
        assert ended.error_code == 0 and ended.producer_id == self._producer_id, ended
        self._epoch = ended.producer_epoch
        self._stamp()
        self._is_ending = False
        return True, False


def _run(load: Fleet, producers: list[_Producer]) -> tuple[int, int, float]:
    ended = waited = 0
    for producer in producers:
        producer.send()
    started = time.perf_counter()
    while (elapsed_s := time.perf_counter() - started) < SECONDS:
        for index, answer in load.answers():
            has_ended, had_to_wait = producers[index].take(answer)
            ended += has_ended
            waited += had_to_wait
            producers[index].send()
    return ended, waited, elapsed_s
