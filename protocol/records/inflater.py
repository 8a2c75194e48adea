"""Inflate record sections that take little: in one step, within a bound, by a tool that is kept between batches.

What a batch may cost is known before: its output is cut at a size, its input is no longer than that, and what would
need many steps (members, frames or blocks one after the other) is not begun. All else, damaged payloads too, gives
None: `decompress` has the time, and the words, for them.
"""

import zlib
from collections.abc import Callable
from typing import Any

from protocol.records.compression import (
    ZSTD_BLOCK_MAX,
    Codec,
    is_readable_lz4,
    snappy_blocks,
    unsnap_block,
    zstd_frame,
)
from protocol.records.errors import CorruptBatch, DecompressedTooLarge

_MAX_BLOCKS = 64
"""Of 32 KiB with snappy, of up to 128 KiB with zstd: more than any bound asks for, unless they are made to be many."""
_ZSTD_AT_LEAST = 1024
_LZ4_HEAD = 7
_LZ4_BLOCKS_OF_256_KIB = 0x5F
"""A larger block is inflated as a whole, however little of it is wanted."""


class Inflater:
    """Not shared between threads."""

    __slots__ = ("_lz4", "_lz4_context", "_methods", "_zstd", "_zstd_decoder")

    def __init__(self) -> None:
        # The tools of a codec are loaded with its first batch.
        self._lz4: Any = None
        self._lz4_context: Any = None
        self._zstd: Any = None
        self._zstd_decoder: Any = None
        self._methods: dict[int, Callable[[memoryview, int], bytes | None]] = {
            int(Codec.GZIP): self._gunzip,
            int(Codec.SNAPPY): self._unsnap,
            int(Codec.LZ4): self._unlz4,
            int(Codec.ZSTD): self._unzstd,
        }

    def inflate(self, codec: int, data: memoryview, max_size: int) -> bytes | None:
        """Inflate a payload if that takes one step and gives at most `max_size` bytes. Blocking: cpu, bounded."""
        method = self._methods.get(codec)
        if method is None or len(data) > max_size:
            return None
        section = method(data, max_size)
        return section if section is not None and len(section) <= max_size else None

    def _gunzip(self, data: memoryview, max_size: int) -> bytes | None:
        decoder = zlib.decompressobj(31)
        try:
            section = decoder.decompress(data, max_size + 1)
        except zlib.error:
            return None
        return section if decoder.eof and not decoder.unused_data else None

    def _unsnap(self, data: memoryview, max_size: int) -> bytes | None:
        pieces: list[bytes] = []
        left = max_size
        try:
            for block in snappy_blocks(data):
                if len(pieces) == _MAX_BLOCKS:
                    return None
                piece = unsnap_block(block, left)
                left -= len(piece)
                pieces.append(piece)
        except (CorruptBatch, DecompressedTooLarge):
            return None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _unlz4(self, data: memoryview, max_size: int) -> bytes | None:
        head = data[:_LZ4_HEAD].tobytes()
        if not is_readable_lz4(head) or head[5] > _LZ4_BLOCKS_OF_256_KIB:
            return None
        if self._lz4 is None:
            import lz4.frame

            self._lz4 = lz4.frame
        context = self._lz4_context or self._lz4.create_decompression_context()
        self._lz4_context = None  # it is good for another frame only when this one has come to its end
        try:
            section, size, is_whole = self._lz4.decompress_chunk(context, data, max_size + 1)
        except RuntimeError:
            return None
        if not is_whole:
            return None
        self._lz4_context = context
        return section if size == len(data) else None

    def _unzstd(self, data: memoryview, max_size: int) -> bytes | None:
        if self._zstd is None:
            import zstandard

            self._zstd = zstandard
            self._zstd_decoder = zstandard.ZstdDecompressor()
        try:
            end, blocks = zstd_frame(data, 0, _MAX_BLOCKS)
            if end != len(data) or self._zstd.frame_content_size(data) > max_size:
                return None
            size = max(min(blocks * ZSTD_BLOCK_MAX, max_size), _ZSTD_AT_LEAST)
            section: bytes = self._zstd_decoder.decompress(data, max_output_size=size, allow_extra_data=False)
        except (self._zstd.ZstdError, CorruptBatch):
            return None
        return section
