"""`odradek storage random-uuid | format | info`: what `kafka-storage.sh` is called for in scripts.

The broker formats fresh log directories by itself when it starts; `format` is for those who want the cluster id settled
before. Features, voters and credentials are not chosen here: options that say something of them get a warning.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from broker.cli.errors import CommandError
from broker.cli.options import Parser, has
from broker.cli.output import print_lines
from config.build import broker_config
from config.errors import InvalidConfig
from config.load import load
from config.views import BrokerConfig
from protocol.uuids import format_uuid, random_uuid
from storage.checkpoints.meta_properties import read_meta_properties
from storage.dirs.manager import LogManager
from storage.env.clock import SystemClock, SystemRng
from storage.env.posix import PosixFileSystem
from storage.errors import StorageError

WITHOUT_EFFECT = ("--release-version", "--feature", "--initial-controllers", "--add-scram")


def run(arguments: Sequence[str]) -> int:
    """Make an id, format directories, or say whose they are."""
    options = _parser().parse_args(arguments)
    for name in WITHOUT_EFFECT:
        if has(options, name.removeprefix("--")):
            print(f"odradek: warning: {name} is ignored", file=sys.stderr)
    if options.action == "random-uuid":
        print_lines([_random_id()])
        return 0
    if options.config is None:
        raise CommandError(f"{options.action} needs --config")
    if options.action == "format" and options.cluster_id is None:
        raise CommandError("format needs --cluster-id")
    try:
        config = broker_config(load(options.config, {}, []).resolver)
        return _format(config, options) if options.action == "format" else _info(config)
    except (StorageError, InvalidConfig, OSError) as error:
        raise CommandError(str(error)) from error


def _parser() -> Parser:
    parser = Parser("storage", "Make ids and format log directories.")
    parser.add_argument("action", choices=("random-uuid", "format", "info"))
    parser.add_argument("--config", "-c", metavar="file", help="the broker's properties file")
    parser.add_argument("--cluster-id", "-t", metavar="id", help="the cluster id of directories that are fresh")
    parser.add_argument("--ignore-formatted", "-g", action="store_true", help="pass over what is formatted already")
    for name in ("--standalone", "--no-initial-controllers"):
        parser.add_argument(name, action="store_true", help="does nothing: this node is the only voter")
    for name in WITHOUT_EFFECT:
        parser.add_argument(name, action="append", metavar="value", help="does nothing")
    return parser


def _random_id() -> str:
    """Make an id that no option parser takes for an option."""
    rng = SystemRng()
    while (made := format_uuid(random_uuid(rng.random_bytes))).startswith("-"):
        pass
    return made


def _format(config: BrokerConfig, options: Namespace) -> int:
    fs = PosixFileSystem()
    formatted = {path: read_meta_properties(fs, path) for path in config.log_dirs if fs.exists(path)}
    for path, found in formatted.items():
        if found is not None and not options.ignore_formatted:
            raise CommandError(
                f"Log directory {path} is already formatted. "
                "Use --ignore-formatted to ignore this directory and format the others."
            )
    manager = LogManager(fs, SystemClock(), SystemRng(), config.log_dirs)
    cluster_id = manager.open_dirs(config.node_id, options.cluster_id)
    for log_dir in manager.online_dirs():
        log_dir.write_identity()
    manager.close(clean=False)  # there is nothing in them that could be
    fresh = [path for path in config.log_dirs if formatted.get(path) is None]
    print_lines(f"Formatting log directory {path} with cluster.id {cluster_id}." for path in fresh)
    if not fresh:
        print_lines(["All of the log directories are already formatted."])
    return 0


def _info(config: BrokerConfig) -> int:
    fs = PosixFileSystem()
    unformatted = 0
    for path in config.log_dirs:
        found = read_meta_properties(fs, path) if fs.exists(path) else None
        unformatted += found is None
        identity = "not formatted" if found is None else f"cluster.id={found.cluster_id} node.id={found.node_id}"
        print_lines([f"{path}: {identity}"])
    return int(bool(unformatted))
