"""Requests built once as bytes, in which only numbers change: what the raw-socket loads send."""

import struct
import time

from tests.bench.members import frame
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.raw import RawClient, fetch_row, fetch_values, produce_values

PRODUCE_VERSION = 9
FETCH_VERSION = 11
RECORD_BYTES = 100
_OFFSET_MARK = 0x1122334455667788
_EPOCH_MARK = 0x11223344
_SESSION_AT = 4 + 4 + 2
"""In a Fetch answer without its length: correlation id, throttle time, error code, then the session's id."""


def produce_frame(topic: str, partition: int = 0) -> bytes:
    """Build a request with one record of 100 B and acks=all."""
    batch = batches.build([Record(b"x" * RECORD_BYTES, timestamp=int(time.time() * 1000))])
    return frame("produce", PRODUCE_VERSION, **produce_values(topic, {partition: batch}, acks=-1))


def produce_answer_size(client: RawClient, request: bytes) -> int:
    """Send a request once and return the size of its answer with its length; it must be accepted."""
    client.socket.sendall(request)
    answer = client.receive_frame()
    check_produced(answer)
    return len(answer) + 4


def check_produced(answer: bytes) -> None:
    """Insist that the one partition of an answer (without its length) has no error.

    The error follows correlation id, header tags, the count of topics, a name, the count of partitions, an index.
    """
    name_size = answer[6] - 1
    [error] = struct.unpack_from(">h", answer, 7 + name_size + 1 + 4)
    if error:
        raise RuntimeError(f"a produce was answered with error {error}")


class TailReader:
    """The requests of one consumer that follows the end of a partition in a fetch session."""

    def __init__(self, topic: str, offset: int, max_wait_ms: int) -> None:
        values = fetch_values(
            [{"topic": topic, "partitions": [fetch_row(0, _OFFSET_MARK)]}],
            version=FETCH_VERSION,
            max_wait_ms=max_wait_ms,
            session_id=0,
            session_epoch=_EPOCH_MARK,
            forgotten_topics_data=[],
            rack_id="",
        )
        self._request = bytearray(frame("fetch", FETCH_VERSION, **values))
        self._epoch_at = self._request.index(struct.pack(">i", _EPOCH_MARK))
        self._offset_at = self._request.index(struct.pack(">q", _OFFSET_MARK))
        # Of the partition in an answer that has one: after the topic's and the partition's counts, its name and index.
        self._high_watermark_at = _SESSION_AT + 4 + 4 + 2 + len(topic) + 4 + 4 + 2
        self._epoch = 0
        self.offset = offset

    def next_request(self) -> bytes:
        """Ask for what follows the last answer."""
        struct.pack_into(">i", self._request, self._epoch_at, self._epoch)
        struct.pack_into(">q", self._request, self._offset_at, self.offset)
        self._epoch += 1
        return bytes(self._request)

    def take(self, answer: bytes) -> int:
        """Take in an answer (without its length), all of which ends at the high watermark; return its records."""
        [error] = struct.unpack_from(">h", answer, 8)
        if error:
            raise RuntimeError(f"a fetch was answered with error {error}")
        struct.pack_into(">i", self._request, self._epoch_at - 4, *struct.unpack_from(">i", answer, _SESSION_AT))
        if len(answer) <= self._high_watermark_at + 8:
            return 0
        [partition_error] = struct.unpack_from(">h", answer, self._high_watermark_at - 2)
        if partition_error:
            raise RuntimeError(f"a partition was answered with error {partition_error}")
        [high_watermark] = struct.unpack_from(">q", answer, self._high_watermark_at)
        count = high_watermark - self.offset
        self.offset = high_watermark
        return count
