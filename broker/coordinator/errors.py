"""Why a coordinator refuses a command: one class per protocol error, each knowing its code.

The API layer turns a class into its wire code through `code`; a refusal that belongs to one member, partition or group
of a larger request travels as an ErrorCode inside the result instead.
"""

from __future__ import annotations

from typing import ClassVar

from protocol.errors import ErrorCode


class CoordinatorError(Exception):
    """A command was refused; nothing changed and nothing was written."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class CoordinatorLoading(CoordinatorError):
    """The shard still replays its partition."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(CoordinatorError):
    """The coordinator stops, or its internal topic is being created."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinator(CoordinatorError):
    """No active shard serves this group here."""

    code = ErrorCode.NOT_COORDINATOR


class InvalidGroupId(CoordinatorError):
    """The group id is empty where a name is needed."""

    code = ErrorCode.INVALID_GROUP_ID


class InvalidSessionTimeout(CoordinatorError):
    """The session timeout lies outside the broker's bounds."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT


class GroupIdNotFound(CoordinatorError):
    """No group of that name exists."""

    code = ErrorCode.GROUP_ID_NOT_FOUND

    def __init__(self, group_id: str, reason: str | None = None) -> None:
        super().__init__(reason or f"Group {group_id} not found.")
        self.group_id = group_id


class NonEmptyGroup(CoordinatorError):
    """The group still has members."""

    code = ErrorCode.NON_EMPTY_GROUP


class UnknownMemberId(CoordinatorError):
    """The group has no such member, or no member where one is required."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class FencedInstanceId(CoordinatorError):
    """Another member now holds this static instance id."""

    code = ErrorCode.FENCED_INSTANCE_ID


class IllegalGeneration(CoordinatorError):
    """The member speaks of another generation than the current one."""

    code = ErrorCode.ILLEGAL_GENERATION


class RebalanceInProgress(CoordinatorError):
    """The group is between two generations."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class NotInTransaction(CoordinatorError):
    """The transaction that a commit is to be part of could not be verified; `told` is what the client is told."""

    def __init__(self, told: ErrorCode) -> None:
        super().__init__(f"transaction not verified: {told.name}")
        self.told = told


class InvalidRequest(CoordinatorError):
    """A field of the request cannot be."""

    code = ErrorCode.INVALID_REQUEST


class UnsupportedVersion(CoordinatorError):
    """The member needs a newer version of the request."""

    code = ErrorCode.UNSUPPORTED_VERSION


class UnsupportedAssignor(CoordinatorError):
    """The broker has no such assignor."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class InvalidRegularExpression(CoordinatorError):
    """A subscription's regular expression does not compile."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class GroupMaxSizeReached(CoordinatorError):
    """The group takes no further member."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedMemberEpoch(CoordinatorError):
    """The member speaks of an epoch it is not in; it must give everything up and join again."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class StaleMemberEpoch(CoordinatorError):
    """The member's epoch is not the one its request needs; a later heartbeat brings it."""

    code = ErrorCode.STALE_MEMBER_EPOCH


class UnreleasedInstanceId(CoordinatorError):
    """A static instance id is still held by another member."""

    code = ErrorCode.UNRELEASED_INSTANCE_ID


class InconsistentGroupProtocol(CoordinatorError):
    """The member's protocols cannot be part of the group."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class WriteFailed(CoordinatorError):
    """The records of a command could not be appended; `write_code` is what clients are told."""

    def __init__(self, write_code: ErrorCode) -> None:
        super().__init__(f"append failed: {write_code.name}")
        self.write_code = write_code


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


def error_code_of(error: CoordinatorError) -> ErrorCode:
    """Give the wire code of a refusal."""
    if isinstance(error, WriteFailed):
        return error.write_code
    return error.told if isinstance(error, NotInTransaction) else error.code
