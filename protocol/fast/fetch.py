"""A Fetch request as consumers send it, read without objects; and its answer, packed partition by partition.

Of all requests the one that is sent most while nothing else happens: what it costs is what following a log costs. Read
here is what the codec would read, or nothing: tags, long varints and whatever is malformed are left to it. The answer
has no errors and no tags; it is, byte for byte, what the codec writes (`protocol/messages/fetch.py` has the layout).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from protocol.frame import SIZE_BYTES, pack_size_into
from protocol.primitives import encode_uvarint

TopicKey = str | bytes
"""A topic's name, or its id from v13 on."""
Row = tuple[int, int, int, int, int]
"""Partition, leader epoch the client believes in, offset, last fetched epoch, max bytes."""
Found = tuple[TopicKey, int, int, int, int, list[tuple[int, int]] | None, Any]
"""Topic, partition, high watermark, last stable offset, log start, aborted (None: not asked), region or None."""

FIRST_VERSION_WITH_LOG_START = 5
FIRST_VERSION_WITH_SESSIONS = 7
FIRST_VERSION_WITH_LEADER_EPOCH = 9
FIRST_VERSION_WITH_REPLICAS = 11  # rack id asked, preferred read replica answered
FIRST_FLEXIBLE_VERSION = 12
FIRST_VERSION_WITH_IDS = 13
FIRST_VERSION_WITHOUT_REPLICA_ID = 15

_ID_BYTES = 16
_REPLICA_AND_LIMITS = Struct(">iiiib")
_REPLICA_LIMITS_AND_SESSION = Struct(">iiiibii")
_LIMITS_AND_SESSION = Struct(">iiibii")
_LENGTH = Struct(">i")
_SHORT = Struct(">h")
_ROW_V4 = Struct(">iqi")
_ROW_V5 = Struct(">iqqi")
_ROW_V9 = Struct(">iiqqi")
_ROW_V12 = Struct(">iiqiqiB")

_HEAD_V4 = Struct(">iii")  # size, correlation id, throttle time
_HEAD_V7 = Struct(">iiihi")  # the same, error code, session id
_HEAD_V12 = Struct(">iibihi")
_FOUND_V4 = Struct(">ihqq")
_FOUND_V5 = Struct(">ihqqq")
_FOUND_V12 = Struct(">ihqqqBi")  # with no aborted transactions: their number, the preferred read replica
_ABORTED = Struct(">qq")
_ABORTED_V12 = Struct(">qqB")
_NO_REPLICA = _LENGTH.pack(-1)


class _NotPlain(Exception):
    """The frame holds what is left to the codec."""


class FetchFrame:
    """What a request asks for."""

    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int,
        session_epoch: int,
    ) -> None:
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics: list[tuple[TopicKey, list[Row]]] = []
        self.forgotten: list[tuple[TopicKey, int]] = []


def read_fetch(data: bytes, position: int, version: int) -> FetchFrame | None:
    """Read the request that begins at `position`; None for one that the codec has to look at."""
    try:
        return _read(data, position, version)
    except (_NotPlain, IndexError, StructError, UnicodeDecodeError):
        return None


def _read(data: bytes, position: int, version: int) -> FetchFrame | None:
    session_id, session_epoch = 0, -1
    if version >= FIRST_VERSION_WITHOUT_REPLICA_ID:
        wait, least, most, isolation, session_id, session_epoch = _LIMITS_AND_SESSION.unpack_from(data, position)
        position += _LIMITS_AND_SESSION.size
    elif version >= FIRST_VERSION_WITH_SESSIONS:
        _, wait, least, most, isolation, session_id, session_epoch = _REPLICA_LIMITS_AND_SESSION.unpack_from(
            data, position
        )
        position += _REPLICA_LIMITS_AND_SESSION.size
    else:
        _, wait, least, most, isolation = _REPLICA_AND_LIMITS.unpack_from(data, position)
        position += _REPLICA_AND_LIMITS.size
    frame = FetchFrame(wait, least, most, isolation, session_id, session_epoch)
    is_flexible = version >= FIRST_FLEXIBLE_VERSION
    count, position = _read_count(data, position, is_flexible)
    for _ in range(count):
        topic, position = _read_topic(data, position, version)
        rows, position = _read_rows(data, position, version)
        frame.topics.append((topic, rows))
        if is_flexible:
            position = _skip_no_tags(data, position)
    if version >= FIRST_VERSION_WITH_SESSIONS:
        count, position = _read_count(data, position, is_flexible)
        for _ in range(count):
            topic, position = _read_topic(data, position, version)
            partitions, position = _read_count(data, position, is_flexible)
            for _ in range(partitions):
                frame.forgotten.append((topic, _LENGTH.unpack_from(data, position)[0]))
                position += _LENGTH.size
            if is_flexible:
                position = _skip_no_tags(data, position)
    if version >= FIRST_VERSION_WITH_REPLICAS:
        _, position = _read_text(data, position, is_flexible)
    if is_flexible:
        position = _skip_no_tags(data, position)
    return frame if position <= len(data) else None


def _read_count(data: bytes, position: int, is_flexible: bool) -> tuple[int, int]:
    if is_flexible:
        count: int = data[position]
        if count > 127:
            high: int = data[position + 1]
            if high > 127:
                raise _NotPlain
            return (count & 127 | high << 7) - 1, position + 2
        if not count:
            raise _NotPlain
        return count - 1, position + 1
    count = _LENGTH.unpack_from(data, position)[0]
    if count < 0 or count > len(data):
        raise _NotPlain
    return count, position + _LENGTH.size


