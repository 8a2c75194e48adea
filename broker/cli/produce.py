"""`odradek produce`: sends lines of standard input to a topic, with the options of kafka-console-producer.sh.

Deliberate differences: what is read is sent as soon as no more is there to read, so `--timeout` changes nothing;
batches are larger; the exit status is 1 if any record did not get to the broker; a topic that does not exist and is not
created by being asked for is waited for 10 s. `--delay-ms` is ours: records are stamped with a time to come, which is
when a topic with `delivery.mode=scheduled` shows them.
"""

from __future__ import annotations

import os
import select
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Callable, Mapping, Sequence

from broker.cli.delays import clock_ahead, warn_if_nothing_is_delayed
from broker.cli.errors import CommandError
from broker.cli.line_reader import LineReader, lines_of
from broker.cli.online import add_connection_options, connected, read_property_file
from broker.cli.options import Parser, check_required, key_values, whole_number
from broker.cli.output import print_json
from broker.cli.progress import Progress
from broker.client.producer import ALL_REPLICAS, Producer, ProducerSettings
from broker.client.settings import Settings
from protocol.records.compression import Codec

PIECE_BYTES = 256 << 10
WAITS_FOR_TOPIC_S = 10.0
JAVA_READERS = ("org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")
WITHOUT_EFFECT = (
    "timeout",
    "retry-backoff-ms",
    "metadata-expiry-ms",
    "max-memory-bytes",
    "socket-buffer-size",
)


def run(arguments: Sequence[str]) -> int:
    """Send all lines; status 1 if any of them did not arrive."""
    parser = _parser()
    options = parser.parse_args(arguments)
    check_required(parser, options, "topic")
    if options.line_reader not in (None, *JAVA_READERS):
        raise CommandError(f"--line-reader {options.line_reader} is Java: this tool has one reader, of lines")
    properties = _producer_properties(options)
    settings = _settings(options, properties)
    reader = LineReader(_reader_properties(options))
    defaults = Settings(client_id="console-producer")
    with connected(options, defaults, properties) as client:
        producer = Producer(client, options.topic, settings)
        _send(producer, reader, options)
        if options.delay_ms is not None:
            warn_if_nothing_is_delayed(client, options.topic)
    if options.json:
        print_json({"topic": options.topic, "sent": producer.sent, "failed": producer.failed})
    if producer.failed:
        raise CommandError(
            f"{producer.failed} of {producer.failed + producer.sent} records were not sent: {producer.reason}"
        )
    return 0


def _parser() -> Parser:
    parser = Parser("produce", "Send the lines of standard input to a topic, each as a record.")
    add_connection_options(parser, "--producer.config", bootstrap_aliases=("--broker-list",))
    add = parser.add_argument
    add("--topic", metavar="name", help="the topic; the broker may create it")
    add(
        "--reader-property",
        "--property",
        action="append",
        default=[],
        dest="reader_property",
        metavar="key=value",
        help="what a line is: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
        "headers.key.separator, null.marker, ignore.error",
    )
    add("--reader-config", metavar="file", help="the same as a properties file")
    add(
        "--command-property",
        "--producer-property",
        action="append",
        default=[],
        dest="command_property",
        metavar="key=value",
        help="acks, compression.type, batch.size, max.request.size, retries, delivery.timeout.ms, max.block.ms, "
        "enable.idempotence, client.id, request.timeout.ms",
    )
    add("--compression-codec", nargs="?", const="gzip", metavar="codec", help="none, gzip, snappy, lz4 or zstd")
    add("--sync", action="store_true", help="wait for each record before the next is sent")
    add("--delay-ms", metavar="ms", help="stamp records so far ahead, for topics with delivery.mode=scheduled")
    add("--request-required-acks", metavar="acks", help="all (-1), 1 or 0 (default: all)")
    add("--batch-size", "--max-partition-memory-bytes", type=int, dest="batch_size", metavar="bytes", help="of a batch")
    add("--message-send-max-retries", type=int, metavar="number", help="how often a batch is sent again")
    add("--request-timeout-ms", metavar="ms", help="for one answer of the broker (default: 30000)")
    add("--max-block-ms", metavar="ms", help="how long to wait for a topic that is not there yet (default: 10000)")
    add("--line-reader", help=SUPPRESS)
    for name in WITHOUT_EFFECT:
        add(f"--{name}", help=SUPPRESS)
    return parser


