"""Decide whether a batch may be appended, and in which form: the checks of a leader, in Kafka's order.

`validate` is pure: it reads its arguments, touches no shared state and may run in any thread. The common case (stored
as sent) unpacks the header once, checks the CRC once, scans the records once and allocates nothing per record.

The order, and why it matters where two faults meet:

1. shape of the set: one whole batch, magic 2, a codec this request version may use;
2. base offset 0 from clients; size against max.message.bytes, before any byte of the payload is looked at;
3. CRC, before anything in the header it covers is believed: a damaged count is CORRUPT_MESSAGE, which clients retry;
4. count, control bit and sequence of the header;
5. the records: structure, contiguous offsets, keys on compacted topics, the timestamp window;
6. what must be rewritten: timestamp type, true maximum timestamp, codec; and the size again if bytes changed.

Offsets and the leader epoch are stamped by the append itself: they lie outside the CRC.
Source: UnifiedLog.analyzeAndValidateRecords, LogValidator; KIP-467 for the errors of single records.
"""

from typing import Final, NamedTuple, NoReturn

from config.views import NO_DECOMPRESSED_LIMIT, LogConfig
from protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    NO_TIMESTAMP,
    PREFIX_SIZE,
    BatchHeader,
    header_from,
    patch_timestamps,
)
from protocol.records.builder import assemble
from protocol.records.compression import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from protocol.records.crc import crc32c
from protocol.records.errors import CorruptBatch, DecompressedTooLarge, InvalidBatch
from protocol.records.record import iter_section
from protocol.records.scan import largest_body, scan_records
from storage.errors import (
    CorruptRecord,
    InvalidMagic,
    InvalidOffsets,
    InvalidRecord,
    InvalidTimestamp,
    MissingKeys,
    RecordError,
    RecordTooLarge,
    UnsupportedCompression,
    WrongChecksum,
)
from storage.types import AppendOrigin

Buffer = bytes | bytearray | memoryview

LATEST_REQUEST_VERSION: Final = 99
_ZSTD_SINCE_VERSION: Final = 7
_MAX_INT64: Final = (1 << 63) - 1
_NO_INT64: Final = "A record timestamp does not fit 64 bits"
_INFLATED_PER_MESSAGE_BYTE: Final = 4
"""An operator who raises max.message.bytes means larger batches, so the inflation bound grows with it."""
_COPY_BELOW: Final = 4096
"""Below this size one copy into bytes is cheaper than slicing views of the frame for the CRC and for the scan."""
_MAX_RECORD_ERRORS: Final = 1000
"""One answer names at most this many records; a batch of a million bad ones must not become a giant response."""

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_CLIENT: Final = AppendOrigin.CLIENT
_UNCHECKED_ORIGINS: Final = frozenset((AppendOrigin.RAFT, AppendOrigin.REPLICATION))
_ZSTD: Final = int(Codec.ZSTD)  # members of an enum are slow to look up and compare


class ValidatedBatch(NamedTuple):
    """An acceptable batch: its header as it will be stored (offset and epoch aside)."""

    header: BatchHeader
    buffer: bytearray | None
    """The re-encoded batch, or None if the caller's bytes are to be stored (perhaps patched in place)."""


def may_compress(config: LogConfig) -> bool:
    """Tell whether a log stores what comes uncompressed in another form."""
    return config.compression_type not in ("producer", "uncompressed")


