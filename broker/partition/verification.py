"""Asking the transaction coordinator whether a producer may begin its transaction on partitions that are led here.

Asked only while a partition does not show the transaction as open already, so once a transaction and partition. The
answer goes into the append as a `Verification` (storage.producers.verification), which a marker makes void. What older
clients do not know is told in words that they do: see `Flow`.
Source: AddPartitionsToTxnManager, ReplicaManager; KIP-890.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from broker.metrics.instruments import Histogram
from broker.partition.errors import PartitionError
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from config.views import VerificationConfig
from protocol.errors import ErrorCode
from storage.producers.verification import NOT_ASKED, Begun, Verification
from storage.types import TopicPartition

NO_SEQUENCE = -1


class Flow(Enum):
    """How a client goes about its transactions, by the version of its request."""

    ADDED_BEFORE = "added before"
    """It has added the partition itself, and takes INVALID_TXN_STATE for the end of the producer."""
    ABORTABLE = "abortable"
    """The same, but it knows TRANSACTION_ABORTABLE, after which it goes on."""
    ADDS = "adds"
    """The broker adds the partition, and each transaction has an epoch of its own."""


class Writer(NamedTuple):
    """Who writes in a transaction, as the request says."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    flow: Flow


class Verify(Protocol):
    """The transaction coordinator's door."""

    async def __call__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Tell of each partition whether it is part of the producer's open transaction; with `add`, make it so."""


Verified = Verification | ErrorCode | None
"""What to append with; or why not; or nothing, where the transaction is open already or the append will tell."""


class TransactionVerifier:
    """Verifies transactions for all who append in them."""

    def __init__(
        self,
        partitions: PartitionManager,
        verify: Verify,
        is_ending: Callable[[str], bool],
        config: Callable[[], VerificationConfig],
        monotonic_ms: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._monotonic_ms = monotonic_ms
        # For metrics: how long questions took, and of how many partitions the answer was no.
        self.seconds = Histogram()
        self.failure_count = 0
        self._partitions = partitions
        self._verify = verify
        self._is_ending = is_ending
        self._config = config
        self._sleep = sleep

    def must_ask(self, writer: Writer, partition: Partition) -> bool:
        """Tell whether a batch may begin its writer's transaction on a partition.

        Where one is open that was decided already, the batch is of the next one: it has the same epoch if an older
        flow has ended the one before. Who adds partitions beforehand has waited for that end.
        """
        return not partition.log.transactions.is_open(writer.producer_id, writer.producer_epoch) or (
            writer.flow is Flow.ADDS and self._is_ending(writer.transactional_id)
        )

    async def verify(self, writer: Writer, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Verified]:
        """Verify a transaction on partitions, each given with the first sequence of what is to be appended.

        Does not suspend while nobody need be asked.
        """
        adds = writer.flow is Flow.ADDS
        config = self._config()
        if not adds and not config.partition_verification_enable:
            return dict.fromkeys(wanted, NOT_ASKED)
        retries = config.retry_backoff_max_ms // config.retry_backoff_ms if adds else 0
        while True:
            verified = self._begin(writer, wanted)
            if adds and self._is_ending(writer.transactional_id):
                if not retries:
                    self.failure_count += len(wanted)
                    return dict.fromkeys(wanted, ErrorCode.CONCURRENT_TRANSACTIONS)
                retries -= 1
                await self._sleep(config.retry_backoff_ms / 1000)
                continue
            asked = [tp for tp, verification in verified.items() if verification is not None]
            if not asked:
                return verified
            started_ms = self._monotonic_ms()
            codes = await self._verify(
                writer.transactional_id, writer.producer_id, writer.producer_epoch, asked, add=adds
            )
            self.seconds.observe((self._monotonic_ms() - started_ms) / 1000)
            if retries and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values():
                # The transaction before is just ending; its marker makes void what was begun here before it.
                retries -= 1
                await self._sleep(config.retry_backoff_ms / 1000)
                continue
            self.failure_count += sum(code is not ErrorCode.NONE for code in codes.values())
            accepted = {tp: wanted[tp] for tp in asked if codes[tp] is ErrorCode.NONE}
            if adds and self._is_overtaken(writer, accepted, verified):
                continue
            return verified | {tp: _told(code, writer.flow) for tp, code in codes.items() if tp not in accepted}

    def _begin(self, writer: Writer, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Verified]:
        """Begin the verification of each partition, or take up the one in force."""
        begun: dict[TopicPartition, Verified] = {}
        for tp, sequence in wanted.items():
            wish = Begun(writer.producer_id, writer.producer_epoch, sequence, writer.flow is Flow.ADDS)
            try:
                partition = self._partitions.get(*tp)
                partition.ensure_leader()
                begun[tp] = partition.log.transactions.begin_verification(wish)
            except PartitionError:
                begun[tp] = None
        return begun

    def _is_overtaken(
        self, writer: Writer, accepted: Mapping[TopicPartition, int], verified: Mapping[TopicPartition, Verified]
    ) -> bool:
        """Tell whether a marker, that of the transaction before, came between the question and its answer."""
        now = self._begin(writer, accepted)
        return any(one is not None and one is not verified[tp] for tp, one in now.items())


def _told(code: ErrorCode, flow: Flow) -> ErrorCode:
    """Translate the coordinator's answer into what one who appends understands."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and flow is not Flow.ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code
