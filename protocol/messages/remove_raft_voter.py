"""RemoveRaftVoter (key 81), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UUID


@message
class RemoveRaftVoterRequest:
    """Request of RemoveRaftVoter."""

    API_KEY: ClassVar[ApiKey] = ApiKey.REMOVE_RAFT_VOTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    cluster_id: str | None = field(STRING, nullable=True)
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)


@message
class RemoveRaftVoterResponse:
    """Response of RemoveRaftVoter."""

    API_KEY: ClassVar[ApiKey] = ApiKey.REMOVE_RAFT_VOTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
