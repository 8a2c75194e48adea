"""MET-02: what the metrics say of a partition that moves, and of a directory that is away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.log_dirs import (
    create_in,
    describe,
    future_in,
    log_dirs,
    logs_in,
    move,
    new_directories,
    throttle,
    wait_until_only_in,
)
from tests.harness.raw import RawClient, eventually
from tests.harness.scraped import Labels, scrape

pytestmark = pytest.mark.skipif(reference_wanted(), reason="scrapes the HTTP page")

KIB, MIB = 1 << 10, 1 << 20
OF_LOGS = ("size", "logstartoffset", "logendoffset", "numlogsegments")


def by_label(series: Mapping[Labels, float], label: str) -> dict[str, float]:
    return {dict(labels)[label]: value for labels, value in series.items()}


def of_partition(scraped: Mapping[str, Mapping[Labels, float]], topic: str) -> dict[str, dict[Labels, float]]:
    return {
        name: {
            labels: value for labels, value in scraped[f"kafka_log_log_{name}"].items() if ("topic", topic) in labels
        }
        for name in OF_LOGS
    }


def check_sums(broker: BrokerProcess, client: RawClient) -> None:
    """Compare the sums of each directory with what DescribeLogDirs lists there."""
    scraped = scrape(broker)
    listed = {path: logs_in(result) for path, result in describe(client).items()}
    assert by_label(scraped["odradek_log_dir_logs"], "dir") == {path: len(logs) for path, logs in listed.items()}
    assert by_label(scraped["odradek_log_dir_size_bytes"], "dir") == {
        path: sum(log.size for log in logs.values()) for path, logs in listed.items()
    }


def test_met_02_series_during_and_after_a_move(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = broker_factory({**log_dirs(a, b), "log.retention.ms": "-1", "log.segment.delete.delay.ms": "100"})
    batch = batches.build([Record(bytes(1000)) for _ in range(KIB)])
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        create_in(client, "other", a, b)
        for _ in range(6):
            client.append("t", batch)
        client.append("other", batch)
        before = of_partition(scrape(broker), "t")
        assert {name: len(series) for name, series in before.items()} == dict.fromkeys(OF_LOGS, 1)
        assert list(before["logendoffset"].values()) == [6 * KIB]
        check_sums(broker, client)

        throttle(client, 0)
        assert move(client, b, "t") == 0
        eventually(lambda: future_in(client, b, "t"))
        eventually(lambda: _stands_still(client, b))
        assert of_partition(scrape(broker), "t") == before
        check_sums(broker, client)
        throttle(client, None)
        wait_until_only_in(client, b, "t")
        assert of_partition(scrape(broker), "t") == before
        check_sums(broker, client)
    text = broker.http_get("/metrics")
    assert "future" not in "".join(line for line in text.splitlines() if 'topic="t"' in line)


def _stands_still(client: RawClient, directory: Path) -> bool:
    """Tell whether two looks at the copy show the same: with a rate of 0 it gets one chunk at most."""
    return future_in(client, directory, "t") == future_in(client, directory, "t")


def test_met_02_a_directory_that_is_away_is_counted(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = broker_factory(log_dirs(a, b))
    with RawClient(address(broker)) as client:
        create_in(client, "t", a, b)
    healthy = scrape(broker)
    assert by_label(healthy["kafka_log_logmanager_logdirectoryoffline"], "logDirectory") == {str(a): 0, str(b): 0}
    assert list(healthy["kafka_log_logmanager_offlinelogdirectorycount"].values()) == [0]
    broker.stop()
    b.rename(tmp_path / "away")
    b.write_bytes(b"not mounted")
    broker.start()
    scraped = scrape(broker)
    assert by_label(scraped["kafka_log_logmanager_logdirectoryoffline"], "logDirectory") == {str(a): 0, str(b): 1}
    assert list(scraped["kafka_log_logmanager_offlinelogdirectorycount"].values()) == [1]
    assert list(scraped["kafka_server_replicamanager_offlinereplicacount"].values()) == [1]
    partitions = {dict(labels)["partition"] for labels in of_partition(scraped, "t")["size"]}
    assert partitions == {"0"}, "no series of a log that is not there"
    broker.close()
    broker.log_path.write_text("")  # its errors were wanted
