"""Elections as plans: who is elected where metadata come from a former cluster, and why nobody is."""

from __future__ import annotations

import pytest

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller import elections
from broker.metadata.controller.elections import ElectionType, all_partitions, election_type, plan_elections
from broker.metadata.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    MetadataError,
    PolicyViolation,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from storage.types import TopicPartition
from tests.harness.hosted import broker_image

ID = bytes([5]) * 16
DIRS = {broker: bytes([broker]) * 16 for broker in (1, 2)}
PREFERRED, UNCLEAN = ElectionType


def image_of(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], *, log_dirs: tuple[bytes, ...] = (DIRS[1],)
) -> ClusterImage:
    """Make a cluster of which only broker 1 is there."""
    partition = PartitionImage(leader, 4, 7, replicas, isr, tuple(DIRS[one] for one in replicas))
    topic = TopicImage("t", ID, (partition,))
    brokers = {
        1: broker_image(1)._replace(log_dirs=log_dirs),
        2: broker_image(2)._replace(fenced=True, log_dirs=(DIRS[2],)),
    }
    return ClusterImage("c", topics_by_name={"t": topic}, topics_by_id={ID: topic}, brokers=brokers, end_offset=9)


def elected(image: ClusterImage, kind: ElectionType, number: int = 0) -> MetadataError | PartitionImage:
    """Return why nobody is elected, or the partition afterwards."""
    plan = plan_elections(image, kind, [TopicPartition("t", number)])
    [result] = plan.result
    if result.error is not None:
        assert plan.records == []
        return result.error
    draft = MetadataDraft(image)
    for offset, record in enumerate(plan.records, image.end_offset):
        draft.replay(record, offset)
    after, _ = draft.finish(end_offset=10, epoch=1, timestamp_ms=0)
    return after.topics_by_name["t"].partitions[0]


@pytest.mark.parametrize("kind", ElectionType)
def test_a_partition_that_is_well_needs_no_election(kind: ElectionType) -> None:
    assert isinstance(elected(image_of(1, (1,), (1,)), kind), ElectionNotNeeded)


def test_any_leader_is_enough_against_an_unclean_election() -> None:
    assert isinstance(elected(image_of(1, (2, 1), (1,)), UNCLEAN), ElectionNotNeeded)


def test_the_preferred_replica_takes_over_when_it_is_in_sync() -> None:
    after = elected(image_of(2, (1, 2), (1, 2)), PREFERRED)
    assert isinstance(after, PartitionImage)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1, 2))


@pytest.mark.parametrize(
    "image",
    [
        image_of(1, (2, 1), (1, 2)),  # it is away
        image_of(2, (1, 2), (2,)),  # it is not in sync
        image_of(NO_LEADER, (2, 1), (2,)),
        image_of(NO_LEADER, (1,), (1,), log_dirs=(DIRS[2],)),  # its directory has failed
    ],
)
def test_a_preferred_replica_that_cannot_lead_changes_nothing(image: ClusterImage) -> None:
    assert isinstance(elected(image, PREFERRED), PreferredLeaderNotAvailable)


@pytest.mark.parametrize("kind", ElectionType)
def test_a_partition_without_a_leader_gets_one_that_is_in_sync(kind: ElectionType) -> None:
    after = elected(image_of(NO_LEADER, (2, 1), (1, 2)), kind)
    assert isinstance(after, PartitionImage)
    assert (after.leader, after.isr) == (1, (1, 2))


def test_an_unclean_election_lets_a_replica_lead_that_is_not_in_sync() -> None:
    after = elected(image_of(NO_LEADER, (2, 1), (2,)), UNCLEAN)
    assert isinstance(after, PartitionImage)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1,))


def test_an_unclean_election_needs_a_replica_that_is_there() -> None:
    assert isinstance(elected(image_of(NO_LEADER, (2,), (2,)), UNCLEAN), EligibleLeadersNotAvailable)


def test_what_does_not_exist_is_told_with_its_name() -> None:
    image = image_of(1, (1,), (1,))
    asked = [TopicPartition("t", 7), TopicPartition("u", 0), TopicPartition("t", -1)]
    results = plan_elections(image, PREFERRED, asked).result
    assert [(type(one.error), str(one.error)) for one in results] == [
        (UnknownTopicOrPartition, "No such partition as t-7"),
        (UnknownTopicOrPartition, "No such topic as u"),
        (UnknownTopicOrPartition, "No such partition as t--1"),
    ]


def test_types_are_numbers_of_the_protocol() -> None:
    assert [election_type(number) for number in (0, 1)] == [PREFERRED, UNCLEAN]
    with pytest.raises(InvalidRequest, match="Unknown election type 2"):
        election_type(2)


def test_every_partition_can_be_asked_for() -> None:
    assert list(all_partitions(image_of(1, (1,), (1,)))) == [TopicPartition("t", 0)]


def test_one_request_elects_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "MAX_RECORDS_PER_COMMAND", 1)
    image = image_of(2, (1, 2), (1, 2))
    results = plan_elections(image, PREFERRED, [TopicPartition("t", 0)] * 2).result
    assert [type(one.error) for one in results] == [type(None), PolicyViolation]
