"""`odradek consume …`: records of topics on standard output, with the options of kafka-console-consumer.sh.

With `--group` it is a member of that group and commits what it has written. Ctrl-C and SIGTERM end it properly.
"""

from __future__ import annotations

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from broker.cli.consume_options import Plan, parse
from broker.cli.errors import CommandError
from broker.cli.online import connected
from broker.cli.output import write_all
from broker.cli.record_format import UnreadableRecord
from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.consumer import Consumer, Fixed, Source, Topics
from broker.client.fetching import Consumed
from broker.client.membership import Membership
from broker.client.settings import Settings
from config.regex import InvalidExpression, compiled

POLL_S = 0.5


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options, plan = parse(arguments)
    with Ending() as ending, connected(options, Settings(client_id="console-consumer")) as client:
        count = Counter()
        try:
            _consume(_consumer(client, options, plan), options, plan, count, ending)
        finally:
            print(f"Processed a total of {count.written} messages", file=sys.stderr)
        return ending.status


class Ending:
    """Waits for a signal to end. The first is seen between two polls, where it is known what was written.

    The second ends everything at once.
    """

    def __init__(self) -> None:
        self.status = 0  # of a process that a signal has ended; changed by the first one
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Ending:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on_signal(self, number: int, _: object) -> None:
        if self.status:
            raise SystemExit(self.status)
        self.status = 128 + number


class Counter:
    """How many records were written."""

    def __init__(self) -> None:
        self.written = 0  # changed by whoever writes


def _consume(consumer: Consumer, options: Namespace, plan: Plan, count: Counter, ending: Ending) -> None:
    silent_since_s = time.monotonic()
    timeout_s = None if options.timeout_ms is None else options.timeout_ms / 1000
    try:
        while not ending.status and (options.max_messages is None or count.written < options.max_messages):
            found = consumer.poll(POLL_S if timeout_s is None else min(POLL_S, timeout_s))
            if found:
                left = None if options.max_messages is None else options.max_messages - count.written
                _write(found[:left], plan.render, options.skip_message_on_error, consumer, count)
                silent_since_s = time.monotonic()
            elif timeout_s is not None and time.monotonic() - silent_since_s >= timeout_s:
                return
    finally:
        consumer.close()


def _write(
    found: Sequence[Consumed],
    render: Callable[[Consumed], bytes],
    skips_errors: bool,
    consumer: Consumer,
    count: Counter,
) -> None:
    """Write records; what has reached whoever reads, and nothing else, counts as taken."""
    lines = bytearray()
    done: list[Consumed] = []
    failure: CommandError | None = None
    for consumed in found:
        try:
            lines += render(consumed)
        except UnreadableRecord as error:
            reason = f"cannot read a record of {consumed.partition} at offset {consumed.record.offset}: {error}"
            if not skips_errors:
                failure = CommandError(reason)
                break
            print(f"odradek: {reason}", file=sys.stderr)
        done.append(consumed)
    write_all(lines)
    for consumed in done:
        consumer.took(consumed)
    count.written += len(done)
    if failure is not None:
        raise failure


def _consumer(client: Client, options: Namespace, plan: Plan) -> Consumer:
    settings: dict[str, Any] = {
        "isolation_level": plan.isolation_level,
        "commits": plan.commits,
        "on_lost": lambda failure: print(f"odradek: {failure.message}; trying again", file=sys.stderr),
    }
    source: Source
    if options.partition is not None:
        source = Fixed(TopicPartition(options.topic, options.partition))
    else:
        source = Topics(client, options.topic, _accepts(options.include))
    if plan.group is not None:
        settings["membership"] = Membership(client, plan.group, topic=options.topic, regex=options.include)
    return Consumer(client, source, plan.start, **settings)


def _accepts(expression: str | None) -> Callable[[str], bool]:
    if expression is None:
        return lambda name: False
    try:
        pattern = compiled(expression)
    except InvalidExpression as invalid:
        raise CommandError(f"Invalid regular expression {expression[:80]!r}: {invalid}") from invalid
    return lambda name: pattern.fullmatch(name) is not None
