"""Build and read record batches by hand, independent of the broker's own code.

Shape: ``Record`` in, v2 batch bytes out, and back. Every header field can be forced to a wrong value, and the CRC is
computed last unless it is forced too. Old message sets (magic 0 and 1) and the index files' entries are here as well.
"""

import dataclasses
import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence

import cramjam
import crc32c
import lz4.frame
import xxhash
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
XERIAL_MAGIC = bytes.fromhex("82534e4150505900")

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = _HEADER.size
CHECKED_FROM = 21


@dataclasses.dataclass(slots=True)
class Record:
    """One record; after reading, ``offset`` and ``timestamp`` are absolute."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    timestamp: int = 0
    offset: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """A parsed v2 batch and its own bytes."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    raw: bytes

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def crc_is_right(self) -> bool:
        return crc32c.crc32c(self.raw[CHECKED_FROM:]) == self.crc

    @property
    def section(self) -> bytes:
        """The records as they are in the batch, compressed or not."""
        return self.raw[HEADER_SIZE:]

    def records(self) -> list[Record]:
        """Decompress and read the records; the declared count must be the true one."""
        plain = decompress(self.codec, self.section)
        found = list(_read_records(plain, self))
        assert len(found) == self.count, (len(found), self.count)
        return found


# --- varints --------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Write a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint, return it and the position behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


# --- records --------------------------------------------------------------------------------------------------


def encode_record(record: Record, offset_delta: int, base_timestamp: int) -> bytes:
    """Write one record with its length."""
    headers = b"".join(_sized(key) + _sized(value) for key, value in record.headers)
    body = (
        b"\0"
        + varint(record.timestamp - base_timestamp)
        + varint(offset_delta)
        + _sized(record.key)
        + _sized(record.value)
        + varint(len(record.headers))
        + headers
    )
    return varint(len(body)) + body


def _read_records(plain: bytes, batch: Batch) -> Iterator[Record]:
    position = 0
    while position < len(plain):
        size, position = read_varint(plain, position)
        end = position + size
        timestamp, position = read_varint(plain, position + 1)
        delta, position = read_varint(plain, position)
        key, position = _read_sized(plain, position)
        value, position = _read_sized(plain, position)
        count, position = read_varint(plain, position)
        headers = []
        for _ in range(count):
            header_key, position = _read_sized(plain, position)
            header_value, position = _read_sized(plain, position)
            assert header_key is not None
            headers.append((header_key, header_value))
        assert position == end, (position, end)
        time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else batch.base_timestamp + timestamp
        yield Record(value, key, tuple(headers), time, batch.base_offset + delta)


def _read_sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    assert position + size <= len(data)
    return data[position : position + size], position + size


# --- compression ----------------------------------------------------------------------------------------------


def compress(codec: int, section: bytes) -> bytes:
    """Compress a record section the way Java clients do."""
    if codec == GZIP:
        return gzip.compress(section)
    if codec == SNAPPY:
        return xerial_snappy(section)
    if codec == LZ4:
        return lz4_frame(section)
    if codec == ZSTD:
        return zstandard.ZstdCompressor(write_content_size=False).compress(section)
    return section


def decompress(codec: int, section: bytes) -> bytes:
    """Undo any of the framings a broker may store."""
    if codec == GZIP:
        return gzip.decompress(section)
    if codec == SNAPPY:
        return _snappy_plain(section)
    if codec == LZ4:
        return lz4.frame.decompress(section)
    if codec == ZSTD:
        return zstandard.ZstdDecompressor().decompressobj().decompress(section)
    return section


def raw_snappy(section: bytes) -> bytes:
    """Compress as librdkafka does: one raw block."""
    return bytes(cramjam.snappy.compress_raw(section))


def xerial_snappy(section: bytes, chunk: int = 32768) -> bytes:
    """Compress in the chunked framing that Java clients write."""
    out = bytearray(XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    for start in range(0, len(section), chunk):
        piece = raw_snappy(section[start : start + chunk])
        out += struct.pack(">i", len(piece)) + piece
    return bytes(out)


def _snappy_plain(section: bytes) -> bytes:
    if section[:8] != XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(section))
    out, position = bytearray(), 16
    while position < len(section):
        (size,) = struct.unpack_from(">i", section, position)
        out += bytes(cramjam.snappy.decompress_raw(section[position + 4 : position + 4 + size]))
        position += 4 + size
    return bytes(out)


def lz4_frame(section: bytes, *, old_checksum: bool = False) -> bytes:
    """Write an LZ4 frame with independent blocks; optionally with the header checksum of clients before 0.10."""
    frame = bytearray(
        lz4.frame.compress(section, store_size=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
    )
    if old_checksum:
        frame[6] = (xxhash.xxh32(bytes(frame[0:6]), seed=0).intdigest() >> 8) & 0xFF
    return bytes(frame)


# --- batches --------------------------------------------------------------------------------------------------


def build(
    records: Sequence[Record],
    *,
    codec: int = NONE,
    section: bytes | None = None,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
) -> bytes:
    """Write a v2 batch. ``section`` replaces the (already compressed) records; other arguments force header fields."""
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else 0
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=0)
    if section is None:
        plain = b"".join(encode_record(record, delta, base_timestamp) for delta, record in enumerate(records))
        section = compress(codec, plain)
    checked = (
        struct.pack(
            ">hiqqqhii",
            attributes | codec,
            len(records) - 1 if last_offset_delta is None else last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records) if count is None else count,
        )
        + section
    )
    if crc is None:
        crc = crc32c.crc32c(checked)
    return struct.pack(">qiibI", base_offset, len(checked) + 9, partition_leader_epoch, magic, crc) + checked


def simple(*values: bytes | str, timestamp: int = 1_700_000_000_000, **options: object) -> bytes:
    """Build a batch of keyless records with these values."""
    records = [Record(value.encode() if isinstance(value, str) else value, timestamp=timestamp) for value in values]
    return build(records, **options)  # type: ignore[arg-type]


def of_size(size: int, **options: object) -> bytes:
    """Build a one-record batch of exactly ``size`` bytes, length and base offset included."""
    payload = max(0, size - HEADER_SIZE - 16)
    while True:
        batch = build([Record(b"x" * payload, timestamp=1_700_000_000_000)], **options)  # type: ignore[arg-type]
        if len(batch) == size:
            return batch
        assert len(batch) < size, f"no one-record batch has {size} bytes"
        payload += size - len(batch)


def parse(data: bytes) -> list[Batch]:
    """Split the records of a fetch answer or a log file; bytes of a cut-off last batch are left out."""
    found = []
    position = 0
    while position + HEADER_SIZE <= len(data):
        length = struct.unpack_from(">i", data, position + 8)[0]
        end = position + 12 + length
        if length <= 0 or end > len(data):
            break
        raw = bytes(data[position:end])
        found.append(Batch(*_HEADER.unpack_from(raw), raw=raw))
        position = end
    return found


def records_of(data: bytes) -> list[Record]:
    """Read all records of all batches, control batches excluded."""
    return [record for batch in parse(data) if not batch.attributes & CONTROL for record in batch.records()]


# --- old message sets -----------------------------------------------------------------------------------------


def old_message(
    value: bytes | None,
    *,
    magic: int,
    key: bytes | None = None,
    attributes: int = 0,
    offset: int = 0,
    timestamp: int = 0,
) -> bytes:
    """Write one entry of a v0 or v1 message set."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message
