"""The examples of scheduled delivery run as they stand in the docs; only their delays are shorter, as arguments."""

from __future__ import annotations

import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, MemberToRemove

from protocol.records.batch import iter_batches, parse_header
from protocol.records.record import Record, iter_records
from tests.harness import cli, java
from tests.harness.broker import ROOT, BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.inner_pytest import run_pytest
from tests.harness.raw import eventually

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Apache Kafka has no scheduled topics")

PAGE, PROGRAMS = ((ROOT / "docs" / name).read_text() for name in ("scheduled-delivery.md", "scheduled-examples.md"))
EXAMPLES = dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", PAGE + PROGRAMS, re.DOTALL | re.MULTILINE))
TRY_IT = re.findall(r"^    (.+)$", PAGE.partition("## Try it\n")[2].partition("\n## ")[0], re.MULTILINE)
TIMEOUT_S = 60
MARGIN_S = 0.25
"""What is added to the time of a record before it is shown."""
PYTHON = pytest.param("py", id="kafka-python")
JAVA = pytest.param("java", id="java", marks=pytest.mark.jvm)


class Running:
    """An example that runs until the test has seen enough: its lines, each with the time at which it came."""

    def __init__(self, command: list[str], directory: Path) -> None:
        self._errors = (directory / "stderr").open("w+b")
        self._process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self._lines: Queue[tuple[str, float]] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put((line.rstrip("\n"), time.time()))

    def lines(self, count: int) -> dict[str, float]:
        """Wait for so many lines, and return when each came."""
        return dict(self._next() for _ in range(count))

    def until(self, wanted: str) -> None:
        """Wait for a line; others may come before it."""
        while self._next()[0] != wanted:
            pass

    def _next(self) -> tuple[str, float]:
        try:
            return self._lines.get(timeout=TIMEOUT_S)
        except Empty:
            pytest.fail(f"a line is missing:\n{self._said()}")

    def failure(self) -> str:
        """Wait until it ends by itself, and return what it says of the reason."""
        assert self._process.wait(TIMEOUT_S) == 1
        return self._said()

    def interrupted(self) -> str:
        """End it as Ctrl-C does, and return what it says of that."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(TIMEOUT_S)
        return self._said()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Give a function that runs an example of the page."""
    running: list[Running] = []

    def start(name: str, *arguments: str) -> Running:
        (tmp_path / name).write_text(EXAMPLES[name])
        is_java = name.endswith(".java")
        options = (*java.TOOL_OPTIONS, *java.QUIET)
        command = java.command_line(name, *arguments, jvm_options=options) if is_java else [sys.executable, name]
        as_in_a_terminal = ("env", "--default-signal=INT")  # what runs behind a shell ignores it, and so would these
        running.append(Running([*as_in_a_terminal, *command, *([] if is_java else arguments)], tmp_path))
        return running[-1]

    yield start
    for each in running:
        each.close()


def name_of(example: str, language: str) -> str:
    return f"{example}.py" if language == "py" else f"{example.capitalize()}.java"


class Stored(NamedTuple):
    """A record as it lies on disk, with the time of its batch."""

    partition: int
    due_ms: int
    record: Record


def stored(broker: BrokerProcess, topic: str) -> list[Stored]:
    """Return all records of a topic with three partitions, pending ones too, in the order of their offsets."""
    found = []
    for partition in range(3):
        for path in sorted((broker.data_directory / f"{topic}-{partition}").glob("*.log")):
            data = path.read_bytes()
            for position, _ in iter_batches(data):
                header = parse_header(data, position)
                if not header.is_control:
                    found += [
                        Stored(partition, header.max_timestamp, record) for record in iter_records(data, position)
                    ]
    return found


def send(broker: BrokerProcess, *orders: str) -> float:
    """Send orders once the worker has made the topic of them; return the time before."""
    eventually((broker.data_directory / "orders-0").is_dir, within_s=TIMEOUT_S, what="the worker's topics")
    sent_s = time.time()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for order in orders:
        producer.send("orders", order.encode(), key=order.encode())
    producer.close()
    return sent_s


