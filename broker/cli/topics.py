"""`odradek topics`: list, create, describe, change and delete topics, with the options of kafka-topics.sh.

Deliberate differences: what fails is one line on standard error; described topics are sorted by name, their configs by
key; there is no warning about dots and underscores, whose clashes the broker refuses itself.
"""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Sequence

from broker.cli.imports import imported
from broker.cli.online import add_connection_options, connected
from broker.cli.options import Parser, check_apart, check_fits, check_one_action, check_required
from broker.cli.output import print_json, print_lines
from broker.cli.topic_names import matching

ACTIONS = ("list", "describe", "create", "alter", "delete")
REPORTS = {
    "under-replicated-partitions": "partitions with fewer replicas in sync than they have",
    "unavailable-partitions": "partitions without a leader",
    "under-min-isr-partitions": "partitions with fewer replicas in sync than min.insync.replicas",
    "at-min-isr-partitions": "partitions with just as many replicas in sync as min.insync.replicas",
}
FITTING = {
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    "topic-id": ("describe",),
    "topics-with-overrides": ("describe",),
    **dict.fromkeys(REPORTS, ("describe",)),
}


def run(arguments: Sequence[str]) -> int:
    """Do what the options say."""
    parser = _parser()
    options = parser.parse_args(arguments)
    action = check_one_action(parser, options, *ACTIONS)
    if action not in ("list", "describe"):
        check_required(parser, options, "topic")
    if options.config and action != "create":
        parser.error(f'Option "[config]" can\'t be used with option "[{action}]"; `odradek configs` changes configs')
    if action == "alter":
        check_required(parser, options, "partitions")
    check_fits(parser, options, action, FITTING)
    if action == "create":
        check_apart(parser, options, "replica-assignment", "partitions", "replication-factor")
    check_apart(parser, options, "topics-with-overrides", *REPORTS)
    with connected(options) as client:
        if action == "list":
            names = matching(client.metadata(), options.topic, with_internal=not options.exclude_internal)
            print_json({"topics": names}) if options.json else print_lines(names or [""])
        elif action == "describe":
            imported("broker.cli.topic_descriptions").run(client, options)
        else:
            # Each needs messages of its own, which are not loaded for nothing.
            getattr(imported("broker.cli.topic_changes"), action)(client, options)
    return 0


def _parser() -> Parser:
    parser = Parser("topics", "List, create, describe, change and delete topics.")
    add_connection_options(parser)
    add = parser.add_argument
    add("--list", action="store_true", help="print the names of topics")
    add("--describe", action="store_true", help="print topics with their partitions and configs")
    add("--create", action="store_true", help="create a topic")
    add("--alter", action="store_true", help="give topics more partitions")
    add("--delete", action="store_true", help="delete topics")
    add("--topic", metavar="name", help="the topic; but for --create, a regular expression will do")
    add("--topic-id", metavar="id", help="the topic to describe, by its id")
    add("--partitions", type=int, metavar="number", help="how many partitions (default: the broker's num.partitions)")
    add("--replication-factor", type=int, metavar="number", help="how many replicas of each partition")
    add("--replica-assignment", metavar="id:id,id:id", help="the brokers of each partition, in place of these two")
    add("--config", action="append", default=[], metavar="key=value", help="a config of the new topic; many times")
    add("--if-not-exists", action="store_true", help="with --create: a topic that exists is no failure")
    add("--if-exists", action="store_true", help="with --describe, --alter, --delete: no such topic is no failure")
    add("--exclude-internal", action="store_true", help="leave out the broker's own topics")
    add("--topics-with-overrides", action="store_true", help="describe only topics with configs of their own")
    for name, text in REPORTS.items():
        add(f"--{name}", action="store_true", help=f"describe only {text}")
    add("--partition-size-limit-per-response", type=int, default=2000, metavar="number", help=SUPPRESS)
    add("--delete-config", help=SUPPRESS)  # Kafka's tool ignores it as well
    return parser
