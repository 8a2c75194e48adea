"""Sends records to one topic: batches a partition, several requests in flight, nothing lost or doubled on the way.

    with Producer(client, "topic", ProducerSettings()) as producer:
        producer.add(key, value, headers)
        producer.flush()
    producer.failed, producer.reason

Order of a partition: batches are numbered as they are filled. As long as all goes well they are sent in that order, up
to `MAX_IN_FLIGHT` requests ahead of their answers. When one has to be sent again, first all answers that are due are
taken in, then what failed goes out again in the order of the numbers. With acks of all replicas the broker tells a
batch that it has from one that it lacks by the producer's id and the sequence numbers (KIP-98). After a batch was given
up its numbers are missing, so a new id is taken for what is left.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from broker.client.client import Client
from broker.client.cluster import NO_LEADER
from broker.client.errors import ConnectionFailed, Refused, check, describe, is_retriable
from broker.client.partitioner import partition_of
from broker.client.settings import FIRST_PAUSE_S
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from protocol.records.builder import build_batch, build_pairs

Headers = Sequence[tuple[str, bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers | None]

ALL_REPLICAS = -1
NO_ANSWER = 0
MAX_IN_FLIGHT = 5
"""Requests a broker may owe us: as many as it remembers batches of a producer, to know them again."""
RECORD_OVERHEAD_BYTES = 16
LAST_SEQUENCE = (1 << 31) - 1
NO_PRODUCER = (-1, -1)
WRONG_SEQUENCE = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)


class ProducerSettings(NamedTuple):
    """What a caller may choose; names and defaults are Kafka's but for the size of batches."""

    acks: int = ALL_REPLICAS
    codec: int = 0
    batch_size_bytes: int = 64 << 10
    max_request_size_bytes: int = 1 << 20
    """For one record."""
    retries: int = LAST_SEQUENCE
    delivery_timeout_s: float = 120.0
    max_block_s: float = 60.0
    """For a topic that is not there yet."""
    is_idempotent: bool = True
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class Batch:
    """Records of one partition that travel together."""

    __slots__ = (
        "code",
        "deadline_s",
        "number",
        "partition",
        "reason",
        "records",
        "sequence",
        "size",
        "timestamp_ms",
        "tries",
    )

    def __init__(self, partition: int, timestamp_ms: int, deadline_s: float) -> None:
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.deadline_s = deadline_s
        self.records: list[Record] = []
        self.size = 0
        self.number = (0, 0)  # of the batch as it was filled, and of its first record in it
        self.sequence = -1
        self.tries = 0
        self.code = 0
        self.reason = ""

    def halves(self) -> list[Batch]:
        """Cut it in two, for a topic that takes no batches of this size."""
        middle = len(self.records) // 2
        parts = []
        for start, records in ((0, self.records[:middle]), (middle, self.records[middle:])):
            part = Batch(self.partition, self.timestamp_ms, self.deadline_s)
            part.records = records
            part.number = (self.number[0], self.number[1] + start)
            part.sequence = self.sequence if self.sequence < 0 else _after(self.sequence, start)
            parts.append(part)
        return parts

    def encoded(self, producer: tuple[int, int], codec: int) -> bytes | bytearray:
        """Build its bytes."""
        producer_id, epoch = producer
        if not codec and not any(record[2] for record in self.records):
            return build_pairs(
                self.records,
                timestamp=self.timestamp_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self.sequence,
            )
        return build_batch(
            self.records,
            timestamp=self.timestamp_ms,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.sequence,
        )


def _reason(row: PartitionProduceResponse) -> str:
    """Join what the broker says of a batch and of the first record at fault, as far as it says anything."""
    texts = [row.error_message, *(error.batch_index_error_message for error in row.record_errors[:1])]
    return ": ".join(text for text in texts if text)


def _after(sequence: int, count: int) -> int:
    return (sequence + count) & LAST_SEQUENCE


