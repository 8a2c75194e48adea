"""What the conformance tests share besides the broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import java
from tests.harness.broker import BrokerProcess, KafkaProcess, TakeOver
from tests.harness.client_host import ClientHost
from tests.harness.filled import PROPERTIES as FILLED_PROPERTIES
from tests.harness.filled import fill
from tests.harness.log_dirs import log_dirs, new_directories
from tests.harness.machine import is_ci
from tests.harness.pair import Pair
from tests.harness.raw import RawClient
from tests.harness.tool_host import ToolHost, Tools, shared


@pytest.fixture
def four_partitions(shared_broker: BrokerProcess, unique: str) -> str:
    """Give a fresh topic with four partitions, named by `unique`."""
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 4)
    return unique


@pytest.fixture
def now() -> int:
    """Give the time in milliseconds from which a test counts ages: a run may last longer than what decides there."""
    return int(time.time() * 1000)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Give Odradek and Apache Kafka running with the same properties; one pair for all tests that compare them."""
    both = Pair(tmp_path_factory.mktemp("pair"))
    yield both
    both.close()


@pytest.fixture(scope="session")
def tool_host() -> ToolHost:
    """Give the JVM that runs the tools of all tests that need none of their own."""
    return shared()


@pytest.fixture(scope="session")
def client_host() -> Iterator[ClientHost | None]:
    """Give the JVM in which Java's producers and consumers run; none where there is no Java and no CI."""
    host = ClientHost() if java.missing() is None or is_ci() else None
    yield host
    if host is not None:
        host.close()


@pytest.fixture
def tools(tool_host: ToolHost, bootstrap: str) -> Tools:
    """Give Apache Kafka's tools, run against the shared broker."""
    return Tools(tool_host, bootstrap)


@pytest.fixture
def take_over(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TakeOver]:
    """Give a function that starts a broker on the same two directories; the one before must have ended.

    Each has the properties that the test's module calls PROPERTIES.
    """
    brokers: list[BrokerProcess] = []

    def start(kind: type[BrokerProcess]) -> BrokerProcess:
        properties = {**request.module.PROPERTIES, **log_dirs(*new_directories(tmp_path, 2))}
        brokers.append(kind(tmp_path / f"broker-{len(brokers)}", properties))
        brokers[-1].start()
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()
    assert not [line for broker in brokers for line in broker.trouble()]


def _filled(kind: type[BrokerProcess], directory: Path) -> Iterator[Path]:
    """Give the directory of a broker that has stopped, with everything there can be in its log directories."""
    broker = kind(directory, {**FILLED_PROPERTIES, **log_dirs(*new_directories(directory, 2))})
    broker.start()
    try:
        fill(broker)
    finally:
        broker.close()
    yield directory
    assert not broker.trouble()


@pytest.fixture(scope="session")
def our_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give what a broker of ours has left."""
    yield from _filled(BrokerProcess, tmp_path_factory.mktemp("our-files"))


@pytest.fixture(scope="session")
def their_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give what Apache Kafka has left."""
    yield from _filled(KafkaProcess, tmp_path_factory.mktemp("their-files"))
