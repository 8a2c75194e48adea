"""OffsetCommit and OffsetFetch over every version: per-partition errors, order, ids, durability."""

import asyncio
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.sim.groups import GroupRig, StorageDown, settle
from tests.sim.members import join_request, sync_request

E = ErrorCode
UNKNOWN_ID = b"\xee" * 16


def commit_request(rig: GroupRig, topics: dict[str, dict[int, Any]], **fields: Any) -> OffsetCommitRequest:
    """Make a commit: topic -> partition -> offset or (offset, metadata)."""

    def partition(index: int, value: Any) -> OffsetCommitRequestPartition:
        offset, metadata = value if isinstance(value, tuple) else (value, "m")
        return OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=4, committed_metadata=metadata
        )

    return OffsetCommitRequest(
        **{"group_id": "g", **fields},
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=rig.topics[name].topic_id if name in rig.topics else UNKNOWN_ID,
                partitions=[partition(index, value) for index, value in partitions.items()],
            )
            for name, partitions in topics.items()
        ],
    )


def codes(response: Any) -> list[list[tuple[int, int]]]:
    return [[(p.partition_index, p.error_code) for p in topic.partitions] for topic in response.topics]


async def fetch(
    rig: GroupRig,
    version: int,
    topics: dict[str, list[int]] | None,
    *,
    group_id: str = "g",
    require_stable: bool = False,
) -> tuple[int, list[tuple[str, list[tuple[int, int, int, str, int]]]]]:
    """Fetch in the form the version has: group error, topics with (partition, offset, epoch, metadata, error)."""
    if version < 8:
        named = None
        if topics is not None:
            named = [OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in topics.items()]
        request = OffsetFetchRequest(group_id=group_id, topics=named, require_stable=require_stable)
        response = await rig.call(request, version)
        error, answered = response.error_code, response.topics
    else:
        wanted = None
        if topics is not None:
            wanted = [
                OffsetFetchRequestTopics(
                    name=name,
                    topic_id=rig.topics[name].topic_id if name in rig.topics else UNKNOWN_ID,
                    partition_indexes=parts,
                )
                for name, parts in topics.items()
            ]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=wanted)
        response = await rig.call(OffsetFetchRequest(groups=[group], require_stable=require_stable), version)
        assert [g.group_id for g in response.groups] == [group_id]
        error, answered = response.groups[0].error_code, response.groups[0].topics
    names = {topic.topic_id: topic.name for topic in rig.topics.values()} | {UNKNOWN_ID: "ghost"}
    return error, [
        (
            topic.name or names[topic.topic_id],
            [
                (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code)
                for p in topic.partitions
            ],
        )
        for topic in answered
    ]


@pytest.mark.parametrize("version", range(2, 11))
async def test_answers_are_complete_and_in_order_and_only_existing_partitions_are_stored(version: int) -> None:
    rig = GroupRig()
    request = commit_request(rig, {"t": {5: 1, 0: 2, 2: 3}, "ghost": {0: 4}})
    response = await rig.call(request, version)
    missing = E.UNKNOWN_TOPIC_ID if version == 10 else E.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == [[(5, E.UNKNOWN_TOPIC_OR_PARTITION), (0, 0), (2, 0)], [(0, missing)]]
    assert [t.name for t in response.topics] == (["t", "ghost"] if version < 10 else ["", ""])
    assert await rig.committed("g") == {("t", 0): 2, ("t", 2): 3}
    assert "ghost" not in rig.topics


@pytest.mark.parametrize("version", range(1, 11))
async def test_fetch_gives_what_was_committed(version: int) -> None:
    rig = GroupRig()
    await rig.call(commit_request(rig, {"u": {0: 7}, "t": {1: (8, "\u00fcn\u00ef"), 0: (9, None)}}), 6)
    epoch = 4 if version >= 5 else -1
    asked = {"t": [2, 1, 0], "u": [0]}
    expected = [
        ("t", [(2, -1, -1, "", 0), (1, 8, epoch, "\u00fcn\u00ef", 0), (0, 9, epoch, "", 0)]),
        ("u", [(0, 7, epoch, "m", 0)]),
    ]
    assert await fetch(rig, version, asked) == (0, expected)
    nothing = [("t", [(p, -1, -1, "", 0) for p in (2, 1, 0)]), ("u", [(0, -1, -1, "", 0)])]
    assert await fetch(rig, version, asked, group_id="never-seen") == (0, nothing)
    if version >= 2:
        everything = [
            ("t", [(0, 9, epoch, "", 0), (1, 8, epoch, "\u00fcn\u00ef", 0)]),
            ("u", [(0, 7, epoch, "m", 0)]),
        ]
        assert await fetch(rig, version, None) == (0, everything)
        assert await fetch(rig, version, None, group_id="never-seen") == (0, [])


