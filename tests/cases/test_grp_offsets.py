"""GRP-01 to GRP-06 and GRP-12: committed offsets, group deletion, restarts, who may commit."""

from collections.abc import Callable

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.groups import Member, describe, find_coordinator, listed
from tests.harness.offsets import commit, committed
from tests.harness.raw import RawClient, eventually

PROPERTIES = {"offsets.topic.num.partitions": "5"}
NOTHING = (-1, -1, "")


def _commit_rows(client: RawClient, version: int, group: str, topics: dict[str, list[dict]]) -> dict[str, list[tuple]]:
    """Commit as a simple consumer; return [(partition, error)] by topic in the order of the answer."""
    find_coordinator(client, group)
    rows = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    answer = client.request(
        "offset_commit", version, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=rows
    )
    assert len(answer.topics) == len({row.name for row in answer.topics})
    return {row.name: [(part.partition_index, part.error_code) for part in row.partitions] for row in answer.topics}


def _row(partition: int, offset: int, metadata: str | None = "", epoch: int | None = None) -> dict:
    row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
    return row if epoch is None else row | {"committed_leader_epoch": epoch}


def _fetch(client: RawClient, version: int, group: str, topics: dict[str, list[int]] | None, stable: bool = False):
    """Fetch by the version's own form; return the topics' rows."""
    find_coordinator(client, group)
    wanted = None if topics is None else [{"name": n, "partition_indexes": p} for n, p in topics.items()]
    options = {"require_stable": stable} if version >= 7 else {}
    if version < 8:
        answer = client.request("offset_fetch", version, group_id=group, topics=wanted, **options)
        assert version < 2 or answer.error_code == 0
        return answer.topics
    answer = client.request("offset_fetch", version, groups=[{"group_id": group, "topics": wanted}], **options)
    assert [row.group_id for row in answer.groups] == [group]
    assert answer.groups[0].error_code == 0
    return answer.groups[0].topics


def _as_dict(topics) -> dict[tuple[str, int], tuple[int, int, str]]:
    return {
        (row.name, part.partition_index): (
            part.committed_offset,
            getattr(part, "committed_leader_epoch", -1),
            part.metadata,
            part.error_code,
        )
        for row in topics
        for part in row.partitions
    }


