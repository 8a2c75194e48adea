"""Transactions that are being verified: what keeps a batch out of the log once its transaction has ended.

The first batch of a transaction needs the word of the transaction coordinator that the partition is part of it. While
the coordinator is asked a marker may end the transaction here; a batch that was let in afterwards would begin one that
nobody ever ends. So whoever asks holds a `Verification`; a marker, and the first batch, make it void, and only the one
in force lets a batch in. It also remembers the lowest sequence that was announced: a later batch must not overtake an
earlier one whose verification failed for the moment. Source: VerificationStateEntry, KIP-890.
"""

from typing import NamedTuple

from protocol.records.batch import BatchHeader
from storage.errors import InvalidTxnState, OutOfOrderSequence


class Verification:
    """One question to the coordinator; known by identity."""

    __slots__ = ("begun_ms", "bumps_epoch", "lowest_sequence", "producer_epoch")

    def __init__(self, producer_epoch: int, lowest_sequence: int, begun_ms: int, *, bumps_epoch: bool) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.begun_ms = begun_ms
        self.bumps_epoch = bumps_epoch  # the producer gets a new epoch with each transaction, and begins it with 0

    def announce(self, producer_epoch: int, sequence: int) -> None:
        """Note another batch that waits for the answer."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


NOT_ASKED = Verification(-1, -1, -1, bumps_epoch=False)
"""In hand where nobody is asked: transaction.partition.verification.enable is false."""


class Begun(NamedTuple):
    """What a batch says that is to be verified."""

    producer_id: int
    producer_epoch: int
    sequence: int
    bumps_epoch: bool


class Verifications:
    """Those of one partition. Not shared between threads."""

    __slots__ = ("_by_producer", "in_hand", "is_required")

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}
        self.in_hand: Verification | None = None  # of the append that runs; set and reset around it by LogTransactions
        self.is_required = False  # set by whoever hosts the log: a log that is only read or repaired asks nobody

    def begin(self, begun: Begun, now_ms: int) -> Verification:
        """Return the verification in force for a producer, a new one if there is none."""
        found = self._by_producer.get(begun.producer_id)
        if found is None:
            found = Verification(begun.producer_epoch, begun.sequence, now_ms, bumps_epoch=begun.bumps_epoch)
            self._by_producer[begun.producer_id] = found
        else:
            found.announce(begun.producer_epoch, begun.sequence)
        return found

    def ensure(self, header: BatchHeader) -> None:
        """Let the first batch of a transaction in only with the verification in force. Raises: InvalidTxnState."""
        if not self.is_required or self.in_hand is NOT_ASKED:
            return
        if self.in_hand is None or self._by_producer.get(header.producer_id) is not self.in_hand:
            raise InvalidTxnState("Record was not part of an ongoing transaction")

    def ensure_sequence(self, header: BatchHeader, *, has_batches: bool) -> None:
        """Refuse a batch that would overtake an earlier one of its transaction. Raises: OutOfOrderSequence."""
        found = self._by_producer.get(header.producer_id)
        if found is None:
            return
        sequence = header.base_sequence
        if found.bumps_epoch and sequence != 0 and not has_batches:
            raise OutOfOrderSequence(
                f"Invalid sequence number for producer {header.producer_id}: {sequence} (incoming seq. number), "
                "a transaction begins with 0 in an epoch of its own"
            )
        if sequence > found.lowest_sequence:
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {header.producer_id}: {sequence} (incoming seq. number), "
                f"{found.lowest_sequence} (earliest seen sequence)"
            )

    def end(self, producer_id: int) -> None:
        """Make what is in force for a producer void: its transaction has begun here, or has ended."""
        self._by_producer.pop(producer_id, None)

    def remove_begun_before(self, begun_ms: int) -> None:
        """Forget those that led to nothing."""
        self._by_producer = {key: one for key, one in self._by_producer.items() if one.begun_ms > begun_ms}

    def take_over(self, before: "Verifications") -> None:
        """Go on with those of the log that was served so far."""
        self._by_producer, self.is_required = before._by_producer, before.is_required

    def __len__(self) -> int:
        return len(self._by_producer)
