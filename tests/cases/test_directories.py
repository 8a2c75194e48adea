"""Several log directories, and what becomes of partitions whose directory is away or cannot be read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient

pytestmark = pytest.mark.skipif(reference_wanted(), reason="looks at Odradek's own process and directories")

NOT_LEADER = 6
FRESH_PARTITIONS = 4


@pytest.fixture
def two_dirs(tmp_path: Path, broker_factory: Callable[..., BrokerProcess]) -> BrokerProcess:
    """Give a broker with two directories and a topic with one record in each of its partitions, two a directory."""
    broker = broker_factory({"log.dirs": f"{tmp_path / 'first'},{tmp_path / 'second'}"})
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", FRESH_PARTITIONS)
        for index in range(FRESH_PARTITIONS):
            client.append("t", batches.simple("v"), index)
    return broker


def ends(client: RawClient, topic: str) -> list[tuple[int, int]]:
    found = [client.list_offset(topic, -1, index) for index in range(FRESH_PARTITIONS)]
    return [(one.error_code, one.offset) for one in found]


def leaders(client: RawClient, topic: str) -> list[int]:
    return [row.leader_id for row in sorted(client.topic(topic).partitions, key=lambda row: row.partition_index)]


def logs_in(directory: Path) -> list[int]:
    return sorted(int(entry.name.removeprefix("t-")) for entry in directory.glob("t-?"))


@pytest.mark.parametrize("replacement", ["a file", "an empty directory"])
def test_records_of_a_directory_that_is_away_are_neither_hidden_nor_lost(
    tmp_path: Path, two_dirs: BrokerProcess, replacement: str
) -> None:
    second, away = tmp_path / "second", tmp_path / "away"
    there = logs_in(second)
    assert len(there) == 2
    two_dirs.stop()
    second.rename(away)
    if replacement == "a file":
        second.write_bytes(b"not mounted")
    two_dirs.start()
    with RawClient((two_dirs.host, two_dirs.port)) as client:
        expected = [(NOT_LEADER, -1) if index in there else (0, 1) for index in range(FRESH_PARTITIONS)]
        assert ends(client, "t") == expected
        assert client.produce("t", batches.simple("new"), there[0]).error_code == NOT_LEADER
        assert leaders(client, "t") == [-1 if index in there else 1 for index in range(FRESH_PARTITIONS)]
        client.create_topic("new", FRESH_PARTITIONS)
    assert two_dirs.stop() == 0
    if replacement == "a file":
        second.unlink()
        away.rename(second)
        two_dirs.start()
        with RawClient((two_dirs.host, two_dirs.port)) as client:
            assert ends(client, "t") == [(0, 1)] * FRESH_PARTITIONS
            assert ends(client, "new") == [(0, 0)] * FRESH_PARTITIONS
    two_dirs.log_path.write_text("")  # the offline directory was wanted


def test_a_directory_that_missed_a_topics_deletion_comes_back(tmp_path: Path, two_dirs: BrokerProcess) -> None:
    second, away = tmp_path / "second", tmp_path / "away"
    there = logs_in(second)
    two_dirs.stop()
    second.rename(away)
    second.write_bytes(b"not mounted")
    two_dirs.start()
    with RawClient((two_dirs.host, two_dirs.port)) as client:
        client.delete_topic("t")
        client.create_topic("t", FRESH_PARTITIONS)
    two_dirs.stop()
    second.unlink()
    away.rename(second)
    two_dirs.start()
    with RawClient((two_dirs.host, two_dirs.port)) as client:
        assert ends(client, "t") == [(0, 0)] * FRESH_PARTITIONS
    assert len(list(second.glob("t-*-stray"))) == len(there)
    two_dirs.log_path.write_text("")  # the offline directory was wanted


def test_the_start_ends_when_the_only_directory_cannot_be_loaded(broker_factory: Callable[..., BrokerProcess]) -> None:
    broker = broker_factory()
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t")
        client.append("t", batches.simple("v"))
    broker.stop()
    log = broker.data_directory / "t-0" / f"{0:020}.log"
    log.rename(log.with_suffix(".kept"))
    log.mkdir()
    broker.launch()
    assert broker.wait(timeout_s=15) == 1
    assert "no log directory is left" in broker.log_text()
    log.rmdir()
    log.with_suffix(".kept").rename(log)
    broker.log_path.write_text("")  # its errors were wanted
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        assert client.end_offset("t") == 1
