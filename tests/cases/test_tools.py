"""Our tools against our broker: what they say as JSON, what they do with lines, how they end, what they load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from protocol.records.batch import iter_batches, parse_header
from protocol.records.record import Record, iter_records
from tests.harness import cli
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.raw import RawClient, eventually


def produce(bootstrap: str, lines: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `odradek produce` as a process of its own, which reads a pipe."""
    command = [sys.executable, "-m", "broker", "produce", "--bootstrap-server", bootstrap, *arguments]
    return subprocess.run(command, input=lines, capture_output=True, timeout=60, check=False)


def records(client: RawClient, topic: str, partition: int) -> list[Record]:
    data = client.fetch_all(topic, partition)
    return [record for position, _ in iter_batches(data) for record in iter_records(data, position)]


@pytest.fixture
def topic(bootstrap: str, unique: str) -> str:
    cli.run("topics", "--create", "--topic", unique, "--partitions", "2", bootstrap=bootstrap)
    return unique


def ends(bootstrap: str, topic: str) -> list[int]:
    rows = cli.run_json("get-offsets", "--topic", topic, bootstrap=bootstrap)["offsets"]
    return [row["offset"] for row in rows]


def test_topics_are_created_described_altered_and_deleted_as_json(bootstrap: str, unique: str) -> None:
    def topics(*arguments: str) -> dict:
        return cli.run_json("topics", *arguments, bootstrap=bootstrap)

    new = ("--create", "--topic", unique, "--partitions", "2", "--config", "retention.ms=5000")
    assert topics(*new) == {"topic": unique, "created": True}
    assert topics(*new, "--if-not-exists") == {"topic": unique, "created": False}
    [described] = topics("--describe", "--topic", unique)["topics"]
    assert described["configs"] == {"retention.ms": "5000"} and described["partitionCount"] == 2
    assert described["partitions"][1] == {
        **{"partition": 1, "leader": 1, "replicas": [1], "isr": [1]},
        **{"elr": [], "lastKnownElr": []},
    }
    assert topics("--describe", "--topic-id", described["topicId"])["topics"] == [described]
    assert topics("--alter", "--topic", unique, "--partitions", "3") == {"topics": [unique], "partitions": 3}
    assert topics("--list", "--topic", f"{unique}.*") == {"topics": [unique]}
    assert topics("--delete", "--topic", unique) == {"deleted": [unique]}
    assert topics("--list", "--topic", unique) == {"topics": []}


def test_configs_and_quotas_as_json(bootstrap: str, topic: str) -> None:
    def configs(*arguments: str) -> dict:
        return cli.run_json("configs", *arguments, bootstrap=bootstrap)

    assert configs("--alter", "--topic", topic, "--add-config", "retention.ms=7000") == {
        "entities": [["topics", topic]]
    }
    [entity] = configs("--describe", "--topic", topic)["entities"]
    [config] = entity["configs"]
    assert (config["name"], config["value"], config["source"]) == ("retention.ms", "7000", "DYNAMIC_TOPIC_CONFIG")
    configs("--alter", "--user", topic, "--add-config", "producer_byte_rate=1e7")
    assert configs("--describe", "--user", topic) == {
        "quotas": [{"entity": {"user": topic}, "quotas": {"producer_byte_rate": 1e7}}],
        "credentials": [],
    }
    configs("--alter", "--user", topic, "--delete-config", "producer_byte_rate")


def test_configs_of_a_file_are_set_with_values_that_hold_anything(bootstrap: str, topic: str, tmp_path) -> None:
    path = tmp_path / "configs.properties"
    path.write_text("cleanup.policy=compact,delete\nretention.ms = 9000\n")
    cli.run("configs", "--alter", "--topic", topic, "--add-config-file", str(path), bootstrap=bootstrap)
    [entity] = cli.run_json("configs", "--describe", "--topic", topic, bootstrap=bootstrap)["entities"]
    assert {row["name"]: row["value"] for row in entity["configs"]} == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "9000",
    }


