"""ConsumerGroupCommand and GroupsCommand: every sub-command, for groups of the classic and of the consumer protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.broker import BrokerProcess
from tests.harness.group_members import LiveMember
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import Tools

pytestmark = pytest.mark.jvm

GROUPS = "kafka-consumer-groups"
KINDS = ["classic", "consumer"]
PER_PARTITION = 5
FIRST_MS = 1_000_000
STEP_MS = 1_000


def rows(printed: str, group: str) -> list[list[str]]:
    """Give the cells of the lines about a group, sorted."""
    return sorted(line.split() for line in printed.splitlines() if line.split()[:1] == [group])


@pytest.fixture
def topic(shared_broker: BrokerProcess, unique: str) -> str:
    """Give a topic with two partitions of five records each, a second between one and the next."""
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 2)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "log_level": 0})
    for number in range(PER_PARTITION):
        for partition in (0, 1):
            producer.produce(unique, str(number), partition=partition, timestamp=FIRST_MS + number * STEP_MS)
    assert producer.flush(30) == 0
    return unique


@pytest.fixture(params=KINDS)
def member_group(request: pytest.FixtureRequest, bootstrap: str, topic: str) -> Iterator[tuple[str, str]]:
    """Give a group with one member that has read everything, and its protocol."""
    group = f"{request.param}-{topic}"
    member = LiveMember(bootstrap, group, [topic], request.param)
    eventually(lambda: member.committed_count == 2 * PER_PARTITION, what="everything read and committed")
    yield group, request.param
    member.stop()


@pytest.fixture(params=KINDS)
def empty_group(request: pytest.FixtureRequest, bootstrap: str, topic: str) -> str:
    """Give a group whose member has read everything and left."""
    group = f"{request.param}-{topic}"
    member = LiveMember(bootstrap, group, [topic], request.param)
    eventually(lambda: member.committed_count == 2 * PER_PARTITION, what="everything read and committed")
    member.stop()
    return group


def test_a_group_with_a_member_is_listed_and_described(tools: Tools, topic: str, member_group: tuple[str, str]) -> None:
    group, protocol = member_group
    kind, other = protocol.capitalize(), next(kind for kind in KINDS if kind != protocol)

    def listed(*options: str, tool: str = GROUPS) -> list[list[str]]:
        return rows(tools.run(tool, "--list", *options), group)

    assert listed() == [[group]]
    assert listed("--state") == listed("--state", "stable") == [[group, "Stable"]]
    assert listed("--state", "Empty,Dead") == []
    assert listed("--type") == listed("--type", protocol) == [[group, kind]]
    assert listed("--type", other) == []
    assert listed("--type", protocol, "--state", "Stable") == [[group, kind, "Stable"]]
    assert "Invalid state list 'asleep'" in tools.refusal(GROUPS, "--list", "--state", "asleep")
    assert listed(tool="kafka-groups") == listed("--consumer", tool="kafka-groups") == [[group, kind, "consumer"]]
    assert listed("--group-type", protocol, "--protocol", "consumer", tool="kafka-groups")
    assert listed("--group-type", other, tool="kafka-groups") == listed("--share", tool="kafka-groups") == []

    def described(*options: str) -> list[list[str]]:
        return rows(tools.run(GROUPS, "--describe", "--group", group, *options), group)

    first, second = described()
    member_id, host, client_id = first[6:]
    assert host == "/127.0.0.1" and client_id == f"client-of-{group}"
    assert [first[:6], second[:6]] == [[group, topic, number, "5", "5", "0"] for number in ("0", "1")]
    assert described("--offsets", "--verbose")[0] == [group, topic, "0", "0", "5", "5", "0", *first[6:]]
    assert described("--members") == [[group, member_id, host, client_id, "2"]]
    has_epochs = protocol == "consumer"
    [verbose] = described("--members", "--verbose")
    epoch, assigned, target_epoch, target = verbose[5:]
    assert assigned == f"{topic}:0,1" and target == (assigned if has_epochs else "-")
    assert epoch == target_epoch and epoch.isdigit() == has_epochs
    [state] = described("--state", "--verbose")
    assert state[2:4] == ["(1)", "uniform" if has_epochs else "range"] and state[4] == "Stable" and state[-1] == "1"
    assert state[5:7] == [epoch, epoch]
    everybody = tools.run(GROUPS, "--describe", "--all-groups", "--state")
    assert rows(everybody, group) == [[*state[:5], "1"]]


def test_a_group_with_a_member_is_not_touched(tools: Tools, topic: str, member_group: tuple[str, str]) -> None:
    group, _ = member_group
    named = ("--group", group)
    assert "The group is not empty." in tools.run(GROUPS, "--delete", *named)
    assert tools.run(GROUPS, "--delete-offsets", *named, "--topic", topic).count("actively subscribed to it") == 2
    reset = tools.run(GROUPS, "--reset-offsets", *named, "--topic", topic, "--to-earliest", "--execute")
    assert f"the group '{group}' is inactive, but the current state is Stable" in reset
    shown = rows(tools.run(GROUPS, "--describe", *named), group)
    assert [row[3] for row in shown] == ["5", "5"]


def test_offsets_are_reset_by_every_strategy(tools: Tools, topic: str, empty_group: str, tmp_path: Path) -> None:
    group = empty_group

    def committed() -> dict[int, int]:
        shown = rows(tools.run(GROUPS, "--describe", "--group", group), group)
        return {int(row[2]): int(row[3]) for row in shown if row[3] != "-"}

    def reset(*options: str, topics: str = topic) -> dict[int, int]:
        asked = ("--reset-offsets", "--group", group, "--topic", topics)
        return {int(row[2]): int(row[3]) for row in rows(tools.run(GROUPS, *asked, *options), group)}

    assert reset("--to-earliest", "--dry-run") == reset("--to-earliest") == {0: 0, 1: 0}
    assert committed() == {0: 5, 1: 5}, "nothing happens without --execute"
    for options, topics, expected in (
        (("--to-earliest",), topic, {0: 0, 1: 0}),
        (("--to-latest",), topic, {0: 5, 1: 5}),
        (("--to-offset", "2"), f"{topic}:0", {0: 2, 1: 5}),
        (("--to-offset", "200"), f"{topic}:0", {0: 5, 1: 5}),
        (("--shift-by", "-1"), topic, {0: 4, 1: 4}),
        (("--shift-by", "100"), f"{topic}:1", {0: 4, 1: 5}),
        (("--shift-by", "-100"), f"{topic}:1", {0: 4, 1: 0}),
        (("--to-current",), topic, {0: 4, 1: 0}),
        (("--to-datetime", "1970-01-01T00:16:41.500"), f"{topic}:0,1", {0: 2, 1: 2}),
        (("--to-datetime", "1970-01-01T00:16:40.000Z"), f"{topic}:0", {0: 0, 1: 2}),
        (("--by-duration", "PT1H"), topic, {0: 5, 1: 5}),
    ):
        changed = reset(*options, "--execute", topics=topics)
        assert committed() == expected == {**expected, **changed}, options

    exported = tools.run(
        *(GROUPS, "--reset-offsets", "--group", group, "--all-topics", "--to-offset", "3", "--dry-run", "--export")
    )
    assert sorted(exported.split()) == [f"{topic},0,3", f"{topic},1,3"]
    plan = tmp_path / "plan.csv"
    plan.write_text(exported)
    tools.run(GROUPS, "--reset-offsets", "--group", group, "--from-file", str(plan), "--execute")
    assert committed() == {0: 3, 1: 3}
    assert (
        "does not host this topic-partition"
        in tools.attempt(
            *(GROUPS, "--reset-offsets", "--group", group, "--topic", f"{topic}-missing", "--to-earliest", "--execute")
        ).text
    )
    assert committed() == {0: 3, 1: 3}


def test_an_empty_group_is_described_trimmed_and_deleted(tools: Tools, topic: str, empty_group: str) -> None:
    group = empty_group

    def ask(*options: str) -> str:
        return tools.attempt(GROUPS, *options, "--group", group).text

    for what in ("--members", "--offsets", "--state"):
        assert f"Consumer group '{group}' has no active members." in ask("--describe", what)
    [state] = rows(ask("--describe", "--state"), group)
    assert state[-2:] == ["Empty", "0"]
    trimmed = ask("--delete-offsets", "--topic", f"{topic}:0")
    assert "Request succeeded" in trimmed and re.search(rf"^{topic}\s+0\s+Successful", trimmed, re.MULTILINE)
    assert [row[2] for row in rows(ask("--describe"), group)] == ["1"]
    assert "was successful" in ask("--delete")
    assert rows(tools.run(GROUPS, "--list"), group) == []
    assert f"Group {group} not found." in ask("--describe")
    assert "The group id does not exist." in ask("--delete")
    assert "The group id does not exist." in ask("--delete-offsets", "--topic", topic)


def test_all_groups_are_reset_and_deleted_at_once(tools: Tools, bootstrap: str, topic: str, tmp_path: Path) -> None:
    names = [f"{topic}-{number}" for number in range(2)]
    for name in names:
        tools.run(GROUPS, "--reset-offsets", "--group", name, "--topic", topic, "--to-latest", "--execute")
    several = tuple(option for name in names for option in ("--group", name))
    exported = tools.run(
        *(GROUPS, "--reset-offsets", *several, "--all-topics", "--to-earliest", "--dry-run", "--export")
    )
    assert sorted(exported.split()) == [f"{name},{topic},{number},0" for name in names for number in (0, 1)]
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.replace(",0\n", ",1\n"))
    tools.run(GROUPS, "--reset-offsets", *several, "--from-file", str(plan), "--execute")
    planned = tools.run(
        *(GROUPS, "--reset-offsets", "--all-groups", "--topic", topic, "--to-current", "--dry-run", "--export")
    )
    assert {line for line in planned.split() if line.startswith(topic)} == {
        f"{name},{topic},{number},1" for name in names for number in (0, 1)
    }
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": names[0], "log_level": 0})
    assert [one.offset for one in reader.committed([TopicPartition(topic, number) for number in (0, 1)])] == [1, 1]
    reader.close()
    deleted = tools.run(GROUPS, "--delete", *several, "--group", f"{topic}-missing")
    assert f"Group '{topic}-missing' could not be deleted" in deleted
    assert all(f"'{name}'" in deleted.split("deleted successfully:")[1] for name in names)
    assert "is valid" in tools.run(GROUPS, "--validate-regex", "t.*[0-9]+")