async def test_an_unknown_topic_id_is_told_and_an_unknown_name_has_no_offset() -> None:
    rig = GroupRig()
    await rig.commit("g", 5)
    assert await fetch(rig, 10, {"ghost": [0], "t": [0]}) == (
        0,
        [("ghost", [(0, -1, -1, "", E.UNKNOWN_TOPIC_ID)]), ("t", [(0, 5, 0, "m", 0)])],
    )
    assert await fetch(rig, 9, {"ghost": [0]}) == (0, [("ghost", [(0, -1, -1, "", 0)])])


async def test_several_groups_are_answered_each_once_in_order() -> None:
    rig = GroupRig()
    await rig.commit("a", 1)
    await rig.commit("b", 2)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("b", "none", "a", "b", "b")]
    )
    response = await rig.call(request, 8)
    assert [(g.group_id, g.error_code, len(g.topics)) for g in response.groups] == [
        ("b", 0, 1),
        ("none", 0, 0),
        ("a", 0, 1),
    ]


@pytest.mark.parametrize("version", [2, 9, 10])
async def test_metadata_that_is_too_long_fails_its_partition_only(version: int) -> None:
    rig = GroupRig(offset_metadata_max_bytes=4096)
    request = commit_request(rig, {"t": {0: (1, "m" * 4096), 1: (2, "m" * 4097), 2: (3, None)}})
    response = await rig.call(request, version)
    assert codes(response) == [[(0, 0), (1, E.OFFSET_METADATA_TOO_LARGE), (2, 0)]]
    assert await rig.committed("g") == {("t", 0): 1, ("t", 2): 3}
    stored = await rig.restarted().committed("g")
    assert stored == {("t", 0): 1, ("t", 2): 3}


