"""Our tools and Apache Kafka's: the same command lines give the same output and exit status, with either broker behind.

Both run the same script, one after the other, each with names of its own. `<t>` is a topic, `<n>` any other name, `<q>`
stands for a quota.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import iter_batches
from protocol.records.record import Headers, iter_records
from tests.harness import cli
from tests.harness.broker import BrokerProcess, KafkaProcess
from tests.harness.pair import Pair
from tests.harness.raw import RawClient
from tests.harness.tool_host import Done, ToolHost, Tools

pytestmark = pytest.mark.jvm

SCRIPTS = {
    "topics": "kafka-topics",
    "configs": "kafka-configs",
    "get-offsets": "kafka-get-offsets",
    "log-dirs": "kafka-log-dirs",
    "api-versions": "kafka-broker-api-versions",
}

TOPICS = """
topics --create --topic <t> --partitions 2 --config retention.ms=3600000 --config cleanup.policy=compact
topics --create --topic <t>
topics --create --topic <t> --if-not-exists
topics --create --topic <t>-x --config fly=1
topics --create --topic <t>-x --replication-factor 30
topics --create --topic <t>-x --partitions 0
topics --create --topic <t>-x --replica-assignment 1,1 --partitions 2
topics --create --topic <t>-y --replica-assignment 1,1,1
topics --create
topics --list --topic <t>.*
topics --list --topic <t>-none
topics --list --partitions 3
topics --list --delete
topics --describe --topic <t>
topics --describe --topic <t>-none
topics --describe --topic <t>-none --if-exists
topics --describe --topic <t> --under-replicated-partitions
topics --describe --topic <t> --unavailable-partitions
topics --describe --topic <t> --at-min-isr-partitions
topics --describe --topic <t>-y --topics-with-overrides
topics --describe --topic <t> --topics-with-overrides
topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ
topics --alter --topic <t> --partitions 4
topics --alter --topic <t> --partitions 1
topics --alter --topic <t>-none --partitions 1 --if-exists
topics --alter --topic <t>
topics --alter --topic <t>-y --partitions 5 --replica-assignment 1,1,1,1,1
topics --describe --topic <t>-y
get-offsets --topic <t>,<t>-y
get-offsets --topic <t> --partitions 0,3 --time earliest
get-offsets --topic <t> --time -3
get-offsets --topic-partitions <t>:1-3,<t>-y:-1,<t>-y:4-
get-offsets --topic <t>-none
get-offsets --topic-partitions <t> --topic <t>
log-dirs --describe --topic-list <t>,<t>-y
log-dirs --describe --topic-list <t> --broker-list 1
log-dirs --describe --broker-list 7,1
log-dirs
topics --delete --topic <t>-none
topics --delete --topic <t>-none --if-exists
topics --delete --topic <t>.*
topics --list --topic <t>.*
"""
CONFIGS = """
topics --create --topic <t>
configs --describe --topic <t>
configs --alter --entity-type topics --entity-name <t> --add-config max.message.bytes=9,cleanup.policy=[compact,delete]
configs --describe --topic <t>
configs --describe --entity-type topics --entity-name <t> --all
configs --alter --topic <t> --delete-config max.message.bytes,cleanup.policy
configs --alter --topic <t> --delete-config max.message.bytes
configs --alter --topic <t> --add-config retention.ms=x
configs --alter --topic <t>-none --add-config retention.ms=1
configs --describe --topic <t>-none
configs --describe --broker 9
configs --describe --broker x
configs --describe --client-metrics <n>-none
configs --alter --client-metrics <n> --add-config interval.ms=1000,metrics=[a.b,c]
configs --describe --client-metrics <n>
configs --alter --client-metrics <n> --delete-config interval.ms,metrics
configs --alter --group <n> --add-config consumer.session.timeout.ms=50000
configs --describe --entity-type groups --entity-name <n>
configs --describe --group <n>-none
configs --describe
configs --alter --topic <t>
configs --alter --topic <t> --add-config x
configs --alter --entity-type topics --add-config x=y
configs --describe --entity-type topics --entity-default
configs --describe --topic <t> --broker 1
configs --describe --topic <t> --entity-type topics
configs --alter --topic <t> --add-config x=y --add-config-file /x
topics --delete --topic <t>
"""
# Apache Kafka applies these some time after they can be seen, so they run with our broker only.
BROKER_CONFIGS = """
configs --alter --broker 1 --add-config log.cleaner.threads=2
configs --describe --broker 1
configs --describe --entity-type brokers
configs --alter --broker 1 --delete-config log.cleaner.threads
configs --alter --broker-defaults --add-config log.retention.ms=100000000
configs --describe --entity-type brokers --entity-default
configs --alter --entity-type brokers --entity-default --delete-config log.retention.ms
configs --describe --broker 1
configs --describe --entity-type brokers --entity-default
"""
QUOTAS = """
configs --alter --user <n> --add-config <q>=10485760,consumer_byte_rate=123456789012,request_percentage=1e-4
configs --describe --user <n>
configs --alter --user <n> --client c --add-config consumer_byte_rate=2048,request_percentage=50.5
configs --describe --user <n> --client c
configs --describe --entity-type users --entity-name <n> --entity-type clients
configs --alter --entity-type users --entity-default --entity-type clients --entity-name <n> --add-config <q>=5
configs --describe --entity-type users --entity-default --entity-type clients
configs --alter --entity-type users --entity-default --entity-type clients --entity-name <n> --delete-config <q>
configs --describe --user-defaults
configs --alter --user <n> --delete-config producer_byte_rate,consumer_byte_rate,request_percentage
configs --alter --user <n> --delete-config producer_byte_rate
configs --alter --user <n> --client c --delete-config consumer_byte_rate,request_percentage
configs --alter --user <n> --add-config producer_byte_rate=x
configs --alter --user <n> --add-config SCRAM-SHA-256=[iterations=1,password=x]
configs --alter --user <n> --add-config SCRAM-SHA-256=[iterations=8192,password=x],SCRAM-SHA-512=[password=y]
configs --describe --user <n>
configs --alter --user <n> --delete-config SCRAM-SHA-256,SCRAM-SHA-512
configs --alter --ip 127.0.0.9 --add-config connection_creation_rate=5000
configs --describe --entity-type ips
configs --alter --ip 127.0.0.9 --delete-config connection_creation_rate
configs --alter --entity-type users --entity-type clients --entity-name x --add-config producer_byte_rate=5
"""

Attempt = Callable[..., Done]
CHANGES = {"--create", "--alter", "--delete"}


def play(attempt: Attempt, script: str, name: str, settle: Callable[[str], object]) -> list[tuple[str, Done]]:
    """Run a script; what is particular to a run is named as in the script again. Changes settle before it goes on."""
    played = []
    for line in script.strip().splitlines():
        named = line.replace("<t>", f"{name}t").replace("<n>", f"{name}n").replace("<q>", "producer_byte_rate")
        done = attempt(*shlex.split(named))
        played.append((line, Done(done.code, shown(done.out, name), shown(done.err, name))))
        if not done.code and CHANGES & set(line.split()):
            settle(f"settled-{name}-{len(played)}")
    return played


def shown(text: str, name: str) -> str:
    """Return a text without what is particular to a run, and in order where the Java tool follows its hash tables."""
    text = re.sub(r"TopicId: \S+", "TopicId: <id>", text.replace(f"{name}t", "<t>").replace(f"{name}n", "<n>"))
    text = re.sub(r"(?<=Configs: )\S+", lambda found: ",".join(sorted(found[0].split(","))), text)
    text = re.sub(r"(?<= are )\S+=.*", lambda found: ", ".join(sorted(found[0].split(", "))), text)
    return re.sub(r'\{"brokers".*\}', lambda found: in_order(json.loads(found[0])), text)


def in_order(answer: Any) -> str:
    for broker in answer["brokers"]:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda row: row["partition"])
    return json.dumps(answer, sort_keys=True)


def same(ours: Done, java: Done) -> bool:
    """Compare a run with its example: what succeeds prints the same, what fails has a line with the same reason."""
    if ours.code != java.code:
        return False
    if java.code == 0:
        return ours.out == java.out
    return ours.err.startswith("odradek: ") and ours.err.count("\n") == 1


def differences(broker: BrokerProcess, tool_host: ToolHost, script: str, name: str) -> list[str]:
    """Run a script with the Java tools and with ours, and return where they part."""
    tools = Tools(tool_host, broker.bootstrap)
    with RawClient((broker.host, broker.port)) as client:
        # Apache Kafka answers before a change can be seen. What comes after it in the metadata log is seen after it.
        settle = client.create_topic if isinstance(broker, KafkaProcess) else str
        java = play(lambda tool, *words: tools.attempt(SCRIPTS[tool], *words), script, f"{name}j", settle)
        ours = play(
            lambda tool, *words: cli.attempt(tool, *words, bootstrap=broker.bootstrap), script, f"{name}o", settle
        )
    return [
        f"{line}\n  ours: {mine}\n  java: {theirs.code} {theirs.out!r} {theirs.err[:300]!r}"
        for (line, mine), (_, theirs) in zip(ours, java, strict=True)
        if not same(mine, theirs)
    ]


@pytest.mark.parametrize("script", [TOPICS, CONFIGS, QUOTAS], ids=["topics", "configs", "quotas"])
@pytest.mark.parametrize("behind", ["ours", "kafka"])
def test_the_same_command_lines_show_the_same(
    script: str, behind: str, pair: Pair, tool_host: ToolHost, unique: str
) -> None:
    different = differences(getattr(pair, behind), tool_host, script, unique)
    assert not different, "\n".join(different)


def test_configs_of_brokers_show_the_same(pair: Pair, tool_host: ToolHost, unique: str) -> None:
    different = differences(pair.ours, tool_host, BROKER_CONFIGS, unique)
    assert not different, "\n".join(different)


# Errors whose words are the broker's, or those that people search for.
REASONS = """
topics --create --topic <t>
topics --create --topic <t>-x --config fly=1
topics --create --topic <t>-x --replication-factor 30
topics --alter --topic <t> --partitions 1
topics --delete --topic <t>-none
topics --create
topics --list --partitions 3
get-offsets --topic <t>-none
log-dirs --describe --broker-list 7
configs --alter --topic <t> --add-config retention.ms=x
configs --alter --topic <t>-none --add-config retention.ms=1
configs --alter --user <n> --delete-config producer_byte_rate
configs --alter --topic <t>
configs --describe --topic <t> --broker 1
"""


def test_what_fails_says_what_kafkas_tool_says(pair: Pair, tool_host: ToolHost, unique: str) -> None:
    bootstrap = pair.ours.bootstrap
    cli.run("topics", "--create", "--topic", f"{unique}t", bootstrap=bootstrap)
    tools = Tools(tool_host, bootstrap)
    java = play(lambda tool, *words: tools.attempt(SCRIPTS[tool], *words), REASONS, unique, str)
    ours = play(lambda tool, *words: cli.attempt(tool, *words, bootstrap=bootstrap), REASONS, unique, str)
    for (line, mine), (_, theirs) in zip(ours, java, strict=True):
        reason = re.sub(r" \(see `odradek.*", "", mine.err).removeprefix("odradek: ").strip()
        assert reason and reason in theirs.text, (line, reason, theirs.text[:300])


def test_api_versions_agree_where_both_tools_speak_an_api(pair: Pair, tool_host: ToolHost) -> None:
    for broker in pair.brokers:
        ours = cli.run("api-versions", bootstrap=broker.bootstrap).splitlines()
        java = Tools(tool_host, broker.bootstrap).run("kafka-broker-api-versions").splitlines()
        assert ours[0] == java[0] and ours[-1] == java[-1] == ")"
        offered = [{row.split(" [")[0].rstrip(",") for row in rows[1:-1]} for rows in (ours, java)]
        assert offered[0] == offered[1]


LINES = """\
a:1,b:-\tkey-1\tvalue 1
-\tkey-2\t-
-\t-\tvalue 3
c:x:y\tkey-4\t
-\tkey-5\tü\t€
"""
READER = ("--property", "parse.key=true", "--property", "parse.headers=true", "--property", "null.marker=-")


def test_both_producers_make_the_same_records_of_the_same_lines_in_the_same_partitions(
    pair: Pair, tool_host: ToolHost, unique: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = LINES + "".join(f"-\tkey-{number}\t{number}\n" for number in range(100, 140))
    path = tmp_path / "lines"
    path.write_text(lines, encoding="utf-8")
    for broker in pair.brokers:
        for name in (f"{unique}j", f"{unique}o"):
            cli.run("topics", "--create", "--topic", name, "--partitions", "5", bootstrap=broker.bootstrap)
        Tools(tool_host, broker.bootstrap).run(
            "kafka-console-producer", "--topic", f"{unique}j", *READER, "--compression-codec", "lz4", stdin=lines
        )
        with path.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            cli.run("produce", "--topic", f"{unique}o", *READER, "--compression-codec", bootstrap=broker.bootstrap)
        with RawClient((broker.host, broker.port)) as client:
            java, ours = (
                {partition: records(client, f"{unique}{whose}", partition) for partition in range(5)} for whose in "jo"
            )
        assert sum(map(len, ours.values())) == 45
        keyless = (None, b"value 3", ())
        for found in (java, ours):  # which partition a record without a key goes to is left to chance
            [where] = [partition for partition, rows in found.items() if keyless in rows]
            found[where].remove(keyless)
        assert ours == java


def records(client: RawClient, topic: str, partition: int) -> list[tuple[bytes | None, bytes | None, Headers]]:
    data = client.fetch_all(topic, partition)
    return [
        (record.key, record.value, record.headers)
        for position, _ in iter_batches(data)
        for record in iter_records(data, position)
    ]
