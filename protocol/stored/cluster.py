"""Records of `__cluster_metadata`, the log of the cluster's state.

RegisterBrokerRecord:
- v1: adds in_controlled_shutdown.
- v2: adds is_migrating_zk_broker.
- v3: adds log_dirs.
- v4: adds cordoned_log_dirs.
PartitionRecord:
- v1: adds directories.
- v2: adds eligible_leader_replicas, last_known_elr.
PartitionChangeRecord:
- v1: adds directories.
- v2: adds eligible_leader_replicas, last_known_elr.
BrokerRegistrationChangeRecord:
- v1: adds in_controlled_shutdown.
- v2: adds log_dirs.
- v3: adds cordoned_log_dirs.
"""

from typing import ClassVar

from protocol.message import field, message
from protocol.primitives import BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, STRING, UINT16, UUID, array


@message
class BrokerEndpoint:
    """Struct of RegisterBrokerRecord.end_points."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)
    security_protocol: int = field(INT16)


@message
class BrokerFeature:
    """Struct of RegisterBrokerRecord.features."""

    name: str = field(STRING)
    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


@message
class RegisterBrokerRecord:
    """Versions 0 to 4, flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    is_migrating_zk_broker: bool = field(BOOL, since=2)
    incarnation_id: bytes = field(UUID)
    broker_epoch: int = field(INT64)
    end_points: list[BrokerEndpoint] = field(array(BrokerEndpoint))
    features: list[BrokerFeature] = field(array(BrokerFeature))
    rack: str | None = field(STRING, nullable=True)
    fenced: bool = field(BOOL, default=True)
    in_controlled_shutdown: bool = field(BOOL, since=1)
    log_dirs: list[bytes] = field(array(UUID), since=3, tag=0)
    cordoned_log_dirs: list[bytes] | None = field(array(UUID), since=4, nullable=True, tag=1, default=None)


@message
class UnregisterBrokerRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64)


@message
class TopicRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    name: str = field(STRING)
    topic_id: bytes = field(UUID)


@message
class PartitionRecord:
    """Versions 0 to 2, flexible."""

    RECORD_TYPE: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    partition_id: int = field(INT32, default=-1)
    topic_id: bytes = field(UUID)
    replicas: list[int] = field(array(INT32))
    isr: list[int] = field(array(INT32))
    removing_replicas: list[int] = field(array(INT32))
    adding_replicas: list[int] = field(array(INT32))
    leader: int = field(INT32, default=-1)
    leader_recovery_state: int = field(INT8, tag=0)
    leader_epoch: int = field(INT32, default=-1)
    partition_epoch: int = field(INT32, default=-1)
    directories: list[bytes] = field(array(UUID), since=1)
    eligible_leader_replicas: list[int] | None = field(array(INT32), since=2, nullable=True, tag=1, default=None)
    last_known_elr: list[int] | None = field(array(INT32), since=2, nullable=True, tag=2, default=None)


@message
class ConfigRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=True)


@message
class PartitionChangeRecord:
    """Versions 0 to 2, flexible."""

    RECORD_TYPE: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    partition_id: int = field(INT32, default=-1)
    topic_id: bytes = field(UUID)
    isr: list[int] | None = field(array(INT32), nullable=True, tag=0, default=None)
    leader: int = field(INT32, tag=1, default=-2)
    replicas: list[int] | None = field(array(INT32), nullable=True, tag=2, default=None)
    removing_replicas: list[int] | None = field(array(INT32), nullable=True, tag=3, default=None)
    adding_replicas: list[int] | None = field(array(INT32), nullable=True, tag=4, default=None)
    leader_recovery_state: int = field(INT8, tag=5, default=-1)
    directories: list[bytes] | None = field(array(UUID), since=1, nullable=True, tag=8, default=None)
    eligible_leader_replicas: list[int] | None = field(array(INT32), since=2, nullable=True, tag=6, default=None)
    last_known_elr: list[int] | None = field(array(INT32), since=2, nullable=True, tag=7, default=None)


@message
class FenceBrokerRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    id: int = field(INT32)
    epoch: int = field(INT64)


@message
class UnfenceBrokerRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    id: int = field(INT32)
    epoch: int = field(INT64)


@message
class RemoveTopicRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topic_id: bytes = field(UUID)


@message
class DelegationTokenRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    owner: str = field(STRING)
    requester: str = field(STRING)
    renewers: list[str] = field(array(STRING))
    issue_timestamp: int = field(INT64)
    max_timestamp: int = field(INT64)
    expiration_timestamp: int = field(INT64)
    token_id: str = field(STRING)


@message
class UserScramCredentialRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    name: str = field(STRING)
    mechanism: int = field(INT8)
    salt: bytes = field(BYTES)
    stored_key: bytes = field(BYTES)
    server_key: bytes = field(BYTES)
    iterations: int = field(INT32)


@message
class FeatureLevelRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    name: str = field(STRING)
    feature_level: int = field(INT16)


@message
class EntityData:
    """Struct of ClientQuotaRecord.entity."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable=True)


@message
class ClientQuotaRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    entity: list[EntityData] = field(array(EntityData))
    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


@message
class ProducerIdsRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    next_producer_id: int = field(INT64)


@message
class BrokerRegistrationChangeRecord:
    """Versions 0 to 3, flexible."""

    RECORD_TYPE: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64)
    fenced: int = field(INT8, tag=0)
    in_controlled_shutdown: int = field(INT8, since=1, tag=1)
    log_dirs: list[bytes] = field(array(UUID), since=2, tag=2)
    cordoned_log_dirs: list[bytes] | None = field(array(UUID), since=3, nullable=True, tag=3, default=None)


@message
class AccessControlEntryRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    id: bytes = field(UUID)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class RemoveAccessControlEntryRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    id: bytes = field(UUID)


@message
class NoOpRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0


@message
class ZkMigrationStateRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    zk_migration_state: int = field(INT8)


@message
class RemoveUserScramCredentialRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    name: str = field(STRING)
    mechanism: int = field(INT8)


@message
class BeginTransactionRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    name: str | None = field(STRING, nullable=True, tag=0, default=None)


@message
class EndTransactionRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0


@message
class AbortTransactionRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 25
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    reason: str | None = field(STRING, nullable=True, tag=0, default=None)


@message
class RemoveDelegationTokenRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    token_id: str = field(STRING)


@message
class ControllerEndpoint:
    """Struct of RegisterControllerRecord.end_points."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)
    security_protocol: int = field(INT16)


@message
class ControllerFeature:
    """Struct of RegisterControllerRecord.features."""

    name: str = field(STRING)
    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


@message
class RegisterControllerRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 27
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    controller_id: int = field(INT32)
    incarnation_id: bytes = field(UUID)
    zk_migration_ready: bool = field(BOOL)
    end_points: list[ControllerEndpoint] = field(array(ControllerEndpoint))
    features: list[ControllerFeature] = field(array(ControllerFeature))


@message
class ClearElrRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topic_name: str = field(STRING)


RECORDS: dict[int, type] = {
    record_type.RECORD_TYPE: record_type
    for record_type in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}
"""Record type number to class, as the frame of a metadata record names it."""
