"""Batches of the metadata log: cluster records and quorum control records ↔ v2 record batches.

A cluster record is the value of a keyless record: frame version, record type, record version, fields. A control batch
holds records keyed by (version 0, type) with the quorum's own messages. Neither is compressed.

Source: MetadataRecordSerde, ControlRecordUtils, ControlRecordType.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct

from broker.metadata.controller.features import record_version
from broker.metadata.errors import CorruptMetadata
from protocol.codec import decode, encode_bytes
from protocol.errors import ProtocolError
from protocol.records.batch import BatchHeader, check_crc, iter_batches
from protocol.records.builder import build_batch
from protocol.records.errors import CorruptBatch, InvalidBatch
from protocol.records.record import iter_records
from protocol.stored.framing import decode_metadata_record, encode_metadata_record
from protocol.stored.raft import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

ControlMessage = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

_CONTROL_KEY = Struct(">hh")
_CONTROL_TYPES: dict[type, int] = {
    LeaderChangeMessage: 2,
    SnapshotHeaderRecord: 3,
    SnapshotFooterRecord: 4,
    KRaftVersionRecord: 5,
    VotersRecord: 6,
}
_CONTROL_CLASSES: dict[int, type] = {number: message for message, number in _CONTROL_TYPES.items()}
_CONTROL_VERSION = 0


def data_batch(records: Sequence[object], *, level: int, base_offset: int, epoch: int, timestamp_ms: int) -> bytearray:
    """Return one batch of cluster records, each in the version that the `metadata.version` level asks for."""
    values = [(None, encode_metadata_record(record, record_version(record, level))) for record in records]
    return build_batch(values, base_offset=base_offset, leader_epoch=epoch, timestamp=timestamp_ms)


def control_batch(messages: Sequence[ControlMessage], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytearray:
    """Return one control batch."""
    records = [
        (_CONTROL_KEY.pack(0, _CONTROL_TYPES[type(message)]), encode_bytes(message, _CONTROL_VERSION))
        for message in messages
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch, timestamp=timestamp_ms, is_control=True)


def iter_cluster_batches(data: bytes | memoryview) -> Iterator[tuple[BatchHeader, list[tuple[int, object]]]]:
    """Yield each whole batch of `data` with its decoded records as (offset, message) pairs.

    Control records of kinds the quorum does not define are left out. Raises CorruptMetadata.
    """
    try:
        for position, header in iter_batches(data):
            if not check_crc(data, position, header):
                raise CorruptMetadata(f"the batch at offset {header.base_offset} fails its CRC")
            yield header, list(_messages(data, position, header))
    except (CorruptBatch, InvalidBatch) as corrupt:
        raise CorruptMetadata(f"the metadata cannot be read: {corrupt}") from corrupt


def _messages(data: bytes | memoryview, position: int, header: BatchHeader) -> Iterator[tuple[int, object]]:
    for record in iter_records(data, position, header):
        try:
            if header.is_control:
                _, number = _CONTROL_KEY.unpack(record.key or b"")
                message_type = _CONTROL_CLASSES.get(number)
                if message_type is not None:
                    # Fields of later versions are appended, hence invisible to a reader of this one.
                    yield record.offset, decode(message_type, _CONTROL_VERSION, record.value or b"")
            else:
                yield record.offset, decode_metadata_record(record.value or b"")[0]
        except (ProtocolError, KeyError, ValueError) as malformed:
            raise CorruptMetadata(f"the record at offset {record.offset} cannot be read: {malformed}") from malformed
