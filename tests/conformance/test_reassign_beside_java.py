"""Our tool that moves partitions and Apache Kafka's: the same plans, the same output and status."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.harness import batches, cli
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.log_dirs import create_in, log_dirs, new_directories, wait_until_only_in
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import Done, ToolHost, Tools

pytestmark = pytest.mark.jvm

MEBIBYTES = 12  # a limit lets the first piece through at once
SLOW = ("--replica-alter-log-dirs-throttle", "1000")


class Tool:
    """One of the tools with a topic of its own, which lies in the first of two directories."""

    def __init__(self, attempt: Callable[..., Done], client: RawClient, topic: str, place: Path, a: Path, b: Path):
        self._attempt = attempt
        self.topic = topic
        self._plan = place / f"{topic}.json"
        self._a = a
        self._b = b
        create_in(client, topic, a)
        for _ in range(MEBIBYTES):
            client.append(topic, batches.build([Record(bytes(1000)) for _ in range(1024)]))

    def run(
        self, verb: str, path: Path | None, *arguments: str, replicas: tuple[int, ...] = (1,), partition: int = 0
    ) -> Done:
        row = {"topic": self.topic, "partition": partition, "replicas": replicas}
        if path is not None:
            row["log_dirs"] = [str(path)]
        self._plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        done = self._attempt(verb, "--reassignment-json-file", str(self._plan), *arguments)
        return self.shown(done)

    def list(self) -> Done:
        return self.shown(self._attempt("--list"))

    def shown(self, done: Done) -> Done:
        out = done.out.replace(self.topic, "<topic>").replace(str(self._a), "<a>").replace(str(self._b), "<b>")
        return Done(done.code, out, done.err)


def attempt(broker: BrokerProcess, *words: str) -> Done:
    """Run our tool."""
    return cli.attempt("reassign-partitions", *words, bootstrap=broker.bootstrap)


def test_the_same_plans_have_both_tools_say_the_same(
    broker_factory: BrokerFactory, tool_host: ToolHost, tmp_path: Path
) -> None:
    broker = broker_factory(log_dirs(*new_directories(tmp_path, 2)))
    a, b = broker.log_directories
    java_tools = Tools(tool_host, broker.bootstrap)
    with RawClient((broker.host, broker.port)) as client:
        run_java = partial(java_tools.attempt, "kafka-reassign-partitions")
        java = Tool(run_java, client, "moved-by-java", tmp_path, a, b)
        ours = Tool(partial(attempt, broker), client, "moved-by-us", tmp_path, a, b)

        def same(step: Callable[[Tool], Done]) -> str:
            mine, theirs = step(ours), step(java)
            assert (mine.code, mine.out, mine.err) == (0, theirs.out, ""), (mine, theirs)
            assert theirs.code == 0
            return mine.out

        assert "No partition reassignments found." in same(lambda tool: tool.list())
        assert "is not being moved" in same(lambda tool: tool.run("--verify", b, "--preserve-throttles"))
        assert "throttle limit was set to 1000 B/s" in same(lambda tool: tool.run("--execute", b, *SLOW))
        assert "is still in progress" in same(lambda tool: tool.run("--verify", b))
        assert "is being moved to log dir <b> instead of <a>" in same(lambda tool: tool.run("--verify", a))
        same(lambda tool: tool.run("--cancel", b, "--preserve-throttles"))
        assert "partition moves are active" in same(lambda tool: tool.run("--cancel", b, "--preserve-throttles"))
        same(lambda tool: tool.run("--execute", b))
        same(lambda tool: tool.run("--cancel", a))  # lifts the limit, and ends the move
        same(lambda tool: tool.run("--execute", None))
        same(lambda tool: tool.run("--execute", b))
        for tool in (java, ours):
            wait_until_only_in(client, b, tool.topic)
        done = same(lambda tool: tool.run("--verify", b))
        assert "completed successfully" in done and "Clearing topic-level throttles on topic <topic>" in done


def test_what_cannot_be_moved_is_refused_in_one_line(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory(log_dirs(*new_directories(tmp_path, 2)))
    a, b = broker.log_directories
    with RawClient((broker.host, broker.port)) as client:
        tool = Tool(partial(attempt, broker), client, "moved-by-us", tmp_path, a, b)

    def refused(*arguments: str, **changes) -> str:
        done = tool.run("--execute", tmp_path / "elsewhere", *arguments, **changes)
        assert done.code == 1 and done.err.startswith("odradek: ") and done.err.count("\n") == 1, done
        return done.err

    assert "LOG_DIR_NOT_FOUND" in refused()
    assert "Unknown broker id 7" in refused(replicas=(7,))
    assert "Unable to find partition: moved-by-us-5" in refused(partition=5)
    assert "--throttle is not supported" in refused("--throttle", "5")
    assert 'Option "[preserve-throttles]" can\'t be used' in refused("--preserve-throttles")
    plan = tmp_path / "plan.json"
    for content, reason in (
        ("{", "not valid JSON"),
        ('{"version": 2}', "Not supported version field value 2"),
        ('{"partitions": []}', "list cannot be empty"),
        ('{"partitions": [{"topic": "t"}]}', "expected topic, partition and replicas"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "duplicate entries"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}', "different from size"),
    ):
        plan.write_text(content)
        arguments = ("--execute", "--reassignment-json-file", str(plan))
        assert reason in cli.refusal("reassign-partitions", *arguments, bootstrap=broker.bootstrap)


def test_moves_as_json(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory(log_dirs(*new_directories(tmp_path, 2)))
    a, b = broker.log_directories
    with RawClient((broker.host, broker.port)) as client:
        tool = Tool(partial(attempt, broker, "--json"), client, "moved-by-us", tmp_path, a, b)

    def told(verb: str, *arguments: str) -> dict:
        return json.loads(tool.run(verb, b, *arguments).out.replace("<topic>", "t"))

    assert told("--execute", *SLOW) == {"partitions": ["t-0"], "moves": ["t-0-1"]}
    assert told("--verify")["moves"] == [{"replica": "t-0-1", "state": "active"}]
    assert told("--cancel") == {"partitions": [], "moves": ["t-0-1"]}
    assert told("--verify")["moves"] == [{"replica": "t-0-1", "state": "none"}]
    told("--execute")
    eventually(lambda: told("--verify")["done"], what="the move")
    assert cli.run_json("reassign-partitions", "--list", bootstrap=broker.bootstrap) == {"reassignments": []}
