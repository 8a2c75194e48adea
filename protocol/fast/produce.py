"""The Produce requests that producers send all day, and their answers, without an object for every struct.

Reading gives the topics with views of the records. Anything out of the ordinary (a transactional id, tags, nulls, long
names, what is no batch, malformed bytes) is none of this module's business: it gives None, and the codec decides. The
answers are those of success only; the parts of a request that come again in its answer are taken as they are.

The layouts stand here a second time, for speed; properties hold them equal to what the codec makes of the declared
messages (tests/property/test_plain_produce.py).
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.primitives import MAX_ARRAY_LENGTH
from protocol.records.batch import HEADER_SIZE

FIRST_VERSION: Final = ProduceRequest.MIN_VERSION
LAST_VERSION: Final = ProduceRequest.MAX_VERSION
FLEXIBLE_SINCE: Final = ProduceRequest.FLEXIBLE_SINCE
assert ProduceResponse.FLEXIBLE_SINCE == FLEXIBLE_SINCE, "an answer repeats bytes of its request"
IDS_SINCE: Final = 13
_LOG_START_SINCE: Final = 5
_RECORD_ERRORS_SINCE: Final = 8

_ID_SIZE: Final = 16
_NO_ID: Final = bytes(_ID_SIZE)
_LONG: Final = 0x80
"""A length byte from here on is the first of several."""
_LOW: Final = 0x7F
_NULL: Final = -1

_HEADER: Final = Struct(">iih")
"""API key and version, correlation id, length of the client id."""
_COMPACT_START: Final = Struct(">hhiB")
"""No tags of the header and no transactional id; acks, timeout, one more than the number of topics."""
_COMPACT_PARTITION: Final = Struct(">BiBBBB")
"""What ends before it, index, and the four bytes that the length of the records is among."""
_ENDS: Final = Struct(">HB")
"""No tags of the last partition and of its topic; none of the request, or what follows."""
_START: Final = Struct(">hhii")
"""The same in older versions."""
_NAME_SIZE: Final = Struct(">h")
_COUNT: Final = Struct(">i")
_PARTITION: Final = Struct(">ii")

_SIZE_BYTES: Final = 4
_COMPACT_ANSWER_START: Final = Struct(">iiBB")
_COMPACT_ANSWER_SIZE: Final = _COMPACT_ANSWER_START.size - _SIZE_BYTES
_ANSWER_START: Final = Struct(">iii")
_RESULT_SINCE_9: Final = Struct(">ihqqqB2x")
"""Index, error code, base offset, append time, log start offset; no record errors, no message, no tags."""
_RESULT_SINCE_5: Final = Struct(">ihqqq")
_RESULT_SINCE_3: Final = Struct(">ihqq")
_NO_RECORD_ERRORS: Final = Struct(">ih").pack(0, _NULL)
_NO_TAGS: Final = bytes(1)
_NOT_THROTTLED: Final = bytes(4)
_COMPACT_END: Final = _NOT_THROTTLED + _NO_TAGS


Batches = list[tuple[int, memoryview]]
"""Partitions and their records, which are views of the frame."""

PlainTopic = tuple[str, bytes, bytes, Batches]
"""Name or id, whichever the version has; everything before the first partition, as bytes; and the batches. A plain
tuple, since naming its fields would cost as much as reading them."""

Result = tuple[int, int, int, int, bool]
"""Of an append: base offset, last offset, log append time, log start offset, whether it was a duplicate."""

PlainRequest = tuple[int, int, str, int, list[PlainTopic]]
"""Version, correlation id, client id, acks, and the topics."""


def read_plain(frame: memoryview) -> PlainRequest | None:
    """Read a produce request from its header on; None for one that the codec has to look at."""
    try:
        version, correlation_id, size = _HEADER.unpack_from(frame)  # the API key, 0, counts as the version's high half
        if not FIRST_VERSION <= version <= LAST_VERSION:
            return None
        position = _HEADER.size + size if size > 0 else _HEADER.size
        client_id = str(frame[_HEADER.size : position], "utf-8")
        if version >= FLEXIBLE_SINCE:
            acks, topics = _read_compact(frame, position, version >= IDS_SINCE)
        else:
            acks, topics = _read_old(frame, position)
    except (IndexError, StructError, UnicodeDecodeError):
        return None
    return (version, correlation_id, client_id, acks, topics) if topics else None


def _read_compact(frame: memoryview, position: int, has_ids: bool) -> tuple[int, list[PlainTopic]]:
    """Read acks and topics from after the client id on; there are none where something is unusual."""
    tags_and_null, acks, _, left = _COMPACT_START.unpack_from(frame, position)
    position += _COMPACT_START.size
    topics: list[PlainTopic] = []
    name, topic_id = "", _NO_ID
    if tags_and_null or left >= _LONG:
        return 0, topics
    while left > 1:
        size = _ID_SIZE if has_ids else frame[position]
        if not size or size >= _LONG:
            return 0, []
        start = position
        position += size + 1
        head = frame[start:position].tobytes()
        count = last = head[size]
        if count >= _LONG:
            last = frame[position]
            if last >= _LONG:
                return 0, []
            count = count & _LOW | last << 7
            position += 1
            head += bytes((last,))
        if has_ids:
            topic_id = head[:_ID_SIZE]
        else:
            name = head[1:size].decode()
        batches: Batches = []
        for _ in range(count - 1):
            # The byte before is looked at again: the end of the number of partitions, or no tags of the one before.
            before, index, size, second, third, fourth = _COMPACT_PARTITION.unpack_from(frame, position - 1)
            position += 5
            if size >= _LONG:
                size = size & _LOW | second << 7
                position += 1
                if second >= _LONG:
                    size = size & 0x3FFF | third << 14
                    position += 1
                    if third >= _LONG:
                        size = size & 0x1FFFFF | fourth << 21 if fourth < _LONG else 0
                        position += 1
            if before != last or size <= HEADER_SIZE:
                return 0, []
            last = 0
            following = position + size - 1  # the length counts one more than the records
            batches.append((index, frame[position:following]))
            position = following + 1
        tags, following = _ENDS.unpack_from(frame, position - 1)
        left -= 1
        if tags or not batches or (left == 1 and following):
            return 0, []
        topics.append((name, topic_id, head, batches))
        position += 1
    return acks, topics


def _read_old(frame: memoryview, position: int) -> tuple[int, list[PlainTopic]]:
    """Do the same in the layout of older versions."""
    transactional_id, acks, _, count = _START.unpack_from(frame, position)
    position += _START.size
    if transactional_id != _NULL or count > MAX_ARRAY_LENGTH:
        return 0, []
    end = len(frame)
    topics: list[PlainTopic] = []
    for _ in range(count):
        start = position
        position += _NAME_SIZE.size + _NAME_SIZE.unpack_from(frame, position)[0]
        if position < start + _NAME_SIZE.size:
            return 0, []
        partitions = _COUNT.unpack_from(frame, position)[0]
        position += _COUNT.size
        head = frame[start:position].tobytes()
        batches: Batches = []
        for _ in range(partitions if partitions <= MAX_ARRAY_LENGTH else 0):
            index, size = _PARTITION.unpack_from(frame, position)
            position += _PARTITION.size
            following = position + size
            if size < HEADER_SIZE or following > end:
                return 0, []
            batches.append((index, frame[position:following]))
            position = following
        if not batches:
            return 0, []
        topics.append((head[_NAME_SIZE.size : -_COUNT.size].decode(), _NO_ID, head, batches))
    return acks, topics


def write_answer(version: int, correlation_id: int, topics: list[PlainTopic], results: Sequence[Result]) -> bytes:
    """Write the whole answer, its size included; `results` has one for each partition, in the request's order."""
    if version < FLEXIBLE_SINCE:
        return _write_old(version, correlation_id, topics, results)
    parts: list[bytes] = []
    at = 0
    for _, _, head, batches in topics:
        parts.append(head)
        for index, _ in batches:
            base_offset, _, log_append_time_ms, log_start_offset, _ = results[at]
            parts.append(_RESULT_SINCE_9.pack(index, 0, base_offset, log_append_time_ms, log_start_offset, 1))
            at += 1
        parts.append(_NO_TAGS)
    parts.append(_COMPACT_END)
    body = b"".join(parts)
    return _COMPACT_ANSWER_START.pack(len(body) + _COMPACT_ANSWER_SIZE, correlation_id, 0, len(topics) + 1) + body


def _write_old(version: int, correlation_id: int, topics: list[PlainTopic], results: Sequence[Result]) -> bytes:
    parts: list[bytes] = []
    at = 0
    for _, _, head, batches in topics:
        parts.append(head)
        for index, _ in batches:
            base_offset, _, log_append_time_ms, log_start_offset, _ = results[at]
            if version < _LOG_START_SINCE:
                parts.append(_RESULT_SINCE_3.pack(index, 0, base_offset, log_append_time_ms))
            else:
                parts.append(_RESULT_SINCE_5.pack(index, 0, base_offset, log_append_time_ms, log_start_offset))
                if version >= _RECORD_ERRORS_SINCE:
                    parts.append(_NO_RECORD_ERRORS)
            at += 1
    parts.append(_NOT_THROTTLED)
    body = b"".join(parts)
    return _ANSWER_START.pack(len(body) + _ANSWER_START.size - _SIZE_BYTES, correlation_id, len(topics)) + body
