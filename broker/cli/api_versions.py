"""`odradek api-versions`: which APIs brokers offer in which versions, as kafka-broker-api-versions.sh prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from broker.cli.online import add_connection_options, connected
from broker.cli.options import Parser
from broker.cli.output import print_json, print_lines
from broker.client.cluster import Broker
from broker.client.errors import ConnectionFailed
from protocol.api_keys import CONTROLLER_ONLY, ApiKey
from protocol.messages import VERSIONS

Offered = dict[int, tuple[int, int]]


def run(arguments: Sequence[str]) -> int:
    """Print the versions of all brokers; status 1 if one of them cannot be asked."""
    parser = Parser("api-versions", "Print which APIs the brokers offer, and in which versions.")
    add_connection_options(parser)
    options = parser.parse_args(arguments)
    shown = []
    status = 0
    with connected(options) as client:
        for _, broker in sorted(client.metadata([]).brokers.items()):
            try:
                offered = client.connection(broker.id).offered
            except ConnectionFailed as failure:
                status = 1
                shown.append({"broker": broker.id, "host": broker.host, "port": broker.port, "error": failure.message})
                if not options.json:
                    print(f"{_title(broker)} -> ERROR: {failure.message}")
                continue
            if options.json:
                shown.append(_as_json(broker, offered))
            else:
                print_lines(_as_text(broker, offered))
    if options.json:
        print_json({"brokers": shown})
    return status


def _title(broker: Broker) -> str:
    rack = "null" if broker.rack is None else broker.rack
    return f"{broker} (id: {broker.id} rack: {rack} isFenced: false)"


def _name(key: int) -> str:
    """Return an API's name as Kafka prints it."""
    names = {int(api): api.name for api in ApiKey}
    return "".join(word.capitalize() for word in names[key].split("_")) if key in names else f"UNKNOWN({key})"


def _as_text(broker: Broker, offered: Offered) -> Iterator[str]:
    keys = sorted({*offered, *(int(key) for key in ApiKey if key not in CONTROLLER_ONLY)})
    yield f"{_title(broker)} -> ("
    for key in keys:
        comma = "" if key == keys[-1] else ","
        yield f"\t{_name(key)}({key}): {_described(key, offered)}{comma}"
    yield ")"


def _described(key: int, offered: Offered) -> str:
    if key not in offered:
        return "UNSUPPORTED"
    low, high = offered[key]
    versions = f"{low}" if low == high else f"{low} to {high}"
    usable = _usable(key, low, high)
    return f"{versions} [usable: {usable}]" if usable is not None else f"{versions} [unusable: node too new]"


def _usable(key: int, low: int, high: int) -> int | None:
    """Return the newest version that these tools speak as well."""
    ours = {int(api): versions for api, versions in VERSIONS.items()}.get(key)
    return min(ours.last, high) if ours is not None and low <= ours.last and ours.first <= high else None


def _as_json(broker: Broker, offered: Offered) -> dict[str, Any]:
    return {
        "broker": broker.id,
        "host": broker.host,
        "port": broker.port,
        "apis": [
            {"key": key, "name": _name(key), "minVersion": low, "maxVersion": high, "usable": _usable(key, low, high)}
            for key, (low, high) in sorted(offered.items())
        ],
    }
