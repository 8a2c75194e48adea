"""The file system of the cluster metadata fails: the broker ends with status 1 and says why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.rig import MARKER, QUIET
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.mounts import Disk
from tests.harness.raw import ConnectionClosed, RawClient

NOT_CONTROLLER = 41


@pytest.fixture
def broker(tmp_path: Path, disk: Disk) -> Iterator[BrokerProcess]:
    """Give a broker whose only log directory is on the disk."""
    broker = BrokerProcess(tmp_path / "broker", {"log.dirs": str(disk.path / "logs"), **QUIET})
    yield broker
    broker.close()


def create(client: RawClient, name: str) -> int:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    return client.request("create_topics", 7, topics=[topic], timeout_ms=15_000).topics[0].error_code


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("make_read_only", "Read-only file system"),
        ("break_writes", "Input/output error"),
        ("power_off", "Input/output error"),
        ("fill", "No space left on device"),
    ],
)
def test_the_broker_ends_when_its_metadata_cannot_be_written(
    broker: BrokerProcess, disk: Disk, fault: str, reason: str
) -> None:
    broker.start()
    names = []
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t")
        client.append("t", batches.simple("v"))
        getattr(disk, fault)()
        with suppress(ConnectionClosed):  # where the log of a new topic fails first
            while (code := create(client, f"more-{len(names)}")) == 0:  # until the block that is there already is full
                names.append(f"more-{len(names)}")
            assert code == NOT_CONTROLLER
    assert broker.wait(timeout_s=15) == 1
    (line,) = [line for line in broker.log_text().splitlines() if "stopping reason=" in line]
    assert "the cluster metadata failed" in line and reason in line
    assert not (disk.path / "logs" / MARKER).exists()
    if fault != "fill":
        disk.repair()
    disk.free()
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        assert client.topic_names() in ({"t", *names}, {"t", *names, f"more-{len(names)}"})
    assert broker.stop() == 0
