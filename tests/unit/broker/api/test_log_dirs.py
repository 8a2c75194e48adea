"""DescribeLogDirs over real logs in three directories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.log_dirs import WORK_PER_TURN, LogDirsApi
from config.views import LogConfig
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from protocol.records.builder import build_batch
from storage.env.fs import Space
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.harness.hosted import NOW_MS, Hosted, context

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
LATEST = 5


class Rig:
    """Three directories a, b, c with t-0, t-1 and t-2 in them."""

    def __init__(self, directory: Path) -> None:
        self.paths = [str(directory / name) for name in "abc"]
        self.hosted = Hosted(*map(Path, self.paths))
        self.hosted.create("t", 3)
        self.spaces: dict[str, Space | StorageFailure] = {}
        self.logs = self.hosted.logs
        self.api = LogDirsApi(self.logs, self.on_disk)
        self.on_disk_of: list[str] = []
        self.meanwhile: Callable[[], object] | None = None

    async def on_disk(self, log_dir: str, call: Callable[[], Space]) -> Space:
        self.on_disk_of.append(log_dir)
        await asyncio.sleep(0)
        if self.meanwhile is not None:
            self.meanwhile()
        assert call().total_bytes > 0
        space = self.spaces.get(log_dir, Space(1_000, 400))
        if isinstance(space, StorageFailure):
            raise space
        return space

    async def response(self, wanted: dict[str, list[int]] | None = None, version: int = LATEST) -> Any:
        topics = None
        if wanted is not None:
            topics = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in wanted.items()]
        asked = context(ApiKey.DESCRIBE_LOG_DIRS, version)
        answer = await self.api.describe_log_dirs(DescribeLogDirsRequest(topics=topics), asked)
        return decode(DescribeLogDirsResponse, version, encode_bytes(answer, version))

    async def shown(self, wanted: dict[str, list[int]] | None = None) -> dict[str, list[tuple[str, int, bool]]]:
        """Return what each directory lists: (partition, lag, is a copy)."""
        response = await self.response(wanted)
        assert [result.log_dir for result in response.results] == self.paths
        assert all(topic.partitions for result in response.results for topic in result.topics)
        return {
            result.log_dir[-1]: [
                (f"{topic.name}-{one.partition_index}", one.offset_lag, one.is_future_key)
                for topic in result.topics
                for one in topic.partitions
            ]
            for result in response.results
        }

    def append(self, tp: TopicPartition, count: int = 1) -> None:
        partition = self.hosted.manager.get(*tp)
        for _ in range(count):
            partition.append(build_batch([(b"k", b"v")], timestamp=NOW_MS))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.logs.close(clean=False)


async def test_null_topics_show_every_log_under_its_directory(rig: Rig) -> None:
    assert await rig.shown() == {"a": [("t-0", 0, False)], "b": [("t-1", 0, False)], "c": [("t-2", 0, False)]}


@pytest.mark.parametrize(
    "wanted", [{}, {"t": []}, {"none": [0]}, {"t": [3, -1]}, {"": [0]}, {"x/y": [0]}, {"__cluster_metadata": [0]}]
)
async def test_directories_are_shown_without_logs_where_none_is_selected(rig: Rig, wanted: dict[str, Any]) -> None:
    assert await rig.shown(wanted) == {"a": [], "b": [], "c": []}


async def test_partitions_that_are_named_are_shown_once(rig: Rig) -> None:
    assert await rig.shown({"t": [2, 2, 7, 0]}) == {"a": [("t-0", 0, False)], "b": [], "c": [("t-2", 0, False)]}


async def test_the_size_is_that_of_the_log_files(rig: Rig) -> None:
    rig.hosted.create("u", config=LogConfig(segment_bytes=200))
    rig.append(TopicPartition("u", 0), 20)
    response = await rig.response({"u": [0]})
    [size] = [one.partition_size for result in response.results for topic in result.topics for one in topic.partitions]
    files = list(rig.hosted.path_of("u").glob("*.log"))
    assert len(files) > 2
    assert size == sum(file.stat().st_size for file in files) > 0


async def test_a_move_is_shown_twice_with_the_lag_of_the_copy(rig: Rig) -> None:
    rig.append(T0, 5)
    future = rig.logs.create_future(T0, rig.logs.dirs[1], LogConfig())
    shown = await rig.shown()
    assert shown["a"] == [("t-0", 0, False)]
    assert shown["b"] == [("t-1", 0, False), ("t-0", 5, True)]
    future.log.append(build_batch([(b"k", b"v")] * 3, timestamp=NOW_MS), leader_epoch=0)
    assert (await rig.shown({"t": [0]}))["b"] == [("t-0", 2, True)]
    future.log.append(build_batch([(b"k", b"v")] * 3, timestamp=NOW_MS), leader_epoch=0)
    assert (await rig.shown({"t": [0]}))["b"] == [("t-0", 0, True)]  # never negative


async def test_the_copy_of_an_offline_log_has_no_lag(rig: Rig) -> None:
    rig.logs.create_future(T0, rig.logs.dirs[1], LogConfig())
    rig.hosted.manager.fail_dir_of(StorageFailure("I/O error", rig.paths[0]))
    assert (await rig.shown())["b"] == [("t-1", 0, False), ("t-0", -1, True)]


async def test_an_offline_directory_is_an_error_without_anything_else(rig: Rig) -> None:
    rig.logs.cordoned = frozenset(rig.paths)
    rig.hosted.manager.fail_dir_of(StorageFailure("I/O error", rig.paths[1]))
    response = await rig.response()
    assert response.error_code == 0
    told = [(one.error_code, one.total_bytes, one.usable_bytes, one.is_cordoned) for one in response.results]
    assert told == [(0, 1_000, 400, True), (56, -1, -1, False), (0, 1_000, 400, True)]
    assert response.results[1].topics == []
    assert rig.paths[1] not in rig.on_disk_of


async def test_a_file_system_that_cannot_be_looked_at_is_an_error_of_its_directory(rig: Rig) -> None:
    rig.spaces[rig.paths[2]] = StorageFailure("I/O error", rig.paths[2])
    response = await rig.response()
    told = [(one.error_code, len(one.topics), one.total_bytes) for one in response.results]
    assert told == [(0, 1, 1_000), (0, 1, 1_000), (56, 0, -1)]


async def test_a_directory_that_fails_while_the_disk_is_asked_is_an_error(rig: Rig) -> None:
    rig.meanwhile = lambda: rig.hosted.manager.fail_dir_of(StorageFailure("I/O error", rig.paths[0]))
    response = await rig.response()
    assert [one.error_code for one in response.results] == [56, 0, 0]
    assert response.results[0].topics == []


async def test_each_disk_is_asked_in_its_own_threads(rig: Rig) -> None:
    rig.spaces = {rig.paths[0]: Space(2**63, 5), rig.paths[1]: Space(10, 0)}
    response = await rig.response({})
    assert rig.on_disk_of == rig.paths
    assert [(one.total_bytes, one.usable_bytes) for one in response.results] == [(2**63 - 1, 5), (10, 0), (1_000, 400)]


async def test_cordoned_directories_are_marked(rig: Rig) -> None:
    rig.logs.cordoned = frozenset({rig.paths[1]})
    assert [one.is_cordoned for one in (await rig.response()).results] == [False, True, False]


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_version_tells_what_it_knows(rig: Rig, version: int) -> None:
    rig.logs.cordoned = frozenset(rig.paths)
    response = await rig.response(version=version)
    assert response.error_code == 0
    [first, _, _] = response.results
    assert (first.error_code, first.log_dir) == (0, rig.paths[0])
    [topic] = first.topics
    [one] = topic.partitions
    assert (topic.name, one.partition_index, one.partition_size, one.offset_lag) == ("t", 0, 0, 0)
    assert (first.total_bytes, first.usable_bytes) == ((1_000, 400) if version >= 4 else (-1, -1))
    assert first.is_cordoned is (version >= 5)


async def test_many_logs_and_many_names_leave_turns_to_others(rig: Rig) -> None:
    rig.hosted.create("u", config=LogConfig(segment_bytes=100))
    rig.append(TopicPartition("u", 0), 60)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.create_task(others())
    await rig.response({"none": list(range(20 * WORK_PER_TURN))})
    assert turns >= 20
    watching.cancel()
