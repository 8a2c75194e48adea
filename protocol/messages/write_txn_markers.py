"""WriteTxnMarkers (key 27), versions 1 to 2, flexible throughout.

- v2: request adds transaction_version.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, INT64, STRING, array


@message
class WritableTxnMarkerTopic:
    """Struct of WritableTxnMarker.topics."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(array(INT32))


@message
class WritableTxnMarker:
    """Struct of WriteTxnMarkersRequest.markers."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_result: bool = field(BOOL)
    topics: list[WritableTxnMarkerTopic] = field(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(INT32)
    transaction_version: int = field(INT8, since=2)


@message
class WriteTxnMarkersRequest:
    """Request of WriteTxnMarkers."""

    API_KEY: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 1

    markers: list[WritableTxnMarker] = field(array(WritableTxnMarker))


@message
class WritableTxnMarkerPartitionResult:
    """Struct of WritableTxnMarkerTopicResult.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class WritableTxnMarkerTopicResult:
    """Struct of WritableTxnMarkerResult.topics."""

    name: str = field(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = field(array(WritableTxnMarkerPartitionResult))


@message
class WritableTxnMarkerResult:
    """Struct of WriteTxnMarkersResponse.markers."""

    producer_id: int = field(INT64)
    topics: list[WritableTxnMarkerTopicResult] = field(array(WritableTxnMarkerTopicResult))


@message
class WriteTxnMarkersResponse:
    """Response of WriteTxnMarkers."""

    API_KEY: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 1

    markers: list[WritableTxnMarkerResult] = field(array(WritableTxnMarkerResult))
