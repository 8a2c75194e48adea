"""Reassignments as plans: what is refused and why, and what can be carried out where nothing replicates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller import reassignments
from broker.metadata.controller.reassignments import Reassignment, ongoing_reassignments, plan_reassignments
from broker.metadata.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MetadataError,
    NoReassignmentInProgress,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from broker.metadata.image import ClusterImage, PartitionImage, TopicImage
from tests.harness.hosted import broker_image

ID = bytes([5]) * 16
DIRS = {broker: bytes([broker]) * 16 for broker in (1, 2, 3)}


def partition(*replicas: int, isr: tuple[int, ...] = (1,), **options: object) -> PartitionImage:
    directories = tuple(DIRS[broker] for broker in replicas)
    return PartitionImage(1, 4, 7, replicas, isr, directories)._replace(**options)  # type: ignore[arg-type]


def image_of(*partitions: PartitionImage, brokers: tuple[int, ...] = (1, 2, 3)) -> ClusterImage:
    topic = TopicImage("t", ID, partitions)
    registered = {
        broker: broker_image(broker)._replace(fenced=broker != 1, log_dirs=(DIRS[broker],)) for broker in brokers
    }
    return ClusterImage("c", topics_by_name={"t": topic}, topics_by_id={ID: topic}, brokers=registered, end_offset=9)


def planned(
    image: ClusterImage, replicas: tuple[int, ...] | None, number: int = 0, *, topic: str = "t", free: bool = True
) -> MetadataError | PartitionImage:
    """Return why one reassignment is refused, or partition 0 as it is afterwards."""
    plan = plan_reassignments(image, [Reassignment(topic, number, replicas)], may_change_factor=free)
    [refused] = plan.result
    if refused is not None:
        assert plan.records == []
        return refused
    draft = MetadataDraft(image)
    for offset, record in enumerate(plan.records, image.end_offset):
        draft.replay(record, offset)  # type: ignore[arg-type]
    after, _ = draft.finish(end_offset=image.end_offset + len(plan.records), epoch=1, timestamp_ms=0)
    return after.topics_by_name["t"].partitions[0]


ONE_NODE = image_of(partition(1), brokers=(1,))


@pytest.mark.parametrize("free", [True, False])
def test_the_replicas_that_a_partition_has_change_nothing(free: bool) -> None:
    plan = plan_reassignments(ONE_NODE, [Reassignment("t", 0, (1,))], may_change_factor=free)
    assert (plan.records, plan.result) == ([], [None])


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(
    ("topic", "number", "replicas", "error", "message"),
    [
        ("none", 0, (1,), UnknownTopicOrPartition, "Unable to find a topic named none."),
        ("none", 0, None, UnknownTopicOrPartition, "Unable to find a topic named none."),
        ("", 0, (1,), UnknownTopicOrPartition, "Unable to find a topic named ."),
        ("t", 1, (1,), UnknownTopicOrPartition, "Unable to find partition t:1."),
        ("t", -1, None, UnknownTopicOrPartition, "Unable to find partition t:-1."),
        ("t", 0, None, NoReassignmentInProgress, ""),
        ("t", 0, (), InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list."),
        (
            *("t", 0, (3, 1, 2), InvalidReplicaAssignment),
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            *("t", 0, (1, -5), InvalidReplicaAssignment),
            "The manual partition assignment includes broker -5, but no such broker is registered.",
        ),
        (
            *("t", 0, (1, 1), InvalidReplicaAssignment),
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_refusals_are_those_of_the_reference(
    topic: str, number: int, replicas: tuple[int, ...] | None, error: type, message: str, free: bool
) -> None:
    refused = planned(ONE_NODE, replicas, number, topic=topic, free=free)
    assert (type(refused), str(refused)) == (error, message)


def test_each_partition_stands_alone() -> None:
    targets = [Reassignment("t", 0, (9,)), Reassignment("t", 0, (1,)), Reassignment("t", 9, (1,))]
    plan = plan_reassignments(ONE_NODE, targets, may_change_factor=True)
    assert [type(error) for error in plan.result] == [InvalidReplicaAssignment, type(None), UnknownTopicOrPartition]


@pytest.mark.parametrize(("replicas", "message"), [((1,), "from 2 to 1"), ((1, 2, 3), "from 2 to 3")])
def test_the_factor_may_be_held_fast(replicas: tuple[int, ...], message: str) -> None:
    refused = planned(image_of(partition(1, 2)), replicas, free=False)
    assert isinstance(refused, InvalidReplicationFactor)
    assert str(refused) == f"The replication factor is changed {message}"


def test_the_factor_is_that_of_a_reassignment_under_way() -> None:
    midway = image_of(partition(1, 2, 3, removing_replicas=(2,), adding_replicas=(3,)))
    assert isinstance(planned(midway, (1,), free=False), InvalidReplicationFactor)
    after = planned(midway, (3, 1), free=False)
    assert isinstance(after, InvalidReplicaAssignment)  # broker 3 is not in sync


def test_a_broker_that_nothing_is_replicated_to_does_not_become_a_replica() -> None:
    refused = planned(image_of(partition(1)), (1, 2))
    assert isinstance(refused, InvalidReplicaAssignment)
    assert "Broker 2" in str(refused)


def test_replicas_of_dead_brokers_can_be_removed() -> None:
    after = planned(image_of(partition(2, 1, 3)), (1,))
    assert after == partition(1, leader_epoch=5, partition_epoch=8)


def test_the_order_of_replicas_can_be_changed_without_an_election() -> None:
    after = planned(image_of(partition(1, 2)), (2, 1))
    assert after == partition(2, 1, partition_epoch=8)


def test_the_last_replica_in_sync_stays() -> None:
    refused = planned(image_of(partition(1, 2)), (2,))
    assert isinstance(refused, InvalidReplicaAssignment)


def test_a_cancelled_reassignment_leaves_the_replicas_it_began_with() -> None:
    midway = image_of(partition(3, 1, 2, removing_replicas=(1, 2), adding_replicas=(3,)))
    assert planned(midway, None) == partition(1, 2, leader_epoch=5, partition_epoch=8)


def test_a_cancellation_that_would_lose_records_is_refused() -> None:
    midway = image_of(partition(2, 1, isr=(1,), adding_replicas=(1,)))
    refused = planned(midway, None)
    assert isinstance(refused, InvalidReplicaAssignment)
    assert "unclean leader election" in str(refused)
    everything = image_of(partition(1, adding_replicas=(1,)))
    assert "addingReplicas contains all replicas" in str(planned(everything, None))


def test_a_removal_under_way_ends_when_the_same_replicas_are_asked_for() -> None:
    midway = image_of(partition(1, 2, removing_replicas=(2,)))
    assert planned(midway, (1, 2)) == partition(1, 2, partition_epoch=8)


def test_a_command_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassignments, "MAX_RECORDS_PER_COMMAND", 2)
    plan = plan_reassignments(
        image_of(partition(1, 2)),
        [Reassignment("t", 0, (1,))] * 3 + [Reassignment("t", 0, (1, 2))],
        may_change_factor=True,
    )
    assert [type(error) for error in plan.result] == [type(None), type(None), PolicyViolation, type(None)]


def listed(image: ClusterImage, asked: list[tuple[str, list[int]]] | None) -> list[tuple[str, int]]:
    return [(one.topic, one.partition) for one in ongoing_reassignments(image, asked)]


def test_reassignments_under_way_are_listed_once_each() -> None:
    image = image_of(partition(1), partition(1, 2, adding_replicas=(2,)), partition(1, 2, removing_replicas=(2,)))
    assert listed(image, None) == [("t", 1), ("t", 2)]
    assert listed(image, []) == []
    assert listed(image, [("t", []), ("none", [1])]) == []
    assert listed(image, [("t", [2, 0, 2, 7, -1])]) == [("t", 2)]
    assert listed(replace(image, topics_by_name={}), None) == []
