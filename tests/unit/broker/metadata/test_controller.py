"""The controller over a real metadata log: durability, order, restarts, snapshots."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from broker.metadata import log
from broker.metadata.controller import run
from broker.metadata.controller.partitions import NewPartitions
from broker.metadata.controller.run import Controller, SnapshotRules
from broker.metadata.controller.topics import NewTopic, TopicToDelete
from broker.metadata.errors import ControllerClosed, ForeignQuorum, PolicyViolation, TopicDeletionDisabled
from broker.metadata.framing import iter_cluster_batches
from broker.metadata.image import ClusterImage, Delta
from config.views import BrokerConfig
from protocol.stored.cluster import PartitionChangeRecord
from storage.env.posix import PosixFile
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.unit.broker.conftest import DIRECTORY_ID, Node


def record_names(node: Node) -> list[str]:
    content = (node.log_path / "00000000000000000000.log").read_bytes()
    return [type(message).__name__ for _, messages in iter_cluster_batches(content) for _, message in messages]


def epochs(image: ClusterImage, topic: str) -> list[int]:
    return [partition.leader_epoch for partition in image.topics_by_name[topic].partitions]


async def create(controller: Controller, *names: str) -> None:
    results = await controller.create_topics([NewTopic(name, 2, 1) for name in names])
    assert [result.error for result in results] == [None] * len(names)


async def test_a_fresh_log_begins_as_the_reference_begins_it(node: Node) -> None:
    controller = await node.start()
    await controller.close()
    assert record_names(node) == [
        "LeaderChangeMessage",
        "KRaftVersionRecord",
        "VotersRecord",
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "EndTransactionRecord",
        "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
    ]
    assert (node.directory / "bootstrap.checkpoint").exists()
    assert (node.log_path / "00000000000000000000-0000000000.checkpoint").exists()
    assert json.loads((node.log_path / "quorum-state").read_text()) == {
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "votedDirectoryId": "A" * 22,
        "data_version": 1,
    }


async def test_topics_configs_and_ids_survive_restarts_and_epochs_rise_by_one(node: Node) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic("t", 2, 1, configs=(("retention.ms", "1000"),))])
    first = controller.image
    block = await controller.allocate_producer_ids()
    for start in (1, 2):
        await controller.close()
        controller = await node.start()
        assert controller.epoch == start + 1
        assert epochs(controller.image, "t") == [start, start]
    image = controller.image
    assert image.cluster_id == first.cluster_id
    assert image.topics_by_name["t"].topic_id == first.topics_by_name["t"].topic_id
    assert image.topic_config("t") == {"retention.ms": "1000"}
    assert (await controller.allocate_producer_ids()).first == block.first + block.size
    await controller.close()


async def test_a_log_that_was_never_closed_loads_the_same(node: Node) -> None:
    controller = await node.start()
    await create(controller, "t")
    again = await node.start()
    assert epochs(again.image, "t") == [1, 1]
    await again.close()


async def test_the_answer_waits_for_the_disk_and_nobody_sees_the_topic_before(node: Node) -> None:
    controller = await node.start()
    synced = asyncio.Event()

    async def flush(call: Callable[[], Any]) -> Any:
        await synced.wait()
        return call()

    node.flush = flush
    creation = asyncio.create_task(controller.create_topics([NewTopic("t", 1, 1)]))
    question = asyncio.create_task(controller.create_topics([NewTopic("t", 1, 1)]))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not creation.done()
    assert not question.done()
    assert "t" not in controller.image.topics_by_name
    synced.set()
    assert (await creation)[0].error is None
    assert "already exists" in str((await question)[0].error)
    assert "t" in controller.image.topics_by_name
    await controller.close()


async def test_concurrent_commands_share_a_flush(node: Node) -> None:
    controller = await node.start()
    before = node.flushes
    released = asyncio.Event()

    async def flush(call: Callable[[], Any]) -> Any:
        await released.wait()
        return call()

    node.flush = flush
    commands = [asyncio.create_task(controller.create_topics([NewTopic(f"t{i}", 1, 1)])) for i in range(20)]
    await asyncio.sleep(0)
    released.set()
    await asyncio.gather(*commands)
    assert node.flushes - before <= 2
    await controller.close()


async def test_many_callers_that_auto_create_one_name_make_one_topic(node: Node) -> None:
    controller = await node.start()
    created: list[str] = []
    seen: list[bool] = []

    async def ask() -> None:
        await controller.auto_create(["t", "own"])
        seen.append("t" in controller.image.topics_by_name)

    controller._publishers.subscribe(lambda delta, image: created.extend(t.name for t in delta.created_topics))
    await asyncio.gather(*(ask() for _ in range(20)))
    assert created == ["t", "own"]
    assert seen == [True] * 20
    assert len(controller.image.topics_by_name["t"].partitions) == node.config.num_partitions
    await controller.auto_create(["__consumer_offsets"])
    assert len(controller.image.topics_by_name["__consumer_offsets"].partitions) == 3
    await controller.close()


async def test_publishers_hear_everything_once_in_order(node: Node) -> None:
    controller = await node.start()
    await create(controller, "old")
    await controller.close()
    controller = node.controller()
    heard: list[tuple[str, Delta]] = []
    controller.subscribe(lambda delta, image: heard.append(("first", delta)))
    controller.subscribe(lambda delta, image: heard.append(("second", delta)))
    controller.load()
    await controller.start(node.registration(), node.where)
    assert [who for who, _ in heard] == ["first", "second"]
    assert [p.topic_partition for p in heard[0][1].created_partitions] == [("old", 0), ("old", 1)]
    heard.clear()
    await create(controller, "new")
    await controller.create_partitions([NewPartitions("new", 3)])
    await controller.delete_topics([TopicToDelete("new")])
    deltas = [delta for who, delta in heard if who == "first"]
    assert [t.name for t in deltas[0].created_topics] == ["new"]
    assert [p.partition for p in deltas[1].created_partitions] == [2]
    assert [len(t.partitions) for t in deltas[2].deleted_topics] == [3]
    await controller.close()


async def test_a_step_is_prepared_before_anybody_sees_it(node: Node) -> None:
    controller = node.controller()
    order: list[str] = []
    begun, ready = asyncio.Event(), asyncio.Event()

    async def prepare(delta: Delta, image: ClusterImage) -> None:
        order.append("prepare")
        begun.set()
        assert "t" in image.topics_by_name and "t" not in controller.image.topics_by_name
        await ready.wait()

    controller.subscribe(lambda delta, image: order.append("publish"), prepare)
    controller.load()
    await controller.start(node.registration(), node.where)
    order.clear()
    creation = asyncio.ensure_future(create(controller, "t"))
    await asyncio.wait_for(begun.wait(), 5)
    assert order == ["prepare"] and not creation.done()
    ready.set()
    await creation
    assert order == ["prepare", "publish"]
    await controller.close()


async def test_a_topic_created_again_has_another_id(node: Node) -> None:
    controller = await node.start()
    await create(controller, "t")
    first = controller.image.topics_by_name["t"].topic_id
    await controller.delete_topics([TopicToDelete("t")])
    assert "t" not in controller.image.topics_by_name
    await create(controller, "t")
    assert controller.image.topics_by_name["t"].topic_id != first
    assert epochs(controller.image, "t") == [0, 0]
    await controller.close()


async def test_validate_only_changes_nothing(node: Node) -> None:
    controller = await node.start()
    end = controller.image.end_offset
    results = await controller.create_topics([NewTopic("t", 2, 1)], validate_only=True)
    assert results[0].topic is not None
    await create(controller, "u")
    extended = await controller.create_partitions([NewPartitions("u", 5)], validate_only=True)
    assert extended[0].error is None
    assert list(controller.image.topics_by_name) == ["u"]
    assert len(controller.image.topics_by_name["u"].partitions) == 2
    assert controller.image.end_offset == end + 3
    await controller.close()


async def test_directories_are_recorded_without_a_new_leader_epoch(node: Node) -> None:
    node.log_dirs = (DIRECTORY_ID, bytes([7]) * 16)
    controller = await node.start()
    await create(controller, "t")
    await controller.assign_directories({TopicPartition("t", 1): node.log_dirs[1]})
    first, second = controller.image.topics_by_name["t"].partitions
    assert (first.directories, second.directories) == ((bytes(16),), (node.log_dirs[1],))
    assert second.leader_epoch == 0
    await controller.close()


async def test_deletion_can_be_switched_off(node: Node) -> None:
    node.config = BrokerConfig(node_id=1, delete_topic_enable=False)
    controller = await node.start()
    with pytest.raises(TopicDeletionDisabled):
        await controller.delete_topics([TopicToDelete("t")])
    await controller.close()


async def test_a_command_too_large_for_one_batch_is_refused_and_the_next_one_works(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await node.start()
    monkeypatch.setattr(log, "MAX_BATCH_BYTES", 1_000)
    with pytest.raises(PolicyViolation):
        await controller.create_topics([NewTopic(f"t{i}", 1, 1) for i in range(20)])
    await create(controller, "ok")
    assert list(controller.image.topics_by_name) == ["ok"]
    await controller.close()


async def test_a_failed_flush_stops_the_controller_for_good(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = await node.start()

    async def flush(call: Callable[[], Any]) -> Any:
        raise StorageFailure("disk gone", str(node.log_path))

    node.flush = flush
    commands = [asyncio.create_task(controller.create_topics([NewTopic(name, 1, 1)])) for name in ("a", "b")]
    outcomes = await asyncio.gather(*commands, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ControllerClosed, ControllerClosed]
    node.flush = None
    with pytest.raises(ControllerClosed, match="disk gone"):
        await controller.create_topics([NewTopic("c", 1, 1)])
    assert controller.image.topics_by_name == {}
    monkeypatch.setattr(PosixFile, "sync", lambda file: pytest.fail("a second sync might say that all is well"))
    with pytest.raises(StorageFailure, match="disk gone"):
        await controller.close()


async def test_a_failed_append_stops_the_controller_for_good_and_is_reported(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await node.start()
    failures: list[BaseException] = []
    node.tasks._on_failure = failures.append

    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PosixFile, "write_at", refuse)
    for _ in range(2):
        with pytest.raises(ControllerClosed, match="No space left on device"):
            await controller.create_topics([NewTopic("t", 1, 1)])
    assert [type(failure) for failure in failures] == [StorageFailure]
    with pytest.raises(StorageFailure, match="No space left on device"):
        await controller.close()


async def test_a_report_in_pieces_that_fails_halfway_leaves_no_failure_that_nobody_looked_at(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await node.start()
    await create(controller, "t")
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
    monkeypatch.setattr(run, "MAX_RECORDS_PER_COMMAND", 1)
    write_at, left = PosixFile.write_at, [1]

    def write_once(file: PosixFile, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EIO, "Input/output error")
        return write_at(file, *arguments)

    monkeypatch.setattr(PosixFile, "write_at", write_once)
    where = {TopicPartition("t", index): DIRECTORY_ID for index in range(2)}
    with pytest.raises(ControllerClosed):
        await controller.directories_offline({DIRECTORY_ID}, where)
    gc.collect()
    assert left == [-1], "the first piece was written and waited for the disk"
    assert unseen == []
    with pytest.raises(StorageFailure):
        await controller.close()


@pytest.mark.parametrize("call", [lambda log, image: log.snapshot(image), lambda log, image: log.snapshot_files()])
async def test_a_directory_that_is_gone_is_a_failure_of_the_disk(node: Node, call: Callable[..., Any]) -> None:
    controller = await node.start()
    shutil.rmtree(node.log_path)
    with pytest.raises(StorageFailure, match="No such file or directory") as caught:
        call(controller._log, controller.image)
    assert caught.value.path == str(node.log_path)


async def test_a_caller_that_goes_away_does_not_undo_its_command(node: Node) -> None:
    controller = await node.start()
    released = asyncio.Event()

    async def flush(call: Callable[[], Any]) -> Any:
        await released.wait()
        return call()

    node.flush = flush
    command = asyncio.create_task(controller.create_topics([NewTopic("t", 1, 1)]))
    await asyncio.sleep(0)
    command.cancel()
    await asyncio.gather(command, return_exceptions=True)
    released.set()
    await create(controller, "u")
    assert list(controller.image.topics_by_name) == ["t", "u"]
    await controller.close()


async def test_a_closed_controller_refuses_commands(node: Node) -> None:
    controller = await node.start()
    await controller.close()
    with pytest.raises(ControllerClosed):
        await controller.create_topics([NewTopic("t", 1, 1)])


async def test_snapshots_are_written_when_due_and_loaded_with_the_log_behind_them(node: Node) -> None:
    node.snapshots = SnapshotRules(max_bytes=500)
    controller = await node.start()
    for round_ in range(4):
        await create(controller, f"a{round_}", f"b{round_}")
        await controller.delete_topics([TopicToDelete(f"b{round_}")])
        if controller._snapshot_task is not None:
            await controller._snapshot_task
    await create(controller, "last")
    expected = controller.image
    await controller.close()
    assert len(list(node.log_path.glob("*.checkpoint"))) > 2
    loaded, unfinished = node.open_log().load()
    assert not unfinished
    assert loaded.topics_by_id == expected.topics_by_id
    assert loaded.configs == expected.configs
    assert loaded.brokers == expected.brokers
    assert loaded.end_offset == expected.end_offset


async def test_a_start_that_replayed_much_leaves_a_snapshot_for_the_next_one(node: Node) -> None:
    controller = await node.start()
    await create(controller, "a", "b")
    await controller.close()
    node.snapshots = SnapshotRules(max_bytes=20_971_520, min_records=10)
    controller = await node.start()
    await controller.close()
    assert len(list(node.log_path.glob("*.checkpoint"))) == 2
    controller = await node.start()
    assert epochs(controller.image, "a") == [2, 2]
    assert controller._log.records_since_snapshot < 10
    await controller.close()


async def test_a_damaged_snapshot_is_passed_over(node: Node) -> None:
    controller = await node.start()
    await create(controller, "t")
    controller._log.snapshot(controller.image)
    await controller.close()
    newest = max(node.log_path.glob("*.checkpoint"))
    newest.write_bytes(newest.read_bytes()[:-10])
    (node.log_path / (newest.name + ".part")).write_bytes(b"never finished")
    again = await node.start()
    assert epochs(again.image, "t") == [1, 1]
    assert not list(node.log_path.glob("*.part"))
    await again.close()


async def test_a_log_cut_below_its_snapshot_goes_on_from_the_snapshot(node: Node) -> None:
    controller = await node.start()
    await create(controller, "t")
    controller._log.snapshot(controller.image)
    end = controller.image.end_offset
    await controller.close()
    for path in node.log_path.glob("00000000000000000000.*"):
        path.unlink()
    again = await node.start()
    assert epochs(again.image, "t") == [1, 1]
    assert again.image.end_offset > end
    await again.close()


async def test_an_epoch_number_is_never_used_twice(node: Node) -> None:
    controller = await node.start()
    await controller.close()
    state = node.log_path / "quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":1', '"leaderEpoch":41'))
    again = await node.start()
    assert again.epoch == 42
    await again.close()
    state.unlink()
    last = await node.start()
    assert last.epoch == 43
    await last.close()


async def test_a_new_controller_address_is_told_to_the_quorum(node: Node) -> None:
    controller = await node.start()
    await controller.close()
    node.voter = node.voter._replace(port=19_093)
    controller = await node.start()
    await controller.close()
    assert record_names(node).count("VotersRecord") == 2
    controller = await node.start()
    await controller.close()
    assert record_names(node).count("VotersRecord") == 2


async def test_a_directory_of_another_quorum_is_refused(node: Node) -> None:
    controller = await node.start()
    await controller.close()
    node.voter = node.voter._replace(node_id=5)
    with pytest.raises(ForeignQuorum, match="nodes \\[1\\]"):
        await node.start()


async def test_elections_of_many_partitions_are_cut_into_batches(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic("big", 250, 1)])
    await controller.close()
    monkeypatch.setattr(run, "MAX_RECORDS_PER_COMMAND", 100)
    controller = await node.start()
    assert set(epochs(controller.image, "big")) == {1}
    await controller.close()
    content = (node.log_path / "00000000000000000000.log").read_bytes()
    sizes = [
        len(messages)
        for _, messages in iter_cluster_batches(content)
        if messages and isinstance(messages[-1][1], PartitionChangeRecord)
    ]
    assert sizes == [100, 100, 51]  # the change of the broker's own state stands first
