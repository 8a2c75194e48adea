"""Old snapshots and the log below them: what goes, in which order, and that the rest is enough for a start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.controller.run import Controller, SnapshotRules
from broker.metadata.controller.topics import NewTopic, TopicToDelete
from broker.metadata.errors import CorruptMetadata
from broker.metadata.image import ClusterImage
from broker.metadata.retention import MetadataRetention, SnapshotFile, reason_to_go
from broker.metadata.snapshot import SnapshotId
from tests.harness.hosted import ManualClock
from tests.unit.broker.conftest import Node

FIRST, SECOND = SnapshotFile(SnapshotId(0, 0), 10, 1_000), SnapshotFile(SnapshotId(50, 1), 20, 5_000)
EVERYTHING = MetadataRetention(max_bytes=0, max_ms=-1)


@pytest.mark.parametrize(
    ("rules", "goes"),
    [
        (MetadataRetention(-1, -1), False),
        (MetadataRetention(130, -1), False),
        (MetadataRetention(129, -1), True),
        (MetadataRetention(0, -1), True),
        (MetadataRetention(-1, 9_000), False),
        (MetadataRetention(-1, 8_999), True),
        (MetadataRetention(-1, 0), True),
    ],
)
def test_the_oldest_snapshot_goes_over_the_bytes_or_over_the_age(rules: MetadataRetention, goes: bool) -> None:
    reason = reason_to_go([FIRST, SECOND], rules, log_size_bytes=100, now_ms=10_000)
    assert (reason is not None) is goes


def test_the_only_snapshot_stays() -> None:
    assert reason_to_go([FIRST], MetadataRetention(0, 0), log_size_bytes=100, now_ms=10_000) is None
    assert reason_to_go([], MetadataRetention(0, 0), log_size_bytes=100, now_ms=10_000) is None


def names(node: Node, suffix: str) -> list[str]:
    return sorted(path.name for path in node.log_path.glob("*" + suffix))


def same(one: ClusterImage, other: ClusterImage) -> bool:
    """Compare what clients see; a start adds its own registration and epochs."""
    return (set(one.topics_by_id), one.configs, one.features) == (
        set(other.topics_by_id),
        other.configs,
        other.features,
    )


async def work(controller: Controller, rounds: int) -> None:
    for number in range(rounds):
        await controller.create_topics([NewTopic(f"a{number}", 5, 1), NewTopic(f"b{number}", 5, 1)])
        await controller.delete_topics([TopicToDelete(f"b{number}")])
        if controller._snapshot_task is not None:
            await controller._snapshot_task


async def housekeep(controller: Controller) -> None:
    controller.housekeep()
    for task in (controller._snapshot_task, controller._cleaning):
        if task is not None:
            await task


async def test_segments_below_the_oldest_snapshot_that_stays_are_removed_and_the_rest_is_enough(node: Node) -> None:
    clock = node.clock = ManualClock()
    node.segment_bytes = 4_000
    node.snapshots = SnapshotRules(max_bytes=5_000, retention=EVERYTHING)
    controller = await node.start()
    await work(controller, 20)
    before = names(node, ".log")
    assert len(before) > 3 and len(names(node, ".checkpoint")) > 2
    await housekeep(controller)
    [kept] = names(node, ".checkpoint")
    end = int(kept.split("-")[0])
    after = names(node, ".log")
    assert len(after) < len(before) and after == before[-len(after) :]
    # The segment that holds the snapshot's end stays, those below it are gone.
    assert int(after[0].split(".")[0]) <= end
    assert len(after) < 2 or int(after[1].split(".")[0]) > end
    assert len(names(node, ".log.deleted")) == len(before) - len(after)
    clock.wall_ms += 999
    await housekeep(controller)
    assert names(node, ".deleted")
    clock.wall_ms += 1
    await housekeep(controller)
    assert not names(node, ".deleted")
    await controller.create_topics([NewTopic("last", 1, 1)])
    expected = controller.image
    await controller.close()

    controller = await node.start()
    assert same(controller.image, expected)
    await work(controller, 0)
    await controller.close()
    # And when nothing was closed: the newest snapshot and the log behind it.
    loaded, _ = node.open_log().load()
    assert same(loaded, expected)


async def test_a_bound_in_bytes_keeps_as_many_snapshots_as_fit(node: Node) -> None:
    node.segment_bytes = 4_000
    node.snapshots = SnapshotRules(max_bytes=5_000)
    controller = await node.start()
    await work(controller, 20)
    files = controller._log.snapshot_files()
    total = controller._log.size_bytes + sum(one.size_bytes for one in files)
    controller._snapshots = node.snapshots._replace(retention=MetadataRetention(total, -1))
    await housekeep(controller)
    assert controller._log.snapshot_files() == files
    controller._snapshots = node.snapshots._replace(retention=MetadataRetention(total - 1, -1))
    await housekeep(controller)
    assert controller._log.snapshot_files() == files[1:]
    await controller.close()


async def test_age_is_that_of_the_last_record_a_snapshot_covers(node: Node) -> None:
    clock = node.clock = ManualClock()
    node.snapshots = SnapshotRules(max_bytes=1, retention=MetadataRetention(-1, 10_000))
    controller = await node.start()
    await work(controller, 1)
    clock.wall_ms += 10_000
    await work_again(controller)
    kept = names(node, ".checkpoint")
    await housekeep(controller)
    assert names(node, ".checkpoint") == kept
    clock.wall_ms += 1
    await housekeep(controller)
    assert names(node, ".checkpoint") == kept[-1:]
    await controller.close()


async def work_again(controller: Controller) -> None:
    await controller.create_topics([NewTopic("later", 1, 1)])
    if controller._snapshot_task is not None:
        await controller._snapshot_task


async def test_a_snapshot_is_due_by_time_once_there_is_something_new(node: Node) -> None:
    clock = node.clock = ManualClock()
    node.snapshots = SnapshotRules(max_bytes=20_971_520, max_interval_ms=60_000)
    controller = await node.start()
    await controller.create_topics([NewTopic("t", 1, 1)])
    clock.wall_ms += 59_999
    await housekeep(controller)
    assert len(names(node, ".checkpoint")) == 1
    clock.wall_ms += 1
    await housekeep(controller)
    assert len(names(node, ".checkpoint")) == 2
    clock.wall_ms += 60_000
    await housekeep(controller)
    assert len(names(node, ".checkpoint")) == 2, "nothing has changed since"
    await controller.create_topics([NewTopic("u", 1, 1)])
    assert controller._snapshot_task is not None, "it is due with the next change"
    await controller._snapshot_task
    await controller.close()


async def test_a_failed_removal_ends_the_controller(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.snapshots = SnapshotRules(max_bytes=1, retention=EVERYTHING)
    controller = await node.start()
    await work(controller, 1)

    async def fail(call: Callable[[], Any]) -> Any:
        raise OSError("no disk")

    node.flush = fail
    controller.housekeep()
    assert controller._cleaning is not None
    with pytest.raises(OSError, match="no disk"):
        await controller._cleaning


async def test_a_log_that_begins_above_its_snapshot_is_refused(node: Node, tmp_path: Path) -> None:
    node.segment_bytes = 4_000
    node.snapshots = SnapshotRules(max_bytes=5_000, retention=EVERYTHING)
    controller = await node.start()
    await work(controller, 20)
    first = names(node, ".checkpoint")[0]
    content = (node.log_path / first).read_bytes()
    await housekeep(controller)
    await controller.close()
    for name in names(node, ".checkpoint"):
        (node.log_path / name).unlink()
    with pytest.raises(CorruptMetadata, match="no snapshot covers"):
        node.open_log().load()
    (node.log_path / first).write_bytes(content)
    with pytest.raises(CorruptMetadata, match="above its snapshot's end"):
        node.open_log().load()