def test_log_dirs_and_api_versions_as_json(bootstrap: str, topic: str, shared_broker: BrokerProcess) -> None:
    answer = cli.run_json("log-dirs", "--describe", "--topic-list", topic, bootstrap=bootstrap)
    [directory] = answer["brokers"][0]["logDirs"]
    assert [row["partition"] for row in directory["partitions"]] == [f"{topic}-0", f"{topic}-1"]
    [offered] = cli.run_json("api-versions", bootstrap=bootstrap)["brokers"]
    assert offered["port"] == shared_broker.port
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        assert {row["key"]: (row["minVersion"], row["maxVersion"]) for row in offered["apis"]} == client.versions()


def test_lines_become_records_once_each_and_in_order(bootstrap: str, topic: str, shared_broker: BrokerProcess) -> None:
    lines = [f"line {number}" for number in range(20_000)]
    done = produce(bootstrap, "\n".join(lines).encode(), "--topic", topic, "--batch-size", "4000", "--json")
    assert json.loads(done.stdout) == {"topic": topic, "sent": 20_000, "failed": 0}
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        found = [[record.value.decode() for record in records(client, topic, partition)] for partition in (0, 1)]
    assert sorted(found[0] + found[1]) == sorted(lines)
    for part in found:
        numbers = [int(line.split()[1]) for line in part]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("options", [("--compression-codec", "zstd"), ("--request-required-acks", "1"), ("--sync",)])