def test_grp_01_commit_metadata_is_kept_or_refused(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic, group = fresh(), fresh("group")
    client.create_topic(topic, 4)
    rows = [_row(0, 1, "m" * 4096), _row(1, 2, "m" * 4097), _row(2, 3, None), _row(3, 4, "ünï")]
    assert _commit_rows(client, 8, group, {topic: rows})[topic] == [(0, 0), (1, 12), (2, 0), (3, 0)]
    wanted = {
        (topic, 0): (1, -1, "m" * 4096, 0),
        (topic, 1): (-1, -1, "", 0),
        (topic, 2): (3, -1, "", 0),
        (topic, 3): (4, -1, "ünï", 0),
    }
    assert _as_dict(_fetch(client, 7, group, {topic: [0, 1, 2, 3]}, stable=True)) == wanted
    del wanted[topic, 1]
    assert _as_dict(_fetch(client, 7, group, None, stable=True)) == wanted
    broker.restart()
    with RawClient(address(broker)) as later:
        assert _as_dict(_fetch(later, 7, group, None, stable=True)) == wanted


@pytest.mark.parametrize("version", [2, 5, 8, 9])
def test_grp_02_commit_for_unknown_partitions(client: RawClient, fresh, version: int) -> None:
    topic, ghost, group = fresh(), fresh("ghost"), fresh("group")
    client.create_topic(topic, 3)
    rows = {topic: [_row(5, 1), _row(0, 2), _row(2, 3)], ghost: [_row(0, 4)]}
    answered = _commit_rows(client, version, group, rows)
    assert answered.keys() == {topic, ghost}
    assert sorted(answered[topic]) == [(0, 0), (2, 0), (5, 3)]
    assert answered[ghost] == [(0, 3)]
    asked = {topic: [5, 0, 2], ghost: [0]}
    for fetch_version in client.offered("offset_fetch", 1, 2, 5, 6, 7, 8, 9):
        found = _fetch(client, fetch_version, group, asked)
        assert [(row.name, [part.partition_index for part in row.partitions]) for row in found] == list(asked.items())
        offsets = [part.committed_offset for row in found for part in row.partitions]
        assert offsets == [-1, 2, 3, -1]
        assert all(part.error_code == 0 for row in found for part in row.partitions)
    stored = _as_dict(_fetch(client, 7, group, None))
    assert stored.keys() == {(topic, 0), (topic, 2)}
    assert ghost not in client.topic_names()


def test_grp_02_highest_version_commits_by_topic_id(client: RawClient, fresh) -> None:
    topic, group = fresh(), fresh("group")
    topic_id = client.create_topic(topic, 3)
    find_coordinator(client, group)
    stranger = b"\x01" * 16
    rows = [
        {"topic_id": topic_id, "partitions": [_row(5, 1), _row(0, 2), _row(2, 3)]},
        {"topic_id": stranger, "partitions": [_row(0, 4)]},
    ]
    answer = client.request(
        "offset_commit", 10, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=rows
    )
    found = {
        row.topic_id: sorted((part.partition_index, part.error_code) for part in row.partitions)
        for row in answer.topics
    }
    assert found == {topic_id: [(0, 0), (2, 0), (5, 3)], stranger: [(0, 100)]}
    asked = [
        {"topic_id": topic_id, "partition_indexes": [5, 0, 2]},
        {"topic_id": stranger, "partition_indexes": [0]},
    ]
    answer = client.request("offset_fetch", 10, groups=[{"group_id": group, "topics": asked}])
    rows_by_id = {row.topic_id: row.partitions for row in answer.groups[0].topics}
    assert [part.committed_offset for part in rows_by_id[topic_id]] == [-1, 2, 3]
    assert [(part.error_code, part.committed_offset) for part in rows_by_id[stranger]] == [(100, -1)]


def test_grp_03_all_forms_of_offset_fetch_agree(client: RawClient, fresh) -> None:
    one, two, group, stranger = fresh("one"), fresh("two"), fresh("group"), fresh("stranger")
    for topic in (one, two):
        client.create_topic(topic, 2)
    rows = {topic: [_row(0, 7, "meta", epoch=0)] for topic in (one, two)}
    assert _commit_rows(client, 8, group, rows) == {one: [(0, 0)], two: [(0, 0)]}
    for version in client.offered("offset_fetch", 1, 2, 3, 4, 5, 6, 7, 8, 9):
        epoch = 0 if version >= 5 else -1
        wanted = {(topic, 0): (7, epoch, "meta", 0) for topic in (one, two)}
        if version >= 2:
            assert _as_dict(_fetch(client, version, group, None)) == wanted
        named = _as_dict(_fetch(client, version, group, {one: [0, 1], two: [0, 1]}))
        assert named == wanted | {(topic, 1): (-1, -1, "", 0) for topic in (one, two)}
        assert _as_dict(_fetch(client, version, stranger, {one: [0]})) == {(one, 0): (-1, -1, "", 0)}
    for version in client.offered("offset_fetch", 8, 9):
        groups = [{"group_id": name, "topics": None} for name in (group, stranger)]
        answer = client.request("offset_fetch", version, groups=groups)
        found = {row.group_id: row for row in answer.groups}
        assert len(answer.groups) == 2
        assert found.keys() == {group, stranger}
        assert _as_dict(found[group].topics) == {(topic, 0): (7, 0, "meta", 0) for topic in (one, two)}
        assert (found[stranger].error_code, found[stranger].topics) == (0, [])


def _delete(client: RawClient, *groups: str) -> dict[str, int]:
    for group in groups:
        find_coordinator(client, group)
    answer = client.request("delete_groups", 1, groups_names=list(groups))
    return {row.group_id: row.error_code for row in answer.results}


def _check_dead(client: RawClient, *groups: str) -> None:
    for group in groups:
        find_coordinator(client, group)
        for version in client.offered("describe_groups", 0, 4, 5, 6):
            row = describe(client, group, version)
            assert (row.error_code, row.group_state) == (69 if version >= 6 else 0, "Dead")
            assert (row.protocol_type, row.members) == ("", [])
        assert group not in listed(client)


def test_grp_04_deletion_lasts_and_unknown_groups_are_dead(
    broker: BrokerProcess, client: RawClient, connect, fresh
) -> None:
    topic = fresh()
    client.create_topic(topic)
    only_offsets, live, emptied, nope = (fresh(name) for name in ("offsets", "live", "emptied", "nope"))
    commit(client, only_offsets, topic, 5)
    find_coordinator(client, live)
    living = Member(connect(), live)
    living.become_stable()
    leaver = Member(connect(), emptied)
    leaver.become_stable()
    assert leaver.leave() == 0
    codes = _delete(client, only_offsets, live, emptied, nope)
    assert codes == {only_offsets: 0, live: 68, emptied: 0, nope: 69}
    _check_dead(client, only_offsets, emptied, nope)
    assert describe(client, live).group_state == "Stable"
    assert living.heartbeat() == 0
    assert living.leave() == 0
    for stop in (broker.stop, broker.kill):
        stop()
        broker.start()
        with RawClient(address(broker)) as later:
            _check_dead(later, only_offsets, emptied, nope)
            assert committed(later, only_offsets, topic) == NOTHING
            assert describe(later, live).group_state == "Empty"
            assert _delete(later, only_offsets, emptied, nope) == {only_offsets: 69, emptied: 69, nope: 69}


@pytest.mark.parametrize("with_member", [False, True], ids=["no member", "live member"])
def test_grp_05_deleting_a_topic_removes_its_offsets(client: RawClient, connect, fresh, with_member: bool) -> None:
    old, other, group = fresh("old"), fresh("other"), fresh("group")
    for topic in (old, other):
        client.create_topic(topic)
    find_coordinator(client, group)
    member = Member(connect(), group)
    if with_member:
        member.become_stable()
        assert (member.commit(old, 500), member.commit(other, 3)) == (0, 0)
    else:
        commit(client, group, old, 500)
        commit(client, group, other, 3)
    client.delete_topic(old)
    eventually(lambda: committed(client, group, old) == NOTHING, what="offset gone")
    assert committed(client, group, other)[0] == 3
    assert describe(client, group).group_state == ("Stable" if with_member else "Empty")
    client.create_topic(old)
    assert committed(client, group, old) == NOTHING
    client.append(old, batches.simple("first"))
    assert client.start_offset(old) == 0
    if with_member:
        assert member.heartbeat() == 0


def test_grp_06_committed_offsets_survive_restarts(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic, rounds = fresh(), 500
    groups = [fresh("group") for _ in range(5)]
    client.create_topic(topic, 20)
    for number in range(rounds):
        for group in groups if number else []:
            rows = [_row(partition, number * 100 + partition, epoch=0) for partition in range(20)]
            client.send(
                "offset_commit",
                8,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": topic, "partitions": rows}],
            )
        for group in groups:
            if number:
                answer = client.receive("offset_commit", 8)[1]
                assert {part.error_code for part in answer.topics[0].partitions} == {0}
            else:
                find_coordinator(client, group)
    last = (rounds - 1) * 100
    for stop in (broker.stop, broker.kill, broker.kill):
        stop()
        broker.start()
        with RawClient(address(broker)) as later:
            for group in groups:
                found = _as_dict(_fetch(later, 7, group, None, stable=True))
                assert found == {(topic, partition): (last + partition, 0, "", 0) for partition in range(20)}
                # One more commit, so that the next kill comes right after an acknowledged one.
            last += 100
            later.wait_for_topic(topic, 20)
            for group in groups:
                rows = [_row(partition, last + partition, epoch=0) for partition in range(20)]
                assert {code for _, code in _commit_rows(later, 8, group, {topic: rows})[topic]} == {0}
            assert {listed(later)[group] for group in groups} == {"Empty"}
    with RawClient(address(broker)) as later:
        for group in groups:
            assert _as_dict(_fetch(later, 7, group, None))[topic, 19][0] == last + 19


@pytest.mark.parametrize("version", [2, 6, 8, 9])
def test_grp_12_commit_with_wrong_generation_or_member(
    client: RawClient, connect: Callable, fresh, version: int
) -> None:
    topic, unknown, group = fresh(), fresh("unknown"), fresh("group")
    client.create_topic(topic)
    for name in (unknown, group):
        find_coordinator(client, name)

    stranger = Member(client, unknown, member_id="x", generation=5)
    assert stranger.commit(topic, 1, version) == (69 if version >= 9 else 22)
    assert unknown not in listed(client)
    stranger.member_id, stranger.generation = "", -1
    assert stranger.commit(topic, 2, version) == 0
    assert committed(client, unknown, topic)[0] == 2
    assert listed(client)[unknown] == "Empty"

    member = Member(connect(), group)
    member.become_stable()
    assert member.commit(topic, 10, version) == 0
    simple = {"member_id": "", "generation_id_or_member_epoch": -1}
    assert member.commit(topic, 11, version, **simple) == 25
    assert member.commit(topic, 12, version, generation_id_or_member_epoch=member.generation - 1) == 22
    assert member.commit(topic, 13, version, member_id="somebody") == 25
    assert committed(client, group, topic)[0] == 10
    member.join()
    assert member.commit(topic, 14, version) == 27
    assert committed(client, group, topic)[0] == 10
    member.sync({member.member_id: b"again"})
    assert member.commit(topic, 15, version) == 0
    assert committed(client, group, topic)[0] == 15
