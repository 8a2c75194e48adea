"""AddRaftVoter (key 80), versions 0 to 1, flexible throughout.

- v1: request adds ack_when_committed.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, STRING, UINT16, UUID, array


@message
class Listener:
    """Struct of AddRaftVoterRequest.listeners."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class AddRaftVoterRequest:
    """Request of AddRaftVoter."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_RAFT_VOTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    cluster_id: str | None = field(STRING, nullable=True)
    timeout_ms: int = field(INT32)
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)
    listeners: list[Listener] = field(array(Listener))
    ack_when_committed: bool = field(BOOL, since=1, default=True)


@message
class AddRaftVoterResponse:
    """Response of AddRaftVoter."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_RAFT_VOTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
