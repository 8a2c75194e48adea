"""Brokers of a former cluster are forgotten: nothing counts on them any more."""

from __future__ import annotations

import pytest

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller.unregistration import plan_unregister_broker
from broker.metadata.errors import BrokerIdNotRegistered, InvalidRequest
from broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from tests.harness.hosted import broker_image

ID = bytes([5]) * 16


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(leader, 4, 7, replicas, isr, (bytes(16),) * len(replicas))


IMAGE_TOPIC = TopicImage(
    "t",
    ID,
    (partition(1, (1, 2), (1, 2)), partition(2, (2, 1), (2, 1)), partition(2, (2,), (2,)), partition(1, (1,), (1,))),
)
IMAGE = ClusterImage(
    "c",
    topics_by_name={"t": IMAGE_TOPIC},
    topics_by_id={ID: IMAGE_TOPIC},
    brokers={1: broker_image(1), 2: broker_image(2)._replace(fenced=True)},
    end_offset=9,
)


def test_a_broker_that_is_gone_leads_nothing_and_is_in_sync_only_where_it_is_the_last() -> None:
    plan = plan_unregister_broker(IMAGE, 2, node_id=1)
    draft = MetadataDraft(IMAGE)
    for offset, record in enumerate(plan.records, IMAGE.end_offset):
        draft.replay(record, offset)
    after, delta = draft.finish(end_offset=20, epoch=1, timestamp_ms=0)
    assert list(after.brokers) == [1]
    partitions = after.topics_by_name["t"].partitions
    assert [(one.leader, one.isr) for one in partitions] == [(1, (1,)), (NO_LEADER, (1,)), (NO_LEADER, (2,)), (1, (1,))]
    assert [one.partition for one in delta.changed_partitions] == [0, 1, 2]


def test_refusals() -> None:
    with pytest.raises(BrokerIdNotRegistered, match="Broker ID 7 is not currently registered"):
        plan_unregister_broker(IMAGE, 7, node_id=1)
    with pytest.raises(InvalidRequest, match="Broker ID 1 is the broker that serves this cluster"):
        plan_unregister_broker(IMAGE, 1, node_id=1)