def _read_topic(data: bytes, position: int, version: int) -> tuple[TopicKey, int]:
    if version >= FIRST_VERSION_WITH_IDS:
        end = position + _ID_BYTES
        return data[position:end], end
    return _read_text(data, position, version >= FIRST_FLEXIBLE_VERSION)


def _read_text(data: bytes, position: int, is_flexible: bool) -> tuple[str, int]:
    if is_flexible:
        length, position = _read_count(data, position, True)
    else:
        length = _SHORT.unpack_from(data, position)[0]
        position += _SHORT.size
        if length < 0:
            raise _NotPlain
    end = position + length
    return str(data[position:end], "utf-8"), end


def _read_rows(data: bytes, position: int, version: int) -> tuple[list[Row], int]:
    rows: list[Row] = []
    count, position = _read_count(data, position, version >= FIRST_FLEXIBLE_VERSION)
    for _ in range(count):
        if version >= FIRST_FLEXIBLE_VERSION:
            index, leader_epoch, offset, last_epoch, _, max_bytes, tags = _ROW_V12.unpack_from(data, position)
            position += _ROW_V12.size
            if tags:
                raise _NotPlain
            rows.append((index, leader_epoch, offset, last_epoch, max_bytes))
        elif version >= FIRST_VERSION_WITH_LEADER_EPOCH:
            index, leader_epoch, offset, _, max_bytes = _ROW_V9.unpack_from(data, position)
            position += _ROW_V9.size
            rows.append((index, leader_epoch, offset, -1, max_bytes))
        elif version >= FIRST_VERSION_WITH_LOG_START:
            index, offset, _, max_bytes = _ROW_V5.unpack_from(data, position)
            position += _ROW_V5.size
            rows.append((index, -1, offset, -1, max_bytes))
        else:
            index, offset, max_bytes = _ROW_V4.unpack_from(data, position)
            position += _ROW_V4.size
            rows.append((index, -1, offset, -1, max_bytes))
    return rows, position


def _skip_no_tags(data: bytes, position: int) -> int:
    if data[position]:
        raise _NotPlain
    return position + 1


def fetch_answer(version: int, correlation_id: int, session_id: int, found: list[Found]) -> list[Any]:
    """Give the whole response, its size included, as bytes and regions in turn. Neighbours of one topic share it."""
    is_flexible = version >= FIRST_FLEXIBLE_VERSION
    if is_flexible:
        out = bytearray(_HEAD_V12.pack(0, correlation_id, 0, 0, 0, session_id))
    elif version >= FIRST_VERSION_WITH_SESSIONS:
        out = bytearray(_HEAD_V7.pack(0, correlation_id, 0, 0, session_id))
    else:
        out = bytearray(_HEAD_V4.pack(0, correlation_id, 0))
    counts = _count_partitions(found)
    out += _pack_count(len(counts), is_flexible)
    pieces: list[Any] = [out]
    size, topics = 0, 0
    topic: TopicKey | None = None
    for one in found:
        if one[0] != topic:
            if is_flexible and topics:
                out.append(0)
            topic = one[0]
            out += _pack_topic(topic, is_flexible) + _pack_count(counts[topics], is_flexible)
            topics += 1
        region = one[6]
        region_bytes = len(region) if region is not None else 0
        out += _pack_found(one, version) + _pack_count(region_bytes, is_flexible)
        if region_bytes:
            size += len(out) + region_bytes
            pieces.append(region)
            out = bytearray()
            pieces.append(out)
        if is_flexible:
            out.append(0)
    if is_flexible:
        out += b"\0\0" if topics else b"\0"
    if not out:
        pieces.pop()
    pack_size_into(pieces[0], 0, size + len(out) - SIZE_BYTES)
    return pieces


def _count_partitions(found: list[Found]) -> list[int]:
    counts: list[int] = []
    topic: TopicKey | None = None
    for one in found:
        if one[0] != topic:
            topic = one[0]
            counts.append(0)
        counts[-1] += 1
    return counts


def _pack_count(count: int, is_flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if is_flexible else _LENGTH.pack(count)


def _pack_topic(topic: TopicKey, is_flexible: bool) -> bytes:
    if isinstance(topic, bytes):
        return topic
    name = topic.encode()
    return (encode_uvarint(len(name) + 1) if is_flexible else _SHORT.pack(len(name))) + name


def _pack_found(one: Found, version: int) -> bytes:
    """Pack everything of a partition in front of the length of its records."""
    _, index, high_watermark, last_stable_offset, log_start_offset, aborted, _ = one
    if version >= FIRST_FLEXIBLE_VERSION:
        if not aborted:
            return _FOUND_V12.pack(
                index, 0, high_watermark, last_stable_offset, log_start_offset, 0 if aborted is None else 1, -1
            )
        packed = _FOUND_V5.pack(index, 0, high_watermark, last_stable_offset, log_start_offset)
        packed += encode_uvarint(len(aborted) + 1)
        packed += b"".join([_ABORTED_V12.pack(producer_id, offset, 0) for producer_id, offset in aborted])
        return packed + _NO_REPLICA
    if version >= FIRST_VERSION_WITH_LOG_START:
        packed = _FOUND_V5.pack(index, 0, high_watermark, last_stable_offset, log_start_offset)
    else:
        packed = _FOUND_V4.pack(index, 0, high_watermark, last_stable_offset)
    packed += _LENGTH.pack(len(aborted) if aborted is not None else -1)
    if aborted:
        packed += b"".join([_ABORTED.pack(producer_id, offset) for producer_id, offset in aborted])
    return packed + _NO_REPLICA if version >= FIRST_VERSION_WITH_REPLICAS else packed
