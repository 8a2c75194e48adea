"""Fixtures of the black-box cases: one broker for each module, raw clients, fresh names.

A module's broker takes its properties from the module's ``PROPERTIES``. Every case that uses ``client`` is followed by
the check that the broker still answers Metadata and accepts a produce; that its log is clean is checked when it closes.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess, broker_class, reference_wanted
from tests.harness.raw import RawClient

# The reference waits for the session of a killed predecessor to end; the default is 9 s.
REFERENCE_PROPERTIES = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}

_counter = itertools.count(1)


def address(broker: BrokerProcess) -> tuple[str, int]:
    """Return what a raw client connects to."""
    return broker.host, broker.port


def check_health(broker: BrokerProcess) -> None:
    """Assert that a fresh connection gets metadata and may append."""
    with RawClient(address(broker)) as client:
        if "health" not in client.topic_names():
            client.create_topic("health")
        client.append("health", batches.simple("still here"))


@pytest.fixture(scope="module")
def module_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Give the module's broker as it is, running or not."""
    properties = getattr(request.module, "PROPERTIES", {}) | (REFERENCE_PROPERTIES if reference_wanted() else {})
    process = broker_class()(tmp_path_factory.mktemp("broker"), properties)
    yield process
    process.close()
    assert not process.trouble(), process.trouble()


@pytest.fixture
def broker(module_broker: BrokerProcess) -> BrokerProcess:
    """Give the module's broker running; after a case that left it dead it gets a fresh directory."""
    process = module_broker
    if process.process is not None and process.process.poll() is not None:
        process.process = None
    if process.process is None:
        shutil.rmtree(process.data_directory, ignore_errors=True)
        process.start()
    return process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    """Give a raw connection to the module's broker."""
    with RawClient(address(broker)) as connection:
        yield connection
    check_health(broker)


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Callable[..., RawClient]]:
    """Give a function that opens further connections to the module's broker; all are closed at the end."""
    opened: list[RawClient] = []

    def open_one(**options: object) -> RawClient:
        opened.append(RawClient(address(broker), **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def fresh() -> Callable[..., str]:
    """Give a function that makes names no other case uses."""
    return lambda prefix="t": f"{prefix}-{next(_counter)}"
