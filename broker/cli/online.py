"""What all commands that talk to a running broker share: where it is, how to reach it, how they fail.

parser = Parser("topics", "…")
add_connection_options(parser)
options = parser.parse_args(arguments)
with connected(options) as client:
    …
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from broker.cli.errors import CommandError
from broker.cli.options import Parser
from broker.client.client import Client
from broker.client.errors import ClientError
from broker.client.settings import Settings, settings_of
from config.errors import InvalidConfig
from config.sources import read_properties

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def add_connection_options(parser: Parser, *config_aliases: str, bootstrap_aliases: tuple[str, ...] = ()) -> None:
    """Add --bootstrap-server, --command-config and --json to a command's options."""
    parser.add_argument(
        "--bootstrap-server",
        *bootstrap_aliases,
        dest="bootstrap_server",
        default=DEFAULT_BOOTSTRAP,
        metavar="host:port[,host:port]",
        help=f"a broker of the cluster, or several of which one has to answer (default: {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "--command-config",
        *config_aliases,
        dest="command_config",
        metavar="file",
        help="properties of the client: client.id, request.timeout.ms, default.api.timeout.ms",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


@contextmanager
def connected(
    options: Namespace, defaults: Settings | None = None, properties: Mapping[str, str] | None = None
) -> Iterator[Client]:
    """Give the client that the options describe; what fails with it ends the command in one line.

    `properties` are those of --command-config, where a command has read them already and changed some.
    """
    if properties is None:
        properties = read_property_file(options.command_config)
    try:
        with Client(options.bootstrap_server, settings_of(properties, defaults)) as client:
            yield client
    except ClientError as error:
        raise CommandError(error.message) from error


def read_property_file(path: str | None) -> dict[str, str]:
    """Read a properties file of Kafka's tools; no file is an empty one. Raises: CommandError."""
    if path is None:
        return {}
    try:
        return {name: value.text for name, value in read_properties(path).items()}
    except InvalidConfig as error:
        raise CommandError(error.message) from error
