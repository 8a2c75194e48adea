"""Fixtures of the whole suite: broker processes in temporary directories, seeds, and the tools a test needs."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import native
from tests.harness import java
from tests.harness.broker import BrokerFactory, BrokerProcess, broker_class, reference_wanted
from tests.harness.machine import is_ci, program

# What takes long begins first, so that workers end together; the small files of the last rooms fill up what is left.
ROOMS = ("container", "crash", "metrics", "conformance", "page", "cases", "faults", "property", "unit", "tidy")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread the suite over workers, if there are any."""
    from tests.harness.spread import ByFile

    return ByFile(config, log)


def pytest_report_header() -> str:
    """Say which form of the hot modules is tested."""
    native.prefer_compiled()
    return f"odradek: {native.description()}"


def _rank(item: pytest.Item) -> int:
    room = item.path.relative_to(Path(__file__).parent).parts[0]
    return ROOMS.index(room) if room in ROOMS else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests, and skip what cannot run here.

    JVM tests need a JVM; on CI its lack is a failure, since CI installs one. Tests of the sources run in `test-pure`.
    """
    items.sort(key=_rank)
    native.prefer_compiled()
    reason = java.missing()
    for item in items:
        if native.is_compiled() and item.get_closest_marker("pure"):
            item.add_marker(pytest.mark.skip(reason="the modules are compiled; make test-pure runs it"))
        if reason and item.get_closest_marker("jvm") and not is_ci():
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def seed() -> int:
    """Give the seed of every random choice in this run; SEED=... replays one."""
    return int(os.environ.get("SEED") or random.SystemRandom().randrange(2**32))


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Give a random generator of the test's own; the seed is printed when the test fails."""
    print(f"SEED={seed}")
    return random.Random(f"{seed}/{request.node.nodeid}")


def _check_and_close(brokers: list[BrokerProcess]) -> None:
    for broker in brokers:
        broker.close()
    trouble = {repr(broker): lines for broker in brokers if (lines := broker.trouble())}
    assert not trouble, f"the broker logged errors: {trouble}"


@pytest.fixture
def broker_factory(tmp_path: Path) -> Iterator[BrokerFactory]:
    """Give a function that makes brokers; all are closed, and their logs checked, at the end of the test.

    `make(properties, environment=..., arguments=..., start=True)`
    """
    brokers: list[BrokerProcess] = []

    def make(properties: Mapping[str, str] | None = None, *, start: bool = True, **options: Any) -> BrokerProcess:
        broker = broker_class()(tmp_path / f"broker-{len(brokers)}", properties, **options)
        brokers.append(broker)
        if start:
            broker.start()
        return broker

    yield make
    _check_and_close(brokers)


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Give the one broker that all tests share which neither stop nor configure it."""
    broker = broker_class()(tmp_path_factory.mktemp("shared-broker"))
    broker.start()
    yield broker
    _check_and_close([broker])


@pytest.fixture
def bootstrap(shared_broker: BrokerProcess) -> str:
    """Give host:port of the shared broker."""
    return shared_broker.bootstrap


@pytest.fixture
def unique() -> str:
    """Give a name for this test's own topics and groups on the shared broker."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def is_reference() -> bool:
    """Tell whether the broker under test is Apache Kafka itself."""
    return reference_wanted()


@pytest.fixture(scope="session")
def kcat() -> str:
    """Give the path of kcat; without it the test is skipped, on CI it fails."""
    return program("kcat", "kafkacat", package="kcat")
