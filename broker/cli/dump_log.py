"""`odradek dump-log --files a,b …`: what is in files of a log directory, as kafka-dump-log prints it.

Text is the reference's, line by line; `--json` gives an object a line. Complaints go to standard error. As with the
reference, what merely does not fit together leaves the exit status at 0; `odradek verify` is there to judge.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence
from io import TextIOWrapper

from broker.cli.errors import CommandError
from broker.cli.options import Parser
from broker.cli.progress import Progress
from broker.offline.dump.decoders import Decoder, as_bytes, group_record, metadata_record, transaction_record
from broker.offline.dump.json_lines import JsonPrinter
from broker.offline.dump.printer import Printer
from broker.offline.dump.run import DumpOptions, dump
from broker.offline.dump.text import TextPrinter
from broker.offline.plain_files import PlainFiles

TEXT = (
    "Show what is in the files of a log directory: .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint, "
    "and the small files beside them (checkpoints, meta.properties, partition.metadata, quorum-state)."
)
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
_STRING_DECODERS = (STRING_DECODER, "kafka.serializer.StringDecoder")
_MAX_INT32 = (1 << 31) - 1
_FIRST_DECODERS: tuple[tuple[str, Decoder], ...] = (
    ("offsets_decoder", group_record),
    ("transaction_log_decoder", transaction_record),
    ("cluster_metadata_decoder", metadata_record),
)
_REFUSED = ("remote_log_metadata_decoder", "share_group_state_decoder")


def run(arguments: Sequence[str]) -> int:
    """Show the files; 1 when one of them could not be read to its end."""
    options = _parser().parse_args(arguments)
    paths = [path for path in options.files.split(",") if path]
    wanted = DumpOptions(
        decoder=_decoder(options),
        is_deep=options.deep_iteration,
        verify_index_only=options.verify_index_only,
        index_sanity_check=options.index_sanity_check,
        max_bytes=None if options.max_bytes == _MAX_INT32 else options.max_bytes,
    )
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    with Progress("reading", _size_of(paths)) as progress:
        advance = _ignore if sys.stdout.isatty() else progress.advance
        done = dump(PlainFiles(), _printer(options), paths, wanted, advance)
    return 0 if done else 1


def _parser() -> Parser:
    parser = Parser("dump-log", TEXT)
    parser.add_argument("--files", required=True, help="the files, separated by commas")
    parser.add_argument("--print-data-log", action="store_true", help="show keys and values of records")
    parser.add_argument("--deep-iteration", action="store_true", help="show records, not only batches")
    parser.add_argument(
        "--verify-index-only", action="store_true", help="compare indexes with the log, show no entries"
    )
    parser.add_argument(
        "--index-sanity-check", action="store_true", help="check what a broker's start checks of indexes"
    )
    parser.add_argument("--skip-record-metadata", action="store_true", help="show keys and values only")
    parser.add_argument("--max-bytes", type=int, default=_MAX_INT32, help="read no more than that of each log")
    parser.add_argument("--max-message-size", type=int, help="accepted; batches of any size are read")
    parser.add_argument("--offsets-decoder", action="store_true", help="decode the records of __consumer_offsets")
    parser.add_argument("--transaction-log-decoder", action="store_true", help="decode those of __transaction_state")
    parser.add_argument("--cluster-metadata-decoder", action="store_true", help="decode those of __cluster_metadata")
    for name in ("--key-decoder-class", "--value-decoder-class"):
        parser.add_argument(name, nargs="?", const=STRING_DECODER, help=f"only {STRING_DECODER}")
    for name in _REFUSED:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON, an object a line")
    return parser


def _decoder(options: Namespace) -> Decoder | None:
    for name in _REFUSED:
        if getattr(options, name):
            raise CommandError(f"--{name.replace('_', '-')} is not supported: there are no such records here")
    for name in (options.key_decoder_class, options.value_decoder_class):
        if name is not None and name not in _STRING_DECODERS:
            raise CommandError(f"no decoder {name}: Java classes are not loaded; --json shows bytes as base64")
    for name, decoder in _FIRST_DECODERS:
        if getattr(options, name):
            return decoder
    is_wanted = options.print_data_log or options.key_decoder_class or options.value_decoder_class
    return as_bytes if is_wanted else None


def _printer(options: Namespace) -> Printer:
    if options.json:
        return JsonPrinter(sys.stdout, sys.stderr)
    return TextPrinter(sys.stdout, sys.stderr, hides_metadata=options.skip_record_metadata)


def _size_of(paths: Sequence[str]) -> int:
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


def _ignore(count: int) -> None:
    """Lines on a terminal tell enough of how it goes."""
