"""What a metadata command is refused for: one class a reason, the text that admin tools print in `str()`.

The classes name the Kafka error; `broker/api/errors.py` holds the number of each.
"""

from __future__ import annotations

from broker.runtime.failures import Consequence


class MetadataError(Exception):
    """Parent of every refusal of the metadata room."""


class InvalidRequest(MetadataError):
    """The request contradicts itself (INVALID_REQUEST)."""


class InvalidTopic(MetadataError):
    """A topic name that is not legal or collides with another (INVALID_TOPIC_EXCEPTION)."""


class TopicAlreadyExists(MetadataError):
    """The topic to be created exists (TOPIC_ALREADY_EXISTS)."""


class UnknownTopicOrPartition(MetadataError):
    """No topic of that name (UNKNOWN_TOPIC_OR_PARTITION)."""


class UnknownTopicId(MetadataError):
    """No topic of that id (UNKNOWN_TOPIC_ID)."""


class InvalidPartitions(MetadataError):
    """A partition count that makes no sense (INVALID_PARTITIONS)."""


class InvalidReplicationFactor(MetadataError):
    """A replication factor that makes no sense or cannot be reached (INVALID_REPLICATION_FACTOR)."""


class InvalidReplicaAssignment(MetadataError):
    """A manual assignment that cannot be carried out (INVALID_REPLICA_ASSIGNMENT)."""


class NoReassignmentInProgress(MetadataError):
    """There is no reassignment to cancel (NO_REASSIGNMENT_IN_PROGRESS)."""


class ElectionNotNeeded(MetadataError):
    """The partition has the leader that an election would choose (ELECTION_NOT_NEEDED)."""


class PreferredLeaderNotAvailable(MetadataError):
    """The preferred replica cannot lead (PREFERRED_LEADER_NOT_AVAILABLE)."""


class EligibleLeadersNotAvailable(MetadataError):
    """No replica can lead (ELIGIBLE_LEADERS_NOT_AVAILABLE)."""


class InvalidUpdateVersion(MetadataError):
    """A feature that does not exist, or a level it cannot be set to (INVALID_UPDATE_VERSION)."""


class BrokerIdNotRegistered(MetadataError):
    """No broker of that id (BROKER_ID_NOT_REGISTERED)."""


class UnsupportedVersion(MetadataError):
    """What is asked for needs another version of something (UNSUPPORTED_VERSION)."""


class DuplicateResource(MetadataError):
    """The request names one thing twice (DUPLICATE_RESOURCE)."""


class ResourceNotFound(MetadataError):
    """What is named does not exist (RESOURCE_NOT_FOUND)."""


class UnacceptableCredential(MetadataError):
    """A credential that does not meet the rules (UNACCEPTABLE_CREDENTIAL)."""


class UnsupportedMechanism(MetadataError):
    """A SASL mechanism nobody knows (UNSUPPORTED_SASL_MECHANISM)."""


class SecurityDisabled(MetadataError):
    """There is no authorizer (SECURITY_DISABLED)."""


class InvalidConfiguration(MetadataError):
    """A config that does not exist, has a bad value, or cannot take the operation asked for (INVALID_CONFIG)."""


class PolicyViolation(MetadataError):
    """The request asks for more than one request may (POLICY_VIOLATION)."""


class ThrottlingQuotaExceeded(MetadataError):
    """Who asks has changed so much of late that it has to wait (THROTTLING_QUOTA_EXCEEDED); the code says it all."""


class TopicDeletionDisabled(MetadataError):
    """`delete.topic.enable` is false (TOPIC_DELETION_DISABLED)."""


class UnsupportedMetadataVersion(MetadataError):
    """The metadata log needs a newer broker than this one."""


class ForeignQuorum(MetadataError):
    """The metadata log belongs to a quorum that this node is not the only voter of."""


class CorruptMetadata(MetadataError):
    """The metadata log or a snapshot holds what cannot be replayed."""


class ControllerClosed(MetadataError, Consequence):
    """The controller stopped, or its log failed, before the command was committed."""
