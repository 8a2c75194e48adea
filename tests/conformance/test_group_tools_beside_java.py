"""`odradek groups` and `consume` beside Apache Kafka's tools: they show the same, with either broker behind."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.groups import commit_offsets
from tests.harness import cli
from tests.harness.broker import BrokerProcess
from tests.harness.group_members import LiveMember, wait_until_settled
from tests.harness.pair import Pair
from tests.harness.raw import RawClient
from tests.harness.tool_host import Done, ToolHost, Tools

pytestmark = pytest.mark.jvm

SCRIPTS = {"groups": "kafka-consumer-groups", "consume": "kafka-console-consumer"}
# Recent: retention runs in these brokers.
FIRST_MS = int(time.time()) * 1000 - 3_600_000
BETWEEN = datetime.fromtimestamp(FIRST_MS / 1000 + 1.5, UTC).strftime("%Y-%m-%dT%H:%M:%S.500")
"""Between the second and the third record, in UTC. In a zone to the east the same words are an hour earlier."""
PER_PARTITION = 5
PARTITIONS = 3

# `<g>` is the name before all groups, `<t>` the topic; `.` in front of a group's name stands for <g>.
SHOWN = """
groups --list
groups --list --state
groups --list --state empty
groups --list --state stable,nonsense
groups --list --type
groups --list --type classic --state
groups --list --type nonsense
groups --describe --group .simple
groups --describe --group .simple --verbose
groups --describe --group .simple --state
groups --describe --group .simple --members
groups --describe --group .none
groups --describe --group .none --state
groups --describe --group .classic
groups --describe --group .classic --verbose
groups --describe --group .classic --members
groups --describe --group .classic --members --verbose
groups --describe --group .classic --state --verbose
groups --describe --group .consumer
groups --describe --group .consumer --offsets --verbose
groups --describe --group .consumer --members
groups --describe --group .consumer --members --verbose
groups --describe --group .consumer --state
groups --describe --group .consumer --state --verbose
groups --describe --all-groups --state
groups --describe --group .simple --group .classic --offsets
groups --describe
groups --describe --group .simple --members --state
groups --describe --group .simple --topic <t>
groups --list --group .simple
groups --list --describe
groups --list --members
groups --group .simple
groups --validate-regex t.*
groups --reset-offsets --group .simple --topic <t> --to-earliest --dry-run
groups --reset-offsets --group .simple --topic <t>:0,2 --to-latest --dry-run
groups --reset-offsets --group .simple --all-topics --to-earliest --dry-run
groups --reset-offsets --group .simple --all-topics --shift-by 1 --dry-run
groups --reset-offsets --group .simple --all-topics --shift-by -100 --dry-run
groups --reset-offsets --group .simple --topic <t> --shift-by 1 --dry-run
groups --reset-offsets --group .simple --topic <t> --to-current --dry-run
groups --reset-offsets --group .simple --topic <t> --to-offset 3 --dry-run
groups --reset-offsets --group .simple --topic <t> --to-offset 99 --dry-run
groups --reset-offsets --group .simple --topic <t> --to-datetime <time> --dry-run
groups --reset-offsets --group .simple --topic <t> --to-datetime <time>+01:00 --dry-run
groups --reset-offsets --group .simple --topic <t> --to-datetime 2090-01-01T00:00:00.000Z --dry-run
groups --reset-offsets --group .simple --topic <t> --to-datetime yesterday --dry-run
groups --reset-offsets --group .simple --topic <t> --by-duration P20000D --dry-run
groups --reset-offsets --group .simple --topic <t> --by-duration long --dry-run
groups --reset-offsets --group .simple --topic <t> --to-latest --export --dry-run
groups --reset-offsets --group .simple --group .none --topic <t> --to-latest --export --dry-run
groups --reset-offsets --group .classic --topic <t> --to-latest --dry-run
groups --reset-offsets --group .consumer --topic <t> --to-latest --dry-run
groups --reset-offsets --group .none --topic <t> --to-latest --dry-run
groups --reset-offsets --group .simple --topic <t>-none --to-latest --dry-run
groups --reset-offsets --group .simple --topic <t>:9 --to-latest --dry-run
groups --reset-offsets --group .simple --topic <t>:x --to-latest --dry-run
groups --reset-offsets --group .simple --to-latest --dry-run
groups --reset-offsets --group .simple --topic <t> --dry-run
groups --reset-offsets --group .simple --topic <t> --to-latest --to-earliest --dry-run
groups --reset-offsets --group .simple --topic <t> --to-latest --dry-run --execute
groups --reset-offsets --group .simple --from-file <plan> --dry-run
groups --reset-offsets --group .simple --group .other --from-file <plans> --dry-run
groups --reset-offsets --group .simple --from-file <plan>-none --dry-run
groups --delete-offsets --group .classic --topic <t>
groups --delete-offsets --group .none --topic <t>
groups --delete-offsets --group .simple
groups --delete --group .classic
groups --delete --group .none
groups --delete --group .simple --topic <t>
"""
CHANGED = """
groups --reset-offsets --group .new --topic <t>:1 --to-earliest --execute
groups --describe --group .new
groups --reset-offsets --group .new --topic <t> --to-latest --execute
groups --reset-offsets --group .new --from-file <plan> --execute
groups --describe --group .new
groups --delete-offsets --group .new --topic <t>:0
groups --delete-offsets --group .new --topic <t>
groups --describe --group .new
groups --reset-offsets --group .new --topic <t> --to-latest --execute
groups --delete --group .new --group .none
groups --reset-offsets --group .new --topic <t> --to-latest --execute
groups --delete --group .new
groups --list
"""
F = "--formatter-property "
P = f"{F}print."
CONSUMED = f"""
consume --topic <t> --partition 1 --offset earliest --max-messages 3
consume --topic <t> --partition 1 --offset 2 --max-messages 3 {P}key=true {P}timestamp=true {P}offset=true
consume --topic <t> --partition 1 --offset 2 --max-messages 3 {P}partition=true {P}headers=true {P}value=false
consume --topic <t> --partition 0 --from-beginning --max-messages 2 {P}headers=true {P}delivery=true
consume --topic <t> --partition 0 --offset 0 --max-messages 2 {F}key.separator=| {F}line.separator=;
consume --topic <t> --partition 0 --offset 0 --max-messages 5 {P}key=true {F}null.literal=nothing
consume --topic <t> --from-beginning --max-messages 15
consume --include <t>.* --from-beginning --max-messages 15
consume --topic <t> --partition 0 --offset latest --timeout-ms 500
consume --topic <t> --partition 9 --timeout-ms 500
consume --topic <t> --from-beginning --max-messages 15 --group .reader
groups --describe --group .reader
consume --topic <t> --from-beginning --timeout-ms 3000 --group .reader
consume --topic <t> --partition 0 --offset x
consume --topic <t> --offset 1
consume --topic <t> --partition 0 --group .x
consume --partition 0
consume --topic <t> --partition 0 --from-beginning --offset earliest
consume --topic <t> --isolation-level nonsense
"""


class Scene:
    """A broker with a topic, groups of each kind, and the two sets of tools."""

    def __init__(self, broker: BrokerProcess, tool_host: ToolHost, directory: Path, name: str) -> None:
        self.broker = broker
        self._tools = Tools(tool_host, broker.bootstrap)
        self._name = name
        self._topic = f"{name}t"
        self._plan, self._plans = directory / "plan", directory / "plans"
        self._plan.write_text(f"{self._topic},0,2\n{self._topic},1,77\n")
        self._plans.write_text(f'"{name}simple","{self._topic}",0,2\n{name}other,{self._topic},1,3\n')
        self._fill()
        with Client(broker.bootstrap) as client:
            offsets = {TopicPartition(self._topic, 0): 2, TopicPartition(self._topic, 2): 7}
            commit_offsets(client, f"{name}simple", offsets)
        kinds = [("classic", ""), ("classic", "named"), ("consumer", "")]
        self.members = [
            LiveMember(broker.bootstrap, f"{name}{kind}", [self._topic], kind, instance) for kind, instance in kinds
        ]
        for kind, members in (("classic", 2), ("consumer", 1)):
            group = f"{name}{kind}"
            wait_until_settled(broker.bootstrap, group, members=members, committed=PARTITIONS * PER_PARTITION)

    def _fill(self) -> None:
        with RawClient((self.broker.host, self.broker.port)) as client:
            client.create_topic(self._topic, PARTITIONS)
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for number in range(PARTITIONS * PER_PARTITION):
            index, partition = divmod(number, PARTITIONS)
            producer.produce(
                self._topic,
                value=None if index == 1 else f"value {number}",
                key=f"key {number}" if index % 2 else None,
                headers=[("a", b"b"), ("c", None)] if index else None,
                partition=partition,
                timestamp=FIRST_MS + index * 1000,
            )
        assert producer.flush(30) == 0

    def play(self, line: str, side: str) -> Done:
        """Run a line with our tools or with Java's."""
        marks = (("<t>", self._topic), ("<plan>", self._plan), ("<plans>", self._plans), ("<time>", BETWEEN))
        for mark, meaning in marks:
            line = line.replace(mark, str(meaning))
        # Groups that a script changes are each side's own.
        line = re.sub(r"(--group )\.(new|reader)", rf"\1{self._name}{side}\2", line)
        line = re.sub(r"(--group )\.", rf"\1{self._name}", line)
        tool, *words = shlex.split(line.replace(";", "\\;").replace("|", "\\|"))
        if side == "java":
            done = self._tools.attempt(SCRIPTS[tool], *words)
        else:
            done = cli.attempt(tool, *words, bootstrap=self.broker.bootstrap)
        return Done(done.code, done.out.replace(f"{self._name}{side}", f"{self._name}side"), done.err)

    def close(self) -> None:
        """Let the members go."""
        for member in self.members:
            member.stop()


