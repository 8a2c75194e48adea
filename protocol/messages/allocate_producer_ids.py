"""AllocateProducerIds (key 67), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64


@message
class AllocateProducerIdsRequest:
    """Request of AllocateProducerIds."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALLOCATE_PRODUCER_IDS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)


@message
class AllocateProducerIdsResponse:
    """Response of AllocateProducerIds."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALLOCATE_PRODUCER_IDS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id_start: int = field(INT64)
    producer_id_len: int = field(INT32)
