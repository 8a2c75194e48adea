"""The options of `odradek groups`: those of kafka-consumer-groups.sh, with the combinations that it refuses."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from broker.cli.online import add_connection_options
from broker.cli.options import Parser, check_one_action, has

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
DETAILS = ("members", "offsets", "state")
SCENARIOS = (
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
    "to_earliest",
    "to_latest",
    "to_current",
    "from_file",
)
DEFAULT_TIMEOUT_MS = 5_000
NO_EXECUTION = (
    "WARN: No action will be performed as the --execute option is missing. Add the --dry-run option where that is"
    " what you want."
)


def build_parser() -> Parser:
    """Describe the options."""
    parser = Parser("groups", "List, describe and delete consumer groups; reset and delete their offsets.")
    add_connection_options(parser)
    add = parser.add_argument
    add("--list", action="store_true", help="list all consumer groups")
    add("--describe", action="store_true", help="show offsets and lag of groups, or their members, or their state")
    add("--delete", action="store_true", help="delete groups with their offsets")
    add("--reset-offsets", action="store_true", help="move the offsets of groups without members")
    add("--delete-offsets", action="store_true", help="delete offsets of a group")
    add("--validate-regex", metavar="regex", help="check a regular expression (RE2) as groups subscribe by")
    add("--group", action="append", default=[], metavar="group", help="a group; may be given many times")
    add("--all-groups", action="store_true", help="all consumer groups")
    add("--topic", action="append", default=[], metavar="topic[:0,1]", help="a topic, or partitions of one")
    add("--all-topics", action="store_true", help="all partitions that the group has offsets of")
    add("--offsets", action="store_true", help="with --describe: partitions with offsets and lag, the default")
    add("--members", action="store_true", help="with --describe: the members")
    add("--state", nargs="?", const="", metavar="states", help="with --describe or --list: states, or groups in some")
    add("--type", nargs="?", const="", metavar="types", help="with --list: types, or groups of some")
    add("--verbose", action="store_true", help="with --describe: epochs and assignments as well")
    add("--timeout", type=int, default=DEFAULT_TIMEOUT_MS, metavar="ms", help="how long to wait (default: 5000)")
    add("--dry-run", action="store_true", help="with --reset-offsets: show what would be done, the default")
    add("--execute", action="store_true", help="with --reset-offsets: do it")
    add("--export", action="store_true", help="with --reset-offsets: print CSV that --from-file takes")
    add("--to-offset", type=int, metavar="offset", help="reset to an offset")
    add("--shift-by", type=int, metavar="n", help="reset to n offsets later, or earlier if n is negative")
    add("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="reset to a time, in UTC unless it has a zone")
    add("--by-duration", metavar="PnDTnHnMnS", help="reset to a time so long ago")
    add("--to-earliest", action="store_true", help="reset to where the logs begin")
    add("--to-latest", action="store_true", help="reset to where the logs end")
    add("--to-current", action="store_true", help="reset to what is committed, or to the end where nothing is")
    add("--from-file", metavar="file", help="reset to what stands in a file: topic,partition,offset a line")
    return parser


def parse(arguments: Sequence[str]) -> Namespace:
    """Read a command line. Raises: CommandError."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    options.action = check_one_action(parser, options, *ACTIONS)
    _check_scope(parser, options)
    _check_details(parser, options)
    if options.action == "reset-offsets":
        _check_reset(parser, options)
    return options


def _check_scope(parser: Parser, options: Namespace) -> None:
    action = options.action
    has_groups = bool(options.group) or options.all_groups
    if options.group and options.all_groups:
        parser.error("--group cannot be used with --all-groups")
    if action in ("describe", "delete", "reset-offsets") and not has_groups:
        parser.error(f"{_spelled(action)} takes one of these options: --group, --all-groups")
    if action == "list" and options.group:
        parser.error("--group cannot be used with --list")
    if action == "delete-offsets" and not (len(options.group) == 1 and options.topic):
        parser.error("--delete-offsets takes one --group, and --topic")
    if options.topic and action == "delete":
        parser.error("--delete deletes whole groups; --delete-offsets takes topics")
    if options.topic and action in ("list", "describe"):
        parser.error(f"--topic cannot be used with {_spelled(action)}")


def _check_details(parser: Parser, options: Namespace) -> None:
    describes = options.action == "describe"
    details = [name for name in DETAILS if has(options, name)]
    if describes and len(details) > 1:
        parser.error(f"--describe takes at most one of these options: {', '.join(map(_spelled, DETAILS))}")
    if describes and options.state:
        parser.error("--describe does not take a value for --state")
    for name, actions in (
        ("members", ("describe",)),
        ("offsets", ("describe",)),
        ("verbose", ("describe",)),
        ("state", ("describe", "list")),
        ("type", ("list",)),
    ):
        if has(options, name) and options.action not in actions:
            parser.error(f"{_spelled(name)} goes with {' or '.join(map(_spelled, actions))} only")


def _check_reset(parser: Parser, options: Namespace) -> None:
    if options.dry_run and options.execute:
        parser.error("--reset-offsets only accepts one of --execute and --dry-run")
    scenarios = [name for name in SCENARIOS if has(options, name)]
    if len(scenarios) > 1:
        parser.error(f"{_spelled(scenarios[0])} cannot be used with {_spelled(scenarios[1])}")
    if not scenarios:
        parser.error(f"--reset-offsets requires one of: {', '.join(map(_spelled, SCENARIOS))}")
    if not (options.topic or options.all_topics or options.from_file is not None):
        parser.error("One of the reset scopes should be defined: --all-topics, --topic")
    options.scenario = scenarios[0]


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")
