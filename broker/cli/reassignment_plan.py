"""The file of `odradek reassign-partitions`: which brokers and which of their directories shall have which partitions.

    {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/disk2"]}]}

"any" in place of a directory leaves it to the broker, and so does a partition without `log_dirs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.cli.errors import CommandError
from broker.cli.partition_files import VERSION, read_rows
from broker.client.cluster import TopicPartition

ANY_LOG_DIR = "any"


class Replica(NamedTuple):
    """A partition on a broker; sorts as Kafka's tool prints it."""

    broker: int
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.partition}-{self.broker}"


class Plan(NamedTuple):
    """Who shall have the partitions, and where, for those replicas whose directory matters."""

    replicas: dict[TopicPartition, list[int]]
    log_dirs: dict[Replica, str]

    @property
    def topics(self) -> list[str]:
        """Return the topics of the plan, sorted."""
        return sorted({partition.topic for partition in self.replicas})


def read_plan(path: str) -> Plan:
    """Read the file. Raises: CommandError for what is not as it should be."""
    plan = Plan({}, {})
    for row in read_rows(path):
        try:
            _add(plan, row)
        except (KeyError, TypeError, ValueError) as error:
            raise CommandError(f"{path}: expected topic, partition and replicas in {row}") from error
    if not plan.replicas:
        raise CommandError("Partition reassignment list cannot be empty")
    return plan


def _add(plan: Plan, row: Any) -> None:
    partition = TopicPartition(str(row["topic"]), int(row["partition"]))
    replicas = [int(broker) for broker in row["replicas"]]
    log_dirs = [str(path) for path in row.get("log_dirs", [ANY_LOG_DIR] * len(replicas))]
    if not replicas:
        raise CommandError("Partition replica list cannot be empty")
    if len(log_dirs) != len(replicas):
        raise CommandError(
            f"Size of replicas list {replicas} is different from size of log dirs list {log_dirs} "
            f"for partition {partition}"
        )
    if len(set(replicas)) != len(replicas):
        raise CommandError(f"Partition replica lists may not contain duplicate entries: {partition} {replicas}")
    if partition in plan.replicas:
        raise CommandError(f"Partition reassignment contains duplicate topic partitions: {partition}")
    plan.replicas[partition] = replicas
    for broker, path in zip(replicas, log_dirs, strict=True):
        if path != ANY_LOG_DIR:
            plan.log_dirs[Replica(broker, partition)] = path


def plan_text(replicas: Mapping[TopicPartition, list[int]], log_dirs: Mapping[Replica, str | None]) -> str:
    """Write a plan as the tool of Kafka writes it; a directory that is not known is left to the broker."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": brokers,
            "log_dirs": [log_dirs.get(Replica(broker, partition)) or ANY_LOG_DIR for broker in brokers],
        }
        for partition, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": VERSION, "partitions": rows}, separators=(",", ":"))
