"""Moves between log directories under clients: the group coordinator's own topic, a crash and a stop in the middle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.records.batch import iter_batches
from protocol.records.record import iter_records
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.log_dirs import (
    checkpointed_in,
    folders,
    future_folders,
    future_in,
    log_dirs,
    move,
    new_directories,
    places,
    throttle,
    wait_until_only_in,
)
from tests.harness.raw import RawClient, eventually
from tests.harness.traffic import traffic

OFFSETS = "__consumer_offsets"


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return new_directories(tmp_path, 2)


@pytest.fixture
def broker(broker_factory: BrokerFactory, directories: list[Path]) -> BrokerProcess:
    return broker_factory({**log_dirs(*directories), "offsets.topic.num.partitions": "1"})


def test_the_topic_of_committed_offsets_moves_under_its_groups(broker: BrokerProcess, directories: list[Path]) -> None:
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", 1)
        with traffic(broker, "t", group="g") as running:
            running.wait_for_more()
            [home] = places(client, OFFSETS)
            others = [path for path in map(str, directories) if path != home]
            for path in (*others, home, *others):
                assert move(client, path, OFFSETS) == 0
                wait_until_only_in(client, path, OFFSETS)
                running.wait_for_more()
    before = committed(broker)
    assert before == len(running.acknowledged[0])
    broker.stop()
    broker.start()
    assert committed(broker) == before


def committed(broker: BrokerProcess) -> int:
    with RawClient((broker.host, broker.port)) as client:
        client.wait_for_topic("t", 1)

        def found() -> int | None:
            topics = [{"name": "t", "partition_indexes": [0]}]
            [group] = client.request("offset_fetch", 8, groups=[{"group_id": "g", "topics": topics}]).groups
            return group.topics[0].partitions[0].committed_offset if not group.error_code else None

        eventually(lambda: found() is not None, what="the coordinator answers")
        offset = found()
        assert offset is not None
        return offset


@pytest.mark.parametrize("end", [BrokerProcess.kill, BrokerProcess.stop])
def test_a_move_that_was_interrupted_goes_on_by_itself(
    broker: BrokerProcess, directories: list[Path], end: Callable[[BrokerProcess], None]
) -> None:
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", 1)
        throttle(client, 20_000)
        with traffic(broker, "t") as running:
            running.wait_for_more(1_000)
        [home] = places(client, "t")
        target = next(path for path in directories if str(path) != home)
        assert move(client, target, "t") == 0
        eventually(lambda: (placed := future_in(client, target, "t")) and placed.size, what="something is copied")
    end(broker)
    assert len(future_folders(target, "t")) == 1
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        client.wait_for_topic("t", 1)
        assert future_in(client, target, "t") is not None
        throttle(client, None)
        with traffic(broker, "t") as again:
            again.wait_for_more()
            wait_until_only_in(client, target, "t")
            again.wait_for_more()
        sent = running.acknowledged[0] + again.acknowledged[0]
        stored = client.fetch_all("t")
        records = [record for at, _ in iter_batches(stored) for record in iter_records(stored, at)]
        assert sent == [(record.offset, record.value) for record in records]
    broker.stop()
    assert folders(target, "t") == ["t-0"]
    assert "t-0" not in folders(Path(home), "t")
    assert not checkpointed_in(Path(home), "t")
    assert checkpointed_in(target, "t")["recovery-point-offset-checkpoint"] == len(sent)
