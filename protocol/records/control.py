"""Control batches: the markers that end transactions, and the one-record batches of the metadata log.

A control record's key is (version int16, type int16); readers skip types they do not know.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from protocol.records.batch import NO_LEADER_EPOCH, BatchHeader, parse_header
from protocol.records.builder import RecordTuple, build_batch
from protocol.records.errors import InvalidBatch
from protocol.records.record import iter_records

Buffer = bytes | bytearray | memoryview

_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_KEY_VERSION = 0
_MARKER_VERSION = 0


class ControlType(IntEnum):
    """What a control record says; 2 and above occur in the metadata log only."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """The decision about one producer's transaction on one partition."""

    control_type: ControlType
    coordinator_epoch: int

    @property
    def is_abort(self) -> bool:
        """The transaction's records must not reach read-committed consumers."""
        return self.control_type is ControlType.ABORT


def control_key(control_type: int) -> bytes:
    """Encode the key of a control record."""
    return _KEY.pack(_KEY_VERSION, control_type)


def control_type_of(key: bytes | None) -> int:
    """Decode the type from a control record's key, known or not. Raises: InvalidBatch."""
    if key is None or len(key) < _KEY.size:
        raise InvalidBatch("control record has no valid key")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidBatch(f"control record key has version {version}")
    return int(control_type)


def parse_marker(buffer: Buffer, position: int = 0, header: BatchHeader | None = None) -> EndTxnMarker | None:
    """Read the marker of a control batch; None if the batch is empty (compacted) or holds another control type.

    Raises: InvalidBatch if the record is malformed.
    """
    if header is None:
        header = parse_header(buffer, position)
    for record in iter_records(buffer, position, header):
        kind = control_type_of(record.key)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        if record.value is None or len(record.value) < _MARKER_VALUE.size:
            raise InvalidBatch("transaction marker has no valid value")
        version, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
        if version < 0:
            raise InvalidBatch(f"transaction marker has version {version}")
        return EndTxnMarker(ControlType(kind), coordinator_epoch)
    return None


def build_marker(
    *,
    is_abort: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build the one-record batch that ends a producer's transaction on a partition."""
    kind = ControlType.ABORT if is_abort else ControlType.COMMIT
    return build_batch(
        [(control_key(kind), _MARKER_VALUE.pack(_MARKER_VERSION, coordinator_epoch))],
        base_offset=base_offset,
        timestamp=timestamp,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def build_control_batch(
    records: Sequence[tuple[ControlType, bytes]],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build a control batch of the metadata log from (type, encoded value) pairs."""
    rows: list[RecordTuple] = [(control_key(kind), value) for kind, value in records]
    return build_batch(rows, base_offset=base_offset, timestamp=timestamp, leader_epoch=leader_epoch, is_control=True)
