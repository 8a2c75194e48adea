"""`odradek delete-records`: delete records below an offset, with the options of kafka-delete-records.sh.

The file is `{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 5}]}`; -1 is the end of the log.
Deliberate difference: the status is 1 if a partition refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from broker.cli.errors import CommandError
from broker.cli.online import add_connection_options, connected
from broker.cli.options import Parser, check_required
from broker.cli.output import print_json
from broker.cli.partition_files import read_rows
from broker.client.client import Client, Result
from broker.client.cluster import TopicPartition
from broker.client.errors import Refused
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

TIMEOUT_MS = 30_000

Done = dict[TopicPartition, tuple[Refused | None, int | None]]


def run(arguments: Sequence[str]) -> int:
    """Delete what the file says, and print where each partition begins now."""
    parser = Parser("delete-records", "Delete the records of partitions that lie below given offsets.")
    add_connection_options(parser)
    parser.add_argument("--offset-json-file", metavar="file", help="the partitions with their offsets")
    options = parser.parse_args(arguments)
    check_required(parser, options, "offset-json-file")
    offsets = _read(options.offset_json_file)
    with connected(options) as client:
        if not options.json:
            print("Executing records delete operation")
        done = _delete(client, offsets)
    if options.json:
        print_json({"partitions": [_as_json(partition, *result) for partition, result in sorted(done.items())]})
    else:
        print("Records delete operation completed:")
        for partition, (refused, low) in sorted(done.items()):
            print(f"partition: {partition}\t{f'error: {refused}' if refused else f'low_watermark: {low}'}")
    return 1 if any(refused for refused, _ in done.values()) else 0


def _delete(client: Client, offsets: dict[TopicPartition, int]) -> Done:
    def build(led: list[TopicPartition]) -> DeleteRecordsRequest:
        topics: dict[str, DeleteRecordsTopic] = {}
        for partition in led:
            topic = topics.setdefault(partition.topic, DeleteRecordsTopic(name=partition.topic))
            row = DeleteRecordsPartition(partition_index=partition.partition, offset=offsets[partition])
            topic.partitions.append(row)
        return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=TIMEOUT_MS)

    return client.ask_leaders(offsets, build, _results)


def _results(response: DeleteRecordsResponse) -> Iterator[Result[int]]:
    for topic in response.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row.error_code, row.low_watermark


def _as_json(partition: TopicPartition, refused: Refused | None, low: int | None) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": partition.topic, "partition": partition.partition}
    return row | ({"error": refused.message} if refused else {"lowWatermark": low})


def _read(path: str) -> dict[TopicPartition, int]:
    """Read the file. Raises: CommandError for what is not as it should be."""
    offsets: dict[TopicPartition, int] = {}
    for row in read_rows(path):
        try:
            partition, offset = TopicPartition(str(row["topic"]), int(row["partition"])), int(row["offset"])
        except (KeyError, TypeError, ValueError) as error:
            raise CommandError(f"{path}: expected topic, partition and offset in {row}") from error
        if partition in offsets:
            raise CommandError(f"Offset json file contains duplicate topic partitions: {partition}")
        offsets[partition] = offset
    return offsets
