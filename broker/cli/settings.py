"""What `serve` and `config` share: the arguments that say where settings come from."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from broker.cli.errors import CommandError
from broker.cli.options import MISUSED_BROKER, Parser
from config.errors import InvalidConfig
from config.load import load
from config.resolve import Resolver


def read_settings(name: str, text: str, arguments: Sequence[str]) -> Resolver:
    """Read a command's arguments, and the file, the environment and the overrides; print the warnings."""
    parser = Parser(name, text, misuse_status=MISUSED_BROKER)
    parser.add_argument("properties", nargs="?", metavar="server.properties", help="Kafka's own properties file")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="key=value",
        help="set one key over file and environment; may be given many times",
    )
    parser.add_argument("--defaults", metavar="FILE", help="a properties file for keys that nothing else sets")
    options = parser.parse_args(arguments)
    try:
        loaded = load(options.properties, os.environ, options.override, defaults_path=options.defaults)
    except InvalidConfig as error:
        raise CommandError(error.message) from error
    for warning in loaded.warnings:
        print(f"odradek: warning: {warning}", file=sys.stderr)
    return loaded.resolver
