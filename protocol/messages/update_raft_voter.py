"""UpdateRaftVoter (key 82), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UINT16, UUID, array


@message
class Listener:
    """Struct of UpdateRaftVoterRequest.listeners."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class KRaftVersionFeature:
    """Struct of UpdateRaftVoterRequest.k_raft_version_feature."""

    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


@message
class UpdateRaftVoterRequest:
    """Request of UpdateRaftVoter."""

    API_KEY: ClassVar[ApiKey] = ApiKey.UPDATE_RAFT_VOTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    cluster_id: str | None = field(STRING, nullable=True)
    current_leader_epoch: int = field(INT32)
    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)
    listeners: list[Listener] = field(array(Listener))
    k_raft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


@message
class CurrentLeader:
    """Struct of UpdateRaftVoterResponse.current_leader."""

    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)
    host: str = field(STRING)
    port: int = field(INT32)


@message
class UpdateRaftVoterResponse:
    """Response of UpdateRaftVoter."""

    API_KEY: ClassVar[ApiKey] = ApiKey.UPDATE_RAFT_VOTER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    current_leader: CurrentLeader = field(CurrentLeader, tag=0)
