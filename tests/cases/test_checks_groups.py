"""Conformance checks 68 to 85: classic groups and offsets."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from tests.cases.conftest import address
from tests.harness import batches, tool_host
from tests.harness.broker import BrokerProcess
from tests.harness.groups import Member, describe, find_coordinator, listed
from tests.harness.lines import LineProcess
from tests.harness.offsets import commit, committed
from tests.harness.raw import RawClient, eventually

PROPERTIES = {"offsets.topic.num.partitions": "5"}
UUID = r"[0-9A-Za-z_-]{22}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
Connect = Callable[..., RawClient]


@pytest.fixture
def group(client: RawClient, fresh) -> str:
    """Give a group name whose coordinator is ready."""
    name = fresh("group")
    find_coordinator(client, name)
    return name


def _pair(connect: Connect, group: str, **options: int) -> tuple[Member, Member]:
    """Bring up two members, the first of which leads."""
    first, second = Member(connect(), group, **options), Member(connect(), group, **options)
    first.become_stable()
    second.start_join()
    eventually(lambda: first.heartbeat() == 27, what="rebalance")
    first.send_join()
    assert (first.receive_join().error_code, second.receive_join().error_code) == (0, 0)
    second.send_sync()
    first.sync({first.member_id: b"1", second.member_id: b"2"})
    assert second.receive_sync().assignment == b"2"
    return first, second


@pytest.mark.parametrize("version", range(4, 10))
def test_check_68_member_id_is_required(connect: Connect, group: str, version: int) -> None:
    member = Member(connect(client_id="cid"), group)
    refused = member.try_join(version)
    assert refused.error_code == 79
    assert re.fullmatch(rf"cid-({UUID})", refused.member_id)
    member.member_id = refused.member_id
    answer = member.try_join(version)
    assert (answer.error_code, answer.member_id, answer.leader) == (0, refused.member_id, refused.member_id)
    assert answer.generation_id == 1
    if version >= 7:
        assert answer.protocol_type == "consumer"


@pytest.mark.parametrize("version", range(4))
def test_check_69_old_versions_are_admitted_at_once(connect: Connect, group: str, version: int) -> None:
    answer = Member(connect(client_id="cid"), group).try_join(version)
    assert answer.error_code == 0
    assert re.fullmatch(rf"cid-({UUID})", answer.member_id)
    assert [row.member_id for row in answer.members] == [answer.member_id]


def test_check_70_join_refusals(client: RawClient, group: str) -> None:
    assert Member(client, group, session_timeout_ms=1000).try_join().error_code == 26
    assert Member(client, "").try_join().error_code == 24
    assert Member(client, group, member_id="unknown").try_join().error_code == 25
    unknown = Member(client, group, member_id="unknown", generation=1)
    assert (unknown.heartbeat(), unknown.try_sync().error_code, unknown.leave()) == (25, 25, 25)
    nameless = Member(client, "", member_id="unknown", generation=1)
    assert (nameless.heartbeat(), nameless.try_sync().error_code, nameless.leave()) == (24, 24, 24)


def test_check_71_default_initial_delay_gathers_both(broker_factory) -> None:
    broker = broker_factory({"group.initial.rebalance.delay.ms": "3000"})
    with RawClient(address(broker)) as client, RawClient(address(broker)) as one, RawClient(address(broker)) as two:
        find_coordinator(client, "together")
        members = [Member(one, "together"), Member(two, "together")]
        started = time.monotonic()
        for member in members:
            member.start_join()
        assert [member.receive_join().error_code for member in members] == [0, 0]
        assert 2.9 <= time.monotonic() - started < 10
        assert [member.generation for member in members] == [1, 1]


def test_check_72_no_common_protocol(client: RawClient, connect: Connect, group: str) -> None:
    member = Member(connect(), group)
    member.become_stable()
    assert Member(client, group, [("zzz", b"")]).try_join().error_code == 23
    assert member.heartbeat() == 0


def test_check_73_heartbeat_during_a_rebalance_extends_the_session(connect: Connect, group: str) -> None:
    member = Member(connect(), group, session_timeout_ms=6000)
    member.become_stable()
    waiting = Member(connect(), group)
    waiting.start_join()
    for _ in range(8):  # longer than the session
        assert member.heartbeat() == 27
        time.sleep(1)
    member.send_join()
    assert (member.receive_join().error_code, waiting.receive_join().error_code) == (0, 0)


def test_check_74_sync_refusals(client: RawClient, connect: Connect, group: str) -> None:
    member = Member(connect(), group)
    member.become_stable()
    generation = member.generation
    member.generation -= 1
    assert member.try_sync().error_code == 22
    member.generation = generation
    member.protocol = None
    assert member.try_sync(version=5).error_code == 23
    member.protocol = "other"
    assert member.try_sync(version=5).error_code == 23
    member.protocol = "range"
    assert member.sync(version=5) == b"assignment"


def test_check_74_members_without_assignment_get_zero_bytes(connect: Connect, group: str) -> None:
    first, second = Member(connect(), group), Member(connect(), group)
    first.become_stable()
    second.start_join()
    eventually(lambda: first.heartbeat() == 27)
    first.send_join()
    assert (first.receive_join().error_code, second.receive_join().error_code) == (0, 0)
    second.send_sync()
    first.sync({first.member_id: b"all"})
    assert second.receive_sync().assignment == b""


def test_check_75_dead_member_is_removed_after_its_session(client: RawClient, connect: Connect, group: str) -> None:
    began = time.monotonic()
    first, second = _pair(connect, group, session_timeout_ms=6000)
    second.client.close()
    silent_since = time.monotonic()
    while (code := first.heartbeat()) == 0:
        time.sleep(0.1)
    assert code == 27
    assert time.monotonic() - began >= 6.0 and time.monotonic() - silent_since < 20
    generation = first.generation
    first.join()
    assert first.generation == generation + 1
    assert {row.member_id for row in describe(client, group).members} == {first.member_id}


STATIC = """
import sys
from confluent_kafka import Consumer
say = lambda error: print("error", error.code(), flush=True)
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.instance.id": sys.argv[4],
                     "session.timeout.ms": 20000, "heartbeat.interval.ms": 500, "error_cb": say})
