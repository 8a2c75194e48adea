"""A reserved port is the broker's, and nobody else's."""

from __future__ import annotations

import socket

import pytest

from broker.embedding.ports import HOST, ReservedPort


def listening(port: int) -> socket.socket:
    """Listen as the broker does."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HOST, port))
    server.listen()
    return server


def test_a_broker_may_listen_on_it_again_and_again():
    reserved = ReservedPort()
    for _ in range(2):
        with listening(reserved.number), socket.create_connection((HOST, reserved.number), timeout=5):
            pass
    reserved.close()


def test_nobody_connects_while_no_broker_listens():
    reserved = ReservedPort()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, reserved.number), timeout=5)
    reserved.close()


def test_a_port_is_given_once():
    reserved = [ReservedPort() for _ in range(200)]
    assert len({port.number for port in reserved}) == len(reserved)
    for port in reserved:
        port.close()
