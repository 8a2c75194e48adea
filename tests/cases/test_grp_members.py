"""GRP-07, GRP-08, GRP-10 and GRP-14: joining, start-up batching, static members, descriptions."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.cases.conftest import address
from tests.harness.broker import BrokerProcess
from tests.harness.groups import Member, describe, find_coordinator, listed, subscription
from tests.harness.raw import RawClient, eventually

JOIN_VERSIONS = range(10)


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_grp_07_join_group_checks(client: RawClient, connect: Callable[..., RawClient], fresh, version: int) -> None:
    group = fresh("group")
    find_coordinator(client, group)

    def refused(name: str = group, **fields: object) -> int:
        return Member(client, name, **fields).try_join(version).error_code  # type: ignore[arg-type]

    assert refused("") == 24
    assert refused(protocols=()) == 23
    assert refused(protocol_type="") == 23
    assert refused(session_timeout_ms=5999) == 26
    assert refused(session_timeout_ms=1800001) == 26
    assert refused(member_id="made-up") == 25

    first = Member(connect(), group, [("range", b"1"), ("rr", b"1")])
    if version >= 4:
        answer = first.try_join(version)
        assert answer.error_code == 79
        assert answer.member_id.startswith("raw-")
        assert answer.generation_id == -1
        first.member_id = answer.member_id
    first.send_join(version)
    assert first.receive_join(version).error_code == 0
    assert first.sync({first.member_id: b"all"}) == b"all"

    second = Member(connect(), group, [("rr", b"2")])
    second.start_join(version)
    eventually(lambda: first.heartbeat() == 27, what="rebalance")
    first.send_join(version)
    answers = [first.receive_join(version), second.receive_join(version)]
    assert [answer.error_code for answer in answers] == [0, 0]
    assert {answer.protocol_name for answer in answers} == {"rr"}
    assert first.generation == second.generation == 2
    assert {row.member_id: row.metadata for row in answers[0].members} == {
        first.member_id: b"1",
        second.member_id: b"2",
    }
    assert answers[1].members == []
    second.send_sync()
    assert first.sync({first.member_id: b"one", second.member_id: b"two"}) == b"one"
    assert second.receive_sync().assignment == b"two"

    assert refused(protocols=[("range", b"3")]) == 23
    assert refused(protocols=[("rr", b"4")], protocol_type="connect") == 23
    assert [first.heartbeat(), second.heartbeat()] == [0, 0]
    assert describe(client, group).group_state == "Stable"
    assert [first.leave(), second.leave()] == [0, 0]


def test_grp_08_start_up_batching_also_for_a_group_that_became_empty(broker_factory) -> None:
    broker = broker_factory({"group.initial.rebalance.delay.ms": "2000", "offsets.topic.num.partitions": "1"})
    group = "again"
    with RawClient(address(broker)) as client, RawClient(address(broker)) as one, RawClient(address(broker)) as two:
        find_coordinator(client, group)
        user = Member(client, group)
        user.become_stable()
        used = user.generation
        assert user.leave() == 0
        assert describe(client, group).group_state == "Empty"
        members = [Member(one, group), Member(two, group)]
        started = time.monotonic()
        members[0].start_join()
        members[1].start_join()
        answers = [member.receive_join() for member in members]
        assert time.monotonic() - started >= 1.9
        assert [answer.error_code for answer in answers] == [0, 0]
        assert {member.generation for member in members} == {members[0].generation}
        assert members[0].generation > used
        leader = members[0] if answers[0].leader == members[0].member_id else members[1]
        follower = members[1] if leader is members[0] else members[0]
        listing = answers[members.index(leader)].members
        assert {row.member_id for row in listing} == {member.member_id for member in members}
        follower.send_sync()
        leader.sync({member.member_id: b"part" for member in members})
        assert follower.receive_sync().error_code == 0
        for _ in range(5):  # no further rebalance within five seconds
            time.sleep(1)
            assert [member.heartbeat() for member in members] == [0, 0]


def _static_pair(connect: Callable[..., RawClient], group: str) -> tuple[Member, Member]:
    """Bring up static members a (leader) and b and give them assignments."""
    a = Member(connect(), group, instance="a", session_timeout_ms=20000)
    b = Member(connect(), group, instance="b", session_timeout_ms=20000)
    a.join()
    a.sync({a.member_id: b"alone"})
    b.start_join()
    eventually(lambda: a.heartbeat() == 27, what="rebalance")
    a.send_join()
    assert a.receive_join().error_code == 0
    assert b.receive_join().error_code == 0
    b.send_sync()
    assert a.sync({a.member_id: b"for a", b.member_id: b"for b"}) == b"for a"
    assert b.receive_sync().assignment == b"for b"
    return a, b


def test_grp_10_restarted_static_member_keeps_its_place(client: RawClient, connect, fresh) -> None:
    group = fresh("static")
    find_coordinator(client, group)
    a, b = _static_pair(connect, group)
    for member in (b, a):  # the leader last
        old_id, generation = member.member_id, member.generation
        member.client.close()
        member.client, member.member_id = connect(), ""
        answer = member.join()
        assert member.member_id not in ("", old_id)
        assert member.member_id.startswith(f"{member.instance}-")
        assert member.generation == generation
        assert answer.members == []
        assert member.sync() == f"for {member.instance}".encode()
        assert (a.heartbeat(), b.heartbeat()) == (0, 0)
    assert {row.group_instance_id for row in describe(client, group).members} == {"a", "b"}


def test_grp_10_second_live_client_fences_the_first(client: RawClient, connect, fresh) -> None:
    topic, group = fresh(), fresh("static")
    client.create_topic(topic)
    find_coordinator(client, group)
    a, b = _static_pair(connect, group)
    newer = Member(connect(), group, instance="a", session_timeout_ms=20000)
    newer.join()
    assert newer.sync() == b"for a"
    assert a.heartbeat() == 82
    assert a.commit(topic, 5) == 82
    assert a.try_sync().error_code == 82
    assert a.try_join().error_code == 82
    assert (newer.heartbeat(), b.heartbeat()) == (0, 0)
    assert newer.commit(topic, 6) == 0
    assert sorted(row.member_id for row in describe(client, group).members) == sorted([newer.member_id, b.member_id])


def test_grp_10_admin_removes_a_static_member(client: RawClient, connect, fresh) -> None:
    group = fresh("static")
    find_coordinator(client, group)
    _, b = _static_pair(connect, group)
    rows = [{"member_id": "", "group_instance_id": "a"}, {"member_id": "", "group_instance_id": "ghost"}]
    answer = client.request("leave_group", 4, group_id=group, members=rows)
    assert answer.error_code == 0
    assert [(row.group_instance_id, row.error_code) for row in answer.members] == [("a", 0), ("ghost", 25)]
    assert b.heartbeat() == 27
    b.join()
    b.sync({b.member_id: b"everything"})
    again = Member(connect(), group, instance="a", session_timeout_ms=20000)
    again.start_join()
    eventually(lambda: b.heartbeat() == 27, what="rebalance")
    b.send_join()
    assert (b.receive_join().error_code, again.receive_join().error_code) == (0, 0)


def test_grp_10_static_members_survive_a_broker_restart(
    broker: BrokerProcess, client: RawClient, connect, fresh
) -> None:
    group = fresh("static")
    find_coordinator(client, group)
    members = _static_pair(connect, group)
    generation = members[0].generation
    broker.restart()
    with RawClient(address(broker)) as later, RawClient(address(broker)) as two:
        find_coordinator(later, group)
        for member, connection in zip(members, (later, two), strict=True):
            member.client = connection
        codes = {member.heartbeat() for member in members}
        if codes == {0}:
            assert {row.group_instance_id for row in describe(later, group).members} == {"a", "b"}
            return
        assert codes <= {22, 25}
        for member in members:
            member.member_id = ""
            member.start_join()
        for member in members:
            assert member.receive_join().error_code == 0
        assert members[0].generation == members[1].generation <= generation + 1


@pytest.mark.parametrize("version", range(7))
def test_grp_14_describe_groups(client: RawClient, connect, fresh, version: int) -> None:
    topic, group, simple = fresh(), fresh("group"), fresh("simple")
    client.create_topic(topic)
    find_coordinator(client, group)
    metadata, assignment = subscription(topic, user_data=bytes(range(256))), bytes(reversed(range(256)))
    member = Member(connect(client_id="cid"), group, [("first", metadata), ("second", subscription())])
    member.become_stable(assignment)
    row = describe(client, group, version)
    assert (row.error_code, row.group_state, row.protocol_type, row.protocol_data) == (0, "Stable", "consumer", "first")
    [found] = row.members
    assert (found.member_id, found.client_id, found.client_host) == (member.member_id, "cid", "/127.0.0.1")
    assert (found.member_metadata, found.member_assignment) == (metadata, assignment)
    if version >= 3:
        assert row.authorized_operations == -2147483648
    if version >= 4:
        assert found.group_instance_id is None

    waiting = Member(connect(client_id="cid"), group, [("first", subscription())])
    waiting.start_join()
    eventually(lambda: describe(client, group, version).group_state == "PreparingRebalance", what="rebalance")
    row = describe(client, group, version)
    assert member.member_id in {found.member_id for found in row.members}
    assert len(row.members) == 2
    assert row.protocol_data == ""
    # Metadata is shown in Stable only; the old assignment stays.
    shown = {found.member_id: (found.member_metadata, found.member_assignment) for found in row.members}
    assert shown == {member.member_id: (b"", assignment), waiting.member_id: (b"", b"")}
    member.send_join()
    assert (member.receive_join().error_code, waiting.receive_join().error_code) == (0, 0)
    assert describe(client, group, version).group_state == "CompletingRebalance"

    Member(client, simple).commit(topic, 1)
    row = describe(client, simple, version)
    assert (row.error_code, row.group_state, row.protocol_type, row.members) == (0, "Empty", "", [])
    assert listed(client)[simple] == "Empty"
    if version >= 3:
        [row] = client.request("describe_groups", version, groups=[group], include_authorized_operations=True).groups
        assert row.authorized_operations == 3400


def test_grp_14_parked_member_does_not_block_others(client: RawClient, connect, fresh) -> None:
    """A JoinGroup that waits holds up its own connection only."""
    group = fresh("group")
    find_coordinator(client, group)
    member = Member(connect(), group)
    member.become_stable()
    waiting = Member(connect(), group)
    waiting.start_join()
    done = threading.Event()
    threading.Thread(target=lambda: (client.metadata([]), done.set())).start()
    assert done.wait(2)
    eventually(lambda: member.heartbeat() == 27)
    assert member.leave() == 0
    assert waiting.receive_join().error_code == 0
