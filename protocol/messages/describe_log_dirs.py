"""DescribeLogDirs (key 35), versions 1 to 5, flexible since 2.

- v2: flexible.
- v3: response adds error_code.
- v4: response adds total_bytes, usable_bytes.
- v5: response adds is_cordoned.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING, array


@message
class DescribableLogDirTopic:
    """Struct of DescribeLogDirsRequest.topics."""

    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class DescribeLogDirsRequest:
    """Request of DescribeLogDirs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 2

    topics: list[DescribableLogDirTopic] | None = field(array(DescribableLogDirTopic), nullable=True)


@message
class DescribeLogDirsPartition:
    """Struct of DescribeLogDirsTopic.partitions."""

    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)


@message
class DescribeLogDirsTopic:
    """Struct of DescribeLogDirsResult.topics."""

    name: str = field(STRING)
    partitions: list[DescribeLogDirsPartition] = field(array(DescribeLogDirsPartition))


@message
class DescribeLogDirsResult:
    """Struct of DescribeLogDirsResponse.results."""

    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: list[DescribeLogDirsTopic] = field(array(DescribeLogDirsTopic))
    total_bytes: int = field(INT64, since=4, default=-1)
    usable_bytes: int = field(INT64, since=4, default=-1)
    is_cordoned: bool = field(BOOL, since=5)


@message
class DescribeLogDirsResponse:
    """Response of DescribeLogDirs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=3)
    results: list[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))
