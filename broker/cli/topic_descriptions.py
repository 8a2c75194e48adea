"""What `odradek topics --describe` prints: a line for each topic, a line for each of its partitions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from broker.cli.errors import CommandError
from broker.cli.output import print_json, print_lines
from broker.cli.progress import Progress
from broker.cli.topic_names import existing
from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.errors import Refused, UnsupportedApi, check
from broker.client.reassignments import Ongoing, reassignments
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from protocol.uuids import ZERO_UUID, format_uuid, parse_uuid

TOPIC_RESOURCE = 2
DEFAULT_CONFIG = 5
MIN_ISR = "min.insync.replicas"
TOPICS_AT_ONCE = 200
"""In one DescribeConfigs request, whose answer has all configs of each topic."""


class Partition(NamedTuple):
    """A partition as it is described; the last two are None where the broker does not tell."""

    number: int
    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None
    last_known_elr: list[int] | None


class Topic(NamedTuple):
    """A topic as it is described, with the configs that are not the default, and all of them."""

    name: str
    topic_id: bytes
    partitions: list[Partition]
    configs: dict[str, str | None]
    min_isr: int


def run(client: Client, options: Namespace) -> None:
    """Print the topics that the options mean."""
    names = _by_id(client, options) if options.topic_id else _by_name(client, options)
    live = set(client.metadata([]).brokers)
    shown = []
    with Progress("describing topics", len(names)) as progress:
        rest = iter(names)
        while some := list(islice(rest, TOPICS_AT_ONCE)):
            topics = list(_topics(client, some, options.partition_size_limit_per_response))
            moves = _moves(client, topics)
            for topic in topics:
                if options.json:
                    shown.append(_as_json(topic, moves, options, live))
                else:
                    print_lines(_as_text(topic, moves, options, live))
            progress.advance(len(some))
    if options.json:
        print_json({"topics": [topic for topic in shown if topic is not None]})


def _by_name(client: Client, options: Namespace) -> list[str]:
    return existing(client, options.topic, with_internal=not options.exclude_internal, may_be_none=options.if_exists)


def _by_id(client: Client, options: Namespace) -> list[str]:
    try:
        wanted = parse_uuid(options.topic_id)
    except ValueError as error:
        raise CommandError(str(error)) from error
    topics = client.metadata().topics.values()
    names = [row.name for row in topics if row.topic_id == wanted and row.name and wanted != ZERO_UUID]
    if not names and not options.if_exists:
        raise CommandError(f"TopicId '{options.topic_id}' does not exist as expected")
    return names


# --- what the broker says


def _topics(client: Client, names: list[str], limit: int) -> Iterator[Topic]:
    partitions = _partitions(client, names, limit)
    resources = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
        for name in names
    ]
    response = client.ask(DescribeConfigsRequest(resources=resources))
    for row in response.results:
        check(row.error_code, row.error_message)
        if row.resource_name not in partitions:
            continue  # it came, or went, between the two questions
        topic_id, found = partitions[row.resource_name]
        values = {config.name: config.value for config in row.configs}
        own = {config.name: config.value for config in row.configs if config.config_source != DEFAULT_CONFIG}
        yield Topic(row.resource_name, topic_id, found, dict(sorted(own.items())), int(values.get(MIN_ISR) or 1))


def _partitions(client: Client, names: list[str], limit: int) -> dict[str, tuple[bytes, list[Partition]]]:
    """Ask for the partitions, page by page, or in one answer where the broker has no pages."""
    try:
        rows = _paged(client, names, limit)
    except UnsupportedApi:
        rows = list(client.metadata(names).topics.values())
    found: dict[str, tuple[bytes, list[Partition]]] = {}
    for row in rows:
        check(row.error_code)
        _, partitions = found.setdefault(row.name, (row.topic_id, []))
        partitions += [
            Partition(
                part.partition_index,
                part.leader_id,
                part.replica_nodes,
                part.isr_nodes,
                getattr(part, "eligible_leader_replicas", None),
                getattr(part, "last_known_elr", None),
            )
            for part in row.partitions
        ]
    for _, partitions in found.values():
        partitions.sort()
    return found


def _paged(client: Client, names: list[str], limit: int) -> list[Any]:
    rows: list[Any] = []
    cursor = None
    while True:
        wanted = [TopicRequest(name=name) for name in names if cursor is None or name >= cursor.topic_name]
        request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=limit, cursor=cursor)
        response = client.ask(request)
        rows += response.topics
        if response.next_cursor is None:
            return rows
        following = response.next_cursor
        cursor = RequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)


def _moves(client: Client, topics: Sequence[Topic]) -> Ongoing:
    try:
        return reassignments(
            client, [TopicPartition(one.name, part.number) for one in topics for part in one.partitions]
        )
    except Refused:
        return {}  # who may describe a topic need not be allowed to see how it moves


# --- what is shown of it


def _is_shown(topic: Topic, partition: Partition, moves: Ongoing, options: Namespace, live: set[int]) -> bool:
    """Tell whether one of the reports asked for has the partition."""
    in_sync = len(partition.isr)
    has_leader = partition.leader >= 0
    return (
        (options.under_replicated_partitions and in_sync < _replication_factor(topic, partition, moves))
        or (options.unavailable_partitions and not (has_leader and partition.leader in live))
        or (options.under_min_isr_partitions and (not has_leader or in_sync < topic.min_isr))
        or (options.at_min_isr_partitions and in_sync == topic.min_isr)
    )


def _replication_factor(topic: Topic, partition: Partition, moves: Ongoing) -> int:
    """Count the replicas that a partition has outside of a reassignment."""
    move = moves.get(TopicPartition(topic.name, partition.number))
    if move is None or not {*move.adding_replicas, *move.removing_replicas} & set(partition.replicas):
        return len(partition.replicas)
    return len(move.replicas) - len(move.adding_replicas)


def _chosen(topic: Topic, moves: Ongoing, options: Namespace, live: set[int]) -> tuple[bool, list[Partition]]:
    """Decide whether a topic's own line is shown, and which of its partitions are."""
    if options.topics_with_overrides:
        return bool(topic.configs), []
    is_report = (
        options.under_replicated_partitions
        or options.unavailable_partitions
        or options.under_min_isr_partitions
        or options.at_min_isr_partitions
    )
    if not is_report:
        return True, topic.partitions
    return False, [part for part in topic.partitions if _is_shown(topic, part, moves, options, live)]


