"""What goes between a program and its broker is one line each way."""

from __future__ import annotations

import pytest

from broker.embedding.messages import Order, Ready, Refused, pack, unpack


@pytest.mark.parametrize(
    "message",
    [
        Order({"listeners": "PLAINTEXT://127.0.0.1:1", "odd": "a=b\nc"}, "/tmp/x"),
        Ready("127.0.0.1:1", None, ["Unknown configuration key"]),
        Refused("Invalid value ä for\nconfiguration"),
    ],
)
def test_a_message_is_a_line_and_comes_back(message: Order | Ready | Refused):
    line = pack(message)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert unpack(line) == message
    assert type(unpack(line)) is type(message)
