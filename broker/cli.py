"""The command line: serve, config, --version.

    odradek serve [server.properties] [--override key=value …]
    odradek config [server.properties] [--override key=value …]

Exit status: 0 after a clean stop, 1 for a configuration that is refused (one line on standard error) or a failed start,
2 for a command line that is not understood. The environment variables are those of Kafka's official image.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections.abc import Sequence

import native
from broker.version import VERSION
from config.docs import render_effective
from config.errors import InvalidConfig
from config.load import load

GARBAGE_OF_IMPORTS = (10_000, 20, 100)
"""How seldom garbage is looked for while modules are loaded: nearly all they make stays. Never looking costs memory."""


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="odradek", description="A broker that speaks the Kafka protocol.")
    parser.add_argument("--version", action="version", version=f"odradek {VERSION} ({native.description()})")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in (
        ("serve", "run the broker in the foreground"),
        ("config", "print the configuration in force and where each value comes from"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("properties", nargs="?", metavar="server.properties", help="Kafka's own properties file")
        command.add_argument(
            "--override",
            action="append",
            default=[],
            metavar="key=value",
            help="set one key over file and environment; may be given many times",
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = build_parser().parse_args(arguments)
    try:
        loaded = load(options.properties, os.environ, options.override)
    except InvalidConfig as error:
        print(f"odradek: {error.message}", file=sys.stderr)
        return 1
    for warning in loaded.warnings:
        print(f"odradek: warning: {warning}", file=sys.stderr)
    if options.command == "config":
        sys.stdout.write(render_effective(loaded.resolver))
        return 0
    # Only serving needs the whole broker: config and --version answer without paying for its imports.
    try:
        usual = gc.get_threshold()
        gc.set_threshold(*GARBAGE_OF_IMPORTS)
        from broker.serve import run

        gc.disable()  # what a start makes stays: nothing is looked for until the broker is ready
        gc.set_threshold(*usual)
        return run(loaded.resolver)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # before the broker listens to signals itself
