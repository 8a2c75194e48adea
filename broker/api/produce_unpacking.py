"""What of the compressed batches of a produce request is unpacked on the loop, and what beside it.

A thread that unpacks costs a request a task, a copy of its batches and two hand-overs of the interpreter, which is more
than most batches take to unpack. So the loop does it itself as long as what the request may cost stays within a budget
that is known beforehand. The rest, and whatever is suspicious, goes to the CPU pool.
"""

from __future__ import annotations

from struct import Struct

from broker.api.produce_transactions import LOW_ATTRIBUTES_AT
from broker.partition.partition import Partition
from protocol.records.batch import CODEC_MASK, HEADER_SIZE
from protocol.records.compression import Codec
from protocol.records.inflater import Inflater

_RECORD_COUNT_AT = 57
_RECORD_COUNT = Struct(">i")

BUDGET_NS = 5_000_000
"""Of one request: what Python would let a thread have the interpreter for at a time."""
_MAX_INFLATED_BYTES = 512 * 1024
_NS_PER_RECORD = 200
"""Records of one shape take a fourth of it, wildly mixed ones five times as long."""
_NS_PER_BYTE = {int(Codec.GZIP): 13, int(Codec.SNAPPY): 2, int(Codec.LZ4): 1, int(Codec.ZSTD): 3}
"""Of output, slow cases of each codec."""
COMPRESSED_AT_ONCE_BYTES = 1024
"""What comes uncompressed, up to here, is compressed for the log on the loop."""


class Unpacking:
    """The compressed batches of one request."""

    __slots__ = ("_inflater", "_left_ns")

    def __init__(self, inflater: Inflater) -> None:
        self._inflater = inflater
        self._left_ns = BUDGET_NS

    def look(self, records: object, partition: Partition) -> tuple[bool, bytes | None]:
        """Tell whether a batch may be checked on the loop, and give the records of a compressed one.

        The batch stays as it is: whoever goes another way after all must find what was sent.
        """
        if not isinstance(records, memoryview) or len(records) < HEADER_SIZE:
            return True, None
        codec = records[LOW_ATTRIBUTES_AT] & CODEC_MASK
        if not codec:
            return not partition.may_compress or len(records) <= COMPRESSED_AT_ONCE_BYTES, None
        inflated = self._inflate(codec, records) if not partition.may_compress else None
        return inflated is not None, inflated

    def _inflate(self, codec: int, records: memoryview) -> bytes | None:
        ns_per_byte = _NS_PER_BYTE.get(codec)
        record_count: int = _RECORD_COUNT.unpack_from(records, _RECORD_COUNT_AT)[0]
        if ns_per_byte is None or record_count < 0:
            return None
        left_ns = self._left_ns - record_count * _NS_PER_RECORD
        max_size = min(left_ns // ns_per_byte, _MAX_INFLATED_BYTES)
        inflated = self._inflater.inflate(codec, records[HEADER_SIZE:], max_size)
        if inflated is not None:
            self._left_ns = left_ns - len(inflated) * ns_per_byte
        return inflated
