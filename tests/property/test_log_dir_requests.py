"""Requests about log directories and reassignments, whatever is in them: each is answered to the last entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.api.alter_log_dirs import AlterLogDirsApi
from broker.api.log_dirs import LogDirsApi
from broker.metadata.controller.reassignments import Reassignment, ongoing_reassignments, plan_reassignments
from broker.metadata.errors import MetadataError
from broker.partition.errors import PartitionOffline
from protocol.codec import decode, encode_bytes
from protocol.messages import RESPONSES
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from storage.types import TopicPartition
from tests.harness.hosted import Hosted, context

Strategy = Callable[..., st.SearchStrategy[Any]]
FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    hosted.create("t", 3)
    yield hosted
    hosted.pools.close()
    hosted.logs.close(clean=False)


def answer(family: Any, request: Any, version: int) -> Any:
    """Let a family answer, and read the answer as a client does."""
    [route] = family.routes()
    response = asyncio.run(route.handler(request, context(request.API_KEY, version)))
    return decode(RESPONSES[request.API_KEY], version, encode_bytes(response, version))


def names(atoms: dict[str, st.SearchStrategy[Any]]) -> dict[str, st.SearchStrategy[Any]]:
    """Let what exists be asked for as often as what does not."""
    near = st.one_of(st.sampled_from([0, 1, 2, 3, -1]), atoms["int32"])
    return atoms | {"string": st.one_of(st.sampled_from(["t", "", "a/b", "n" * 249]), atoms["string"]), "int32": near}


@pytest.mark.parametrize("version", range(1, 6))
def test_whatever_is_to_be_described_every_directory_is_told_once(
    hosted: Hosted, messages: Strategy, atoms: dict[str, Any], version: int
) -> None:
    family = LogDirsApi(hosted.logs, hosted.pools.io)
    there = {tp: log_dir.path for tp in hosted.logs.logs if (log_dir := hosted.logs.dir_of(tp)) is not None}

    @given(messages(DescribeLogDirsRequest, version, names(atoms)))
    @FEW
    def check(request: DescribeLogDirsRequest) -> None:
        results = answer(family, request, version).results
        assert [result.log_dir for result in results] == [log_dir.path for log_dir in hosted.logs.dirs]
        shown = [
            (TopicPartition(topic.name, one.partition_index), result.log_dir)
            for result in results
            for topic in result.topics
            for one in topic.partitions
        ]
        asked = (
            there
            if request.topics is None
            else {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
        )
        assert sorted(shown) == sorted((tp, path) for tp, path in there.items() if tp in asked)
        assert all(topic.partitions for result in results for topic in result.topics)

    check()


@pytest.mark.parametrize("version", [1, 2])
def test_whatever_is_to_be_moved_each_partition_goes_to_its_last_path_and_has_one_result(
    messages: Strategy, atoms: dict[str, Any], version: int
) -> None:
    altered: dict[TopicPartition, str] = {}

    async def alter(tp: TopicPartition, path: str) -> None:
        assert tp not in altered
        altered[tp] = path
        if tp.partition < 0:
            raise PartitionOffline(str(tp))

    @given(messages(AlterReplicaLogDirsRequest, version, names(atoms)))
    @FEW
    def check(request: AlterReplicaLogDirsRequest) -> None:
        altered.clear()
        results = answer(AlterLogDirsApi(alter), request, version).results
        last = {
            TopicPartition(topic.name, number): one.path
            for one in request.dirs
            for topic in one.topics
            for number in topic.partitions
        }
        assert altered == last
        told = [
            (TopicPartition(topic.topic_name, one.partition_index), one.error_code)
            for topic in results
            for one in topic.partitions
        ]
        assert sorted(told) == sorted((tp, 56 if tp.partition < 0 else 0) for tp in last)

    check()


BROKERS = st.lists(st.sampled_from([1, 2, 3, -1, 1]), max_size=4).map(tuple)
TARGETS = st.builds(Reassignment, st.sampled_from(["t", "none", ""]), st.integers(-2, 4), st.one_of(st.none(), BROKERS))


@given(st.lists(TARGETS, max_size=8), st.booleans())
@FEW
def test_whatever_is_to_be_reassigned_one_node_writes_nothing(
    hosted: Hosted, targets: list[Reassignment], may_change_factor: bool
) -> None:
    plan = plan_reassignments(hosted.image(), targets, may_change_factor=may_change_factor)
    assert plan.records == []
    for target, error in zip(targets, plan.result, strict=True):
        is_same = (target.topic, target.replicas) == ("t", (1,)) and 0 <= target.partition < 3
        assert (error is None) is is_same
        assert error is None or isinstance(error, MetadataError)
    asked = [(target.topic, [target.partition]) for target in targets]
    assert list(ongoing_reassignments(hosted.image(), asked)) == []
