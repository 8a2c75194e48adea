"""AlterPartition (key 56), versions 2 to 3, flexible throughout.

- v3: request adds new_isr_with_epochs and drops new_isr.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, INT64, UUID, array


@message
class BrokerState:
    """Struct of RequestPartitionData.new_isr_with_epochs."""

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)


@message
class RequestPartitionData:
    """Struct of RequestTopicData.partitions."""

    partition_index: int = field(INT32)
    leader_epoch: int = field(INT32)
    new_isr: list[int] = field(array(INT32), until=2)
    new_isr_with_epochs: list[BrokerState] = field(array(BrokerState), since=3)
    leader_recovery_state: int = field(INT8)
    partition_epoch: int = field(INT32)


@message
class RequestTopicData:
    """Struct of AlterPartitionRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[RequestPartitionData] = field(array(RequestPartitionData))


@message
class AlterPartitionRequest:
    """Request of AlterPartition."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    topics: list[RequestTopicData] = field(array(RequestTopicData))


@message
class ResponsePartitionData:
    """Struct of ResponseTopicData.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    isr: list[int] = field(array(INT32))
    leader_recovery_state: int = field(INT8)
    partition_epoch: int = field(INT32)


@message
class ResponseTopicData:
    """Struct of AlterPartitionResponse.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[ResponsePartitionData] = field(array(ResponsePartitionData))


@message
class AlterPartitionResponse:
    """Response of AlterPartition."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    topics: list[ResponseTopicData] = field(array(ResponseTopicData))
