"""The pytest plugin: brokers as fixtures. It comes with the package, and loads nothing until a test asks for one.

- `kafka_broker`: one for all tests of the run (with pytest-xdist: of the worker). Tests keep apart by their topics.
- `kafka_topic`: a name for a topic or a group that no other test has; the broker makes the topic when it is used.
- `fresh_kafka_broker`: one for this test alone, to be stopped, killed and restarted.
- `kafka_broker_config`: what both are configured with; override it in `conftest.py`, with scope="session".

What the broker has logged stands beside the report of a test that failed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from broker.embedded import EmbeddedBroker

SHOWN_LINES = 40
MAX_TEST_NAME = 100
BROKERS = ("kafka_broker", "fresh_kafka_broker")


@pytest.fixture(scope="session")
def kafka_broker_config() -> Mapping[str, str | int | float | bool]:
    """Give the configuration of the brokers: Kafka's keys; none by default."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_config: Mapping[str, str | int | float | bool]) -> Iterator[EmbeddedBroker]:
    """Give the broker that all tests share."""
    with _make(kafka_broker_config) as broker:
        yield broker


@pytest.fixture
def fresh_kafka_broker(kafka_broker_config: Mapping[str, str | int | float | bool]) -> Iterator[EmbeddedBroker]:
    """Give a broker for this test alone."""
    with _make(kafka_broker_config) as broker:
        yield broker


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest) -> str:
    """Give a name that no other test has."""
    test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:MAX_TEST_NAME]
    return f"{test.strip('-')}-{uuid.uuid4().hex[:8]}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add to the report of a failure what the brokers of the test have logged."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        for name, broker in getattr(item, "funcargs", {}).items():
            if name in BROKERS:
                log = "\n".join(broker.log_text.splitlines()[-SHOWN_LINES:])
                report.sections.append((f"Log of {name}", log))


def _make(config: Mapping[str, str | int | float | bool]) -> EmbeddedBroker:
    broker: EmbeddedBroker = import_module("broker.embedded").EmbeddedBroker(config)
    return broker
