"""`odradek consume …`: records of topics on standard output, with the options of kafka-console-consumer.sh.

With `--group` it is a member of that group and commits what it has written. Ctrl-C and SIGTERM end it properly.
"""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from broker.cli.consume_options import Plan, parse
from broker.cli.errors import CommandError
from broker.cli.online import connected
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
    signal.signal(signal.SIGTERM, _on_term)
    count = Counter()
    try:
        with connected(options, Settings(client_id="console-consumer")) as client:
            _consume(client, options, plan, count)
    finally:
        print(f"Processed a total of {count.written} messages", file=sys.stderr)
    return 0


class Counter:
    """How many records were written."""

    def __init__(self) -> None:
        self.written = 0  # changed by whoever writes


def _on_term(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _consume(client: Client, options: Namespace, plan: Plan, count: Counter) -> None:
    consumer = _consumer(client, options, plan)
    now_s = client.settings.now_s
    silent_since_s = now_s()
    try:
        while options.max_messages is None or count.written < options.max_messages:
            found = consumer.poll(POLL_S if options.timeout_ms is None else min(POLL_S, options.timeout_ms / 1000))
            if found:
                left = None if options.max_messages is None else options.max_messages - count.written
                _write(found[:left], plan.render, options.skip_message_on_error, consumer, count)
                silent_since_s = now_s()
            elif options.timeout_ms is not None and now_s() - silent_since_s >= options.timeout_ms / 1000:
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
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()
    for consumed in done:
        consumer.took(consumed)
    count.written += len(done)
    if failure is not None:
        raise failure


def _consumer(client: Client, options: Namespace, plan: Plan) -> Consumer:
    settings: dict[str, Any] = {"isolation_level": plan.isolation_level, "commits": plan.commits}
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
