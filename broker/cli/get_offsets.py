"""`odradek get-offsets`: offsets of partitions at a time, with the options of kafka-get-offsets.sh.

Partitions come in the order of their text, as there: `t:10` before `t:2`. What has no offset at that time is left out.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

from broker.cli.errors import CommandError
from broker.cli.online import add_connection_options, connected
from broker.cli.options import Parser
from broker.cli.output import print_json, print_lines
from broker.cli.topic_names import TopicFilter
from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.log_offsets import EARLIEST, LATEST, NO_OFFSET, log_offsets

TIMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Wanted = Callable[[TopicPartition], bool]


def run(arguments: Sequence[str]) -> int:
    """Print the offsets."""
    parser = _parser()
    options = parser.parse_args(arguments)
    timestamp = _timestamp(options.time)
    wanted = _wanted(options)
    with connected(options) as client:
        cluster = client.metadata()
        partitions = [
            partition
            for name, topic in cluster.topics.items()
            if not (options.exclude_internal_topics and topic.is_internal)
            for partition in cluster.partitions_of(name)
            if wanted(partition)
        ]
        if not partitions:
            raise CommandError("Could not match any topic-partitions with the specified filters")
        found = _offsets(client, partitions, timestamp)
    rows = sorted(found.items(), key=lambda row: str(row[0]))
    if options.json:
        keys = ("topic", "partition", "offset")
        print_json({"offsets": [dict(zip(keys, (*partition, offset), strict=True)) for partition, offset in rows]})
    else:
        print_lines(f"{partition.topic}:{partition.partition}:{offset}" for partition, offset in rows)
    return 0


def _parser() -> Parser:
    parser = Parser("get-offsets", "Print offsets of partitions: the ends, the beginnings, or those at a time.")
    add_connection_options(parser, bootstrap_aliases=("--broker-list",))
    add = parser.add_argument
    add("--topic", metavar="name", help="the topic, or a regular expression (default: all)")
    add("--partitions", metavar="0,1", help="the partitions (default: all)")
    add("--topic-partitions", metavar="t1:0,t2:1-3,t3", help="rules instead: topic, partition or range of them")
    add(
        "--time",
        default="latest",
        metavar="time",
        help=f"milliseconds since 1970, or one of {', '.join(f'{name} ({number})' for name, number in TIMES.items())}",
    )
    add("--exclude-internal-topics", action="store_true", help="leave out the broker's own topics")
    return parser


def _timestamp(text: str) -> int:
    try:
        return TIMES[text] if text in TIMES else int(text)
    except ValueError as error:
        names = ", ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise CommandError(f"Malformed time argument {text}: expected {names}, or a timestamp") from error


# --- which partitions


def _wanted(options: Namespace) -> Wanted:
    if options.topic_partitions is not None:
        if options.topic is not None or options.partitions is not None:
            raise CommandError("--topic-partitions cannot be used with --topic or --partitions")
        rules = [_rule(text) for text in options.topic_partitions.split(",")]
        return lambda partition: any(rule(partition) for rule in rules)
    topics = TopicFilter(options.topic)
    numbers = _numbers(options.partitions)
    return lambda partition: topics.matches(partition.topic) and (not numbers or partition.partition in numbers)


def _rule(text: str) -> Wanted:
    found = RULE.fullmatch(text)
    if found is None:
        raise CommandError(f"Invalid rule specification: {text}")
    topics = TopicFilter(found[1] or None)
    if found[2]:
        only = int(found[2])
        return lambda partition: partition.partition == only and topics.matches(partition.topic)
    first, end = int(found[3] or 0), int(found[4] or 1 << 31)
    return lambda partition: first <= partition.partition < end and topics.matches(partition.topic)


def _numbers(text: str | None) -> set[int]:
    try:
        return {int(number) for number in text.split(",")} if text else set()
    except ValueError as error:
        raise CommandError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from error


# --- their offsets


def _offsets(client: Client, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = {}
    for partition, (refused, offset) in log_offsets(client, dict.fromkeys(partitions, timestamp)).items():
        if refused is not None:
            print(f"Skip getting offsets for topic-partition {partition} due to error: {refused}", file=sys.stderr)
        elif offset is not None and offset != NO_OFFSET:
            found[partition] = offset
    return found