def members(admin: KafkaAdminClient, group: str) -> list[MemberToRemove]:
    return [MemberToRemove(member["member_id"]) for member in admin.describe_groups([group])[group]["members"]]


def expel(broker: BrokerProcess, group: str) -> None:
    """Take a member that was killed out of its group, which would wait for it for the time of a session."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.remove_group_members(group, members(admin, group))
    admin.close()


def test_what_is_to_be_tried_comes_when_it_is_due(broker_factory: BrokerFactory) -> None:
    """The first lines of the page, as somebody types them."""
    broker = broker_factory()
    assert len(TRY_IT) == 3
    begin_s = time.time()
    for line in TRY_IT:
        odradek = f"{shlex.quote(sys.executable)} -m broker"
        command, count = re.subn(
            r"odradek (\w[\w-]*)", rf"{odradek} \1 --bootstrap-server {broker.bootstrap}", line.replace("5000", "900")
        )
        assert count == 1
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, (command, done.stderr)
    came_s = time.time()
    found = re.fullmatch(r"CreateTime:(\d+)\tstand up\n", done.stdout)
    assert found is not None, done.stdout
    assert begin_s + 0.9 <= int(found[1]) / 1000 <= came_s - MARGIN_S


@pytest.mark.parametrize("language", [PYTHON, JAVA])
def test_what_fails_is_tried_again_after_each_delay_and_then_set_aside(
    broker_factory: BrokerFactory, run: Callable[..., Running], language: str
) -> None:
    broker = broker_factory()
    worker = run(name_of("retry", language), broker.bootstrap, "0.3,0.6")
    sent_s = send(broker, *(f"fails={count}" for count in range(4)))
    came = worker.lines(3)
    assert set(came) == {f"fails={count} is done with attempt {count + 1}" for count in range(3)}
    eventually(lambda: stored(broker, "orders.dead"), what="the dead letter")
    # Every try is where it belongs, with its number, its reason and its key, and was not to be seen before its time.
    earliest_s = sent_s
    for attempt, (topic, delay_s, fails) in enumerate(
        [("orders.retry.1", 0.3, "123"), ("orders.retry.2", 0.6, "23"), ("orders.dead", 0, "3")], start=2
    ):
        tries = stored(broker, topic)
        assert sorted(row.record.value for row in tries) == [b"fails=" + count.encode() for count in fails]
        for row in tries:
            headers = (("attempt", b"%d" % attempt), ("reason", b"the warehouse is closed"))
            assert row.record.headers == headers and row.record.key == row.record.value
            assert row.due_ms >= int((earliest_s + delay_s) * 1000)
            done_s = came.get(f"{row.record.value.decode()} is done with attempt {attempt}")
            assert done_s is None or row.due_ms / 1000 + MARGIN_S <= done_s
        earliest_s += delay_s + MARGIN_S


@pytest.mark.parametrize(
    ("name", "topics"), [("retry.py", ["orders", "orders.retry.1"]), ("deadline.py", "orders.due")]
)
def test_what_another_process_has_created_meanwhile_is_there(
    bootstrap: str, unique: str, name: str, topics: list[str] | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that start together both miss the topics, and one of them is told that they exist."""
    monkeypatch.setattr(KafkaAdminClient, "list_topics", lambda self: [])
    example: dict[str, Any] = {"__name__": "example"}
    exec(EXAMPLES[name], example)
    named = f"{unique}.{topics}" if isinstance(topics, str) else [f"{unique}.{topic}" for topic in topics]
    for _ in range(2):
        example["create_missing"](bootstrap, named, {"delivery.mode": "scheduled"})


@pytest.mark.parametrize("language", [PYTHON, JAVA])
def test_a_worker_that_is_killed_goes_on_where_it_was(
    broker_factory: BrokerFactory, run: Callable[..., Running], language: str
) -> None:
    broker = broker_factory()
    first = run(name_of("retry", language), broker.bootstrap, "3,60")
    send(broker, "fails=1")
    eventually(lambda: len(stored(broker, "orders.retry.1")) == 1, what="the next try")
    send(broker, "fails=0")
    first.until("fails=0 is done with attempt 1")
    first.close()
    expel(broker, "orders-worker")
    run(name_of("retry", language), broker.bootstrap, "3,60").until("fails=1 is done with attempt 2")


