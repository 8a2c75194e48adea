"""Which replicas count, and how far the high watermark may go. Pure.

Source: KIP-497; Partition.maybeIncrementLeaderHW.
"""

from __future__ import annotations

from broker.partition.errors import NotEnoughReplicas
from storage.types import TopicPartition


def high_watermark(isr: tuple[int, ...], node_id: int, current: int, log_end_offset: int) -> int:
    """Give the offset below which every in-sync replica has all records.

    With this broker as the only member that is its own log end. Another member has acknowledged nothing here, so the
    high watermark stays where it is.
    """
    return log_end_offset if isr == (node_id,) else current


def ensure_enough(isr: tuple[int, ...], min_insync_replicas: int, replica_count: int, tp: TopicPartition) -> None:
    """Hold acks=all to min.insync.replicas; a setting above the replica count asks for all of them, as in Kafka.

    Raises: NotEnoughReplicas.
    """
    required = min(min_insync_replicas, replica_count)
    if len(isr) < required:
        raise NotEnoughReplicas(
            f"The size of the current ISR Set({', '.join(map(str, isr))}) is insufficient to satisfy the "
            f"min.isr requirement of {required} for partition {tp}"
        )
