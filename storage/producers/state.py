"""Idempotence and transactions of one partition: who wrote last, what is a duplicate, what is not decided yet.

An append calls `check` before anything is written and `append` after everything was: a failed write leaves no trace
here. Replay at start calls `append` alone, since what is in the log was accepted once.
Source: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry; KIP-98, KIP-360, KIP-890.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from protocol.records.batch import (
    CONTROL_BIT,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    iter_batches,
)
from protocol.records.control import EndTxnMarker, parse_marker
from storage.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, TransactionCoordinatorFenced
from storage.producers.entry import NO_OFFSET, BatchMetadata, ProducerEntry
from storage.producers.verification import Verifications
from storage.types import AppendOrigin, TopicPartition

logger: Final = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

DEFAULT_EXPIRATION_MS: Final = 86_400_000
LAST_PRODUCER_EPOCH: Final = 32_767
_TRANSACTIONAL_OR_CONTROL: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_REPLICATION: Final = AppendOrigin.REPLICATION


class CompletedTxn(NamedTuple):
    """A transaction that a marker just ended; an aborted one goes to the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    is_aborted: bool
    last_stable_offset: int
    """First offset still undecided once this transaction is; what the index entry stores."""


class ProducerStateManager:
    """The producers of one partition. Not shared between threads."""

    __slots__ = (
        "_completed",
        "_open",
        "expiration_ms",
        "last_snapshot_offset",
        "map_end_offset",
        "producers",
        "topic_partition",
        "verifications",
    )

    def __init__(self, topic_partition: TopicPartition, *, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        self.topic_partition = topic_partition
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        # Log offset up to which the state is complete, exclusive; the log moves it after each append.
        self.map_end_offset = 0
        # Offset of the newest snapshot file, written by whoever writes or loads one.
        self.last_snapshot_offset = 0
        # Open transactions: first offset -> producer id, ascending since transactions begin at the log's end.
        self._open: dict[int, int] = {}
        # Ended ones whose marker may still lie at or above the high watermark: first offset -> marker offset.
        self._completed: dict[int, int] = {}
        self.verifications = Verifications()

    # -- append ------------------------------------------------------------------------------------------------

    def check(
        self, header: BatchHeader, origin: AppendOrigin = _CLIENT, marker: EndTxnMarker | None = None
    ) -> BatchMetadata | None:
        """Decide whether a producer's batch may be appended; changes nothing.

        Shape: the remembered batch if this one is its duplicate (answer with its offsets, write nothing), else None.
        marker is the content of a control batch. Batches without producer id always pass.
        Raises: InvalidProducerEpoch, OutOfOrderSequence, InvalidTxnState, TransactionCoordinatorFenced. A replica
        only logs them: the leader has accepted the batch already.
        """
        producer_id, producer_epoch, first_sequence = header[9:12]
        if producer_id < 0:
            return None
        entry = self.producers.get(producer_id)
        if header[5] & _TRANSACTIONAL_OR_CONTROL == TRANSACTIONAL_BIT and origin in (_CLIENT, _COORDINATOR):
            known = self._check_transactional(entry, header, origin)
            if known is not None:
                return known
        if entry is None:
            return None  # unknown: retention or expiry may have removed it, so any sequence is taken up
        if origin is _CLIENT:
            if producer_epoch == entry.producer_epoch:
                expected = (entry.batches[-1][1] + 1) & MAX_SEQUENCE if entry.batches else 0
                if first_sequence != expected:
                    last_sequence = (first_sequence + header[6]) & MAX_SEQUENCE
                    known = entry.find_duplicate(producer_epoch, first_sequence, last_sequence)
                    if known is not None:
                        return known
                    self._refuse_sequence(entry, header)
            else:
                self._check_new_epoch(entry, header)
        elif producer_epoch < entry.producer_epoch:
            self._refuse_epoch(entry, header, origin)
        if header[5] & CONTROL_BIT:
            if marker is not None and marker.coordinator_epoch < entry.coordinator_epoch:
                self._refuse_coordinator(entry, marker, origin)
        elif entry.current_txn_first_offset >= 0 and not header[5] & TRANSACTIONAL_BIT and origin is not _REPLICATION:
            raise InvalidTxnState(
                f"Expected a transactional write from producer {producer_id} in {self.topic_partition}, "
                f"its transaction is open since offset {entry.current_txn_first_offset}"
            )
        return None

    def _check_transactional(
        self, entry: ProducerEntry | None, header: BatchHeader, origin: AppendOrigin
    ) -> BatchMetadata | None:
        """Check what a transactional batch has to do with the open transaction of its producer; as `check`."""
        if self.is_open(header.producer_id, header.producer_epoch):
            return None
        first_sequence = header.base_sequence
        if entry is not None and origin is _CLIENT:
            last_sequence = (first_sequence + header.last_offset_delta) & MAX_SEQUENCE
            known = entry.find_duplicate(header.producer_epoch, first_sequence, last_sequence)
            if known is not None:
                return known
        self.verifications.ensure(header)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            self._refuse_epoch(entry, header, origin)
        if origin is _CLIENT:
            self.verifications.ensure_sequence(header, has_batches=entry is not None and bool(entry.batches))
        return None

    def check_marker(self, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        """Check the epoch of a marker that is to be written; that it is not older, its append does.

        From version 2 on the coordinator raises the epoch before it ends a transaction, so a marker of the same epoch
        is a late one of the transaction before. Without an open transaction it is a harmless repetition; and there is
        no epoch above the last. Raises: InvalidProducerEpoch. Source: KIP-1228.
        """
        if (
            transaction_version >= 2
            and producer_epoch < LAST_PRODUCER_EPOCH
            and self.is_open(producer_id, producer_epoch)
        ):
            raise InvalidProducerEpoch(
                f"Epoch of producer {producer_id} in {self.topic_partition} is {producer_epoch}, "
                "which is not above the epoch of the transaction that is open"
            )

    def append(self, header: BatchHeader, marker: EndTxnMarker | None = None) -> CompletedTxn | None:
        """Take up a batch that is in the log; header carries its final offsets.

        Shape: the transaction it ended, if it is a marker of one with records here. An empty control batch (its marker
        was compacted away) changes nothing.
        """
        base_offset = header[0]
        attributes, last_delta = header[5:7]
        self.map_end_offset = base_offset + last_delta + 1
        producer_id = header[9]
        if producer_id < 0:
            return None
        if attributes & CONTROL_BIT:
            return None if marker is None else self._end_transaction(header, marker)
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        timestamp, _, producer_epoch, first_sequence = header[8:12]
        if producer_epoch != entry.producer_epoch:
            entry.move_to_epoch(producer_epoch)
        last_sequence = (first_sequence + last_delta) & MAX_SEQUENCE if first_sequence >= 0 else first_sequence
        entry.batches.append(
            tuple.__new__(
                BatchMetadata, (first_sequence, last_sequence, base_offset + last_delta, last_delta, timestamp)
            )
        )
        entry.last_timestamp = timestamp
        if attributes & TRANSACTIONAL_BIT:
            self.verifications.end(producer_id)
            if entry.current_txn_first_offset < 0:
                entry.current_txn_first_offset = base_offset
                self._open[base_offset] = producer_id
        return None

    def replay(self, buffer: Buffer) -> Iterator[CompletedTxn]:
        """Take up whole batches read from the log, in order; yields the transactions they end, to index or ignore.

        Raises: CorruptBatch, InvalidBatch if the bytes are not what an append would have left.
        """
        for position, header in iter_batches(buffer):
            marker = parse_marker(buffer, position, header) if header.is_control else None
            completed = self.append(header, marker)
            if completed is not None:
                yield completed

    def _end_transaction(self, header: BatchHeader, marker: EndTxnMarker) -> CompletedTxn | None:
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        self.verifications.end(header.producer_id)
        first_offset = entry.current_txn_first_offset
        # At the same epoch the batches stay: such a producer goes on counting through its transactions.
        entry.move_to_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.current_txn_first_offset = NO_OFFSET
        entry.last_timestamp = header.max_timestamp
        if first_offset < 0:
            return None
        self._open.pop(first_offset, None)
        self._completed[first_offset] = header.base_offset
        undecided = next(iter(self._open), header.base_offset + 1)
        return CompletedTxn(entry.producer_id, first_offset, header.base_offset, marker.is_abort, undecided)

    # -- refusals ----------------------------------------------------------------------------------------------

    def _check_new_epoch(self, entry: ProducerEntry, header: BatchHeader) -> None:
        if header.producer_epoch < entry.producer_epoch:
            self._refuse_epoch(entry, header, _CLIENT)
        if header.base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"Invalid sequence number for new epoch of producer {entry.producer_id} in {self.topic_partition}: "
                f"{header.producer_epoch} (request epoch), {header.base_sequence} (seq. number), "
                f"{entry.producer_epoch} (current producer epoch)"
            )

    def _refuse_sequence(self, entry: ProducerEntry, header: BatchHeader) -> None:
        if entry.producer_epoch == NO_PRODUCER_EPOCH:
            return
        raise OutOfOrderSequence(
            f"Out of order sequence number for producer {entry.producer_id} in {self.topic_partition}: "
            f"{header.base_sequence} (incoming seq. number), {entry.last_sequence} (current end sequence number)"
        )

    def _refuse_epoch(self, entry: ProducerEntry, header: BatchHeader, origin: AppendOrigin) -> None:
        message = (
            f"Epoch of producer {entry.producer_id} in {self.topic_partition} is {header.producer_epoch}, "
            f"which is smaller than the last seen epoch {entry.producer_epoch}"
        )
        if origin is not _REPLICATION:
            raise InvalidProducerEpoch(message)
        logger.warning("replicated batch has an old producer epoch: %s", message)

    def _refuse_coordinator(self, entry: ProducerEntry, marker: EndTxnMarker, origin: AppendOrigin) -> None:
        message = (
            f"Invalid coordinator epoch for producer {entry.producer_id} in {self.topic_partition}: "
            f"{marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)"
        )
        if origin is not _REPLICATION:
            raise TransactionCoordinatorFenced(message)
        logger.info("replicated marker has an old coordinator epoch: %s", message)

    # -- open transactions --------------------------------------------------------------------------------

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Tell whether a producer has begun a transaction here, in this epoch, that no marker has ended."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0 and entry.producer_epoch == producer_epoch

    @property
    def first_undecided_offset(self) -> int | None:
        """Start of the oldest transaction without a marker."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Start of the oldest transaction that has no marker or whose marker is not below the high watermark."""
        if not self._completed:
            return next(iter(self._open), None)
        oldest = min(self._completed)
        return min(oldest, next(iter(self._open), oldest))

    @property
    def has_undecided(self) -> bool:
        """Tell whether some transaction holds the last stable offset back; asked with every append."""
        return bool(self._open or self._completed)

    def ended_transactions(self) -> dict[int, int]:
        """Return what a rebuild forgets: the transactions whose marker may not be replicated yet, by first offset."""
        return dict(self._completed)

    def keep_ended(self, transactions: Mapping[int, int], *, below: int) -> None:
        """Remember those again whose marker lies below an offset."""
        for first_offset, marker_offset in transactions.items():
            if marker_offset < below:
                self._completed[first_offset] = marker_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker is below the high watermark; with none it costs one test."""
        if self._completed:
            self._completed = {first: last for first, last in self._completed.items() if last >= high_watermark}

    def on_log_start_incremented(self, log_start_offset: int) -> None:
        """Forget what ended below the new log start. Producers stay: retention must not break idle ones."""
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    # -- life cycle --------------------------------------------------------------------------------------------

    def load(self, entries: Iterable[ProducerEntry], *, offset: int, now_ms: int) -> None:
        """Replace everything by a snapshot taken at offset; expired producers are left out."""
        self.reset(offset)
        self.last_snapshot_offset = offset
        for entry in entries:
            if not self._is_expired(entry, now_ms):
                self.producers[entry.producer_id] = entry
        opened = [entry for entry in self.producers.values() if entry.has_open_transaction]
        for entry in sorted(opened, key=lambda one: one.current_txn_first_offset):
            self._open[entry.current_txn_first_offset] = entry.producer_id

    def reset(self, offset: int) -> None:
        """Forget everything; the state is complete (empty) at offset."""
        self.producers.clear()
        self._open.clear()
        self._completed.clear()
        self.map_end_offset = offset
        self.last_snapshot_offset = 0

    def remove_expired(self, now_ms: int) -> int:
        """Drop producers idle for the expiration time without an open transaction; returns how many.

        A time ahead of the clock counts as the first look at it: what is scheduled for next year must not keep its
        producer until then.
        """
        for entry in self.producers.values():
            if entry.last_timestamp > now_ms:
                entry.last_timestamp = now_ms
        expired = [key for key, entry in self.producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        self.verifications.remove_begun_before(now_ms - self.expiration_ms)
        return len(expired)

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return not entry.has_open_transaction and now_ms - entry.last_timestamp >= self.expiration_ms

    @property
    def is_empty(self) -> bool:
        """No producer is known."""
        return not self.producers