def _as_text(topic: Topic, moves: Ongoing, options: Namespace, live: set[int]) -> Iterator[str]:
    is_head_shown, partitions = _chosen(topic, moves, options, live)
    if is_head_shown:
        topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {format_uuid(topic.topic_id)}"
        factor = _replication_factor(topic, topic.partitions[0], moves) if topic.partitions else 0
        configs = ",".join(f"{name}={value}" for name, value in topic.configs.items())
        yield (
            f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {factor}\tConfigs: {configs}"
        )
    for part in partitions:
        move = moves.get(TopicPartition(topic.name, part.number))
        moving = (
            f"\tAdding Replicas: {_ids(move.adding_replicas)}\tRemoving Replicas: {_ids(move.removing_replicas)}"
            if move
            else ""
        )
        yield (
            f"\tTopic: {topic.name}\tPartition: {part.number}\tLeader: {part.leader if part.leader >= 0 else 'none'}"
            f"\tReplicas: {_ids(part.replicas)}\tIsr: {_ids(part.isr)}{moving}"
            f"\tElr: {_ids(part.elr)}\tLastKnownElr: {_ids(part.last_known_elr)}"
        )


def _ids(brokers: list[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))


def _as_json(topic: Topic, moves: Ongoing, options: Namespace, live: set[int]) -> dict[str, Any] | None:
    is_head_shown, partitions = _chosen(topic, moves, options, live)
    if not is_head_shown and not partitions:
        return None
    rows = []
    for part in partitions:
        move = moves.get(TopicPartition(topic.name, part.number))
        row: dict[str, Any] = {
            "partition": part.number,
            "leader": part.leader if part.leader >= 0 else None,
            "replicas": part.replicas,
            "isr": part.isr,
            "elr": part.elr,
            "lastKnownElr": part.last_known_elr,
        }
        if move:
            row |= {"addingReplicas": move.adding_replicas, "removingReplicas": move.removing_replicas}
        rows.append(row)
    return {
        "topic": topic.name,
        "topicId": format_uuid(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": _replication_factor(topic, topic.partitions[0], moves) if topic.partitions else 0,
        "configs": topic.configs,
        "partitions": rows,
    }
