"""Following producers and transactions through stored batches: state per producer, aborted ones into the index."""

from __future__ import annotations

from protocol.records.batch import CONTROL_BIT, BatchHeader
from protocol.records.control import EndTxnMarker, parse_marker
from protocol.records.errors import InvalidBatch
from storage.env.fs import Buffer
from storage.producers.state import CompletedTxn, ProducerStateManager
from storage.segment.segment import Segment
from storage.segment.txn_index import AbortedTxn


def marker_of(header: BatchHeader, batch: Buffer) -> EndTxnMarker | None:
    """Return the transaction marker in a batch, None for anything else."""
    return parse_marker(batch, 0, header) if header.is_control and header.has_producer_id else None


def aborted_txn(completed: CompletedTxn) -> AbortedTxn:
    """Return the index entry of an aborted transaction."""
    return AbortedTxn(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )


def follow_batch(
    producers: ProducerStateManager, segment: Segment, header: BatchHeader, marker: EndTxnMarker | None
) -> None:
    """Take up a batch that was just written to `segment`; its header carries the stored offsets."""
    completed = producers.append(header, marker)
    if completed is not None and completed.is_aborted:
        segment.txn_index.append(aborted_txn(completed))


def replay_batch(producers: ProducerStateManager, header: BatchHeader, batch: Buffer) -> CompletedTxn | None:
    """Take up a batch found in the log; return the transaction that it ends."""
    if header[9] < 0:
        producers.map_end_offset = header.next_offset
        return None
    if not header[5] & CONTROL_BIT:
        return producers.append(header)
    try:
        marker = marker_of(header, batch)
    except InvalidBatch:
        marker = None  # the CRC held, so it is a control record of a kind we do not know
    return producers.append(header, marker)
