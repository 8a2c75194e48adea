"""kcat (librdkafka as Debian ships it) with its defaults."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.broker import BrokerProcess
from tests.harness.raw import eventually
from tests.harness.stored import CODECS, stored_codecs

RECORDS = [(f"key-{i}", f"value-{i} " + "x" * (200 + i)) for i in range(100)]
TIMEOUT_S = 60

Run = Callable[..., str]


@pytest.fixture
def run(kcat: str, bootstrap: str) -> Run:
    def run(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [kcat, "-b", bootstrap, *arguments], input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def produce(run: Run, topic: str, *arguments: str) -> None:
    run("-P", "-t", topic, "-K", ":", *arguments, stdin="".join(f"{key}:{value}\n" for key, value in RECORDS))


def test_it_lists_the_broker_and_a_topic_it_created_by_producing(
    run: Run, unique: str, shared_broker: BrokerProcess
) -> None:
    produce(run, unique)
    listing = json.loads(run("-L", "-J"))
    assert [(row["id"], row["name"]) for row in listing["brokers"]] == [(1, shared_broker.bootstrap)]
    assert listing["controllerid"] == 1
    partitions = {row["topic"]: row["partitions"] for row in listing["topics"]}[unique]
    assert [(row["partition"], row["leader"]) for row in partitions] == [(0, 1)]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(
    run: Run, unique: str, shared_broker: BrokerProcess, codec: str
) -> None:
    # librdkafka 2.0 compresses only if the broker advertises Produce from version 0.
    produce(run, unique, "-z", codec)
    read = run("-C", "-t", unique, "-e", "-q", "-o", "beginning", "-f", "%o %k %s\n").splitlines()
    assert read == [f"{offset} {key} {value}" for offset, (key, value) in enumerate(RECORDS)]
    assert stored_codecs(shared_broker.data_directory, unique) == {codec}


def test_headers_and_null_values_arrive(run: Run, unique: str) -> None:
    run("-P", "-t", unique, "-K", ":", "-Z", "-H", "a=1", "-H", "b=two", stdin="gone:\n")
    assert run("-C", "-t", unique, "-e", "-q", "-f", "%k %S %h\n") == "gone -1 a=1,b=two\n"


def test_a_group_resumes_at_its_committed_offset(run: Run, unique: str) -> None:
    produce(run, unique)
    options = ("-q", "-X", "auto.offset.reset=earliest", "-f", "%o\n")
    first = run("-G", f"group-{unique}", unique, "-c", "30", *options).split()
    then = run("-G", f"group-{unique}", unique, "-e", *options).split()
    assert [int(offset) for offset in first + then] == list(range(100))


def test_offsets_are_found_by_time(run: Run, unique: str) -> None:
    run("-P", "-t", unique, stdin="one\n")
    stamp = int(run("-C", "-t", unique, "-e", "-q", "-f", "%T\n"))
    assert run("-Q", "-t", f"{unique}:0:{stamp}") == f"{unique} [0] offset 0\n"
    assert run("-Q", "-t", f"{unique}:0:-1") == f"{unique} [0] offset 1\n"


class Member:
    """A kcat in group mode whose assignments are read from what it says on standard error."""

    def __init__(self, kcat: str, bootstrap: str, group: str, topic: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                [kcat, "-b", bootstrap, "-G", group, topic],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sink,
            )

    def assigned(self) -> set[int]:
        """Return the partitions of the last assignment it reported."""
        lines = [line for line in self._log.read_text(encoding="utf-8").splitlines() if "assigned:" in line]
        return {int(number) for number in re.findall(r"\[(\d+)\]", lines[-1].split("assigned:")[1])} if lines else set()


@pytest.fixture
def join(kcat: str, bootstrap: str, unique: str, tmp_path: Path) -> Iterator[Callable[[], Member]]:
    members: list[Member] = []

    def join() -> Member:
        members.append(Member(kcat, bootstrap, f"group-{unique}", unique, tmp_path / f"member-{len(members)}.log"))
        return members[-1]

    yield join
    for member in members:
        member.process.kill()
        member.process.wait()


def test_two_members_share_the_partitions_until_one_leaves(join: Callable[[], Member], four_partitions: str) -> None:
    everything = {0, 1, 2, 3}
    stays = join()
    eventually(lambda: stays.assigned() == everything, within_s=60)
    leaves = join()
    eventually(lambda: len(stays.assigned()) == 2 and stays.assigned() | leaves.assigned() == everything, within_s=60)
    leaves.process.send_signal(signal.SIGTERM)
    eventually(lambda: stays.assigned() == everything, within_s=60)
