"""DescribeCluster (key 60), versions 0 to 2, flexible throughout.

- v1: request adds endpoint_type; response adds endpoint_type.
- v2: request adds include_fenced_brokers; response adds is_fenced.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, STRING, array


@message
class DescribeClusterRequest:
    """Request of DescribeCluster."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, since=1, default=1)
    include_fenced_brokers: bool = field(BOOL, since=2)


@message
class DescribeClusterBroker:
    """Struct of DescribeClusterResponse.brokers."""

    broker_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=True, default=None)
    is_fenced: bool = field(BOOL, since=2)


@message
class DescribeClusterResponse:
    """Response of DescribeCluster."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    endpoint_type: int = field(INT8, since=1, default=1)
    cluster_id: str = field(STRING)
    controller_id: int = field(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(INT32, default=-0x80000000)
