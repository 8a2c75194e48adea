"""AlterReplicaLogDirs in front of moves that a test makes up."""

from __future__ import annotations

import asyncio

import pytest

from broker.api.alter_log_dirs import PARTITIONS_PER_TURN, AlterLogDirsApi
from broker.metadata.errors import InvalidReplicaAssignment
from broker.partition.errors import PartitionOffline
from protocol.api_keys import ApiKey
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from storage.types import TopicPartition
from tests.harness.hosted import context


class Moves:
    """Remembers what was altered, and refuses what it is told to."""

    def __init__(self, **refusals: Exception) -> None:
        self.altered: list[tuple[str, str]] = []
        self.refusals = refusals

    async def alter(self, tp: TopicPartition, path: str) -> None:
        await asyncio.sleep(0)
        self.altered.append((str(tp), path))
        if tp.topic in self.refusals:
            raise self.refusals[tp.topic]


def request(*dirs: tuple[str, dict[str, list[int]]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
            )
            for path, topics in dirs
        ]
    )


async def alter(moves: Moves, *dirs: tuple[str, dict[str, list[int]]]) -> list[tuple[str, list[tuple[int, int]]]]:
    asked = context(ApiKey.ALTER_REPLICA_LOG_DIRS, 2)
    response = await AlterLogDirsApi(moves.alter).alter_replica_log_dirs(request(*dirs), asked)
    assert asked.outlives_peer
    return [
        (topic.topic_name, [(one.partition_index, one.error_code) for one in topic.partitions])
        for topic in response.results
    ]


async def test_the_last_path_of_a_partition_wins_and_one_result_is_given() -> None:
    moves = Moves()
    dirs = ("/a", {"t": [0, 1, 1], "u": [0]}), ("/b", {"t": [1]}), ("/b", {"u": [3]}), ("/a", {"u": [3]})
    assert await alter(moves, *dirs) == [("t", [(0, 0), (1, 0)]), ("u", [(0, 0), (3, 0)])]
    assert moves.altered == [("t-0", "/a"), ("t-1", "/b"), ("u-0", "/a"), ("u-3", "/a")]


async def test_a_refusal_is_told_and_holds_up_nobody() -> None:
    moves = Moves(off=PartitionOffline("off-0"), full=InvalidReplicaAssignment("cordoned"))
    assert await alter(moves, ("/a", {"off": [0], "full": [0], "ok": [0]})) == [
        ("off", [(0, 56)]),
        ("full", [(0, 39)]),
        ("ok", [(0, 0)]),
    ]


@pytest.mark.parametrize("dirs", [(), (("/a", {}),), (("/a", {"t": []}),)])
async def test_nothing_asked_is_answered_by_nothing(dirs: tuple[tuple[str, dict[str, list[int]]], ...]) -> None:
    assert await alter(Moves(), *dirs) == []


async def test_many_partitions_leave_turns_to_others() -> None:
    async def refuse(tp: TopicPartition, path: str) -> None:
        raise PartitionOffline(str(tp))

    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.create_task(others())
    asked = context(ApiKey.ALTER_REPLICA_LOG_DIRS, 2)
    await AlterLogDirsApi(refuse).alter_replica_log_dirs(request(("/a", {"t": list(range(1_000))})), asked)
    watching.cancel()
    assert turns >= 1_000 // PARTITIONS_PER_TURN - 1
