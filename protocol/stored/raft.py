"""Control records that the quorum keeps in `__cluster_metadata` and its snapshots.

LeaderChangeMessage:
- v1: adds voter_directory_id.
"""

from typing import ClassVar

from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, UINT16, UUID, array


@message
class LeaderChangeVoter:
    """Struct of LeaderChangeMessage.voters; LeaderChangeMessage.granting_voters."""

    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID, since=1)


@message
class LeaderChangeMessage:
    """Versions 0 to 1, flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = field(INT16)
    leader_id: int = field(INT32)
    voters: list[LeaderChangeVoter] = field(array(LeaderChangeVoter))
    granting_voters: list[LeaderChangeVoter] = field(array(LeaderChangeVoter))


@message
class SnapshotHeaderRecord:
    """Version 0, flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = field(INT16)
    last_contained_log_timestamp: int = field(INT64)


@message
class SnapshotFooterRecord:
    """Version 0, flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = field(INT16)


@message
class KRaftVersionRecord:
    """Version 0, flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = field(INT16)
    k_raft_version: int = field(INT16)


@message
class Endpoint:
    """Struct of VotersVoter.endpoints."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class KRaftVersionFeature:
    """Struct of VotersVoter.k_raft_version_feature."""

    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


@message
class VotersVoter:
    """Struct of VotersRecord.voters."""

    voter_id: int = field(INT32)
    voter_directory_id: bytes = field(UUID)
    endpoints: list[Endpoint] = field(array(Endpoint))
    k_raft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


@message
class VotersRecord:
    """Version 0, flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = field(INT16)
    voters: list[VotersVoter] = field(array(VotersVoter))