async def test_the_bound_on_metadata_counts_utf16_units() -> None:
    rig = GroupRig(offset_metadata_max_bytes=4)
    assert await rig.commit("g", 1, metadata="\u00fc" * 4) == [E.NONE]
    assert await rig.commit("g", 1, metadata="\U0001f600" * 3) == [E.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.parametrize("version", range(2, 11))
async def test_commits_by_strangers(version: int) -> None:
    rig = GroupRig()

    async def code(**fields: Any) -> int:
        response = await rig.call(commit_request(rig, {"t": {0: fields.pop("offset", 1)}}, **fields), version)
        return codes(response)[0][0][1]

    unknown = E.GROUP_ID_NOT_FOUND if version >= 9 else E.ILLEGAL_GENERATION
    assert await code(generation_id_or_member_epoch=5, member_id="x") == unknown
    assert await rig.committed("g") == {}
    assert await code(offset=3) == E.NONE
    assert await rig.committed("g") == {("t", 0): 3}
    assert await code(group_id="", offset=4) == E.NONE, "the empty name is a name here"


@pytest.mark.parametrize("version", [2, 8, 10])
async def test_commits_to_a_group_with_members(version: int) -> None:
    rig = GroupRig()

    async def code(**fields: Any) -> int:
        offset = fields.pop("offset")
        response = await rig.call(commit_request(rig, {"t": {0: offset}}, **fields), version)
        return codes(response)[0][0][1]

    request = rig.start(join_request(), 3)
    await rig.time.advance(0)
    member_id = (await request).member_id
    mine = {"member_id": member_id, "generation_id_or_member_epoch": 1}
    assert await code(offset=1, **mine) == E.REBALANCE_IN_PROGRESS, "joined, but not yet synced"
    await rig.call(sync_request(1, member_id, {}), 5)
    assert await code(offset=2) == E.UNKNOWN_MEMBER_ID
    assert await code(offset=3, **{**mine, "generation_id_or_member_epoch": 0}) == E.ILLEGAL_GENERATION
    assert await code(offset=4, **{**mine, "member_id": "x"}) == E.UNKNOWN_MEMBER_ID
    assert await rig.committed("g") == {}
    assert await code(offset=5, **mine) == E.NONE
    assert await rig.committed("g") == {("t", 0): 5}


async def test_a_fenced_static_member_cannot_commit() -> None:
    rig = GroupRig()
    request = rig.start(join_request(instance_id="inst"), 9)
    await rig.time.advance(0)
    old = await request
    await rig.call(sync_request(1, old.member_id, {}, instance_id="inst"), 5)
    await rig.call(join_request(instance_id="inst"), 9)
    response = await rig.call(
        commit_request(
            rig,
            {"t": {0: 1}},
            member_id=old.member_id,
            group_instance_id="inst",
            generation_id_or_member_epoch=1,
        ),
        8,
    )
    assert codes(response) == [[(0, E.FENCED_INSTANCE_ID)]]


async def test_a_commit_is_answered_only_when_it_would_survive_a_crash() -> None:
    rig = GroupRig()
    rig.log.stall = asyncio.Event()
    commit = asyncio.ensure_future(rig.commit("g", 42))
    await settle()
    assert not commit.done()
    assert await rig.committed("g") == {}
    assert await rig.restarted().committed("g") == {}
    rig.log.stall.set()
    assert await commit == [E.NONE]
    assert await rig.restarted().committed("g") == {("t", 0): 42}


async def test_require_stable_waits_for_commits_that_are_being_written() -> None:
    rig = GroupRig()
    rig.log.stall = asyncio.Event()
    commit = asyncio.ensure_future(rig.commit("g", 42))
    await settle()
    stable = asyncio.ensure_future(fetch(rig, 7, {"t": [0]}, require_stable=True))
    assert (await fetch(rig, 7, {"t": [0]}))[1] == [("t", [(0, -1, -1, "", 0)])]
    await settle()
    assert not stable.done()
    rig.log.stall.set()
    assert await stable == (0, [("t", [(0, 42, 0, "m", 0)])])
    assert await commit == [E.NONE]


async def test_many_commits_of_one_turn_cost_two_writes() -> None:
    rig = GroupRig(partition_count=1)
    results = await asyncio.gather(*(rig.commit(f"g{n}", n) for n in range(200)))
    assert results == [[E.NONE]] * 200
    assert rig.log.batch_count() == 2
    again = rig.restarted()
    assert [await again.committed(f"g{n}") for n in range(200)] == [{("t", 0): n} for n in range(200)]


async def test_a_failed_write_stores_nothing_and_is_told() -> None:
    rig = GroupRig()
    await rig.commit("g", 1)
    rig.log.failure = StorageDown()
    response = await rig.call(commit_request(rig, {"t": {0: 2, 9: 2}}), 8)
    assert codes(response) == [[(0, E.NOT_COORDINATOR), (9, E.UNKNOWN_TOPIC_OR_PARTITION)]]
    assert await rig.committed("g") == {("t", 0): 1}
    rig.log.failure = None
    assert await rig.commit("g", 3) == [E.NONE]


async def test_the_last_of_many_commits_is_found_after_restarts() -> None:
    rig = GroupRig()
    for round_number in range(50):
        for group in ("g1", "g2"):
            await rig.commit(group, round_number, partition=round_number % 3)
    for _ in range(2):
        rig = rig.restarted()
        for group in ("g1", "g2"):
            assert await rig.committed(group) == {("t", 0): 48, ("t", 1): 49, ("t", 2): 47}


async def test_deleting_a_topic_deletes_its_offsets_and_keeps_the_group() -> None:
    rig = GroupRig()
    await rig.commit("g", 500)
    await rig.commit("g", 3, topic="u")
    await rig.commit("h", 1)
    del rig.topics["t"]
    rig.coordinator.on_topics_deleted(["t"])
    await settle()
    rig.add_topic("t", 3)
    for current in (rig, rig.restarted()):
        assert await current.committed("g") == {("u", 0): 3}
        assert await current.committed("h") == {}


@pytest.mark.parametrize("version", [1, 7, 9, 10])
async def test_offsets_of_a_deleted_topic_never_show_for_a_new_one_of_its_name(version: int) -> None:
    rig = GroupRig()
    await rig.commit("g", 500)
    old_id = rig.topics["t"].topic_id
    rig.topics["other"] = rig.topics.pop("u")
    assert rig.add_topic("t", 3) != old_id
    assert await fetch(rig, version, {"t": [0]}) == (0, [("t", [(0, -1, -1, "", 0)])])


async def test_errors_of_a_group_stand_where_the_version_has_them() -> None:
    rig = GroupRig(partition_count=1)
    for n in range(2500):
        await rig.commit("filler", n, partition=n % 3)
    again = rig.restarted()
    loading = E.COORDINATOR_LOAD_IN_PROGRESS
    assert await fetch(again, 1, {"t": [0]}) == (0, [("t", [(0, -1, -1, "", loading)])])
    for version in (2, 7, 8, 10):
        error, topics = await fetch(again, version, {"t": [0]})
        assert (error, topics) == (loading, [])
    response = await again.call(commit_request(again, {"t": {0: 1}}), 8)
    assert codes(response) == [[(0, loading)]]


async def test_without_an_offsets_topic_a_commit_creates_it_and_a_fetch_finds_nothing() -> None:
    rig = GroupRig(is_started=False)
    assert await fetch(rig, 8, {"t": [0]}) == (0, [("t", [(0, -1, -1, "", 0)])])
    assert await fetch(rig, 8, None) == (0, [])
    response = await rig.call(commit_request(rig, {"t": {0: 1}}, generation_id_or_member_epoch=3, member_id="x"), 9)
    assert codes(response) == [[(0, E.GROUP_ID_NOT_FOUND)]]
    assert rig.created == []
    assert await rig.commit("g", 5) == [E.NONE]
    assert rig.created == ["__consumer_offsets"]
    assert await rig.committed("g") == {("t", 0): 5}
