"""From exception to Kafka error code: the one table. Handlers never write a code for a failure that was raised.

A class is found by walking its ancestors, nearest first; what has no row is UNKNOWN_SERVER_ERROR and logged with its
traceback, because then the fault is ours.
"""

from __future__ import annotations

import logging

from broker.api.route import RequestContext
from broker.coordinator import errors as coordinator
from broker.coordinator.transaction import errors as transaction
from broker.metadata import errors as metadata
from broker.partition import errors as partition
from protocol.errors import ErrorCode
from storage import errors as storage

logger = logging.getLogger(__name__)

TABLE: dict[type[BaseException], ErrorCode] = {
    # storage
    storage.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    storage.StorageFailure: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.LogClosed: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.DirLocked: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.CorruptCheckpoint: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.CorruptIndex: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.IndexTooSmall: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.CorruptSnapshot: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.Uncleanable: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.InconsistentTopicId: ErrorCode.INCONSISTENT_TOPIC_ID,
    storage.CorruptRecord: ErrorCode.CORRUPT_MESSAGE,
    storage.RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    storage.RecordListTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    storage.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    storage.InvalidRecord: ErrorCode.INVALID_RECORD,
    storage.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    storage.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    storage.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    storage.InvalidTxnState: ErrorCode.INVALID_TXN_STATE,
    storage.TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    # metadata
    metadata.InvalidRequest: ErrorCode.INVALID_REQUEST,
    metadata.InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    metadata.TopicAlreadyExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    metadata.UnknownTopicOrPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    metadata.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    metadata.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    metadata.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    metadata.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    metadata.NoReassignmentInProgress: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    metadata.ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    metadata.PreferredLeaderNotAvailable: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    metadata.EligibleLeadersNotAvailable: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    metadata.InvalidUpdateVersion: ErrorCode.INVALID_UPDATE_VERSION,
    metadata.BrokerIdNotRegistered: ErrorCode.BROKER_ID_NOT_REGISTERED,
    metadata.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    metadata.DuplicateResource: ErrorCode.DUPLICATE_RESOURCE,
    metadata.ResourceNotFound: ErrorCode.RESOURCE_NOT_FOUND,
    metadata.UnacceptableCredential: ErrorCode.UNACCEPTABLE_CREDENTIAL,
    metadata.UnsupportedMechanism: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    metadata.SecurityDisabled: ErrorCode.SECURITY_DISABLED,
    metadata.InvalidConfiguration: ErrorCode.INVALID_CONFIG,
    metadata.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    metadata.ThrottlingQuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    metadata.TopicDeletionDisabled: ErrorCode.TOPIC_DELETION_DISABLED,
    metadata.ControllerClosed: ErrorCode.NOT_CONTROLLER,
    metadata.UnsupportedMetadataVersion: ErrorCode.KAFKA_STORAGE_ERROR,
    metadata.ForeignQuorum: ErrorCode.KAFKA_STORAGE_ERROR,
    metadata.CorruptMetadata: ErrorCode.KAFKA_STORAGE_ERROR,
    # coordinators
    coordinator.CoordinatorLoading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    coordinator.CoordinatorNotAvailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    coordinator.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    coordinator.InvalidGroupId: ErrorCode.INVALID_GROUP_ID,
    coordinator.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    coordinator.GroupIdNotFound: ErrorCode.GROUP_ID_NOT_FOUND,
    coordinator.NonEmptyGroup: ErrorCode.NON_EMPTY_GROUP,
    coordinator.UnknownMemberId: ErrorCode.UNKNOWN_MEMBER_ID,
    coordinator.FencedInstanceId: ErrorCode.FENCED_INSTANCE_ID,
    coordinator.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    coordinator.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    coordinator.InvalidRequest: ErrorCode.INVALID_REQUEST,
    coordinator.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    coordinator.UnsupportedAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    coordinator.InvalidRegularExpression: ErrorCode.INVALID_REGULAR_EXPRESSION,
    coordinator.GroupMaxSizeReached: ErrorCode.GROUP_MAX_SIZE_REACHED,
    coordinator.FencedMemberEpoch: ErrorCode.FENCED_MEMBER_EPOCH,
    coordinator.StaleMemberEpoch: ErrorCode.STALE_MEMBER_EPOCH,
    coordinator.UnreleasedInstanceId: ErrorCode.UNRELEASED_INSTANCE_ID,
    coordinator.InconsistentGroupProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    transaction.InvalidTransactionalRequest: ErrorCode.INVALID_REQUEST,
    transaction.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    transaction.InvalidProducerIdMapping: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    transaction.ProducerFenced: ErrorCode.PRODUCER_FENCED,
    transaction.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    transaction.InvalidTxnState: ErrorCode.INVALID_TXN_STATE,
    transaction.TransactionalIdNotFound: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    # partitions
    partition.UnknownPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    partition.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    partition.InconsistentTopicIdRequested: ErrorCode.INCONSISTENT_TOPIC_ID,
    partition.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    partition.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    partition.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    partition.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    partition.RecordsMustStay: ErrorCode.POLICY_VIOLATION,
    partition.PartitionOffline: ErrorCode.KAFKA_STORAGE_ERROR,
    partition.SearchTakesTooLong: ErrorCode.REQUEST_TIMED_OUT,
    partition.FutureNameTooLong: ErrorCode.INVALID_TOPIC_EXCEPTION,
    partition.LogDirNotFound: ErrorCode.LOG_DIR_NOT_FOUND,
    partition.LogDirOffline: ErrorCode.KAFKA_STORAGE_ERROR,
    partition.LogDirCordoned: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    partition.NoReplicaHere: ErrorCode.REPLICA_NOT_AVAILABLE,
}


def known_code(failure: BaseException) -> ErrorCode:
    """Give the code the table has for `failure`, UNKNOWN_SERVER_ERROR when it has none.

    A refusal that was told its code keeps it.
    """
    if isinstance(failure, coordinator.Told):
        return failure.told
    for ancestor in type(failure).__mro__:
        code = TABLE.get(ancestor)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def code_of(failure: BaseException, context: RequestContext) -> ErrorCode:
    """Give the error code a client is told for `failure`."""
    code = known_code(failure)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        logger.error("request failed api=%d version=%d", context.api_key, context.api_version, exc_info=failure)
    return code