def validate(
    records: Buffer,
    *,
    config: LogConfig,
    now_ms: int,
    origin: AppendOrigin = _CLIENT,
    request_version: int = LATEST_REQUEST_VERSION,
    inflated: Buffer | None = None,
) -> ValidatedBatch:
    """Check exactly one batch for an append on the leader.

    A writable buffer is patched in place where timestamps change; a read-only one is copied for that. Whoever has
    inflated the records of a compressed batch already gives them.
    Raises: InvalidRecord, InvalidTimestamp, CorruptRecord, RecordTooLarge, UnsupportedCompression; the buffer is then
    unchanged. Blocking: cpu.
    """
    size = len(records)
    if size < HEADER_SIZE:
        _refuse_fragment(records)
    header = header_from(HEADER.unpack_from(records))
    base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp, _, producer_id, _, sequence, count = (
        header
    )
    if magic != MAGIC_V2 or length + LOG_OVERHEAD != size:
        _refuse_shape(magic, length, size)
    codec = attributes & CODEC_MASK
    if codec >= _ZSTD:
        _check_codec(codec, request_version)
    is_client = origin is _CLIENT
    if base_offset and is_client:
        raise InvalidRecord(f"The base offset of a produced batch should be 0, but it is {base_offset}")
    if size > config.max_message_bytes and (is_client or origin not in _UNCHECKED_ORIGINS):
        raise RecordTooLarge(size, config.max_message_bytes)
    if size < _COPY_BELOW:
        data: Buffer = bytes(records)
        computed = crc32c(data[CRC_START:])
    else:
        data = records
        computed = crc32c(memoryview(records)[CRC_START:])
    if computed != crc:
        raise WrongChecksum(f"Record batch is corrupt: its CRC does not match the stored one {crc:#010x}")
    if not is_client and origin in _UNCHECKED_ORIGINS:
        return _as_sent(header)
    if count != last_delta + 1 or count <= 0 or attributes & CONTROL_BIT or (producer_id >= 0 and sequence < 0):
        _check_header(header, is_client)

    if codec:
        data = _inflate(codec, memoryview(data)[HEADER_SIZE:], header, config, inflated)
    start = 0 if codec else HEADER_SIZE
    try:
        lowest, highest, first_null_key = scan_records(data, count, start)
    except InvalidBatch as fault:
        raise InvalidRecord(f"Record batch is malformed: {fault}") from fault
    if first_null_key >= 0 and config.is_compact and not attributes & CONTROL_BIT:
        _refuse_records(header, data, start, config, now_ms)
    if config.message_timestamp_type == "CreateTime" or not config.is_log_append_time:  # the former is quick to ask
        if attributes & LOG_APPEND_TIME_BIT and not config.is_scheduled:  # whose records must tell their own times
            lowest = highest = header.max_timestamp - base_timestamp
        highest += base_timestamp
        if (
            now_ms - base_timestamp - lowest > config.message_timestamp_before_max_ms
            or highest - now_ms > config.message_timestamp_after_max_ms
            or (attributes & LOG_APPEND_TIME_BIT and highest == NO_TIMESTAMP)
        ):
            _check_timestamps(header, data, start, config, now_ms, base_timestamp + lowest)
        max_timestamp = highest if highest > NO_TIMESTAMP else NO_TIMESTAMP
        if max_timestamp > _MAX_INT64:
            raise InvalidRecord(_NO_INT64)
        stored_attributes = attributes & ~LOG_APPEND_TIME_BIT
    else:
        if attributes & LOG_APPEND_TIME_BIT and is_client:
            _refuse_records(header, data, start, config, now_ms)
        max_timestamp = now_ms
        stored_attributes = attributes | LOG_APPEND_TIME_BIT

    if config.compression_type != "producer" and not attributes & CONTROL_BIT:
        target = _CODECS[config.compression_type]
        if target != codec:
            return _recode(header, memoryview(data)[start:], config, target, stored_attributes, max_timestamp)
    if max_timestamp == header.max_timestamp and stored_attributes == attributes:
        return _as_sent(header)
    return _restamp(records, header, stored_attributes, max_timestamp)


def _as_sent(header: BatchHeader) -> ValidatedBatch:
    """Wrap a batch that is stored as it came."""
    return tuple.__new__(ValidatedBatch, (header, None))


def _restamp(records: Buffer, header: BatchHeader, attributes: int, max_timestamp: int) -> ValidatedBatch:
    """Write timestamp type and maximum into the header: in place if the buffer can be written, else in a copy."""
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        copy = bytearray(records)
        return ValidatedBatch(patch_timestamps(copy, 0, header, attributes, max_timestamp), copy)
    return ValidatedBatch(patch_timestamps(records, 0, header, attributes, max_timestamp), None)


def _refuse_fragment(records: Buffer) -> NoReturn:
    size = len(records)
    if size < PREFIX_SIZE:
        raise InvalidRecord("Record batch set holds no batch at all")
    prefix = bytes(records[:PREFIX_SIZE])
    _refuse_shape(prefix[_MAGIC_AT], int.from_bytes(prefix[_LENGTH_AT : _LENGTH_AT + 4], "big", signed=True), size)


def _refuse_shape(magic: int, length: int, size: int) -> NoReturn:
    """Tell what is wrong as the reference does: a batch that is not all there is none, an unknown magic is damage."""
    if 0 <= magic < MAGIC_V2:
        raise InvalidMagic(f"Record batches must have magic 2, this one has magic {magic}")
    if magic != MAGIC_V2:
        raise CorruptRecord(f"Record batch is corrupt: there is no magic {magic}")
    if length < MIN_BATCH_LENGTH:
        raise CorruptRecord(f"Record batch is corrupt: its length {length} is below {MIN_BATCH_LENGTH}")
    if length + LOG_OVERHEAD > size:
        raise InvalidRecord(
            f"Record batch set holds no whole batch: it announces {length + LOG_OVERHEAD} of {size} bytes"
        )
    raise InvalidRecord("A partition's records must be exactly one record batch")


def _check_codec(codec: int, request_version: int) -> None:
    if codec > Codec.ZSTD:
        raise InvalidRecord(f"Record batch names compression codec {codec}, which does not exist")
    if request_version < _ZSTD_SINCE_VERSION:
        raise UnsupportedCompression(f"Produce version {request_version} must not carry zstd compressed batches")


def _check_header(header: BatchHeader, is_client: bool) -> None:
    count = header.record_count
    if count <= 0:
        raise InvalidOffsets(f"Record batch announces {count} records")
    if count != header.last_offset_delta + 1:
        raise InvalidOffsets(f"Record batch announces {count} records in {header.last_offset_delta + 1} offsets")
    if not is_client:
        return
    if header.is_control:
        raise InvalidOffsets("Clients are not allowed to write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidOffsets(
            f"Record batch of producer id {header.producer_id} has the invalid sequence number {header.base_sequence}"
        )


