"""Why a coordinator refuses a command: one class per protocol error.

Which code a class has on the wire says `broker.api.errors`, and coordinators are given a function that knows it: a
refusal that belongs to one member, partition or group of a larger request travels as an ErrorCode inside the result.
"""

from __future__ import annotations

from protocol.errors import ErrorCode


class CoordinatorError(Exception):
    """A command was refused; nothing changed and nothing was written."""


class CoordinatorLoading(CoordinatorError):
    """The shard still replays its partition."""


class CoordinatorNotAvailable(CoordinatorError):
    """The coordinator stops, or its internal topic is being created."""


class NotCoordinator(CoordinatorError):
    """No active shard serves this group here."""


class InvalidGroupId(CoordinatorError):
    """The group id is empty where a name is needed."""


class InvalidSessionTimeout(CoordinatorError):
    """The session timeout lies outside the broker's bounds."""


class GroupIdNotFound(CoordinatorError):
    """No group of that name exists."""

    def __init__(self, group_id: str, reason: str | None = None) -> None:
        super().__init__(reason or f"Group {group_id} not found.")
        self.group_id = group_id


class NonEmptyGroup(CoordinatorError):
    """The group still has members."""


class UnknownMemberId(CoordinatorError):
    """The group has no such member, or no member where one is required."""


class FencedInstanceId(CoordinatorError):
    """Another member now holds this static instance id."""


class IllegalGeneration(CoordinatorError):
    """The member speaks of another generation than the current one."""


class RebalanceInProgress(CoordinatorError):
    """The group is between two generations."""


class Told(CoordinatorError):
    """The client is told a code that only the moment knows."""

    def __init__(self, told: ErrorCode, reason: str) -> None:
        super().__init__(f"{reason}: {told.name}")
        self.told = told


class NotInTransaction(Told):
    """The transaction that a commit is to be part of could not be verified."""

    def __init__(self, told: ErrorCode) -> None:
        super().__init__(told, "transaction not verified")


class InvalidRequest(CoordinatorError):
    """A field of the request cannot be."""


class UnsupportedVersion(CoordinatorError):
    """The member needs a newer version of the request."""


class UnsupportedAssignor(CoordinatorError):
    """The broker has no such assignor."""


class InvalidRegularExpression(CoordinatorError):
    """A subscription's regular expression does not compile."""


class GroupMaxSizeReached(CoordinatorError):
    """The group takes no further member."""


class FencedMemberEpoch(CoordinatorError):
    """The member speaks of an epoch it is not in; it must give everything up and join again."""


class StaleMemberEpoch(CoordinatorError):
    """The member's epoch is not the one its request needs; a later heartbeat brings it."""


class UnreleasedInstanceId(CoordinatorError):
    """A static instance id is still held by another member."""


class InconsistentGroupProtocol(CoordinatorError):
    """The member's protocols cannot be part of the group."""


class WriteFailed(Told):
    """The records of a command could not be appended."""

    def __init__(self, told: ErrorCode) -> None:
        super().__init__(told, "append failed")


_WRITE_CODES: dict[ErrorCode, ErrorCode] = {
    # The partition cannot take the write now: let the client retry.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # The partition is not ours any more: let the client look for its coordinator.
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    # The group is too large for one batch: no retry helps.
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def write_error_code(code: ErrorCode) -> ErrorCode:
    """Translate the error of an internal append into what the client of the coordinator is told."""
    return _WRITE_CODES.get(code, code)
