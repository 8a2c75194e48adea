"""The pytest plugin in runs of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.inner_pytest import run_pytest

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def kafka_broker_config():
    return {"num.partitions": 3}
"""

FIXTURES = """
from kafka import KafkaProducer

def partitions(broker, topic):
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    found = producer.partitions_for(topic)
    producer.close()
    return len(found)

def test_all_have_one_broker(kafka_broker, kafka_topic):
    assert partitions(kafka_broker, kafka_topic) == 3
    test_all_have_one_broker.seen = kafka_broker.bootstrap_servers, kafka_topic

def test_all_have_one_broker_indeed(kafka_broker, kafka_topic):
    assert kafka_broker.bootstrap_servers == test_all_have_one_broker.seen[0]
    assert kafka_topic != test_all_have_one_broker.seen[1]

def test_alone(kafka_broker, fresh_kafka_broker, kafka_topic):
    assert fresh_kafka_broker.bootstrap_servers != kafka_broker.bootstrap_servers
    fresh_kafka_broker.kill()
    fresh_kafka_broker.start()
    assert partitions(fresh_kafka_broker, kafka_topic) == 3

def test_that_fails(kafka_broker):
    assert kafka_broker is None
"""

TWO_WORKERS = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(4))
def test_where(kafka_broker, number):
    place = pathlib.Path("places") / os.environ["PYTEST_XDIST_WORKER"]
    place.parent.mkdir(exist_ok=True)
    with place.open("a") as file:
        file.write(kafka_broker.bootstrap_servers + "\\n")
"""

NOTHING_LOADED = """
import sys

def test_without_a_broker():
    assert "broker.pytest_plugin" in sys.modules
    assert not {"broker.embedded", "broker.runtime", "config", "protocol", "storage", "uvloop"} & set(sys.modules)
"""


def test_fixtures_give_brokers_and_failures_show_their_log(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_fixtures.py").write_text(FIXTURES)
    done = run_pytest(tmp_path)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    report = done.stdout[done.stdout.index("Log of kafka_broker") :]
    assert "Kafka Server started" in report


def test_each_worker_of_xdist_has_a_broker(tmp_path: Path):
    pytest.importorskip("xdist")
    (tmp_path / "test_workers.py").write_text(TWO_WORKERS)
    done = run_pytest(tmp_path, "-n", "2")
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    places = [set(file.read_text().split()) for file in (tmp_path / "places").iterdir()]
    assert all(len(place) == 1 for place in places)
    assert len(set.union(*places)) == len(places)


def test_a_run_without_brokers_loads_nothing(tmp_path: Path):
    (tmp_path / "test_nothing.py").write_text(NOTHING_LOADED)
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