class Producer:
    """Sends records to one topic. Not for several threads."""

    def __init__(self, client: Client, topic: str, settings: ProducerSettings) -> None:
        """Find the topic, which the broker may create. Raises: Refused, ConnectionFailed. Blocking: network."""
        self._client = client
        self._topic = topic
        self._settings = settings
        self._is_idempotent = settings.is_idempotent and settings.acks == ALL_REPLICAS
        self.sent = 0  # records that the broker has; changed by _done
        self.failed = 0  # records that were given up; changed by _give_up
        self.reason = ""  # why the first of them was; changed by _give_up
        self._topic_id = bytes(16)
        self._leaders: dict[int, int] = {}
        self._find_leaders()
        self._partitions = len(self._leaders)
        self._sticky = int.from_bytes(os.urandom(4), "big") % self._partitions  # changed with every full batch
        self._open: dict[int, Batch] = {}  # not full yet, by partition; changed by add and _seal
        self._ready: deque[Batch] = deque()  # to be sent, in order; changed by _seal, _send and _recover
        self._in_flight: dict[int, deque[list[Batch]]] = {}  # by leader, as sent; changed by _send and _receive
        self._again: list[Batch] = []  # to be sent again; changed by _receive and _recover
        self._number = 0  # of the newest full batch; changed by _seal
        self._next_sequence: dict[int, int] = {}  # by partition; changed by _seal and _renumber
        self._has_gap = False  # whether numbers are missing, after a batch was given up; changed by _give_up
        self._producer = self._new_producer() if self._is_idempotent else NO_PRODUCER

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def add(self, key: bytes | None, value: bytes | None, headers: Headers | None = None) -> None:
        """Take a record; it is sent when its batch is full, or by `flush`. Blocking: network."""
        size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += sum(len(name) + len(content or b"") + 4 for name, content in headers)
        if size > self._settings.max_request_size_bytes:
            self._note_failure(1, f"a record of {size} bytes is larger than max.request.size")
            return
        partition = self._sticky if key is None else partition_of(key, self._partitions)
        batch = self._open.get(partition)
        if batch is not None and batch.size + size > self._settings.batch_size_bytes:
            self._seal(batch)
            self._send()
            if key is None:
                partition = self._sticky
            batch = self._open.get(partition)
        if batch is None:
            deadline_s = self._client.settings.now_s() + self._settings.delivery_timeout_s
            batch = self._open[partition] = Batch(partition, self._settings.now_ms(), deadline_s)
        batch.records.append((key, value, headers))
        batch.size += size

    def flush(self) -> None:
        """Send all there is and wait until the broker has it or it is given up. Blocking: network."""
        for batch in list(self._open.values()):
            self._seal(batch)
        self._send()
        while any(self._in_flight.values()) or self._again or self._ready:
            self._receive_all()
            self._settle()
            self._send()

    # --- out

    def _seal(self, batch: Batch) -> None:
        del self._open[batch.partition]
        self._number += 1
        batch.number = (self._number, 0)
        if self._is_idempotent:
            self._take_sequence(batch)
        self._ready.append(batch)
        if batch.partition == self._sticky:
            self._sticky = (self._sticky + 1) % self._partitions

    def _take_sequence(self, batch: Batch) -> None:
        batch.sequence = self._next_sequence.get(batch.partition, 0)
        self._next_sequence[batch.partition] = _after(batch.sequence, len(batch.records))

    def _send(self) -> None:
        """Send what is ready; first take in answers where a broker owes too many."""
        while self._ready:
            wanted: dict[int, dict[int, Batch]] = {}
            later: deque[Batch] = deque()
            for batch in self._ready:
                leader = self._leaders.get(batch.partition, NO_LEADER)
                if leader == NO_LEADER:
                    batch.code = ErrorCode.LEADER_NOT_AVAILABLE
                    self._again.append(batch)
                elif batch.partition in wanted.setdefault(leader, {}):
                    later.append(batch)  # a request has one batch of a partition
                else:
                    wanted[leader][batch.partition] = batch
            self._ready = later
            for leader, batches in wanted.items():
                self._send_to(leader, list(batches.values()))
            self._settle()

    def _send_to(self, leader: int, batches: list[Batch]) -> None:
        due = self._in_flight.setdefault(leader, deque())
        while len(due) >= MAX_IN_FLIGHT:
            self._receive(leader)
        if self._again:
            self._again += batches  # what is sent again comes first, in its order
            return
        rows = [
            PartitionProduceData(index=batch.partition, records=batch.encoded(self._producer, self._settings.codec))
            for batch in batches
        ]
        request = ProduceRequest(
            acks=self._settings.acks,
            timeout_ms=int(self._client.settings.request_timeout_s * 1000),
            topic_data=[TopicProduceData(name=self._topic, topic_id=self._topic_id, partition_data=rows)],
        )
        is_answered = self._settings.acks != NO_ANSWER
        try:
            self._client.connection(leader).send(request, is_answered=is_answered)
        except ConnectionFailed as failure:
            due.append(batches)
            self._lost(leader, failure)
            return
        if is_answered:
            due.append(batches)
        else:
            self._done(batches)

    # --- in

    def _receive_all(self) -> None:
        for leader, due in self._in_flight.items():
            while due:
                self._receive(leader)

    def _receive(self, leader: int) -> None:
        """Take in the oldest answer that a broker owes."""
        try:
            response = self._client.connection(leader).receive()
        except ConnectionFailed as failure:
            self._lost(leader, failure)
            return
        batches = {batch.partition: batch for batch in self._in_flight[leader].popleft()}
        for topic in response.responses:
            for row in topic.partition_responses:
                batch = batches.pop(row.index, None)
                if batch is None:
                    continue
                batch.code, batch.reason = row.error_code, _reason(row)
                if row.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._done([batch])
                else:
                    self._judge(batch)
        for batch in batches.values():
            batch.code, batch.reason = ErrorCode.UNKNOWN_SERVER_ERROR, "The broker's answer leaves out a partition."
            self._give_up(batch)

    def _lost(self, leader: int, failure: ConnectionFailed) -> None:
        """Send again all that was on its way over a connection that broke."""
        self._client.drop(leader)
        due = self._in_flight[leader]
        for batches in due:
            for batch in batches:
                batch.code, batch.reason = ErrorCode.NETWORK_EXCEPTION, failure.message
                self._judge(batch)
        due.clear()

    def _judge(self, batch: Batch) -> None:
        """Decide what becomes of a batch that failed."""
        batch.tries += 1
        is_too_large = batch.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
        may_pass = is_retriable(batch.code) or (self._is_idempotent and batch.code in WRONG_SEQUENCE)
        if is_too_large and len(batch.records) > 1:
            self._again += batch.halves()
        elif may_pass and batch.tries <= self._settings.retries:
            self._again.append(batch)
        else:
            self._give_up(batch)

    def _done(self, batches: Iterable[Batch]) -> None:
        self.sent += sum(len(batch.records) for batch in batches)

    def _give_up(self, batch: Batch) -> None:
        self._has_gap = self._is_idempotent
        self._note_failure(len(batch.records), batch.reason or describe(batch.code))

    def _note_failure(self, count: int, reason: str) -> None:
        self.failed += count
        self.reason = self.reason or reason

    # --- again

    def _settle(self) -> None:
        """Put what has to be sent again in front, in order, after a pause; with new numbers where some are missing."""
        if not self._again and not self._has_gap:
            return
        self._receive_all()
        waiting = sorted(self._again, key=lambda batch: batch.number)
        self._again = []
        now_s = self._client.settings.now_s()
        for batch in waiting:
            if batch.deadline_s <= now_s:
                self._give_up(batch)
        waiting = [batch for batch in waiting if batch.deadline_s > now_s]
        is_split_only = not any(batch.code for batch in waiting)
        first_of: dict[int, Batch] = {}
        for batch in waiting:
            first_of.setdefault(batch.partition, batch)
        self._ready = deque(sorted([*waiting, *self._ready], key=lambda batch: batch.number))
        if waiting and not is_split_only:
            self._client.settings.sleep(FIRST_PAUSE_S)
            # A broker that starts again is waited for as long as batches may be under way.
            with suppress(ConnectionFailed):
                self._find_leaders()
        if self._has_gap or any(batch.code in WRONG_SEQUENCE for batch in first_of.values()):
            self._renumber()

    def _renumber(self) -> None:
        """Begin anew as another producer: everything that is left gets new sequence numbers."""
        self._has_gap = False
        self._producer = self._new_producer()
        self._next_sequence = {}
        for batch in self._ready:
            self._take_sequence(batch)

    def _new_producer(self) -> tuple[int, int]:
        response = self._client.ask_retrying(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
        check(response.error_code)
        return response.producer_id, response.producer_epoch

    def _find_leaders(self) -> None:
        """Look up who leads; a topic that is not there yet is waited for. Raises: Refused."""
        attempts = self._client.attempts(self._settings.max_block_s)
        while True:
            cluster = self._client.metadata([self._topic], may_create=True)
            row = cluster.topics.get(self._topic)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if row is None else row.error_code
            if row is not None and not code and row.partitions:
                break
            if not is_retriable(code) or not attempts.may_go_on():
                raise Refused(code, f"Topic {self._topic}: {describe(code)}")
            attempts.pause()
        self._topic_id = row.topic_id
        self._leaders = {
            partition.partition: cluster.leader(partition) for partition in cluster.partitions_of(self._topic)
        }
