"""Which listeners open, and what clients are told."""

from __future__ import annotations

import pytest

from config.build import network_config
from config.errors import InvalidConfig
from config.resolve import Resolver
from config.sources import SourcedValue
from config.views import ListenerConfig

KRAFT_MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,INTERNAL:PLAINTEXT"


def network(host_name="host.example", **static):
    given = {name.replace("_", "."): SourcedValue(text, "test") for name, text in static.items()}
    return network_config(Resolver(given), host_name=lambda: host_name)


def refusal(**static):
    with pytest.raises(InvalidConfig) as caught:
        network(**static)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_plain_listener_advertises_itself():
    assert network(listeners="PLAINTEXT://127.0.0.1:9092").listeners == (
        ListenerConfig("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092),
    )


def test_lower_case_scheme():
    assert network(listeners="plaintext://127.0.0.1:9092").listeners[0].name == "PLAINTEXT"


@pytest.mark.parametrize("host", ["0.0.0.0", "", "[::]"])
def test_wildcard_advertises_the_host_name(host):
    listener = network(listeners=f"PLAINTEXT://{host}:9092").listeners[0]
    assert listener.host == host.strip("[]")
    assert (listener.advertised_host, listener.advertised_port) == ("host.example", 9092)


def test_wildcard_is_refused_when_the_host_name_does_not_resolve():
    with pytest.raises(InvalidConfig, match=r"set advertised\.listeners"):
        network(host_name=None, listeners="PLAINTEXT://0.0.0.0:9092")


@pytest.mark.parametrize("host", ["0.0.0.0", "", "[::]"])
def test_wildcard_is_never_advertised(host):
    message = refusal(listeners="PLAINTEXT://0.0.0.0:9092", advertised_listeners=f"PLAINTEXT://{host}:9092")
    assert "advertised.listeners" in message and "wildcard" in message


def test_ipv6_and_port_zero():
    listener = network(listeners="PLAINTEXT://[::1]:0").listeners[0]
    assert (listener.host, listener.port, listener.advertised_host, listener.advertised_port) == ("::1", 0, "::1", 0)


def test_clients_are_not_told_of_controller_listeners():
    config = network(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map=KRAFT_MAP,
    )
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT"]
    assert config.controller_listeners == (ListenerConfig("CONTROLLER", "PLAINTEXT", "", 9093, "localhost", 9093),)


def test_a_controller_listener_needs_neither_a_map_nor_a_name_of_the_machine():
    config = network(
        host_name=None, listeners="PLAINTEXT://127.0.0.1:1,QUORUM://:2", controller_listener_names="QUORUM"
    )
    assert config.controller_listeners == (ListenerConfig("QUORUM", "PLAINTEXT", "", 2, "localhost", 2),)


def test_a_controller_listener_that_a_map_leaves_out_is_refused():
    message = refusal(
        listeners="PLAINTEXT://127.0.0.1:1,QUORUM://:2",
        controller_listener_names="QUORUM",
        listener_security_protocol_map=KRAFT_MAP,
    )
    assert "Invalid value QUORUM for configuration listeners" in message


def test_several_named_listeners():
    config = network(
        listeners="PLAINTEXT://10.0.0.1:9092,INTERNAL://10.0.0.1:9094",
        advertised_listeners="INTERNAL://inside:9094,PLAINTEXT://outside:19092",
        inter_broker_listener_name="internal",
        listener_security_protocol_map=KRAFT_MAP,
    )
    assert [(x.name, x.advertised_host, x.advertised_port) for x in config.listeners] == [
        ("PLAINTEXT", "outside", 19092),
        ("INTERNAL", "inside", 9094),
    ]
    assert config.inter_broker_listener_name == "INTERNAL"


@pytest.mark.parametrize(
    "listeners",
    [
        "PLAINTEXT://127.0.0.1:9092,INTERNAL://127.0.0.1:9092",
        "PLAINTEXT://localhost:9092,INTERNAL://other:9092",
        "PLAINTEXT://0.0.0.0:9092,INTERNAL://127.0.0.1:9092",
    ],
)
def test_one_port_twice(listeners):
    message = refusal(listeners=listeners, listener_security_protocol_map=KRAFT_MAP)
    assert "different port" in message and "9092" in message


def test_one_port_for_ipv4_and_ipv6():
    both = "PLAINTEXT://127.0.0.1:9092,INTERNAL://[::1]:9092"
    assert len(network(listeners=both, listener_security_protocol_map=KRAFT_MAP).listeners) == 2


def test_one_name_twice():
    assert "different name" in refusal(listeners="PLAINTEXT://a:1,plaintext://b:2")


@pytest.mark.parametrize(
    "text", ["PLAINTEXT", "PLAINTEXT://a", "PLAINTEXT://a:b", "PLAINTEXT://a:65536", "://a:1", "a:1"]
)
def test_not_an_endpoint(text):
    assert f"Invalid value {text} for configuration listeners" in refusal(listeners=text)


def test_unserved_protocol_is_refused_rather_than_opened_in_plain_text():
    message = refusal(listeners="SSL://127.0.0.1:9092")
    assert "SSL" in message and "PLAINTEXT" in message


def test_name_without_protocol():
    assert "listener.security.protocol.map" in refusal(listeners="MINE://127.0.0.1:9092")


def test_advertised_name_that_is_not_opened():
    message = refusal(listeners="PLAINTEXT://a:1", advertised_listeners="PLAINTEXT://a:1,INTERNAL://a:2")
    assert "INTERNAL" in message


def test_only_controller_listeners():
    assert "at least one" in refusal(listeners="CONTROLLER://:9093", controller_listener_names="CONTROLLER")


def test_inter_broker_listener_must_exist():
    message = refusal(listeners="PLAINTEXT://a:1", inter_broker_listener_name="INTERNAL")
    assert "inter.broker.listener.name" in message and "PLAINTEXT" in message


def test_inter_broker_listener_is_named_once():
    message = refusal(
        listeners="PLAINTEXT://a:1", inter_broker_listener_name="PLAINTEXT", security_inter_broker_protocol="PLAINTEXT"
    )
    assert "security.inter.broker.protocol" in message