def test_lines_with_keys_and_headers(bootstrap: str, topic: str, shared_broker: BrokerProcess, options) -> None:
    properties = ("--property", "parse.key=true", "--property", "parse.headers=true", "--property", "null.marker=-")
    done = produce(bootstrap, b"h:1,i:-\tk\tv\n-\tk\t-\n", "--topic", topic, *properties, *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        found = [record for partition in (0, 1) for record in records(client, topic, partition)]
    assert [(record.key, record.value) for record in found] == [(b"k", b"v"), (b"k", None)]
    assert found[0].headers == (("h", b"1"), ("i", None))


def nothing_is_delayed(topic: str) -> str:
    return (
        f"odradek: topic {topic} does not have delivery.mode=scheduled, so its records are visible at once, "
        "or refused if they are further ahead than message.timestamp.after.max.ms\n"
    )


@pytest.mark.parametrize(
    ("delay", "is_stamped"),
    [
        ("0", lambda stamp, before, after: before <= stamp <= after),
        ("3600000", lambda stamp, before, after: before <= stamp - 3_600_000 <= after),
        ("9" * 5000, lambda stamp, before, after: stamp == (1 << 63) - 1),
    ],
    ids=["none", "an hour", "beyond all numbers"],
)
def test_lines_are_stamped_with_the_time_after_a_delay(
    bootstrap: str, topic: str, shared_broker: BrokerProcess, delay: str, is_stamped: Callable[[int, int, int], bool]
) -> None:
    any_time = f"message.timestamp.after.max.ms={(1 << 63) - 1}"
    cli.run("configs", "--alter", "--topic", topic, "--add-config", any_time, bootstrap=bootstrap)
    before = int(time.time() * 1000)
    done = produce(bootstrap, b"a\nb\n", "--topic", topic, "--delay-ms", delay, "--batch-size", "1")
    after = int(time.time() * 1000)
    assert (done.returncode, done.stderr.decode()) == (0, nothing_is_delayed(topic))
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        stamps = [
            parse_header(data, position).max_timestamp
            for data in (client.fetch_all(topic, partition) for partition in (0, 1))
            for position, _ in iter_batches(data)
        ]
    assert len(stamps) == 2, "a batch of one record has a time of its own"
    assert all(is_stamped(stamp, before, after) for stamp in stamps), stamps


def test_a_delay_that_the_topic_refuses_is_explained(bootstrap: str, topic: str) -> None:
    """By the record's own words in the answer, and by what the topic lacks."""
    done = produce(bootstrap, b"a\n", "--topic", topic, "--delay-ms", "7200000")
    hint, reason = done.stderr.decode().splitlines(keepends=True)
    assert (done.returncode, hint) == (1, nothing_is_delayed(topic))
    assert re.fullmatch(
        r"odradek: 1 of 1 records were not sent: One or more records have been rejected due to invalid timestamp: "
        r"Timestamp \d+ is out of range\. It should be within \[-?\d+, \d+\]\n",
        reason,
    )


def test_a_topic_that_delays_needs_no_warning(bootstrap: str, topic: str) -> None:
    cli.run("configs", "--alter", "--topic", topic, "--add-config", "delivery.mode=scheduled", bootstrap=bootstrap)
    done = produce(bootstrap, b"a\n", "--topic", topic, "--delay-ms", "5000")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("delay", ["-1", "5s", ""])
def test_a_delay_that_is_none_is_refused(bootstrap: str, topic: str, delay: str) -> None:
    done = produce(bootstrap, b"a\n", "--topic", topic, f"--delay-ms={delay}")
    expected = f"odradek: Invalid value {delay} for --delay-ms: expected a number of milliseconds, at least 0\n"
    assert (done.returncode, done.stderr.decode()) == (1, expected)


def test_what_comes_before_a_bad_line_is_sent_and_the_end_is_a_failure(bootstrap: str, topic: str) -> None:
    done = produce(bootstrap, b"k\tv\nbad\nk\tw\n", "--topic", topic, "--property", "parse.key=true")
    assert done.returncode == 1
    assert done.stderr == b"odradek: No key separator found on line number 2: 'bad'\n"
    assert sum(ends(bootstrap, topic)) == 1


def test_records_that_the_topic_does_not_take_are_counted_and_the_others_arrive(bootstrap: str, topic: str) -> None:
    cli.run("configs", "--alter", "--topic", topic, "--add-config", "max.message.bytes=500", bootstrap=bootstrap)
    lines = [b"small"] * 50 + [b"x" * 600] + [b"small"] * 50
    done = produce(bootstrap, b"\n".join(lines), "--topic", topic)
    assert done.returncode == 1
    assert done.stderr.startswith(b"odradek: 1 of 101 records were not sent: ") and done.stderr.count(b"\n") == 1
    assert sum(ends(bootstrap, topic)) == 100


def test_what_was_read_is_sent_while_more_is_waited_for(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-m", "broker", "produce", "--bootstrap-server", bootstrap, "--topic", topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for count in (1, 2):
            process.stdin.write(b"line\n")
            process.stdin.flush()
            eventually(lambda count=count: sum(ends(bootstrap, topic)) == count, what="a record")
    assert process.returncode == 0


def test_lines_arrive_once_and_in_order_though_the_broker_restarts_and_is_killed(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    cli.run("topics", "--create", "--topic", "t", bootstrap=broker.bootstrap)
    lines = [f"line {number}\n".encode() for number in range(6000)]
    command = [sys.executable, "-m", "broker", "produce", "--bootstrap-server", broker.bootstrap, "--topic", "t"]
    with subprocess.Popen([*command, "--batch-size", "2000"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        for number, line in enumerate(lines):
            process.stdin.write(line)
            if number == 1000:
                process.stdin.flush()
                eventually(lambda: sum(ends(broker.bootstrap, "t")) > 0, what="the first records")
            if number == 2000:
                broker.restart()
            elif number == 4000:
                broker.kill()
                broker.start()
        process.stdin.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")
    with RawClient((broker.host, broker.port)) as client:
        assert [f"{record.value.decode()}\n".encode() for record in records(client, "t", 0)] == lines


def test_produce_creates_a_topic_where_the_broker_may(bootstrap: str, unique: str) -> None:
    assert produce(bootstrap, b"a\nb\n", "--topic", unique).returncode == 0
    assert sum(ends(bootstrap, unique)) == 2


def test_records_are_deleted_up_to_the_offsets_of_a_file(bootstrap: str, topic: str, tmp_path) -> None:
    assert produce(bootstrap, b"k\ta\nk\tb\nk\tc\n", "--topic", topic, "--property", "parse.key=true").returncode == 0
    where = 0 if ends(bootstrap, topic)[0] else 1
    path = tmp_path / "offsets.json"

    def delete(*offsets: tuple[int, int]):
        rows = [{"topic": topic, "partition": partition, "offset": offset} for partition, offset in offsets]
        path.write_text(json.dumps({"version": 1, "partitions": rows}))
        return cli.attempt("delete-records", "--offset-json-file", str(path), bootstrap=bootstrap)

    begun = "Executing records delete operation\nRecords delete operation completed:\n"
    assert delete((where, 2)) == (0, f"{begun}partition: {topic}-{where}\tlow_watermark: 2\n", "")
    assert "low_watermark: 3" in delete((where, -1)).out
    failed = delete((where, 9), (7, 1))
    assert failed.code == 1 and "OFFSET_OUT_OF_RANGE" in failed.out
    assert f"partition: {topic}-7\terror: There is no partition {topic}-7." in failed.out
    assert "duplicate topic partitions" in delete((0, 1), (0, 2)).err
    path.write_text("{")
    assert "not valid JSON" in cli.refusal("delete-records", "--offset-json-file", str(path), bootstrap=bootstrap)


def test_offsets_by_time(bootstrap: str, topic: str) -> None:
    assert produce(bootstrap, b"a\nb\n", "--topic", topic).returncode == 0
    latest, earliest, by_time, after = (
        cli.run_json("get-offsets", "--topic", topic, "--time", time, bootstrap=bootstrap)["offsets"]
        for time in ("latest", "earliest", "1000", "9999999999999")
    )
    assert sum(row["offset"] for row in latest) == 2 and sum(row["offset"] for row in earliest) == 0
    assert [row["offset"] for row in by_time] == [0] and after == []


def test_a_security_protocol_that_is_not_spoken_is_refused_in_one_line(bootstrap: str, tmp_path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")
    said = cli.refusal("topics", "--list", "--command-config", str(path), bootstrap=bootstrap)
    assert said == "security.protocol=SASL_SSL is not supported by this tool: only PLAINTEXT is"
    assert "No such file" in cli.refusal("topics", "--list", "--command-config", "/nowhere", bootstrap=bootstrap)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["topics", "--list"], "cannot connect to 127.0.0.1:1: connection refused"),
        (["produce", "--topic", "t"], "cannot connect to 127.0.0.1:1: connection refused"),
        (["produce"], 'Missing required argument "[topic]" (see `odradek produce --help`)'),
        (["produce", "--topic", "t", "--compression-codec", "rar"], "Invalid value rar for configuration compression"),
        (["produce", "--topic", "t", "--producer-property", "transactional.id=x"], "transactional.id is not supported"),
        (["produce", "--topic", "t", "--line-reader", "a.B"], "--line-reader a.B is Java"),
        (["get-offsets", "--topic", "["], "[ is not a regular expression"),
    ],
)
def test_refusals_are_one_line(command: list[str], said: str) -> None:
    name, *arguments = command
    assert said in cli.refusal(name, *arguments, bootstrap="127.0.0.1:1")


def test_listing_topics_loads_neither_a_broker_nor_what_is_for_other_commands(bootstrap: str) -> None:
    code = (
        "import sys; from broker.cli import main; "
        f"assert main(['topics', '--list', '--bootstrap-server', {bootstrap!r}]) == 0; "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {"asyncio", "uvloop", "storage", "prometheus_client", "pdb", "ssl", "shutil", "threading"}
    messages = {name for name in loaded if name.startswith("protocol.messages.")}
    assert messages == {"protocol.messages.api_versions", "protocol.messages.metadata"}
