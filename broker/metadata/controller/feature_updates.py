"""UpdateFeatures as a plan on an image; pure.

All updates of a request happen, or none. A level must lie in what this broker and every other registered one can run
at. `metadata.version` says in which form records are written, and can go down only as far as no form has changed: what
a newer form says, an older one would lose. `kraft.version` stands in the log of the quorum itself, not in its records,
and is not changed here.

Source: FeatureControlManager, QuorumFeatures, MetadataVersion.checkIfMetadataChanged; KIP-584, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.metadata.controller.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from broker.metadata.controller.plan import Plan
from broker.metadata.errors import InvalidUpdateVersion
from broker.metadata.image import ClusterImage, FeatureRange
from protocol.stored.cluster import FeatureLevelRecord


class UpgradeType(IntEnum):
    """Which way a level may go, numbered as on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level that a feature is to have."""

    name: str
    level: int
    upgrade_type: int
    """As it came: a number that is no type is refused here."""


_LEVELS_THAT_CHANGED_RECORDS = (7, 8, 11, 13, 14, 15, 17, 23, 30)
"""Levels of `metadata.version`, from the lowest that can be finalized, whose records an older reader does not know."""


def plan_update_features(image: ClusterImage, updates: Sequence[FeatureUpdate], node_id: int) -> Plan[None]:
    """Plan the updates; of one feature the last counts. Raises InvalidUpdateVersion when one is refused."""
    records: list[object] = []
    for update in {update.name: update for update in updates}.values():
        refused = _refusal(image, update, node_id)
        if refused is not None:
            raise InvalidUpdateVersion(
                f"The update failed for all features since the following feature had an error: {refused}"
            )
        if update.level != _current_level(image, update.name):
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return Plan(records, None)


def _current_level(image: ClusterImage, name: str) -> int:
    return image.kraft_version if name == KRAFT_VERSION else image.features.get(name, 0)


def _refusal(image: ClusterImage, update: FeatureUpdate, node_id: int) -> str | None:
    """Say why an update cannot be made."""
    reason = _impossible(image, update, node_id)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    before = _current_level(image, update.name)
    if update.name == METADATA_VERSION and any(
        update.level < changed <= before for changed in _LEVELS_THAT_CHANGED_RECORDS
    ):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        return f"Unsupported metadata.version downgrade from {before} to {update.level}. {reason}"
    return None


def _impossible(image: ClusterImage, update: FeatureUpdate, node_id: int) -> str | None:
    name, level, kind = update
    if kind not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    unsupported = _unsupported(f"Local controller {node_id}", SUPPORTED_FEATURES, name, level)
    for broker in image.brokers.values():
        unsupported = unsupported or _unsupported(f"Broker {broker.broker_id}", broker.features, name, level)
    if unsupported is not None:
        return unsupported
    before = _current_level(image, name)
    if level < before and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > before and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    if name == KRAFT_VERSION and level != before:
        return f"The quorum of this node stays at version {before}."
    return None


def _unsupported(node: str, features: Iterable[FeatureRange], name: str, level: int) -> str | None:
    supported = next((feature for feature in features if feature.name == name), None)
    if supported is None:
        # Level 0 is what a feature nobody knows has anyway.
        return f"{node} does not support this feature." if level else _unknown(name)
    if not supported.min_level <= level <= supported.max_level:
        return f"{node} only supports versions {supported.min_level}-{supported.max_level}"
    return None


def _unknown(name: str) -> str | None:
    return None if any(feature.name == name for feature in SUPPORTED_FEATURES) else f"Feature {name} not found."
