"""What the conformance tests share besides the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.broker import BrokerProcess
from tests.harness.pair import Pair
from tests.harness.raw import RawClient


@pytest.fixture
def four_partitions(shared_broker: BrokerProcess, unique: str) -> str:
    """Give a fresh topic with four partitions, named by `unique`."""
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 4)
    return unique


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Give Odradek and Apache Kafka running with the same properties; one pair for all tests that compare them."""
    both = Pair(tmp_path_factory.mktemp("pair"))
    yield both
    both.close()
