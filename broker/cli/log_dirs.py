"""`odradek log-dirs`: what lies in the log directories, with the options and the JSON of kafka-log-dirs.sh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.cli.errors import CommandError
from broker.cli.online import add_connection_options, connected
from broker.cli.options import Parser, check_required
from broker.cli.output import print_json
from broker.client.client import Client
from broker.client.errors import check
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult

JAVA_ERRORS = "org.apache.kafka.common.errors."


def run(arguments: Sequence[str]) -> int:
    """Print the directories of the brokers."""
    parser = Parser("log-dirs", "Print the log directories of brokers and the partitions in them, as JSON.")
    add_connection_options(parser)
    parser.add_argument("--describe", action="store_true", help="say so: there is nothing else to do")
    parser.add_argument("--topic-list", default="", metavar="topic,topic", help="only these topics (default: all)")
    parser.add_argument("--broker-list", default="", metavar="id,id", help="only these brokers (default: all)")
    options = parser.parse_args(arguments)
    check_required(parser, options, "describe")
    topics = set(filter(None, options.topic_list.split(",")))
    with connected(options) as client:
        brokers = _brokers(client, options.broker_list)
        # With --json there is only the JSON.
        if not options.json:
            print("Querying brokers for log directories information")
        rows = [{"broker": broker, "logDirs": _log_dirs(client, broker, topics)} for broker in brokers]
    if not options.json:
        print(f"Received log directory information from brokers {_listed(brokers)}")
    print_json({"brokers": rows, "version": 1})
    return 0


def _brokers(client: Client, text: str) -> list[int]:
    """Return the brokers that are meant. Raises: CommandError for one that is not there."""
    known = sorted(client.metadata([]).brokers)
    try:
        wanted = sorted({int(number) for number in text.split(",") if number})
    except ValueError as error:
        raise CommandError(f"--broker-list expects broker ids, but received: {text}") from error
    missing = [broker for broker in wanted if broker not in known]
    if missing:
        raise CommandError(
            f"The given brokers do not exist from --broker-list: {_listed(missing)}. "
            f"Current existent brokers: {_listed(known)}"
        )
    return wanted or known


def _listed(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


def _log_dirs(client: Client, broker: int, topics: set[str]) -> list[dict[str, Any]]:
    response = client.ask_retrying(DescribeLogDirsRequest(topics=None), broker=broker)
    check(response.error_code)
    return [_log_dir(result, topics) for result in sorted(response.results, key=lambda result: result.log_dir)]


def _log_dir(result: DescribeLogDirsResult, topics: set[str]) -> dict[str, Any]:
    rows = [
        (topic.name, row.partition_index, row)
        for topic in result.topics
        if not topics or topic.name in topics
        for row in topic.partitions
    ]
    return {
        "partitions": [
            {
                "partition": f"{topic}-{number}",
                "size": row.partition_size,
                "offsetLag": row.offset_lag,
                "isFuture": row.is_future_key,
            }
            for topic, number, row in sorted(rows, key=lambda row: (row[0], row[1], row[2].is_future_key))
        ],
        "error": _java_error(result.error_code) if result.error_code else None,
        "logDir": result.log_dir,
    }


def _java_error(code: int) -> str:
    """Name an error as Kafka's tool does: by the class of its exception."""
    names = {int(error): error.name for error in ErrorCode}
    words = names.get(code, "UNKNOWN_SERVER_ERROR").removesuffix("_ERROR").split("_")
    return f"{JAVA_ERRORS}{''.join(map(str.capitalize, words))}Exception"