@pytest.mark.parametrize("language", [PYTHON, JAVA])
def test_a_worker_whose_next_try_is_refused_ends_and_what_it_read_comes_again(
    broker_factory: BrokerFactory, run: Callable[..., Running], language: str
) -> None:
    broker = broker_factory()
    topic = ("--topic", "orders.retry.1")
    refusing = ("--config", "delivery.mode=scheduled", "--config", "delivery.max.delay.ms=0")
    cli.run("topics", "--create", *topic, "--partitions", "3", *refusing, bootstrap=broker.bootstrap)
    worker = run(name_of("retry", language), broker.bootstrap, "0.3")
    send(broker, "fails=1")
    assert "delivery.max.delay.ms allows 0 ms" in worker.failure()
    assert not stored(broker, "orders.retry.1") and not stored(broker, "orders.dead")
    cli.run("configs", "--alter", *topic, "--delete-config", "delivery.max.delay.ms", bootstrap=broker.bootstrap)
    run(name_of("retry", language), broker.bootstrap, "0.3").until("fails=1 is done with attempt 2")


@pytest.mark.parametrize("language", [PYTHON, JAVA])
def test_an_order_that_is_not_paid_in_time_is_cancelled(
    broker_factory: BrokerFactory, run: Callable[..., Running], language: str
) -> None:
    broker = broker_factory()
    came = run(name_of("deadline", language), broker.bootstrap, "0.7").lines(2)
    assert set(came) == {"order-1 is cancelled", "order-2 was paid in time"}
    for row in stored(broker, "orders.due"):
        [decided_s] = [time_s for line, time_s in came.items() if line.startswith(row.record.key.decode())]
        assert row.due_ms / 1000 + MARGIN_S <= decided_s


@pytest.mark.parametrize("language", [PYTHON, JAVA])
@pytest.mark.parametrize(
    ("example", "group", "lines"), [("retry", "orders-worker", 1), ("deadline", "orders-deadlines", 2)]
)
def test_what_is_interrupted_leaves_its_group_and_ends_without_a_word(
    broker_factory: BrokerFactory, run: Callable[..., Running], language: str, example: str, group: str, lines: int
) -> None:
    """Otherwise its partitions would stand still for the time of a session."""
    broker = broker_factory()
    running = run(name_of(example, language), broker.bootstrap, "0.3")
    if example == "retry":
        send(broker, "fails=0")
    running.lines(lines)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    assert len(members(admin, group)) == 1
    said = running.interrupted()
    assert (said, members(admin, group)) == ("", [])
    admin.close()


def test_a_test_need_not_wait(tmp_path: Path) -> None:
    for name in ("retry.py", "test_retry.py"):
        (tmp_path / name).write_text(EXAMPLES[name])
    begin_s = time.monotonic()
    done = run_pytest(tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
    assert time.monotonic() - begin_s < 60


def test_records_that_wait_in_a_partition_together_are_due_within_a_slot(
    broker_factory: BrokerFactory, rng: random.Random
) -> None:
    broker = broker_factory()
    create = ("--create", "--topic", "slots", "--partitions", "3", "--config", "delivery.mode=scheduled")
    cli.run("topics", *create, bootstrap=broker.bootstrap)
    example: dict[str, Any] = {}
    exec(EXAMPLES["slots.py"], example)
    slot_s = example["SLOT_S"]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, batch_size=0)
    for number in range(200):
        example["send_in"](producer, "slots", rng.uniform(0, 2 * slot_s), b"%d" % number)
    producer.close()
    found = stored(broker, "slots")
    assert len(found) == 200
    slots = {(row.partition, row.due_ms // (slot_s * 1000)) for row in found}
    assert len({partition for partition, _ in slots}) == len(slots), "a partition has records of one slot"