told = lambda consumer, parts: print("assigned", sorted(part.partition for part in parts), flush=True)
lost = lambda consumer, parts: print("revoked", flush=True)
consumer.subscribe([sys.argv[3]], on_assign=told, on_revoke=lost)
while True:
    message = consumer.poll(0.2)
    if message is not None and message.error():
        say(message.error())
"""


class StaticClient(LineProcess):
    """A confluent-kafka consumer with an instance id in a process of its own."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, instance: str):
        self.said: list[str] = []
        super().__init__(self.said.append, "-c", STATIC, broker.bootstrap, group, topic, instance)


@pytest.fixture
def static_client(broker: BrokerProcess, group: str) -> Iterator[Callable[[str, str], StaticClient]]:
    """Give a function that starts static members; none outlives the test."""
    started: list[StaticClient] = []

    def start(topic: str, instance: str) -> StaticClient:
        started.append(StaticClient(broker, group, topic, instance))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.mark.slow
def test_check_76_static_client_restarts_without_a_rebalance(client: RawClient, static_client, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 2)
    a = static_client(topic, "a")
    eventually(lambda: a.said == ["assigned [0, 1]"])
    b = static_client(topic, "b")
    eventually(lambda: b.said and len(a.said) == 3)
    before = list(b.said)
    a.kill()
    again = static_client(topic, "a")
    eventually(lambda: again.said)
    assert again.said == [a.said[-1]]
    assert b.said == before


@pytest.mark.slow
def test_check_77_second_client_with_the_same_instance_fences_the_first(client, static_client, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 2)
    old = static_client(topic, "a")
    eventually(lambda: old.said)
    new = static_client(topic, "a")
    eventually(lambda: new.said == ["assigned [0, 1]"])
    fatal = f"error {KafkaError._FATAL}"  # librdkafka's word for a fenced static member
    eventually(lambda: fatal in old.said, what="the older one fenced")
    assert fatal not in new.said


def _consumer(broker: BrokerProcess, group: str, **config: object) -> Consumer:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer(settings | config)


def _table(said: str) -> list[dict[str, str]]:
    head, *rows = [line.split() for line in said.splitlines() if line.strip() and "has no active" not in line]
    return [dict(zip(head, row, strict=False)) for row in rows]


@pytest.mark.jvm
def test_check_78_consumer_groups_tool_describes_a_live_group(
    broker: BrokerProcess, client: RawClient, group: str, fresh
) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("a", "b", "c"))
    consumer = _consumer(broker, group)
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(1))
    consumer.commit(asynchronous=False)
    common = ("--bootstrap-server", broker.bootstrap, "--group", group, "--describe")
    [offsets] = _table(tool_host.run("kafka-consumer-groups", *common))
    assert (offsets["TOPIC"], offsets["CURRENT-OFFSET"], offsets["LOG-END-OFFSET"], offsets["LAG"]) == (
        topic,
        "1",
        "3",
        "2",
    )
    [state] = _table(tool_host.run("kafka-consumer-groups", *common, "--state"))
    assert "Stable" in state.values()
    assert broker.bootstrap in state.values()
    [member] = _table(tool_host.run("kafka-consumer-groups", *common, "--members"))
    assert member["GROUP"] == group
    consumer.close()


