"""Levels of features: which may be set, and that the log follows the level of `metadata.version`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.metadata.controller.feature_updates import FeatureUpdate, UpgradeType, plan_update_features
from broker.metadata.controller.topics import NewTopic
from broker.metadata.errors import InvalidUpdateVersion
from broker.metadata.image import ClusterImage, FeatureRange
from protocol.stored.cluster import FeatureLevelRecord
from tests.harness.hosted import broker_image
from tests.unit.broker.conftest import Node

UP, SAFE, UNSAFE = UpgradeType
BROKER = broker_image(1)._replace(
    features=(FeatureRange("kraft.version", 0, 1), FeatureRange("metadata.version", 7, 30))
)
IMAGE = ClusterImage("c", brokers={1: BROKER}, features={"metadata.version": 29}, kraft_version=1)


def at(level: int) -> ClusterImage:
    return replace(IMAGE, features={"metadata.version": level})


def refusal(image: ClusterImage, *updates: tuple[str, int, int]) -> str:
    with pytest.raises(InvalidUpdateVersion) as refused:
        plan_update_features(image, [FeatureUpdate(*one) for one in updates], node_id=1)
    prefix = "The update failed for all features since the following feature had an error: "
    assert str(refused.value).startswith(prefix)
    return str(refused.value).removeprefix(prefix)


def records(image: ClusterImage, *updates: tuple[str, int, int]) -> list[object]:
    return plan_update_features(image, [FeatureUpdate(*one) for one in updates], node_id=1).records


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (("x", 1, UP), "Invalid update version 1 for feature x. Local controller 1 does not support this feature."),
        (("x", 0, SAFE), "Invalid update version 0 for feature x. Feature x not found."),
        (("metadata.version", 31, UP), "Local controller 1 only supports versions 7-30"),
        (("metadata.version", 6, UNSAFE), "Local controller 1 only supports versions 7-30"),
        (("metadata.version", -1, UP), "A feature version cannot be less than 0."),
        (("metadata.version", 29, 0), "The controller does not support the given upgrade type."),
        (("metadata.version", 29, 4), "The controller does not support the given upgrade type."),
        (("metadata.version", 28, UP), "Can't downgrade the version of this feature without"),
        (("metadata.version", 22, SAFE), "Refusing to perform the requested downgrade"),
        (("metadata.version", 22, UNSAFE), "Unsafe metadata downgrade is not supported"),
        (("kraft.version", 0, SAFE), "The quorum of this node stays at version 1."),
    ],
)
def test_refusals(update: tuple[str, int, int], reason: str) -> None:
    assert reason in refusal(IMAGE, update)


def test_a_higher_level_is_no_downgrade() -> None:
    assert "Can't downgrade to a newer version." in refusal(at(28), ("metadata.version", 29, SAFE))


def test_every_registered_broker_must_run_at_the_level() -> None:
    other = broker_image(2)._replace(features=(FeatureRange("metadata.version", 7, 20),))
    image = replace(at(20), brokers={1: BROKER, 2: other})
    assert "Broker 2 only supports versions 7-20" in refusal(image, ("metadata.version", 21, UP))
    assert records(replace(at(19), brokers={1: BROKER, 2: other}), ("metadata.version", 20, UP))


@pytest.mark.parametrize("level", range(23, 29))
def test_levels_whose_records_are_the_same_can_be_taken_back(level: int) -> None:
    assert records(IMAGE, ("metadata.version", level, SAFE)) == [
        FeatureLevelRecord(name="metadata.version", feature_level=level)
    ]


def test_what_only_the_newest_level_tells_is_not_given_up() -> None:
    assert records(IMAGE, ("metadata.version", 30, UP))
    assert "Refusing to perform the requested downgrade" in refusal(at(30), ("metadata.version", 29, SAFE))


def test_what_is_as_it_is_needs_no_record() -> None:
    assert records(IMAGE, ("metadata.version", 29, UP), ("kraft.version", 1, UP)) == []
    assert records(IMAGE) == []


def test_of_one_feature_the_last_update_counts_and_one_refusal_stops_all() -> None:
    assert len(records(IMAGE, ("metadata.version", 27, SAFE), ("metadata.version", 28, SAFE))) == 1
    assert "feature x" in refusal(IMAGE, ("metadata.version", 28, SAFE), ("x", 1, UP))


async def test_the_log_writes_in_the_form_of_the_new_level_and_starts_again_from_it(node: Node) -> None:
    controller = await node.start()
    await controller.execute(
        lambda image: plan_update_features(image, [FeatureUpdate("metadata.version", 23, SAFE)], 1)
    )
    assert controller.image.features["metadata.version"] == 23
    await controller.create_topics([NewTopic("t", 1, 1)])
    await controller.close()
    controller = await node.start()
    assert controller.image.features["metadata.version"] == 23
    assert controller.image.topics_by_name["t"].partitions[0].directories
    await controller.execute(lambda image: plan_update_features(image, [FeatureUpdate("metadata.version", 29, UP)], 1))
    assert controller.image.features["metadata.version"] == 29
    await controller.close()
