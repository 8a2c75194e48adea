"""`odradek groups` and `odradek consume` against a broker that serves, and one that goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import Producer

from tests.harness import cli
from tests.harness.broker import ROOT, BrokerFactory
from tests.harness.raw import eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
END_S = 30


def send(bootstrap: str, topic: str, *values: str, **config: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    if "transactional.id" in config:
        producer.init_transactions()
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    if "transactional.id" not in config:
        producer.flush()
    elif config["transactional.id"].startswith("abort"):
        producer.flush()
        producer.abort_transaction()
    else:
        producer.commit_transaction()


def consume(bootstrap: str, *arguments: str) -> list[str]:
    return cli.run("consume", *arguments, bootstrap=bootstrap).splitlines()


class Consuming:
    """`odradek consume` as a process of its own."""

    def __init__(self, bootstrap: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "broker", "consume", "--bootstrap-server", bootstrap, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def lines(self, count: int) -> list[str]:
        """Wait for so many records."""
        out: IO[str] = self._process.stdout  # type: ignore[assignment]
        return [out.readline().rstrip("\n") for _ in range(count)]

    def complaint(self) -> str:
        """Wait for a line on standard error."""
        err: IO[str] = self._process.stderr  # type: ignore[assignment]
        return err.readline()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Ask for the end: the exit status and what was said."""
        self._process.send_signal(number)
        _, err = self._process.communicate(timeout=END_S)
        return self._process.returncode, err

    def close(self) -> None:
        """Let nothing be left."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def consuming() -> Iterator[list[Consuming]]:
    started: list[Consuming] = []
    yield started
    for one in started:
        one.close()


def test_every_codec_is_read(bootstrap: str, unique: str):
    for codec in CODECS:
        send(bootstrap, unique, *(f"{codec} {number}" for number in range(3)), **{"compression.type": codec})
    read = consume(bootstrap, "--topic", unique, "--from-beginning", "--max-messages", "15")
    assert read == [f"{codec} {number}" for codec in CODECS for number in range(3)]


def test_what_was_aborted_is_read_only_by_those_who_read_all(bootstrap: str, unique: str):
    send(bootstrap, unique, "first", **{"transactional.id": f"commit-{unique}"})
    send(bootstrap, unique, "second", "third", **{"transactional.id": f"abort-{unique}"})
    send(bootstrap, unique, "fourth", **{"transactional.id": f"commit-{unique}"})
    options = ("--topic", unique, "--from-beginning", "--timeout-ms", "300", "--isolation-level")
    assert consume(bootstrap, *options, "read_committed") == ["first", "fourth"]
    assert consume(bootstrap, *options, "read_uncommitted") == ["first", "second", "third", "fourth"]


def test_a_group_goes_on_where_it_was(bootstrap: str, unique: str):
    send(bootstrap, unique, *(str(number) for number in range(10)))
    group = ("--topic", unique, "--group", f"{unique}-g", "--from-beginning")
    assert consume(bootstrap, *group, "--max-messages", "3") == ["0", "1", "2"]
    (found,) = [json.loads(line) for line in _groups(bootstrap, "--describe", "--group", f"{unique}-g", "--json")]
    assert (found["state"], found["type"]) == ("Empty", "Consumer")
    assert [(row["currentOffset"], row["logEndOffset"], row["lag"]) for row in found["offsets"]] == [(3, 10, 7)]
    assert consume(bootstrap, *group, "--max-messages", "7") == [str(number) for number in range(3, 10)]


def test_a_group_that_has_read_nothing_yet_misses_nothing_afterwards(bootstrap: str, unique: str):
    send(bootstrap, unique, "before")
    group = ("--topic", unique, "--group", f"{unique}-g", "--timeout-ms", "1000")
    assert consume(bootstrap, *group) == []
    send(bootstrap, unique, "meanwhile")
    assert consume(bootstrap, *group) == ["meanwhile"]


def test_the_end_of_a_transaction_is_no_lag(bootstrap: str, unique: str):
    group = ("--topic", unique, "--group", f"{unique}-g", "--from-beginning", "--timeout-ms", "1000")
    send(bootstrap, unique, "a", **{"transactional.id": f"commit-{unique}"})
    assert consume(bootstrap, *group) == ["a"]
    send(bootstrap, unique, "b", **{"transactional.id": f"abort-{unique}"})
    assert consume(bootstrap, *group, "--isolation-level", "read_committed") == []
    (found,) = [json.loads(line) for line in _groups(bootstrap, "--describe", "--group", f"{unique}-g", "--json")]
    assert [(row["currentOffset"], row["logEndOffset"], row["lag"]) for row in found["offsets"]] == [(4, 4, 0)]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_what_was_written_committed(
    bootstrap: str, unique: str, consuming: list[Consuming], number: signal.Signals, status: int
):
    send(bootstrap, unique, "a", "b")
    group = f"{unique}-g"
    consuming.append(Consuming(bootstrap, "--topic", unique, "--group", group, "--from-beginning"))
    assert consuming[0].lines(2) == ["a", "b"]
    assert consuming[0].end(number) == (status, "Processed a total of 2 messages\n")
    (found,) = [json.loads(line) for line in _groups(bootstrap, "--describe", "--group", group, "--json")]
    assert (found["state"], [row["currentOffset"] for row in found["offsets"]]) == ("Empty", [2])


def test_two_share_a_topic_and_one_takes_over(broker_factory: BrokerFactory, unique: str, consuming: list[Consuming]):
    prefix, period = "group.consumer.", "heartbeat.interval.ms"
    bootstrap = broker_factory({f"{prefix}{period}": "200", f"{prefix}min.{period}": "200"}).bootstrap
    cli.run("topics", "--create", "--topic", unique, "--partitions", "2", bootstrap=bootstrap)
    group = f"{unique}-g"

    def held() -> list[int]:
        (found,) = _groups(bootstrap, "--describe", "--group", group, "--members", "--json")
        return sorted(len(member["partitions"]) for member in json.loads(found)["members"])

    for _ in range(2):
        consuming.append(Consuming(bootstrap, "--topic", unique, "--group", group, "--from-beginning"))
    eventually(lambda: cli.attempt("groups", "--describe", "--group", group, bootstrap=bootstrap).code == 0)
    eventually(lambda: held() == [1, 1])
    consuming[0].end(signal.SIGTERM)
    eventually(lambda: held() == [2])
    send(bootstrap, unique, *(str(number) for number in range(20)))
    assert len(consuming[1].lines(20)) == 20


def test_it_waits_for_a_topic_and_outlives_a_restart(broker_factory: BrokerFactory, consuming: list[Consuming]):
    broker = broker_factory()
    consuming.append(Consuming(broker.bootstrap, "--include", "late.*", "--from-beginning"))
    send(broker.bootstrap, "later", "before")
    assert consuming[0].lines(1) == ["before"]
    broker.stop()
    assert "trying again" in consuming[0].complaint()
    broker.start()
    send(broker.bootstrap, "later", "after")
    assert consuming[0].lines(1) == ["after"]


def test_records_that_cannot_be_read_end_it_or_are_passed_over(bootstrap: str, unique: str):
    send(bootstrap, unique, "12345678", "short", "87654321")
    numbers = ("--topic", unique, "--from-beginning", "--max-messages", "3", "--value-deserializer", "LongDeserializer")
    done = cli.attempt("consume", *numbers, bootstrap=bootstrap)
    assert done.code == 1 and len(done.out.splitlines()) == 1
    assert f"cannot read a record of {unique}-0 at offset 1" in done.err
    assert len(consume(bootstrap, *numbers, "--skip-message-on-error")) == 2


def test_offsets_are_reset_from_what_was_exported(bootstrap: str, unique: str, tmp_path: Path):
    send(bootstrap, unique, *"abcde")
    group = ("--group", f"{unique}-g")
    topic = ("--topic", unique)
    _groups(bootstrap, "--reset-offsets", *group, *topic, "--to-offset", "2", "--execute")
    exported = tmp_path / "offsets.csv"
    exported.write_text(
        cli.run(
            "groups", "--reset-offsets", *group, *topic, "--to-current", "--export", "--dry-run", bootstrap=bootstrap
        )
    )
    _groups(bootstrap, "--reset-offsets", *group, *topic, "--to-latest", "--execute")
    _groups(bootstrap, "--reset-offsets", *group, "--from-file", str(exported), "--execute")
    rows = [
        json.loads(line)
        for line in _groups(bootstrap, "--reset-offsets", *group, "--all-topics", "--to-current", "--dry-run", "--json")
    ]
    assert rows == [{"group": f"{unique}-g", "topic": unique, "partition": 0, "newOffset": 2}]
    assert cli.run("groups", "--delete", *group, "--json", bootstrap=bootstrap) == (
        json.dumps({"group": f"{unique}-g", "error": None}, separators=(",", ":")) + "\n"
    )


def test_a_group_that_is_not_there_is_one_line_and_the_others_are_shown(bootstrap: str, unique: str):
    send(bootstrap, unique, "a")
    _groups(bootstrap, "--reset-offsets", "--group", f"{unique}-g", "--topic", unique, "--to-latest", "--execute")
    groups = ("--group", f"{unique}-a", "--group", f"{unique}-g")
    done = cli.attempt("groups", "--describe", *groups, bootstrap=bootstrap)
    assert done.code == 1 and f"odradek: Group {unique}-a not found.\n" in done.err
    assert f"{unique}-g" in done.out


def _groups(bootstrap: str, *arguments: str) -> list[str]:
    return cli.run("groups", *arguments, bootstrap=bootstrap).splitlines()
