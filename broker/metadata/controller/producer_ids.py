"""Producer id blocks: the log keeps only the next free id, so a block lost in a crash is never given out again.

Source: ProducerIdControlManager, KIP-730.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.metadata.controller.plan import Plan
from broker.metadata.image import ClusterImage
from protocol.stored.cluster import ProducerIdsRecord

BLOCK_SIZE = 1_000


class ProducerIdBlock(NamedTuple):
    """Ids from `first` on, `size` of them."""

    first: int
    size: int


def plan_allocate_block(image: ClusterImage, broker_id: int) -> Plan[ProducerIdBlock]:
    """Plan the allocation of the next block to `broker_id`."""
    first = max(0, image.next_producer_id)
    broker = image.brokers.get(broker_id)
    record = ProducerIdsRecord(
        broker_id=broker_id,
        broker_epoch=-1 if broker is None else broker.epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    return Plan([record], ProducerIdBlock(first, BLOCK_SIZE))
