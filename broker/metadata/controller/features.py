"""Feature levels: what this broker can run at, what a new cluster starts with, what clients are told.

A level is finalized only when its behaviour is there. Odradek has no share or streams groups and no eligible leader
replicas yet, so those features are neither supported nor finalized: clients then use the older flows. A directory that
comes from an Apache Kafka node may carry higher levels in its log; they stay there, and clients see what this broker
supports. A log that says nothing of a feature, like those of versions before it came, is at level 0 until an
administrator upgrades it.

Source: KIP-584, KIP-1022; MetadataVersion, KRaftVersion.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.metadata.errors import UnsupportedMetadataVersion
from broker.metadata.image import ClusterImage, FeatureRange
from protocol.stored.cluster import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"

METADATA_VERSION_LEVEL = 29
"""4.2-IV1: what a new cluster starts at, so that Apache Kafka 4.2 can take it over too; all we do is there below it."""
NEWEST_METADATA_VERSION_LEVEL = 30
"""4.3-IV0, where Apache Kafka 4.3 starts a new cluster: a log that was formatted by it is served and written at it."""
KRAFT_VERSION_LEVEL = 1
"""Voters are kept in the log itself, as `kafka-storage format --standalone` sets it up."""
GROUP_VERSION_LEVEL = 1
"""Groups of the consumer protocol (KIP-848)."""
TRANSACTION_VERSION_LEVEL = 2
"""KIP-890: 1 adds fields to the transaction log, from 2 on the end of every transaction bumps the producer's epoch."""

SUPPORTED_FEATURES = (
    FeatureRange(GROUP_VERSION, 0, GROUP_VERSION_LEVEL),
    FeatureRange(KRAFT_VERSION, 0, KRAFT_VERSION_LEVEL),
    FeatureRange(METADATA_VERSION, 7, NEWEST_METADATA_VERSION_LEVEL),
    FeatureRange(TRANSACTION_VERSION, 0, TRANSACTION_VERSION_LEVEL),
)
"""By name, as registrations and ApiVersions list them."""

_SUPPORTED = {feature.name: feature for feature in SUPPORTED_FEATURES}


def bootstrap_records() -> list[FeatureLevelRecord]:
    """Return the feature records of a new cluster; `metadata.version` comes first, as readers of a log expect."""
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(name=GROUP_VERSION, feature_level=GROUP_VERSION_LEVEL),
        FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=TRANSACTION_VERSION_LEVEL),
    ]


def finalized_features(image: ClusterImage) -> list[tuple[str, int]]:
    """Return the finalized levels that clients may rely on, by name; level 0 counts as not finalized."""
    finalized = {**image.features, KRAFT_VERSION: image.kraft_version}
    return sorted(
        (name, min(level, _SUPPORTED[name].max_level))
        for name, level in finalized.items()
        if name in _SUPPORTED and level >= max(1, _SUPPORTED[name].min_level)
    )


def transaction_version(image: ClusterImage) -> int:
    """Return the finalized `transaction.version`, of those this broker supports."""
    return min(image.features.get(TRANSACTION_VERSION, 0), TRANSACTION_VERSION_LEVEL)


def check_metadata_version(levels: Mapping[str, int]) -> None:
    """Raise UnsupportedMetadataVersion unless this broker can read and write at the log's `metadata.version`."""
    level = levels.get(METADATA_VERSION)
    supported = _SUPPORTED[METADATA_VERSION]
    if level is not None and not supported.min_level <= level <= supported.max_level:
        raise UnsupportedMetadataVersion(
            f"the metadata log is at {METADATA_VERSION} {level}; this broker runs at levels "
            f"{supported.min_level} to {supported.max_level} (up to Apache Kafka 4.3)"
        )


def record_version(record: object, level: int) -> int | None:
    """Return the version to write `record` in at a `metadata.version` level; None means its only one."""
    steps = _VERSION_STEPS.get(type(record))
    if steps is None:
        return None
    return sum(level >= since for since in steps)


def tells_cordoned_dirs(image: ClusterImage) -> bool:
    """Tell whether registrations say which log directories are cordoned, as they do from 4.3-IV0 on."""
    return image.features.get(METADATA_VERSION, 0) >= _CORDONED_DIRS


_CONTROLLED_SHUTDOWN, _MIGRATION, _DIRECTORY_ASSIGNMENT, _ELIGIBLE_LEADERS, _CORDONED_DIRS = 7, 8, 17, 23, 30

_VERSION_STEPS: dict[type, tuple[int, ...]] = {
    PartitionRecord: (_DIRECTORY_ASSIGNMENT, _ELIGIBLE_LEADERS),
    PartitionChangeRecord: (_DIRECTORY_ASSIGNMENT, _ELIGIBLE_LEADERS),
    RegisterBrokerRecord: (_CONTROLLED_SHUTDOWN, _MIGRATION, _DIRECTORY_ASSIGNMENT, _CORDONED_DIRS),
    BrokerRegistrationChangeRecord: (_CONTROLLED_SHUTDOWN, _DIRECTORY_ASSIGNMENT, _CORDONED_DIRS),
}
"""The levels at which each further version of a record became legal."""
