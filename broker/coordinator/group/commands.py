"""What members ask of a group and what they are told, free of wire versions.

The API layer translates every request version into these values, so the state machine knows one form only.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from protocol.errors import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols a member supports with its metadata for each, most preferred first."""

NO_GENERATION = -1


class JoinRequest(NamedTuple):
    """A member asks for a place in the next generation."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str = ""
    requires_known_member_id: bool = True
    """From v4 on a dynamic member without an id is sent away with one first (KIP-394)."""
    supports_skipping_assignment: bool = True
    """From v9 on a leader can be told that it need not compute an assignment (KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a JoinRequest; on an error only the code and the member id mean something."""

    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncRequest(NamedTuple):
    """A member asks for its assignment; the leader brings everyone's."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class SyncResult(NamedTuple):
    """The answer to a SyncRequest."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """One member that leaves; an empty id with an instance id is removal by an administrator."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveResult(NamedTuple):
    """What became of one leaving member."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


JoinReply = Callable[[JoinResult], None]
SyncReply = Callable[[SyncResult], None]
