"""Listeners: where we accept, and the address that clients are told for each.

- A listener is NAME://host:port; names are compared in upper case. No name twice, no port twice (0 excepted, and one
  IPv4 beside one IPv6 address).
- Clients never hear a wildcard address: 0.0.0.0, :: or an empty host in advertised.listeners is refused; in listeners
  alone it is advertised as this machine's host name, if that name resolves.
- Listeners named in controller.listener.names are the controller's, which is part of this process: clients and brokers
  are never told of them. Their protocol is PLAINTEXT where nobody has written a map.
- A listener whose protocol is not served is refused rather than opened in plain text.

Source: SocketServerConfigs.listenerListToEndPoints, KafkaConfig.effectiveAdvertisedBrokerListeners.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import NamedTuple

from config.errors import invalid_value
from config.resolve import Resolver
from config.views import ListenerConfig

SERVED_PROTOCOLS = ("PLAINTEXT",)
LOOPBACK_NAME = "localhost"
"""What a controller listener says of itself on a machine without a name: nobody else depends on it."""
WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::"})

_ENDPOINT = re.compile(r"([^:/]+)://(?:\[([0-9a-zA-Z%._:\-]*)\]|([0-9a-zA-Z%._:\-]*)):([0-9]{1,5})")
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


class Endpoint(NamedTuple):
    """One element of listeners or advertised.listeners."""

    name: str
    host: str
    port: int


def resolvable_host_name() -> str | None:
    """Return this machine's host name if it resolves to an address. Blocking: resolver."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return None
    return name


class Listeners(NamedTuple):
    """What is opened, in the order given."""

    of_broker: tuple[ListenerConfig, ...]
    of_controller: tuple[ListenerConfig, ...]


def read_listeners(resolver: Resolver, host_name: Callable[[], str | None] = resolvable_host_name) -> Listeners:
    """Build the listeners to open. Raises InvalidConfig for anything clients could not use."""
    endpoints = _endpoints("listeners", resolver.get("listeners"))
    _refuse_shared_ports(endpoints)
    controllers = {name.upper() for name in resolver.get("controller.listener.names") or ()}
    given = resolver.get("advertised.listeners")
    advertised = {} if given is None else {e.name: e for e in _endpoints("advertised.listeners", given)}
    for name in advertised:
        if name not in {endpoint.name for endpoint in endpoints} and name not in controllers:
            raise invalid_value(
                "advertised.listeners", ",".join(given or ()), f"listener {name} is not among the listeners opened"
            )
    protocols = _protocol_map(resolver.get("listener.security.protocol.map"))
    if not resolver.is_set("listener.security.protocol.map"):
        protocols = {**dict.fromkeys(controllers, "PLAINTEXT"), **protocols}
    result: dict[bool, list[ListenerConfig]] = {False: [], True: []}
    for endpoint in endpoints:
        is_controller = endpoint.name in controllers
        name_of_host = (lambda: host_name() or LOOPBACK_NAME) if is_controller else host_name
        host, port = _advertised(endpoint, advertised, name_of_host)
        protocol = _protocol(endpoint.name, protocols)
        result[is_controller].append(ListenerConfig(endpoint.name, protocol, endpoint.host, endpoint.port, host, port))
    if not result[False]:
        raise invalid_value("listeners", ",".join(resolver.get("listeners")), "at least one must be for clients")
    return Listeners(tuple(result[False]), tuple(result[True]))


def inter_broker_listener(resolver: Resolver, listeners: tuple[ListenerConfig, ...]) -> str:
    """Return the name of the listener that brokers would use; the first one that fits when none is named."""
    named = resolver.get("inter.broker.listener.name")
    if named is not None and resolver.is_set("security.inter.broker.protocol"):
        raise invalid_value(
            "inter.broker.listener.name", named, "only one of it and security.inter.broker.protocol may be set"
        )
    names = [listener.name for listener in listeners]
    if named is not None:
        if named.upper() not in names:
            raise invalid_value("inter.broker.listener.name", named, f"String must be one of: {', '.join(names)}")
        return str(named.upper())
    protocol = resolver.get("security.inter.broker.protocol")
    return next((listener.name for listener in listeners if listener.name == protocol), names[0])


def _endpoints(key: str, elements: tuple[str, ...]) -> tuple[Endpoint, ...]:
    endpoints: dict[str, Endpoint] = {}
    for element in elements:
        match = _ENDPOINT.fullmatch(element)
        if match is None or int(match[4]) > 65535:
            raise invalid_value(key, element, "Expected NAME://host:port with a port from 0 to 65535")
        name = match[1].strip().upper()
        if name in endpoints:
            raise invalid_value(key, ",".join(elements), f"Each listener must have a different name, {name} is twice")
        endpoints[name] = Endpoint(name, match[2] if match[2] is not None else match[3], int(match[4]))
    return tuple(endpoints.values())


def _refuse_shared_ports(endpoints: tuple[Endpoint, ...]) -> None:
    seen: dict[int, Endpoint] = {}
    for endpoint in endpoints:
        other = seen.setdefault(endpoint.port, endpoint) if endpoint.port else endpoint
        if other is not endpoint and {_family(other.host), _family(endpoint.host)} != {4, 6}:
            shown = f"{other.name}://{other.host}:{other.port},{endpoint.name}://{endpoint.host}:{endpoint.port}"
            raise invalid_value(
                "listeners", shown, f"Each listener must have a different port, {endpoint.port} is twice"
            )


def _family(host: str) -> int | None:
    if ":" in host:
        return 6
    return 4 if _IPV4.fullmatch(host) else None


def _advertised(
    endpoint: Endpoint, advertised: dict[str, Endpoint], host_name: Callable[[], str | None]
) -> tuple[str, int]:
    """Return the address to hand out; port 0 stands for the port that is bound later."""
    chosen = advertised.get(endpoint.name)
    if chosen is not None:
        if chosen.host in WILDCARD_HOSTS:
            raise invalid_value(
                "advertised.listeners",
                f"{chosen.name}://{chosen.host}:{chosen.port}",
                "clients cannot connect to a wildcard address; give a host name or an address they can reach",
            )
        return chosen.host, chosen.port
    if endpoint.host not in WILDCARD_HOSTS:
        return endpoint.host, endpoint.port
    name = host_name()
    if name is None:
        raise invalid_value(
            "listeners",
            f"{endpoint.name}://{endpoint.host}:{endpoint.port}",
            "this machine's host name does not resolve; set advertised.listeners to an address clients can reach",
        )
    return name, endpoint.port


def _protocol_map(text: str) -> dict[str, str]:
    pairs = (pair.partition(":") for pair in text.split(",") if pair.strip())
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}


def _protocol(name: str, protocols: dict[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise invalid_value("listeners", name, "no security protocol is given for it in listener.security.protocol.map")
    if protocol not in SERVED_PROTOCOLS:
        raise invalid_value(
            "listeners", name, f"security protocol {protocol} is not served yet; one of: {', '.join(SERVED_PROTOCOLS)}"
        )
    return protocol
