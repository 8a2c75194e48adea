"""Following producers and transactions through stored batches: state per producer, aborted ones into the index."""

from __future__ import annotations

from protocol.records.batch import BatchHeader
from protocol.records.control import EndTxnMarker, parse_marker
from protocol.records.errors import InvalidBatch
from storage.env.fs import Buffer
from storage.producers.state import ProducerStateManager
from storage.segment.segment import Segment
from storage.segment.txn_index import AbortedTxn


def marker_of(header: BatchHeader, batch: Buffer) -> EndTxnMarker | None:
    """Return the transaction marker in a batch, None for anything else."""
    return parse_marker(batch, 0, header) if header.is_control and header.has_producer_id else None


def follow_batch(
    producers: ProducerStateManager, segment: Segment, header: BatchHeader, marker: EndTxnMarker | None
) -> None:
    """Take up a batch that was just written to, or found in, `segment`; its header carries the stored offsets."""
    completed = producers.append(header, marker)
    if completed is not None and completed.is_aborted:
        segment.txn_index.append(
            AbortedTxn(
                completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
            )
        )


def replay_batch(producers: ProducerStateManager, header: BatchHeader, batch: Buffer) -> None:
    """Take up a batch whose transaction, if it ends one, is in the index already."""
    if not header.has_producer_id:
        producers.map_end_offset = header.next_offset
        return
    try:
        marker = marker_of(header, batch)
    except InvalidBatch:
        marker = None  # the CRC held, so it is a control record of a kind we do not know
    producers.append(header, marker)
