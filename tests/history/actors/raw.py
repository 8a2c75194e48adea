"""Producers over plain sockets: one that numbers nothing, and one of transactions as Java's clients make them."""

from __future__ import annotations

from tests.harness import batches
from tests.harness.raw import ConnectionClosed, RawClient
from tests.history.actors.interface import Actor, ActorOptions
from tests.history.gate import Gate
from tests.history.implicit import ANSWER_S, NOT_YET_LEADING, RETRY_S, ImplicitProducer


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
            self.leaving.wait(RETRY_S)
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
    """Transactions of version 2."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        self._producer = ImplicitProducer(options.address, options.name)
        self._transactions = 0
        self.journal.producer(options.life)

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
        self._producer.end(is_commit=is_commit)
        (self.journal.committed if is_commit else self.journal.aborted)(name)

    def _write(self, transaction: str) -> None:
        partition, values = self.partition(), [self.value() for _ in range(self.rng.randint(1, 3))]
        for value in values:
            self.journal.writing(self.options.life, partition, value, transaction)
        records = [batches.Record(value.encode(), self.padding()) for value in values]
        base_offset = self._producer.write(partition, records)
        for index, value in enumerate(values):
            self.journal.written(value, base_offset + index)

    def finish(self) -> None:
        self._producer.close()
