"""Creating topics, giving them more partitions, deleting them."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from broker.cli.errors import CommandError
from broker.cli.output import print_json
from broker.cli.topic_names import existing
from broker.client.client import Client
from broker.client.errors import check
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

TIMEOUT_MS = 30_000
MAX_REPLICATION_FACTOR = 32767
CHOSEN_BY_THE_BROKER = -1


def create(client: Client, options: Namespace) -> None:
    """Create the topic."""
    if options.replication_factor is not None and not 1 <= options.replication_factor <= MAX_REPLICATION_FACTOR:
        raise CommandError(f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive")
    if options.partitions is not None and options.partitions < 1:
        raise CommandError("The partitions must be greater than 0")
    topic = CreatableTopic(
        name=options.topic,
        num_partitions=options.partitions or CHOSEN_BY_THE_BROKER,
        replication_factor=options.replication_factor or CHOSEN_BY_THE_BROKER,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(_assignment(options.replica_assignment))
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in map(_config, options.config)],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    [row] = client.ask_retrying(request, broker=client.controller(), codes=_codes_of("topics")).topics
    exists_already = row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    if not (exists_already and options.if_not_exists):
        check(row.error_code, row.error_message)
    if options.json:
        print_json({"topic": options.topic, "created": not exists_already})
    elif not exists_already:
        print(f"Created topic {options.topic}.")


def alter(client: Client, options: Namespace) -> None:
    """Give the topics more partitions."""
    names = existing(client, options.topic, may_be_none=options.if_exists)
    assignment = _assignment(options.replica_assignment)
    if names:
        cluster = client.metadata(names)
        topics = [
            CreatePartitionsTopic(
                name=name,
                count=options.partitions,
                # What is there already is skipped: the option names all partitions, the request only the new ones.
                assignments=[
                    CreatePartitionsAssignment(broker_ids=brokers)
                    for brokers in assignment[len(cluster.partitions_of(name)) :]
                ]
                if assignment
                else None,
            )
            for name in names
        ]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        response = client.ask_retrying(request, broker=client.controller(), codes=_codes_of("results"))
        for row in response.results:
            check(row.error_code, row.error_message)
    if options.json:
        print_json({"topics": names, "partitions": options.partitions})


def delete(client: Client, options: Namespace) -> None:
    """Delete the topics."""
    names = existing(client, options.topic, may_be_none=options.if_exists)
    if names:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], topic_names=names, timeout_ms=TIMEOUT_MS
        )
        response = client.ask_retrying(request, broker=client.controller(), codes=_codes_of("responses"))
        for row in response.responses:
            check(row.error_code, row.error_message)
    if options.json:
        print_json({"deleted": names})


def _codes_of(field: str) -> Any:
    """Find the error codes of a response that has one for each topic."""
    return lambda response: [row.error_code for row in getattr(response, field)]


def _config(text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name or not value:
        raise CommandError('Invalid topic config: all configs to be added must be in the format "key=val".')
    return name, value


def _assignment(text: str | None) -> list[list[int]]:
    """Take `0:1,1:0` apart: the brokers of each partition, the first of which should lead."""
    assignment: list[list[int]] = []
    for index, part in enumerate((text or "").split(",")) if text else ():
        try:
            brokers = [int(broker) for broker in part.split(":")]
        except ValueError as error:
            raise CommandError(f"Invalid replica assignment {text}: expected broker ids, as in 1:2,2:1") from error
        if len(set(brokers)) != len(brokers):
            raise CommandError(f"Partition replica lists may not contain duplicate entries: {part}")
        if assignment and len(brokers) != len(assignment[0]):
            raise CommandError(f"Partition {index} has different replication factor: {brokers}")
        assignment.append(brokers)
    return assignment
