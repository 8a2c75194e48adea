"""What the conformance tests share besides the broker."""

from __future__ import annotations

import pytest

from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient


@pytest.fixture
def four_partitions(shared_broker: BrokerProcess, unique: str) -> str:
    """Give a fresh topic with four partitions, named by `unique`."""
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 4)
    return unique