# --- settings


def _reader_properties(options: Namespace) -> dict[str, str]:
    return {**read_property_file(options.reader_config), **key_values("--reader-property", options.reader_property)}


def _producer_properties(options: Namespace) -> dict[str, str]:
    """Join what the file, the properties and the options say; the last of them wins."""
    given = {
        "compression.type": options.compression_codec,
        "acks": options.request_required_acks,
        "request.timeout.ms": options.request_timeout_ms,
        "max.block.ms": options.max_block_ms,
        "batch.size": options.batch_size,
        "retries": options.message_send_max_retries,
    }
    return {
        **read_property_file(options.command_config),
        **key_values("--command-property", options.command_property),
        **{name: str(value) for name, value in given.items() if value is not None},
    }


def _settings(options: Namespace, properties: Mapping[str, str]) -> ProducerSettings:
    if "transactional.id" in properties:
        raise CommandError("transactional.id is not supported: this tool sends without transactions")
    usual = ProducerSettings(max_block_s=WAITS_FOR_TOPIC_S)
    acks = properties.get("acks", "all").strip().lower()
    if acks not in ("all", "-1", "0", "1"):
        raise CommandError(f"Invalid value {acks} for configuration acks: expected all, -1, 0 or 1")
    codec = properties.get("compression.type", "none").strip()
    if codec.upper() not in Codec.__members__:
        raise CommandError(
            f"Invalid value {codec} for configuration compression.type: expected none, gzip, snappy, lz4 or zstd"
        )
    return usual._replace(
        acks=ALL_REPLICAS if acks == "all" else int(acks),
        codec=int(Codec[codec.upper()]),
        batch_size_bytes=max(_number(properties, "batch.size", usual.batch_size_bytes), 1),
        max_request_size_bytes=_number(properties, "max.request.size", usual.max_request_size_bytes),
        retries=_number(properties, "retries", usual.retries),
        delivery_timeout_s=_number(properties, "delivery.timeout.ms", int(usual.delivery_timeout_s * 1000)) / 1000,
        max_block_s=_number(properties, "max.block.ms", int(usual.max_block_s * 1000)) / 1000,
        is_idempotent=properties.get("enable.idempotence", "true").strip().lower() != "false",
        now_ms=usual.now_ms if options.delay_ms is None else clock_ahead(usual.now_ms, options.delay_ms),
    )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    number = whole_number(text.strip())
    if number is None:
        raise CommandError(f"Invalid value {text} for configuration {name}: expected a number")
    return number


# --- sending


def _send(producer: Producer, reader: LineReader, options: Namespace) -> None:
    """Send what comes in until it ends; what was read before a mistake or Ctrl-C is sent first."""
    read, is_more = _input()
    with Progress("sending") as progress:
        try:
            for lines in lines_of(read):
                for key, value, headers in reader.records(lines):
                    producer.add(key, value, headers)
                    if options.sync:
                        producer.flush()
                        if producer.failed:
                            return
                progress.advance(len(lines))
                if not is_more():
                    producer.flush()
        finally:
            producer.flush()


def _input() -> tuple[Callable[[], bytes], Callable[[], bool]]:
    """Return what reads a piece of standard input, and what tells whether more is there at once."""
    descriptor = sys.stdin.fileno()
    is_interactive = os.isatty(descriptor) and sys.stdout.isatty()

    def read() -> bytes:
        if is_interactive:
            sys.stdout.write(">")
            sys.stdout.flush()
        return os.read(descriptor, PIECE_BYTES)

    def is_more() -> bool:
        return bool(select.select([descriptor], [], [], 0)[0])

    return read, is_more