@pytest.mark.jvm
def test_check_79_offsets_are_reset_only_without_members(
    broker: BrokerProcess, client: RawClient, connect: Connect, group: str, fresh
) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("a", "b", "c"))
    member = Member(connect(), group, session_timeout_ms=120_000)
    member.become_stable()
    assert member.commit(topic, 2) == 0
    reset = ("--bootstrap-server", broker.bootstrap, "--group", group, "--topic", topic, "--reset-offsets")
    arguments = (*reset, "--to-earliest", "--execute")
    done = tool_host.attempt("kafka-consumer-groups", *arguments)
    assert committed(client, group, topic)[0] == 2, done.out
    assert member.leave() == 0
    tool_host.run("kafka-consumer-groups", *arguments)
    assert committed(client, group, topic)[0] == 0


def test_check_80_deletion_of_groups(client: RawClient, connect: Connect, group: str) -> None:
    member = Member(connect(), group)
    member.become_stable()
    for version in client.offered("delete_groups"):
        answer = client.request("delete_groups", version, groups_names=[group, "never-seen", ""])
        assert {row.group_id: row.error_code for row in answer.results} == {group: 68, "never-seen": 69, "": 69}
    row = describe(client, "", 5)
    assert (row.error_code, row.group_state) == (0, "Dead")
    assert member.heartbeat() == 0


def test_check_81_group_never_seen(client: RawClient, fresh) -> None:
    topic, group = fresh(), fresh("never")
    client.create_topic(topic)
    assert committed(client, group, topic) == (-1, -1, "")
    assert group not in listed(client)


def test_check_82_long_metadata_on_one_of_two_partitions(client: RawClient, group: str, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, 2)
    rows = [
        {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 5000},
        {"partition_index": 1, "committed_offset": 2, "committed_metadata": "short"},
    ]
    answer = client.request(
        "offset_commit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": rows}],
    )
    assert [(row.partition_index, row.error_code) for row in answer.topics[0].partitions] == [(0, 12), (1, 0)]
    wanted = [{"name": topic, "partition_indexes": [0, 1]}]
    [found] = client.request("offset_fetch", 7, group_id=group, topics=wanted).topics
    assert [(row.committed_offset, row.metadata) for row in found.partitions] == [(-1, ""), (2, "short")]


@pytest.mark.parametrize(("version", "code"), [(8, 22), (9, 69)])
def test_check_83_generation_for_an_unknown_group(
    client: RawClient, group: str, fresh, version: int, code: int
) -> None:
    topic = fresh()
    client.create_topic(topic)
    assert Member(client, group, member_id="x", generation=3).commit(topic, 1, version) == code


def test_check_84_commit_survives_a_kill(broker: BrokerProcess, client: RawClient, group: str, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    commit(client, group, topic, 42, epoch=0, metadata="why not")
    broker.kill()
    broker.start()
    with RawClient(address(broker)) as later:
        assert committed(later, group, topic) == (42, 0, "why not")


def test_check_85_unknown_group_is_described_as_dead(client: RawClient, group: str) -> None:
    old, new = describe(client, group, 5), describe(client, group, 6)
    assert (old.error_code, old.group_state, old.members) == (0, "Dead", [])
    assert (new.error_code, new.group_state) == (69, "Dead")
    assert group in new.error_message


def test_check_79_commit_without_membership_into_a_live_group(
    client: RawClient, connect: Connect, group: str, fresh
) -> None:
    topic = fresh()
    client.create_topic(topic)
    member = Member(connect(), group)
    member.become_stable()
    assert Member(client, group).commit(topic, 5) == 25
    assert committed(client, group, topic)[0] == -1


def test_check_70_group_full(broker_factory) -> None:
    broker = broker_factory({"group.max.size": "1"})
    with RawClient(address(broker)) as client, RawClient(address(broker)) as other:
        find_coordinator(client, "small")
        member = Member(client, "small")
        member.become_stable()
        late = Member(other, "small").try_join()
        if late.error_code == 79:
            late = Member(other, "small", member_id=late.member_id).try_join()
        assert late.error_code == 81
        assert member.heartbeat() == 0


def test_check_81_stock_consumer_starts_where_the_reset_says(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("a"))
    consumer = _consumer(broker, fresh("error"), **{"auto.offset.reset": "error"})
    consumer.subscribe([topic])

    def refused() -> bool:
        try:
            message = consumer.poll(1)
        except KafkaException:
            return True
        return message is not None and message.error() is not None

    eventually(refused, what="an error instead of a guess")
    consumer.close()
