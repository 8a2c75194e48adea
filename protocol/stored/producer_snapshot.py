"""The `.snapshot` file beside a segment: producer state at its base offset."""

from typing import ClassVar

from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import INT16, INT32, INT64, UINT32, array


@message
class ProducerEntry:
    """Struct of ProducerSnapshot.producer_entries."""

    producer_id: int = field(INT64)
    epoch: int = field(INT16)
    last_sequence: int = field(INT32)
    last_offset: int = field(INT64)
    offset_delta: int = field(INT32)
    timestamp: int = field(INT64)
    coordinator_epoch: int = field(INT32)
    current_txn_first_offset: int = field(INT64)


@message
class ProducerSnapshot:
    """Version 1, never flexible."""

    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    crc: int = field(UINT32)
    producer_entries: list[ProducerEntry] = field(array(ProducerEntry))
