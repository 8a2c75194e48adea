"""What a cleaning keeps: the rules for batches, records and transactions; pure.

A record stays if no later one of its key is known. A tombstone or the marker of a transaction without data stays until
its batch's delete horizon (KIP-534), which the first cleaning that meets it sets. Aborted data goes at once. A batch
without records stays as a header where it alone tells something: the last sequence or the newest epoch of a producer,
or the end of the round. Source: Kafka's Cleaner, CleanedTransactionMetadata, MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from protocol.records.batch import CONTROL_BIT, DELETE_HORIZON_BIT, MAGIC_V2, TRANSACTIONAL_BIT, BatchHeader
from protocol.records.control import ControlType
from storage.compaction.task import LastRecord
from storage.segment.txn_index import AbortedTxn


class Fate(Enum):
    """What happens to a batch before anybody looks at its data records."""

    FILTER = 0
    """Data: each record is judged."""
    KEEP_ALL = 1
    """A control batch that stays."""
    DROP_ALL = 2
    """Aborted data, or a marker past its horizon."""


class BatchVerdict(NamedTuple):
    """The judgement of one batch."""

    fate: Fate
    stays_empty: bool  # without any record left, keep the header
    needs_horizon: bool  # a marker whose transaction is gone: it goes once its horizon is over
    keeps_tombstones: bool


class CleanedTransactions:
    """Follows transactions through a pass: which data is aborted, which markers have nothing left to end."""

    __slots__ = ("_aborted", "_next", "_ongoing_aborted", "_ongoing_committed", "_with_data", "retained")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = sorted(set(aborted), key=lambda txn: (txn.first_offset, txn.last_offset))
        self._next = 0  # the first aborted transaction that begins above what was read
        self._ongoing_aborted: dict[int, AbortedTxn] = {}  # by producer, until its marker
        self._with_data: set[int] = set()  # producers of which aborted data was seen since their last marker
        self._ongoing_committed: set[int] = set()  # producers of data that is not aborted, since their last marker
        self.retained: list[AbortedTxn] = []  # entries for the new index; taken away by the writer

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take up a data batch; tell whether its transaction was aborted."""
        if self._next < len(self._aborted):
            self._begin_up_to(header.last_offset)
        if header.magic < MAGIC_V2 or not header.attributes & TRANSACTIONAL_BIT:
            return False
        if header.producer_id in self._ongoing_aborted:
            self._with_data.add(header.producer_id)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def is_marker_idle(self, header: BatchHeader, control_type: int | None) -> bool:
        """Take up a control batch (type None: an empty one); tell whether it ends nothing that is left."""
        self._begin_up_to(header.last_offset)
        if control_type is None:
            return True
        if control_type == ControlType.ABORT:
            ended = self._ongoing_aborted.pop(header.producer_id, None)
            if ended is None or header.producer_id not in self._with_data:
                return True
            self._with_data.remove(header.producer_id)
            self.retained.append(ended)
            return False
        if control_type == ControlType.COMMIT:
            if header.producer_id not in self._ongoing_committed:
                return True
            self._ongoing_committed.remove(header.producer_id)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            txn = self._aborted[self._next]
            self._ongoing_aborted.setdefault(txn.producer_id, txn)
            self._next += 1


class BatchRules:
    """Judges whole batches of one pass."""

    __slots__ = ("_last_records", "_now_ms", "_round_end", "_transactions")

    def __init__(
        self, transactions: CleanedTransactions, last_records: Iterable[LastRecord], *, now_ms: int, round_end: int
    ) -> None:
        self._transactions = transactions
        self._last_records = {one.producer_id: one for one in last_records}
        self._now_ms = now_ms
        self._round_end = round_end

    def judge(self, header: BatchHeader, control_type: int | None, *, keeps_legacy_tombstones: bool) -> BatchVerdict:
        """Decide about the next batch of the log; every batch is shown here, in order."""
        attributes = header.attributes
        if header.magic < MAGIC_V2:
            self._transactions.is_aborted(header)
            return BatchVerdict(Fate.FILTER, False, False, keeps_legacy_tombstones)
        stays_empty = header.next_offset == self._round_end or self._is_last_of_producer(header)
        has_horizon = attributes & DELETE_HORIZON_BIT != 0
        is_over = has_horizon and header.base_timestamp <= self._now_ms
        if not attributes & CONTROL_BIT:
            fate = Fate.DROP_ALL if self._transactions.is_aborted(header) else Fate.FILTER
            return BatchVerdict(fate, stays_empty, False, not is_over)
        is_idle = self._transactions.is_marker_idle(header, control_type)
        fate = Fate.DROP_ALL if is_idle and is_over else Fate.KEEP_ALL
        return BatchVerdict(fate, stays_empty, is_idle and not has_horizon, not is_over)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Tell whether an active producer is known by this batch.

        Its last data batch carries the last sequence number. Without any, a marker carries the epoch that fences.
        """
        if header.producer_id < 0:
            return False
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch
