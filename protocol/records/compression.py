"""Compress and decompress record sections in the framings that stock clients read and write.

- gzip: RFC 1952, concatenated members accepted.
- snappy: written as the xerial stream of 32 KiB blocks; raw snappy is accepted too, told apart by the magic.
- lz4: one frame of independent blocks. Linked blocks are refused: Java consumers cannot read them.
- zstd: frames with or without content size, several in a row accepted.

Every decoder works within the caller's bound, so a small payload cannot make the broker allocate without limit.
The compressor modules are imported when first used: together they would cost a tenth of the start-up time.
"""

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct

from protocol.records.errors import CorruptBatch, DecompressedTooLarge

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
"""Default bound of one inflated record section: far above any batch a client builds, far below the memory of a host."""


class Codec(IntEnum):
    """Codec ids as stored in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE = 32 * 1024

_LZ4_FAST_LEVEL = 9
"""Kafka's default level: Java's lz4 takes it as the fast compressor, every other level as the HC one."""
_LZ4_LOWEST_HC_LEVEL = 3
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEAD_MIN = 7
_LZ4_FLAGS_MASK = 0xE3  # version, block independence, reserved bit, dictionary
_LZ4_FLAGS = 0x60  # version 1, independent blocks
_LZ4_BLOCK_DESCRIPTOR_MASK = 0x8F  # every bit but the block size id
_LZ4_HAS_CONTENT_SIZE = 0x08

_GZIP_STEP = 64 * 1024
"""Input given to the decoder at a time: at the end of each member, and there may be many, it copies what is left."""

_SNAPPY_MAX_RATIO = 22
"""No element of a snappy block gives more than 64 bytes for 3."""

_ZSTD_HEAD_MAX = 18
_ZSTD_BLOCK_HEADER = 3
ZSTD_BLOCK_MAX = 128 * 1024
_ZSTD_CHECKSUM = 4
_ZSTD_RLE = 1
_ZSTD_AT_ONCE = 8 * 1024 * 1024
"""Frames that can inflate to more than this are decoded piece by piece."""

_NO_LIMIT = -1

_PIECE_MIN = 64 * 1024
_PIECE_MAX = 1024 * 1024

_INT32 = Struct(">i")
_MASK32 = 0xFFFFFFFF


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress a record section; level None means Kafka's default of the codec. Blocking: cpu."""
    return _ENCODERS[codec](data, level)


def decompress(codec: int, data: Buffer, *, max_size: int = MAX_DECOMPRESSED_BYTES) -> bytes | bytearray:
    """Inflate a record section.

    Raises: DecompressedTooLarge beyond max_size; CorruptBatch if the payload is damaged, truncated, followed by
    other bytes, or its codec is unknown. Blocking: cpu.
    """
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise CorruptBatch(f"unknown compression codec {codec}")
    whole: bytes | bytearray = b""
    for piece in decoder(data, max_size):
        if len(whole) + len(piece) > max_size:
            whole = piece = b""  # or the traceback of the refusal would keep them alive
            raise DecompressedTooLarge(max_size)
        if not whole:
            whole = piece
        elif isinstance(whole, bytearray):
            whole += piece
        else:
            whole = bytearray(whole)
            whole += piece
    return whole


def _piece_size(data: Buffer, max_size: int) -> int:
    """Choose how much output to ask for at once: most batches then take one call, a bomb is cut early."""
    return min(max_size + 1, _PIECE_MAX, max(_PIECE_MIN, 8 * len(data)))


def _store(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _unstore(data: Buffer, max_size: int) -> Iterator[bytes]:
    yield bytes(data)


def _gzip(data: Buffer, level: int | None) -> bytes:
    encoder = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
    return encoder.compress(data) + encoder.flush()


def _gunzip(data: Buffer, max_size: int) -> Iterator[bytes]:
    piece_size = _piece_size(data, max_size)
    view = memoryview(data)
    position, end = 0, len(view)
    rest: Buffer = b""
    decoder = zlib.decompressobj(31)
    try:
        while True:
            if not rest:
                rest = view[position : position + _GZIP_STEP]
                position += len(rest)
            piece = decoder.decompress(rest, piece_size)
            rest = decoder.unconsumed_tail
            yield piece
            if decoder.eof:
                rest = decoder.unused_data
                if not rest and position == end:
                    return
                decoder = zlib.decompressobj(31)
            elif not piece and not rest and position == end:
                raise CorruptBatch("gzip payload is truncated")
    except zlib.error as fault:
        raise CorruptBatch(f"gzip payload is damaged: {fault}") from fault


def _snap(data: Buffer, level: int | None) -> bytes:
    import snappy

    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = snappy.compress(bytes(view[start : start + _XERIAL_BLOCK_SIZE]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _unsnap(data: Buffer, max_size: int) -> Iterator[bytes]:
    for block in snappy_blocks(memoryview(data)):
        yield unsnap_block(block, max_size)


def snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    """Cut a payload into the raw blocks of its stream; without a stream it is one. Raises: CorruptBatch."""
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield view
        return
    position, end = len(_XERIAL_HEADER), len(view)
    if end < position:
        raise CorruptBatch("snappy stream ends inside its header")
    while position < end:
        if end - position < 4:
            raise CorruptBatch("snappy stream ends inside a block length")
        (size,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 <= size <= end - position:
            raise CorruptBatch(f"snappy block of {size} bytes in {end - position}")
        yield view[position : position + size]
        position += size


def unsnap_block(block: memoryview, max_size: int) -> bytes:
    """Inflate one raw block; its own preamble tells the size, so the bound is checked before anything is allocated."""
    import snappy

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        raise CorruptBatch("snappy block has no valid length")
    if size > max_size:
        raise DecompressedTooLarge(max_size)
    if size > _SNAPPY_MAX_RATIO * len(block):
        raise CorruptBatch(f"snappy block of {len(block)} bytes claims {size}")
    try:
        inflated: bytes = snappy.uncompress(bytes(block))
    except snappy.UncompressError as fault:
        raise CorruptBatch("snappy block is damaged") from fault
    return inflated


def _lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    effort = 0 if level is None or level == _LZ4_FAST_LEVEL else max(level, _LZ4_LOWEST_HC_LEVEL)
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=effort,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _unlz4(data: Buffer, max_size: int) -> Iterator[bytes]:
    import lz4.frame

    view = memoryview(data)
    if len(view) < _LZ4_HEAD_MIN or view[:4] != _LZ4_MAGIC:
        raise CorruptBatch("lz4 payload does not begin with a frame")
    if not is_readable_lz4(view):
        raise CorruptBatch("lz4 frame needs version 1, independent blocks, no dictionary and clear reserved bits")
    piece_size = _piece_size(data, max_size)
    decoder = lz4.frame.LZ4FrameDecompressor()
    rest: Buffer = data
    try:
        while not decoder.eof:
            piece = decoder.decompress(rest, piece_size)
            rest = b""
            yield piece
            if not piece and decoder.needs_input and not decoder.eof:
                raise CorruptBatch("lz4 payload is truncated")
    except (RuntimeError, EOFError) as fault:
        raise CorruptBatch(f"lz4 payload is damaged: {fault}") from fault
    if decoder.unused_data:
        raise CorruptBatch("lz4 frame is followed by other bytes")


def is_readable_lz4(view: bytes | memoryview) -> bool:
    """Tell whether a payload begins with a frame that Java consumers read."""
    return (
        len(view) >= _LZ4_HEAD_MIN
        and view[:4] == _LZ4_MAGIC
        and view[4] & _LZ4_FLAGS_MASK == _LZ4_FLAGS
        and not view[5] & _LZ4_BLOCK_DESCRIPTOR_MASK
    )


def mend_lz4_checksum(data: Buffer) -> bytes:
    """Return an lz4 frame with the right header checksum.

    In messages of magic 0 it was computed over the frame's magic too, so that nobody else can check it; readers of such
    messages ignore it. What is no frame is returned as it is. Source: KIP-57, KafkaLZ4BlockInputStream.
    """
    frame = bytearray(data)
    if len(frame) >= _LZ4_HEAD_MIN and frame[:4] == _LZ4_MAGIC:
        end = 6 + (8 if frame[4] & _LZ4_HAS_CONTENT_SIZE else 0)
        if end < len(frame):
            frame[end] = _xxh32_of_few(bytes(frame[4:end])) >> 8 & 0xFF
    return bytes(frame)


def _xxh32_of_few(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which a frame descriptor is."""
    value = 0x165667B1 + len(data)
    whole = len(data) - len(data) % 4
    for position in range(0, whole, 4):
        value += int.from_bytes(data[position : position + 4], "little") * 0xC2B2AE3D
        value = _rotated(value & _MASK32, 17) * 0x27D4EB2F & _MASK32
    for byte in data[whole:]:
        value = _rotated(value + byte * 0x165667B1 & _MASK32, 11) * 0x9E3779B1 & _MASK32
    value = (value ^ value >> 15) * 0x85EBCA77 & _MASK32
    value = (value ^ value >> 13) * 0xC2B2AE3D & _MASK32
    return value ^ value >> 16


def _rotated(value: int, count: int) -> int:
    return (value << count | value >> 32 - count) & _MASK32


def _zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def _unzstd(data: Buffer, max_size: int) -> Iterator[bytes]:
    import zstandard

    decoder = zstandard.ZstdDecompressor()
    try:
        for frame, blocks in _zstd_frames(memoryview(data)):
            if zstandard.frame_content_size(frame) > max_size:
                raise DecompressedTooLarge(max_size)
            bound = blocks * ZSTD_BLOCK_MAX
            if bound <= _ZSTD_AT_ONCE:
                yield decoder.decompress(frame, max_output_size=bound, allow_extra_data=False)
                continue
            with decoder.stream_reader(frame) as reader:
                while piece := reader.read(_PIECE_MAX):
                    yield piece
    except zstandard.ZstdError as fault:
        raise CorruptBatch(f"zstd payload is damaged: {fault}") from fault


def _zstd_frames(view: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Cut the payload into frames: (frame, number of blocks)."""
    position = 0
    while True:
        end, blocks = zstd_frame(view, position)
        yield view[position:end], blocks
        if end == len(view):
            return
        position = end


def zstd_frame(view: memoryview, start: int, max_blocks: int = _NO_LIMIT) -> tuple[int, int]:
    """Find the end of a frame by walking its block headers: (end, number of blocks); end -1 for more than the limit.

    The walk proves that nothing is cut off, which the streaming decoder does not tell, and bounds the output before
    anything is decoded: a block inflates to 128 KiB at most. Source: RFC 8878, 3.1.1.
    Raises: CorruptBatch, zstandard.ZstdError.
    """
    import zstandard

    end = len(view)
    if end - start < _ZSTD_HEAD_MAX:
        rest: Buffer = bytes(view[start:]) + bytes(_ZSTD_HEAD_MAX)  # a header is never read past these zeros
    else:
        rest = view[start:]
    has_checksum = zstandard.get_frame_parameters(rest).has_checksum
    position = start + zstandard.frame_header_size(rest)
    blocks, is_last = 0, False
    while not is_last:
        if position + _ZSTD_BLOCK_HEADER > end:
            raise CorruptBatch("zstd payload is truncated")
        if blocks == max_blocks:
            return -1, blocks
        word = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        is_last = bool(word & 1)
        position += _ZSTD_BLOCK_HEADER + (1 if word >> 1 & 3 == _ZSTD_RLE else word >> 3)
        blocks += 1
    position += _ZSTD_CHECKSUM if has_checksum else 0
    if position > end:
        raise CorruptBatch("zstd payload is truncated")
    return position, blocks


_ENCODERS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _store,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snap,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}

_DECODERS: dict[int, Callable[[Buffer, int], Iterator[bytes]]] = {
    Codec.NONE: _unstore,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
