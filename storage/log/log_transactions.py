"""What those ask of a log who bring transactions to it: which are open, who may begin one, what was aborted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from storage.log.guard import guarded
from storage.log.reader import FetchSlice, LogReader
from storage.log.state import LogState
from storage.producers.verification import Begun, Verification


class LogTransactions:
    """The transactions of one log."""

    __slots__ = ("_reader", "_state")

    def __init__(self, state: LogState, reader: LogReader) -> None:
        self._state = state
        self._reader = reader

    # --- beginning and ending ---

    def require_verification(self) -> None:
        """Let no transaction begin from now on but with a verification in hand."""
        self._state.producers.verifications.is_required = True

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Tell whether a producer has an open transaction here: its next batch needs nobody's word."""
        return self._state.producers.is_open(producer_id, producer_epoch)

    def begin_verification(self, begun: Begun) -> Verification | None:
        """Begin to verify a transaction, None when it is open here already; it goes into the append that follows."""
        producers = self._state.producers
        if producers.is_open(begun.producer_id, begun.producer_epoch):
            return None
        return producers.verifications.begin(begun, self._state.clock.now_ms())

    @contextmanager
    def in_hand(self, verification: Verification | None) -> Iterator[None]:
        """Let the append inside begin the transaction that was verified, if nothing has ended it meanwhile."""
        verifications = self._state.producers.verifications
        verifications.in_hand = verification
        try:
            yield
        finally:
            verifications.in_hand = None

    def ensure_marker(self, producer_id: int, producer_epoch: int, transaction_version: int) -> None:
        """Check the epoch of a marker that is to be appended. Raises: InvalidProducerEpoch."""
        self._state.producers.check_marker(producer_id, producer_epoch, transaction_version)

    def take_over(self, before: LogTransactions) -> None:
        """Go on with what is being verified for the log that was served so far."""
        self._state.producers.verifications.take_over(before._state.producers.verifications)

    # --- reading ---

    def aborted_in(self, start_offset: int, found: FetchSlice) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that touch what a read from there has found."""
        return guarded(
            self._state,
            "read aborted transactions of",
            lambda: self._reader.aborted_in(start_offset, found),
        )

    def aborted(self, start_offset: int, upper_bound: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that touch [start_offset, upper_bound)."""
        return guarded(
            self._state,
            "read aborted transactions of",
            lambda: self._reader.aborted_transactions(start_offset, upper_bound),
        )