def inflation_bound(config: LogConfig) -> int:
    """Return how many bytes the records of one compressed batch may be."""
    return max(MAX_DECOMPRESSED_BYTES, _INFLATED_PER_MESSAGE_BYTE * config.max_message_bytes)


def _inflate(
    codec: int, payload: memoryview, header: BatchHeader, config: LogConfig, inflated: Buffer | None
) -> Buffer:
    """Decompress within a bound, and apply the optional limit on single records."""
    bound = inflation_bound(config)
    if config.compression_type == "uncompressed":
        bound = config.max_message_bytes  # what inflates beyond it could not be stored anyway
    try:
        if inflated is not None and len(inflated) <= bound:
            section = inflated
        else:
            section = decompress(codec, payload, max_size=bound)
    except CorruptBatch as fault:
        raise CorruptRecord(f"Record batch is corrupt: {fault}") from fault
    except DecompressedTooLarge as excess:
        if config.compression_type == "uncompressed":
            raise RecordTooLarge(bound + 1, config.max_message_bytes) from excess
        raise InvalidRecord(f"Record batch inflates to more than {bound} bytes") from excess
    limit = config.max_decompressed_message_bytes
    if limit < NO_DECOMPRESSED_LIMIT and len(section) > limit:
        try:
            largest = largest_body(section, header.record_count)
        except (InvalidBatch, IndexError) as mismatch:
            raise InvalidRecord("Record batch is malformed: record lengths do not add up") from mismatch
        if largest > limit:
            raise InvalidRecord(f"A compressed record of {largest} bytes exceeds the configured limit of {limit}")
    return section


def _check_timestamps(
    header: BatchHeader, data: Buffer, start: int, config: LogConfig, now_ms: int, lowest: int
) -> None:
    """Look at each timestamp: the quick check over the extremes cannot know of the exempt -1.

    Nor does it know of scheduled topics, whose timestamps are times of delivery and have a gate of their own. But one
    below 64 bits, which no window can hold either, is the far future to a client that counts round.
    """
    if config.is_scheduled and not header.attributes & LOG_APPEND_TIME_BIT:
        if lowest < -_MAX_INT64 - 1:
            raise InvalidRecord(_NO_INT64)
        return
    if _record_errors(header, data, start, config, now_ms)[0]:
        _refuse_records(header, data, start, config, now_ms)


def _refuse_records(header: BatchHeader, data: Buffer, start: int, config: LogConfig, now_ms: int) -> NoReturn:
    errors, is_timestamp = _record_errors(header, data, start, config, now_ms)
    assert errors, "a refusal names at least one record"
    if is_timestamp:
        raise InvalidTimestamp("One or more records have been rejected due to invalid timestamp", errors)
    shown = "; ".join(f"{error.batch_index}: {error.message}" for error in errors[:3])
    raise MissingKeys(
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: {shown}",
        errors,
    )


def _record_errors(
    header: BatchHeader, data: Buffer, start: int, config: LogConfig, now_ms: int
) -> tuple[list[RecordError], bool]:
    """Name every record at fault, and whether any fault is a timestamp's."""
    is_compact = config.is_compact
    is_create_time = not config.is_log_append_time
    has_append_time = bool(header.attributes & LOG_APPEND_TIME_BIT)
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    if config.is_scheduled:
        earliest, latest = -_MAX_INT64, _MAX_INT64
    errors: list[RecordError] = []
    is_timestamp = False
    for index, record in enumerate(iter_section(header, memoryview(data)[start:])):
        if len(errors) == _MAX_RECORD_ERRORS:
            break
        timestamp = record.timestamp
        if is_compact and record.key is None:
            errors.append(RecordError(index, "Compacted topic cannot accept message without key"))
        elif is_create_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                is_timestamp = True
                errors.append(
                    RecordError(
                        index, f"Timestamp {timestamp} is out of range. It should be within [{earliest}, {latest}]"
                    )
                )
        elif has_append_time:
            is_timestamp = True
            errors.append(RecordError(index, "Producers must not set the timestamp type LogAppendTime"))
    return errors, is_timestamp


def _recode(
    header: BatchHeader, section: Buffer, config: LogConfig, target: Codec, attributes: int, max_timestamp: int
) -> ValidatedBatch:
    """Re-encode the records with the topic's codec; everything but sizes, codec and timestamps stays."""
    payload = compress(target, section, config.compression_level(target.name.lower())) if target else section
    changed = header._replace(attributes=attributes & ~CODEC_MASK | target, max_timestamp=max_timestamp)
    batch = assemble(changed, payload)
    if len(batch) > config.max_message_bytes:
        raise RecordTooLarge(len(batch), config.max_message_bytes)
    return ValidatedBatch(header_from(HEADER.unpack_from(batch)), batch)
