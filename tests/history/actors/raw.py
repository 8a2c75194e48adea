"""Producers over plain sockets: one that numbers nothing, and one of transactions as Java's clients make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.harness import batches
from tests.harness.raw import ConnectionClosed, RawClient
from tests.harness.transacting import NOT_NOW, RawProducer
from tests.history.actors.interface import Actor, ActorOptions
from tests.history.clients.interface import TRANSACTION_MS
from tests.history.gate import Gate
from tests.history.model import Partition

# UNKNOWN_TOPIC_OR_PARTITION and NOT_LEADER_OR_FOLLOWER: said for a moment after a start; nothing was stored.
NOT_YET_LEADING = (3, 6)
# NOT_ENOUGH_REPLICAS: how producers are told that the coordinator, which is asked for them, still loads.
NOT_YET_VERIFIED = 19
ANSWER_S = 4.0
RECONNECT_S = 0.05
_T = TypeVar("_T")


class PlainProducer(Actor):
    """One request in flight, each value sent once; after a lost answer it is somebody else, who may overtake it."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        self._client: RawClient | None = None
        self._connections = 0

    def step(self) -> None:
        partition, values = self.partition(), [self.value() for _ in range(self.rng.randint(1, 4))]
        try:
            if self._client is None:
                self._client = RawClient(self.options.address, timeout_s=ANSWER_S)
                self._connections += 1
                self.journal.producer(self._name)
        except OSError:
            self.leaving.wait(RECONNECT_S)
            return
        for value in values:
            self.journal.writing(self._name, partition, value)
        records = [batches.Record(value.encode(), self.padding()) for value in values]
        try:
            result = self._client.produce(
                partition[0], batches.build(records), partition[1], acks=self.rng.choice((1, -1))
            )
        except (ConnectionClosed, OSError):
            self.finish()
            return
        if result.error_code in NOT_YET_LEADING:
            for value in values:
                self.journal.refused(value)
        else:
            assert result.error_code == 0, result
            for index, value in enumerate(values):
                self.journal.written(value, result.base_offset + index)
        self.rest()

    @property
    def _name(self) -> str:
        return f"{self.options.life}#{self._connections}"

    def finish(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


class ImplicitTransactions(Actor):
    """Transactions of version 2: no partition is added, each end bumps the epoch, every request is asked again."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        self._client: RawClient | None = None
        self._transactions = 0
        self.journal.producer(options.life)
        self._producer_id, self._epoch = self._until(self._init)
        self._sequences: dict[Partition, int] = {}

    def _init(self, client: RawClient) -> tuple[int, int] | None:
        """Become the holder of the transactional id; looking for the coordinator creates its topic."""
        name = self.options.name
        if client.request("find_coordinator", 1, key=name, key_type=1).error_code != 0:
            return None
        who = {"transactional_id": name, "producer_id": -1, "producer_epoch": -1}
        answer = client.request("init_producer_id", 5, transaction_timeout_ms=TRANSACTION_MS, **who)
        assert answer.error_code in (0, *NOT_NOW), answer
        return (answer.producer_id, answer.producer_epoch) if answer.error_code == 0 else None

    def step(self) -> None:
        self._transactions += 1
        name = f"{self.options.life}/{self._transactions}"
        self.journal.began(name)
        for _ in range(self.rng.randint(1, 4)):
            self._write(name)
            self.rest()
        is_commit = self.rng.random() < 0.7
        if is_commit:
            self.journal.committing(name)
        self._end(is_commit=is_commit)
        (self.journal.committed if is_commit else self.journal.aborted)(name)

    def _write(self, transaction: str) -> None:
        partition, values = self.partition(), [self.value() for _ in range(self.rng.randint(1, 3))]
        for value in values:
            self.journal.writing(self.options.life, partition, value, transaction)
        batch = batches.build(
            [batches.Record(value.encode(), self.padding()) for value in values],
            attributes=batches.TRANSACTIONAL,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences.get(partition, 0),
        )
        topic, number = partition

        def send(client: RawClient) -> int | None:
            result = client.produce(topic, batch, number, version=12, transactional_id=self.options.name)
            if result.error_code in (*NOT_NOW, *NOT_YET_LEADING, NOT_YET_VERIFIED):
                return None
            assert result.error_code == 0, result
            return int(result.base_offset)

        base_offset = self._until(send)
        self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
        for index, value in enumerate(values):
            self.journal.written(value, base_offset + index)

    def _end(self, *, is_commit: bool) -> None:
        def end(client: RawClient) -> RawProducer | None:
            producer = RawProducer(client, self.options.name)
            producer.producer_id, producer.epoch = self._producer_id, self._epoch
            code = producer.end(commit=is_commit, version=5)
            assert code in (0, *NOT_NOW), code
            return producer if code == 0 else None

        ended = self._until(end)
        self._producer_id, self._epoch = ended.producer_id, ended.epoch
        self._sequences.clear()

    def _until(self, ask: Callable[[RawClient], _T | None]) -> _T:
        """Ask again until there is a result."""
        while True:
            result = self._ask(ask)
            if result is not None:
                return result
            self.leaving.wait(RECONNECT_S)

    def _ask(self, ask: Callable[[RawClient], _T]) -> _T:
        """Ask again on another connection if one breaks."""
        while True:
            try:
                if self._client is None:
                    self._client = RawClient(self.options.address, timeout_s=ANSWER_S)
                return ask(self._client)
            except (ConnectionClosed, OSError):
                self.finish()
                self.leaving.wait(RECONNECT_S)

    def finish(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None
