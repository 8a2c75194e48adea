"""A producer of transactions of version 2 over plain sockets, as Java's clients are: no other stock client is one.

No partition is added by request, each end bumps the epoch, and every request whose answer was lost is asked again, on a
new connection, until there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.raw import ConnectionClosed, RawClient
from tests.harness.transacting import NOT_NOW, RawProducer
from tests.history.clients.interface import TRANSACTION_MS
from tests.history.model import Partition

# UNKNOWN_TOPIC_OR_PARTITION and NOT_LEADER_OR_FOLLOWER: said for a moment after a start; nothing was stored.
NOT_YET_LEADING = (3, 6)
# NOT_ENOUGH_REPLICAS: how producers are told that the coordinator, which is asked for them, still loads.
NOT_YET_VERIFIED = 19
ANSWER_S = 4.0
RETRY_S = 0.05
_T = TypeVar("_T")


class PatientClient:
    """A connection that is made anew when it breaks, and asks until there is a result."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._client: RawClient | None = None

    def until(self, ask: Callable[[RawClient], _T | None]) -> _T:
        """Ask again, a little later, until the result is not None."""
        while True:
            try:
                if self._client is None:
                    self._client = RawClient(self._address, timeout_s=ANSWER_S)
                result = ask(self._client)
                if result is not None:
                    return result
            except (ConnectionClosed, OSError):
                self.close()
            threading.Event().wait(RETRY_S)

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        if self._client is not None:
            self._client.close()
        self._client = None


class ImplicitProducer:
    """The holder of a transactional id; `address` is the broker's."""

    def __init__(self, address: tuple[str, int], transactional_id: str) -> None:
        self._id = transactional_id
        self._client = PatientClient(address)
        self._producer_id, self._epoch = self._client.until(self._init)
        # The next sequence of each partition in this epoch.
        self._sequences: dict[Partition, int] = {}

    def _init(self, client: RawClient) -> tuple[int, int] | None:
        """Become the holder of the transactional id; looking for the coordinator creates its topic."""
        if client.request("find_coordinator", 1, key=self._id, key_type=1).error_code != 0:
            return None
        who = {"transactional_id": self._id, "producer_id": -1, "producer_epoch": -1}
        answer = client.request("init_producer_id", 5, transaction_timeout_ms=TRANSACTION_MS, **who)
        assert answer.error_code in (0, *NOT_NOW), answer
        return (answer.producer_id, answer.producer_epoch) if answer.error_code == 0 else None

    def write(self, partition: Partition, records: Sequence[Record]) -> int:
        """Append a batch; return its base offset."""
        topic, number = partition
        first = self._sequences.get(partition, 0)
        batch = batches.build(
            records,
            attributes=batches.TRANSACTIONAL,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=first,
        )

        def send(client: RawClient) -> int | None:
            result = client.produce(topic, batch, number, version=12, transactional_id=self._id)
            if result.error_code in (*NOT_NOW, *NOT_YET_LEADING, NOT_YET_VERIFIED):
                return None
            assert result.error_code == 0, result
            return int(result.base_offset)

        base_offset = self._client.until(send)
        self._sequences[partition] = first + len(records)
        return base_offset

    def commit_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets in the transaction, as nobody's member."""
        rows = [(topic, number, offset) for (topic, number), offset in offsets.items()]

        def send(client: RawClient) -> bool | None:
            codes = set(self._raw(client).commit_offsets(group, rows, version=5))
            assert codes <= {0, *NOT_NOW, *NOT_YET_LEADING}, codes
            return True if codes == {0} else None

        self._client.until(send)

    def end(self, *, is_commit: bool) -> None:
        """End the transaction; the next one has another epoch."""

        def send(client: RawClient) -> RawProducer | None:
            producer = self._raw(client)
            code = producer.end(commit=is_commit, version=5)
            assert code in (0, *NOT_NOW), code
            return producer if code == 0 else None

        ended = self._client.until(send)
        self._producer_id, self._epoch = ended.producer_id, ended.epoch
        self._sequences.clear()

    def _raw(self, client: RawClient) -> RawProducer:
        producer = RawProducer(client, self._id)
        producer.producer_id, producer.epoch = self._producer_id, self._epoch
        return producer

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
