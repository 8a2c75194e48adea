"""Typed failures of storage: each carries data; the broker's one table turns classes into Kafka error codes."""

import errno
from collections.abc import Sequence
from typing import NamedTuple

DISK_FAULTS = frozenset((errno.EIO, errno.EROFS, getattr(errno, "EUCLEAN", errno.EIO)))
"""What a file system says when its disk is broken, whoever asks; a lack of space, memory or descriptors may pass."""


class StorageError(Exception):
    """Parent of every failure that storage raises on purpose."""


class RecordError(NamedTuple):
    """One refused record: its index in the batch and why."""

    batch_index: int
    message: str


class OffsetOutOfRange(StorageError):
    """A read or a log start move outside [log start, log end]."""

    def __init__(self, requested: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {requested} is outside [{log_start_offset}, {log_end_offset}]")
        self.requested = requested
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class StorageFailure(StorageError):
    """The operating system refused a file operation: the directory that holds the file is no longer trusted."""

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class DirLocked(StorageError):
    """Another process holds the lock of a log directory."""

    def __init__(self, path: str) -> None:
        super().__init__(f"log directory {path} is locked by another process")
        self.path = path


class CorruptCheckpoint(StorageError):
    """A checkpoint file has a wrong version, a wrong count or a malformed line."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class CorruptIndex(StorageError):
    """An index file contradicts its own format or its segment; it must be rebuilt."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class IndexTooSmall(StorageError):
    """segment.index.bytes has no room for an entry, so no segment can be made; what there is stays readable."""

    def __init__(self, index_bytes: int, needed_bytes: int) -> None:
        super().__init__(f"segment.index.bytes={index_bytes} is too small for a new segment: {needed_bytes} are needed")
        self.index_bytes = index_bytes
        self.needed_bytes = needed_bytes


class CorruptSnapshot(StorageError):
    """A producer snapshot has an unknown version, a wrong CRC or a wrong length."""


class InconsistentTopicId(StorageError):
    """A partition directory belongs to another incarnation of the topic."""

    def __init__(self, path: str, expected: bytes, found: bytes) -> None:
        super().__init__(f"{path} holds topic id {found.hex()}, expected {expected.hex()}")
        self.path = path
        self.expected = expected
        self.found = found


class AppendRefused(StorageError):
    """Parent of everything an append can be refused for because of what it holds."""


class CorruptRecord(AppendRefused):
    """CRC, size field or compressed payload do not hold together (CORRUPT_MESSAGE)."""


class WrongChecksum(CorruptRecord):
    """The CRC of a batch is not what its header says."""


class RecordTooLarge(AppendRefused):
    """A batch is larger than max.message.bytes (MESSAGE_TOO_LARGE)."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"The record batch size is {size_bytes} bytes which exceeds the maximum configured value of {limit_bytes}"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class RecordListTooLarge(AppendRefused):
    """A batch does not fit into one segment (RECORD_LIST_TOO_LARGE)."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"Message batch size is {size_bytes} bytes in append to partition which exceeds the "
            f"maximum configured segment size of {limit_bytes}"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class UnsupportedCompression(AppendRefused):
    """The codec is not allowed at this request version (UNSUPPORTED_COMPRESSION_TYPE)."""


class RecordsRefused(AppendRefused):
    """A batch refused for its records; `record_errors` names them when the fault is a record's own."""

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors: list[RecordError] = list(record_errors)


class InvalidRecord(RecordsRefused):
    """Header or record structure is not acceptable (INVALID_RECORD)."""


class InvalidMagic(InvalidRecord):
    """The format of the batch is older than what is accepted."""


class InvalidOffsets(InvalidRecord):
    """Offsets, sequence numbers or the number of records in the header do not fit each other."""


class MissingKeys(InvalidRecord):
    """Records without a key for a compacted topic."""


class InvalidTimestamp(RecordsRefused):
    """A timestamp outside the window, or a timestamp type producers may not set (INVALID_TIMESTAMP)."""


class ProducerRefused(AppendRefused):
    """Parent of what the producer state refuses."""


class OutOfOrderSequence(ProducerRefused):
    """The first sequence of a batch does not follow the last one (OUT_OF_ORDER_SEQUENCE_NUMBER)."""


class InvalidProducerEpoch(ProducerRefused):
    """A batch or marker carries an epoch older than the producer's (INVALID_PRODUCER_EPOCH)."""


class InvalidTxnState(ProducerRefused):
    """A non-transactional batch while the producer's transaction is open (INVALID_TXN_STATE)."""


class TransactionCoordinatorFenced(ProducerRefused):
    """A marker from a coordinator older than one seen before (TRANSACTION_COORDINATOR_FENCED)."""


class LogClosed(StorageError):
    """The log was closed or deleted; nothing can be read from or written to it."""


class Uncleanable(StorageError):
    """A log cannot be compacted as it is; its data stays, and trying again changes nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
