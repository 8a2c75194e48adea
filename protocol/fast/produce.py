"""A Produce request that comes again: only correlation id, partition and records differ from one before.

Producers send request after request to one topic, so nearly all bytes of a frame are known beforehand. Comparing them
costs a fraction of decoding them and of building the objects that go with it. Nothing is guessed: what precedes the
records must equal, byte for byte, what the codec writes for the earlier request, what follows must too, and the length
between must be the only one that fits. A frame that is written in another legal way is just not recognised.

The layout is not repeated here: both ends of request and response are cut out of what the codec encodes.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct

from protocol.api_keys import ApiKey
from protocol.codec import encode_bytes
from protocol.headers import request_header, response_prefix
from protocol.messages.produce import ProduceRequest, ProduceResponse

_CORRELATION_ID_AT = 4
_AFTER_CORRELATION_ID = 8
_EMPTY_RECORDS_AND_TAGS = 4
"""In every version four bytes end a request with empty records: an int32 length, or a length byte and three tags."""
_TAGS = bytes(3)

_SIZE = Struct(">i")
_INDEX = Struct(">i")
_RESULT = Struct(">ihqqq")
_RESULT_BEFORE_LOG_START = Struct(">ihqq")
_FIRST_VERSION_WITH_LOG_START = 5
_PLACEHOLDERS = (0x01020304, 0x0506, 0x0708090A0B0C0D0E, 0x1112131415161718, 0x2122232425262728)
"""Index, error code, base offset, append time, log start offset: next to each other in every version."""


class RepeatedProduce:
    """Recognises repetitions of a single-partition request, and answers them."""

    __slots__ = (
        "_answer_end",
        "_answer_size",
        "_answer_start",
        "_has_log_start",
        "_is_flexible",
        "_prefix",
        "_prefix_size",
        "_start",
    )

    def __init__(self, version: int, client_id: str, request: ProduceRequest, response: ProduceResponse) -> None:
        """Learn from a request with one partition and its answer, which must be a success."""
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        empty = replace(request, topic_data=[replace(topic, partition_data=[replace(data, records=b"")])])
        self._is_flexible = version >= ProduceRequest.FLEXIBLE_SINCE
        header = request_header(ApiKey.PRODUCE, version, 0, client_id)
        whole = header + encode_bytes(empty, version)[: -_EMPTY_RECORDS_AND_TAGS - _INDEX.size]
        self._start = whole[:_CORRELATION_ID_AT]
        self._prefix = whole[_AFTER_CORRELATION_ID:]
        self._prefix_size = len(whole)
        self._learn_answer(version, response)

    def _learn_answer(self, version: int, response: ProduceResponse) -> None:
        (topic,) = response.responses
        (data,) = topic.partition_responses
        index, error_code, base_offset, append_time, log_start = _PLACEHOLDERS
        data = replace(
            data,
            index=index,
            error_code=error_code,
            base_offset=base_offset,
            log_append_time_ms=append_time,
            log_start_offset=log_start,
        )
        encoded = encode_bytes(replace(response, responses=[replace(topic, partition_responses=[data])]), version)
        self._has_log_start = version >= _FIRST_VERSION_WITH_LOG_START
        if self._has_log_start:
            result = _RESULT.pack(*_PLACEHOLDERS)
        else:
            result = _RESULT_BEFORE_LOG_START.pack(*_PLACEHOLDERS[:-1])
        prefix = response_prefix(ApiKey.PRODUCE, version, 0)
        before, self._answer_end = encoded.split(result)
        self._answer_start = prefix[_SIZE.size :] + before
        self._answer_size = _SIZE.pack(len(prefix) + len(encoded))

    def match(self, frame: memoryview) -> tuple[int, memoryview] | None:
        """Give partition and records of a frame that repeats the request, None for any other frame."""
        position = self._prefix_size
        end = len(frame)
        known = bytes(frame[: position + _INDEX.size + 3])
        if (
            known[_AFTER_CORRELATION_ID:position] != self._prefix
            or known[:_CORRELATION_ID_AT] != self._start
            or end < position + _INDEX.size
        ):
            return None
        index: int = _INDEX.unpack_from(known, position)[0]
        position += _INDEX.size
        if not self._is_flexible:
            position += _SIZE.size
            if end < position or _SIZE.unpack_from(frame, position - _SIZE.size)[0] != end - position:
                return None
            return index, frame[position:]
        end -= len(_TAGS)
        length = _length_of(end - position)
        size = len(length)
        if not size or known[position : position + size] != length or frame[end:] != _TAGS:
            return None
        return index, frame[position + size : end]

    def answer(
        self, frame: memoryview, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
    ) -> bytes:
        """Give the whole response, its size included, to a frame that was recognised and appended."""
        if self._has_log_start:
            result = _RESULT.pack(index, 0, base_offset, log_append_time_ms, log_start_offset)
        else:
            result = _RESULT_BEFORE_LOG_START.pack(index, 0, base_offset, log_append_time_ms)
        correlation_id = frame[_CORRELATION_ID_AT:_AFTER_CORRELATION_ID]
        return b"".join((self._answer_size, correlation_id, self._answer_start, result, self._answer_end))

    def throttled(self, answer: bytes, throttle_time_ms: int) -> bytes:
        """Give an answer once more, with a throttle time in it: the last field, before the tags if there are any."""
        after = len(answer) - (1 if self._is_flexible else 0)
        return answer[: after - _SIZE.size] + _SIZE.pack(throttle_time_ms) + answer[after:]


def _length_of(room: int) -> bytes:
    """Give the uvarint that fills `room` bytes together with the records it announces; it counts one more than they.

    Empty for what takes more than three bytes: two mebibytes of records do not notice the long way.
    """
    if room < 1 << 7:
        return bytes((room,)) if room > 0 else b""
    if room <= 1 << 14:
        value = room - 1
        return bytes((value & 0x7F | 0x80, value >> 7))
    value = room - 2
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return b""
