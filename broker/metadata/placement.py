"""Where replicas of new partitions go: brokers and log directories; pure.

On one node this chooses nothing, but the refusals are Kafka's: a factor that cannot be reached, a manual assignment
that names brokers nobody knows. A broker with one log directory gets its partitions assigned there at once; with
several the directory stays unassigned until the broker's log manager has chosen and reported it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from broker.metadata.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from broker.metadata.image import BrokerImage, PartitionImage
from protocol.uuids import ZERO_UUID

UNASSIGNED_DIR = ZERO_UUID


def place_replicas(
    brokers: Mapping[int, BrokerImage], partitions: int, replication_factor: int, full: Container[int] = ()
) -> list[list[int]]:
    """Return the replicas of each new partition, the leader first; `full` brokers get none.

    Raises InvalidReplicationFactor.
    """
    usable = [broker.broker_id for _, broker in sorted(brokers.items()) if broker.broker_id not in full]
    alive = [broker_id for broker_id in usable if not brokers[broker_id].fenced]
    if not alive:
        raise InvalidReplicationFactor("All brokers are currently fenced, or have all their log directories cordoned.")
    if replication_factor > len(usable):
        raise InvalidReplicationFactor(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    return [
        [alive[(first + step) % len(alive)] for step in range(min(replication_factor, len(alive)))]
        for first in range(partitions)
    ]


def check_assignment(brokers: Mapping[int, BrokerImage], replicas: Sequence[int], expected_size: int | None) -> None:
    """Raise InvalidReplicaAssignment unless `replicas` may host one partition beside others of `expected_size`."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    unknown = next((broker for broker in sorted(replicas) if broker not in brokers), None)
    if unknown is not None:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes broker {unknown}, but no such broker is registered."
        )
    if len(set(replicas)) != len(replicas):
        twice = next(broker for broker in sorted(replicas) if list(replicas).count(broker) > 1)
        raise InvalidReplicaAssignment(f"The manual partition assignment includes the broker {twice} more than once.")
    if expected_size is not None and len(replicas) != expected_size:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected_size} replica(s)."
        )


def new_partition(brokers: Mapping[int, BrokerImage], replicas: Sequence[int]) -> PartitionImage | None:
    """Return a partition as it starts life: first live replica leads at epoch 0; None when none is alive."""
    isr = tuple(broker for broker in replicas if not brokers[broker].fenced)
    if not isr:
        return None
    return PartitionImage(
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        replicas=tuple(replicas),
        isr=isr,
        directories=tuple(default_dir(brokers[broker]) for broker in replicas),
    )


def default_dir(broker: BrokerImage) -> bytes:
    """Return the directory a new replica on `broker` certainly lands in, or UNASSIGNED_DIR while it is open."""
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED_DIR
