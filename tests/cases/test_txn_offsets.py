"""TXN-08 and the transactional half of GRP-01: offsets that are committed with a transaction, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cases.conftest import address
from tests.harness.broker import BrokerProcess
from tests.harness.groups import find_coordinator
from tests.harness.offsets import commit, committed
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import RawProducer, fetch_offset, find_transaction_coordinator

PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offset.metadata.max.bytes": "4096",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
UNKNOWN_PARTITION, METADATA_TOO_LARGE, ILLEGAL_GENERATION, UNSTABLE = 3, 12, 22, 88
NOTHING = -1


class Scene:
    """A group with a committed offset, and a producer that commits for it."""

    def __init__(self, client: RawClient, fresh: Callable[..., str], *, partitions: int = 1) -> None:
        self.topic, self.group = fresh(), fresh("group")
        client.create_topic(self.topic, partitions)
        find_coordinator(client, self.group)
        commit(client, self.group, self.topic, 10)
        self.producer = RawProducer(client, fresh("txn"), timeout_ms=60_000).init()

    @property
    def client(self) -> RawClient:
        return self.producer.client

    def stage(self, offset: int) -> None:
        assert self.producer.add_group(self.group) == 0
        assert self.producer.commit_offsets(self.group, [(self.topic, 0, offset)]) == [0]

    def end(self, *, commit: bool) -> None:
        assert self.producer.finish(commit=commit) == 0
        eventually(lambda: self.seen(stable=True)[1] == 0, what="offsets decided")

    def seen(self, *, stable: bool = False) -> tuple[int, int]:
        return fetch_offset(self.client, self.group, self.topic, stable=stable)


@pytest.fixture
def scene(client: RawClient, fresh: Callable[..., str]) -> Scene:
    return Scene(client, fresh)


def restart(broker: BrokerProcess, scene: Scene, *, is_killed: bool) -> RawClient:
    broker.kill() if is_killed else broker.stop()
    broker.start()
    scene.producer.client = RawClient(address(broker))
    find_coordinator(scene.client, scene.group)
    find_transaction_coordinator(scene.client, scene.producer.transactional_id)
    return scene.client


def test_txn_08_staged_offsets_are_not_seen_and_an_abort_drops_them(scene: Scene) -> None:
    scene.stage(20)
    assert scene.seen() == (10, 0)
    assert scene.seen(stable=True) == (NOTHING, UNSTABLE)
    for version in range(7, 10):
        assert is_unstable(scene, version), version
    scene.end(commit=False)
    assert scene.seen(stable=True) == scene.seen() == (10, 0)


def is_unstable(scene: Scene, version: int) -> bool:
    """Ask for a stable offset in one version."""
    topics = [{"name": scene.topic, "partition_indexes": [0]}]
    if version < 8:
        found = scene.client.request(
            "offset_fetch", version, group_id=scene.group, topics=topics, require_stable=True
        ).topics
    else:
        groups = [{"group_id": scene.group, "topics": topics}]
        [group] = scene.client.request("offset_fetch", version, groups=groups, require_stable=True).groups
        assert group.error_code == 0
        found = group.topics
    [[row]] = [topic.partitions for topic in found]
    return bool(row.error_code == UNSTABLE and row.committed_offset == NOTHING)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_txn_08_staged_offsets_outlive_the_broker(broker: BrokerProcess, scene: Scene, is_killed: bool) -> None:
    scene.stage(30)
    with restart(broker, scene, is_killed=is_killed):
        assert scene.seen(stable=True) == (NOTHING, UNSTABLE)
        scene.end(commit=True)
        assert scene.seen() == (30, 0)
    with restart(broker, scene, is_killed=is_killed):
        assert scene.seen(stable=True) == (30, 0)


def test_txn_08_the_later_write_wins(broker: BrokerProcess, scene: Scene) -> None:
    scene.stage(40)
    commit(scene.client, scene.group, scene.topic, 35)
    scene.end(commit=True)
    assert scene.seen(stable=True) == (35, 0)
    with restart(broker, scene, is_killed=False):
        assert scene.seen(stable=True) == (35, 0)


def test_txn_08_offsets_of_a_producer_that_vanishes_are_dropped_in_time(
    client: RawClient, connect: Callable[..., RawClient], scene: Scene, fresh: Callable[..., str]
) -> None:
    lost = RawProducer(connect(), fresh("txn"), timeout_ms=2000).init()
    assert lost.add_group(scene.group) == 0
    assert lost.commit_offsets(scene.group, [(scene.topic, 0, 50)]) == [0]
    lost.client.close()
    other = RawProducer(client, fresh("txn")).init()
    assert scene.seen(stable=True) == (NOTHING, UNSTABLE)
    eventually(lambda: scene.seen(stable=True) == (10, 0), within_s=8, what="abort of the transaction that is left")
    scene.producer = other
    scene.stage(60)
    scene.end(commit=True)
    assert scene.seen(stable=True) == (60, 0)


@pytest.mark.parametrize("version", range(6))
def test_txn_08_what_cannot_be_committed_is_refused(scene: Scene, fresh: Callable[..., str], version: int) -> None:
    if not scene.client.offers("txn_offset_commit", version):
        pytest.skip(f"TxnOffsetCommit v{version} is not offered")
    producer, unknown = scene.producer, fresh("group")
    assert producer.add_group(scene.group) == producer.add_group(unknown) == 0
    offsets = [(scene.topic, 0, 20), (scene.topic, 7, 20)]
    assert producer.commit_offsets(scene.group, offsets, version=version) == [0, UNKNOWN_PARTITION]
    if version >= 3:
        member = {"generation_id": 3, "member_id": "m"}
        assert producer.commit_offsets(unknown, offsets[:1], version=version, **member) == [ILLEGAL_GENERATION]
    scene.end(commit=True)
    assert scene.seen(stable=True) == (20, 0)
    assert fetch_offset(scene.client, unknown, scene.topic, stable=True) == (NOTHING, 0)


def test_grp_01_metadata_in_a_transaction_is_kept_or_refused(
    broker: BrokerProcess, client: RawClient, fresh: Callable[..., str]
) -> None:
    scene = Scene(client, fresh, partitions=4)
    producer = scene.producer
    assert producer.add_group(scene.group) == 0
    texts = ["m" * 4096, "m" * 4097, None, "ünï"]
    codes = [
        producer.commit_offsets(scene.group, [(scene.topic, partition, partition)], metadata=text)
        for partition, text in enumerate(texts)
    ]
    assert codes == [[0], [METADATA_TOO_LARGE], [0], [0]]
    scene.end(commit=True)
    kept = {0: (0, texts[0]), 1: (NOTHING, ""), 2: (2, ""), 3: (3, texts[3])}

    def stored() -> dict[int, tuple[int, str]]:
        topics = [{"name": scene.topic, "partition_indexes": list(kept)}]
        answer = scene.client.request("offset_fetch", 7, group_id=scene.group, topics=topics, require_stable=True)
        [topic] = answer.topics
        assert {row.error_code for row in topic.partitions} == {0}
        return {row.partition_index: (row.committed_offset, row.metadata) for row in topic.partitions}

    assert stored() == kept
    with restart(broker, scene, is_killed=False):
        assert stored() == kept
        assert committed(scene.client, scene.group, scene.topic)[0] == 0
