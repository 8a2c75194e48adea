"""UnregisterBroker as a plan on an image: brokers of a former cluster are forgotten; pure.

Source: ReplicationControlManager.unregisterBroker, handleBrokerUnregistered.
"""

from __future__ import annotations

from broker.metadata.controller.plan import Plan
from broker.metadata.errors import BrokerIdNotRegistered, InvalidRequest
from broker.metadata.image import NO_LEADER, ClusterImage, PartitionDelta, partitions_of
from protocol.stored.cluster import PartitionChangeRecord, UnregisterBrokerRecord


def plan_unregister_broker(image: ClusterImage, broker_id: int, node_id: int) -> Plan[None]:
    """Plan the removal of a broker that is away: it is in sync nowhere any more, and leads nothing.

    Raises: BrokerIdNotRegistered; InvalidRequest for this broker, without which nothing would be left.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
    if broker_id == node_id:
        raise InvalidRequest(
            f"Broker ID {broker_id} is the broker that serves this cluster; only brokers that are gone can be removed."
        )
    records: list[object] = [
        _without(placed, broker_id)
        for topic in image.topics_by_name.values()
        for placed in partitions_of(topic)
        if broker_id == placed.image.leader or (broker_id in placed.image.isr and len(placed.image.isr) > 1)
    ]
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
    return Plan(records, None)


def _without(placed: PartitionDelta, broker_id: int) -> PartitionChangeRecord:
    """Let a replica go out of sync; the last one stays, since nobody else has the records."""
    topic, number, partition = placed
    change = PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id)
    others = [member for member in partition.isr if member != broker_id]
    if others and len(others) < len(partition.isr):
        change.isr = others
    if partition.leader == broker_id:
        change.leader = NO_LEADER
    return change
