"""What a partition remembers of one producer: epoch, the last five batches, the open transaction."""

from collections import deque
from typing import Final, NamedTuple

from protocol.records.batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

BATCHES_TO_RETAIN: Final = 5
"""As many as a producer may have in flight while idempotent, so that any of them can be resent and recognised."""
NO_COORDINATOR_EPOCH: Final = -1
NO_OFFSET: Final = -1


class BatchMetadata(NamedTuple):
    """One appended batch, as far as recognising its duplicate needs."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The base offset the batch was appended at."""
        return self.last_offset - self.offset_delta


def batch_before(last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> BatchMetadata:
    """Build the metadata from what a snapshot keeps; the first sequence follows, wrapped, from the delta."""
    return BatchMetadata(
        (last_sequence - offset_delta) & MAX_SEQUENCE, last_sequence, last_offset, offset_delta, timestamp
    )


class ProducerEntry:
    """The state of one producer id on one partition. Changed by ProducerStateManager only."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int = NO_OFFSET,
    ) -> None:
        self.producer_id = producer_id
        # Written by every append and marker of this producer.
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 if none is known at this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last data record, -1 if none is known at this epoch."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        """Records in the last batch, less one."""
        return self.batches[-1].offset_delta if self.batches else 0

    @property
    def has_open_transaction(self) -> bool:
        """A transaction of this producer has records here and no marker yet."""
        return self.current_txn_first_offset >= 0

    def find_duplicate(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Find the remembered batch with exactly this epoch and sequence range."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch[0] == first_sequence and batch[1] == last_sequence:
                    return batch
        return None

    def move_to_epoch(self, producer_epoch: int) -> None:
        """Adopt an epoch; another one forgets the batches, whose sequences mean nothing any more."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def __repr__(self) -> str:
        return (
            f"ProducerEntry({self.producer_id}, epoch={self.producer_epoch}, last_sequence={self.last_sequence}, "
            f"last_offset={self.last_offset}, coordinator_epoch={self.coordinator_epoch}, "
            f"txn_first_offset={self.current_txn_first_offset}, last_timestamp={self.last_timestamp})"
        )
