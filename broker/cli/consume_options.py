"""The options of `odradek consume`: those of kafka-console-consumer.sh, with the combinations that it refuses."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from broker.cli.errors import CommandError
from broker.cli.online import add_connection_options, read_property_file
from broker.cli.options import Parser, key_values, whole_number
from broker.cli.record_format import TextFormat, json_format, no_format
from broker.client.consumer import Start, time_of
from broker.client.errors import ClientError
from broker.client.fetching import READ_COMMITTED, READ_UNCOMMITTED, Consumed
from broker.client.log_offsets import EARLIEST, LATEST

ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
NAMED_OFFSETS = {"earliest": EARLIEST, "latest": LATEST}
DEFAULT_FORMATTER = "DefaultMessageFormatter"
NO_FORMATTER = "NoOpMessageFormatter"


class Plan(NamedTuple):
    """What the options come to."""

    group: str | None
    start: Start
    isolation_level: int
    commits: bool
    render: Callable[[Consumed], bytes]


def build_parser() -> Parser:
    """Describe the options."""
    parser = Parser("consume", "Write the records of a topic to standard output.")
    add_connection_options(parser, "--consumer-config", "--consumer.config")
    add = parser.add_argument
    add("--topic", metavar="topic", help="the topic to read")
    add("--include", metavar="regex", help="read all topics whose names match a regular expression (RE2)")
    add("--partition", type=int, metavar="n", help="read one partition only, from its end unless --offset is given")
    add("--offset", metavar="offset", help="with --partition: an offset, 'earliest' or 'latest'")
    add("--from-beginning", action="store_true", help="begin with the earliest record where no offset is committed")
    add("--max-messages", type=int, metavar="n", help="end after so many records")
    add("--timeout-ms", type=int, metavar="ms", help="end when no record comes for so long")
    add("--group", metavar="group", help="read as a member of a group, and commit")
    add("--isolation-level", choices=ISOLATION_LEVELS, help="read_committed leaves out what was not committed")
    add(
        "--formatter",
        default=DEFAULT_FORMATTER,
        metavar="class",
        help="DefaultMessageFormatter or NoOpMessageFormatter",
    )
    for names, text in (
        (("--formatter-property", "--property"), "print.key, print.timestamp, print.offset, key.separator and so on"),
        (("--command-property", "--consumer-property"), "group.id, auto.offset.reset, isolation.level and so on"),
    ):
        dest = names[0].removeprefix("--").replace("-", "_")
        add(*names, dest=dest, action="append", default=[], metavar="key=value", help=text)
    add("--formatter-config", metavar="file", help="properties of the formatter in a file")
    add("--key-deserializer", metavar="class", help="how keys are read: LongDeserializer, for example")
    add("--value-deserializer", metavar="class", help="how values are read")
    add("--skip-message-on-error", action="store_true", help="leave out records that cannot be written")
    return parser


def parse(arguments: Sequence[str]) -> tuple[Namespace, Plan]:
    """Read a command line. Raises: CommandError."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    properties = {
        **read_property_file(options.command_config),
        **key_values("--command-property", options.command_property),
    }
    group = _group(parser, options, properties)
    _check(parser, options, group)
    plan = Plan(
        group,
        _start(parser, options, properties),
        _isolation_level(options, properties),
        properties.get("enable.auto.commit", "true").strip().lower() == "true",
        _format(options),
    )
    return options, plan


def _check(parser: Parser, options: Namespace, group: str | None) -> None:
    if (options.topic is None) == (options.include is None):
        parser.error("Exactly one of the following arguments is required: --topic, --include")
    if options.partition is None and options.offset is not None:
        parser.error("The partition is required when offset is specified")
    if options.partition is not None and options.topic is None:
        parser.error("The topic is required when partition is specified")
    if options.from_beginning and options.offset is not None:
        parser.error("Options from-beginning and offset cannot be specified together")
    if options.partition is not None and group is not None:
        parser.error("Options group and partition cannot be specified together")


def _group(parser: Parser, options: Namespace, properties: Mapping[str, str]) -> str | None:
    groups = {name for name in (options.group, properties.get("group.id")) if name is not None}
    if len(groups) > 1:
        parser.error(f"The group ids provided in different places do not match: {', '.join(sorted(groups))}")
    return groups.pop() if groups else None


def _start(parser: Parser, options: Namespace, properties: Mapping[str, str]) -> Start:
    if options.offset is not None and options.offset not in NAMED_OFFSETS:
        offset = whole_number(options.offset)
        if offset is None:
            parser.error(
                f"The provided offset value '{options.offset}' is incorrect. Valid values are 'earliest', 'latest',"
                " or a non-negative long"
            )
        return Start(EARLIEST, offset)
    if options.offset is not None:
        return Start(NAMED_OFFSETS[options.offset])
    policy = properties.get("auto.offset.reset")
    if policy is None:
        return Start(EARLIEST if options.from_beginning else LATEST)
    if options.from_beginning and policy != "earliest":
        parser.error(f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={policy}'")
    try:
        return Start(time_of(policy))
    except ClientError as error:
        raise CommandError(error.message) from error


def _isolation_level(options: Namespace, properties: Mapping[str, str]) -> int:
    name = options.isolation_level or properties.get("isolation.level", "read_uncommitted")
    if name not in ISOLATION_LEVELS:
        raise CommandError(
            f"Invalid value {name[:80]} for configuration isolation.level: expected {' or '.join(ISOLATION_LEVELS)}"
        )
    return ISOLATION_LEVELS[name]


def _format(options: Namespace) -> Callable[[Consumed], bytes]:
    if options.json:
        return json_format
    formatter = options.formatter.rpartition(".")[2]
    if formatter == NO_FORMATTER:
        return no_format
    if formatter != DEFAULT_FORMATTER:
        raise CommandError(
            f"Unknown formatter {options.formatter[:120]}: there are {DEFAULT_FORMATTER} and {NO_FORMATTER};"
            " `odradek dump-log` shows what stands in internal topics"
        )
    properties = {
        **read_property_file(options.formatter_config),
        **key_values("--formatter-property", options.formatter_property),
    }
    for name in ("key", "value"):
        given = getattr(options, f"{name}_deserializer")
        if given is not None:
            properties[f"{name}.deserializer"] = given
    return TextFormat(properties)
