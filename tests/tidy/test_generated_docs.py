"""Docs made from tables are current, and the tables agree with the broker that runs."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from broker.api.docs import documented_routes, render_apis
from broker.metrics.docs import render_metrics
from protocol.codec import decode
from protocol.messages.api_versions import ApiVersionsResponse
from tests.harness.broker import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.pure
def test_the_list_of_apis_is_current():
    assert (ROOT / "docs" / "apis.md").read_text() == render_apis(), "run: make docs"


def test_the_list_of_metrics_is_current():
    assert (ROOT / "docs" / "metrics.md").read_text() == render_metrics(), "run: make docs"


@pytest.mark.pure
def test_the_broker_advertises_what_is_documented_and_nothing_else(shared_broker: BrokerProcess, is_reference: bool):
    if is_reference:
        return
    host, port = shared_broker.bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as client:
        request = struct.pack(">hhih", 18, 0, 1, -1)
        client.sendall(struct.pack(">i", len(request)) + request)
        stream = client.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        response = decode(ApiVersionsResponse, 0, stream.read(size)[4:])
    advertised = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    assert advertised == {int(key): (one.min_version, one.max_version) for key, one in documented_routes().items()}