@pytest.fixture(scope="module", params=["ours", "kafka"])
def scene(
    pair: Pair, tool_host: ToolHost, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("plans")
    made = Scene(getattr(pair, request.param), tool_host, directory, f"s{directory.name[-1]}x{request.param}-")
    yield made
    made.close()  # threads of a scene that never came about end with the process


def parts(line: str, ours: Done, java: Done) -> str:
    """Say where two runs part; Java's tools list in the order of their hash tables."""
    is_error = java.code != 0 or "\nError: " in java.out
    if is_error != (ours.code != 0):
        return f"{line}: status {ours.code}\n{ours.text}\n{java.text[:500]}"
    if java.code or "Executing consumer group command failed" in java.out:
        is_one_line = ours.err.splitlines()[0].startswith("odradek: ")
        return "" if is_one_line and not ours.out else f"{line}: {ours.text}"
    if not is_error and sorted(table(ours.out)) != sorted(table(java.out)):
        return f"{line}:\n{ours.out}\n{java.out}\n{ours.err}"
    if line.startswith("consume") and said(ours) != said(java):
        return f"{line}: {ours.err}\n{java.err}"
    return ""


def table(text: str) -> list[str]:
    """Return the lines of an output; names that are listed in a line, in order."""
    return [
        re.sub(r"(?<=\()'.*'(?=\))", lambda found: str(sorted(found[0].split(", "))), line) for line in text.split("\n")
    ]


def said(done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("Processed")]


@pytest.mark.parametrize("script", [SHOWN, CHANGED, CONSUMED], ids=["shown", "changed", "consumed"])
def test_the_same_command_lines_show_the_same(scene: Scene, script: str) -> None:
    lines = script.strip().splitlines()
    java = [scene.play(line, "java") for line in lines]
    ours = [scene.play(line, "ours") for line in lines]
    different = [parts(*runs) for runs in zip(lines, ours, java, strict=True)]
    assert not any(different), "\n".join(filter(None, different))
