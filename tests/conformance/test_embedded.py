"""EmbeddedBroker as programs use it, with stock clients: as a child process and in a thread."""

from __future__ import annotations

import gc
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from broker.embedded import BrokerFailed, EmbeddedBroker
from tests.harness.broker import ROOT
from tests.harness.raw import RawClient

both = pytest.mark.parametrize("in_process", [False, True], ids=["child", "in process"])
RUN_TIMEOUT_S = 60


def send(broker: EmbeddedBroker, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for sent in [producer.send("greetings", value) for value in values]:
        sent.get(timeout=10)
    producer.close()


def received(broker: EmbeddedBroker, count: int) -> list[bytes]:
    consumer = KafkaConsumer("greetings", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    values = [next(consumer).value for _ in range(count)]
    consumer.close()
    return values


def is_alive(pid: int) -> bool:
    """Tell whether a process is there; one that has ended and is not waited for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@both
def test_clients_are_served_and_nothing_is_left(in_process: bool):
    with EmbeddedBroker(in_process=in_process) as broker:
        send(broker, b"hello")
        assert received(broker, 1) == [b"hello"]
        with urllib.request.urlopen(f"{broker.http_url}/readyz", timeout=10) as answer:
            assert answer.read() == b"ready\n"
        data_dir, pid = broker.data_dir, broker.pid
        assert (data_dir / "greetings-0").is_dir()
        assert (pid == os.getpid()) is in_process
    assert not data_dir.parent.exists()
    assert in_process or not is_alive(pid)
    assert not broker.is_running


@both
def test_settings_count_and_the_environment_does_not(in_process: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    monkeypatch.setenv("KAFKA_LISTENERS", "SSL://nowhere:1")
    with EmbeddedBroker({"num.partitions": 3, "auto.create.topics.enable": True}, in_process=in_process) as broker:
        send(broker, b"hello")
        assert sorted(path.name for path in broker.data_dir.glob("greetings-*")) == [f"greetings-{n}" for n in range(3)]


@both
def test_a_restart_keeps_port_and_data(in_process: bool):
    with EmbeddedBroker(in_process=in_process) as broker:
        send(broker, b"one")
        place = broker.bootstrap_servers, broker.http_url
        broker.restart()
        assert (broker.bootstrap_servers, broker.http_url) == place
        send(broker, b"two")
        assert received(broker, 2) == [b"one", b"two"]


def test_what_was_acknowledged_is_there_after_a_kill():
    with EmbeddedBroker() as broker:
        send(broker, b"one")
        pid = broker.pid
        broker.kill()
        assert not broker.is_running and not is_alive(pid)
        broker.start()
        assert received(broker, 1) == [b"one"]
        assert broker.log_text.count("Kafka Server started") == 2


def test_a_thread_cannot_be_killed():
    with EmbeddedBroker(in_process=True) as broker, pytest.raises(BrokerFailed, match="child process"):
        broker.kill()


@both
def test_a_directory_that_was_given_is_kept(in_process: bool, tmp_path: Path):
    for count in (1, 2):
        with EmbeddedBroker(data_dir=tmp_path / "data", in_process=in_process) as broker:
            send(broker, b"again")
            assert received(broker, count) == [b"again"] * count


@both
def test_a_taken_port_is_named(in_process: bool):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = EmbeddedBroker(port=port, in_process=in_process)
        with pytest.raises(BrokerFailed, match=f"PLAINTEXT cannot bind 127.0.0.1:{port}: Address already in use"):
            broker.start()
        broker.close()


@both
def test_a_bad_value_is_named(in_process: bool):
    with (
        pytest.raises(BrokerFailed, match="did not start: Invalid value lots for configuration num"),
        EmbeddedBroker({"num.partitions": "lots"}, in_process=in_process),
    ):
        pass


@both
def test_an_unknown_key_is_warned_about(in_process: bool):
    with (
        pytest.warns(UserWarning, match="Unknown configuration key num.partition is ignored"),
        EmbeddedBroker({"num.partition": 1}, in_process=in_process),
    ):
        pass


def test_a_broker_that_dies_by_itself_is_told_with_its_log():
    broker = EmbeddedBroker().start()
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(
        BrokerFailed, match=r"ended by signal 9\n--- the end of its log ---\n(.|\n)*Kafka Server started"
    ):
        broker.close()
    broker.close()


def test_the_failure_of_the_program_comes_before_that_of_its_broker():
    with pytest.raises(ZeroDivisionError) as caught, EmbeddedBroker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        raise ZeroDivisionError
    assert "ended by signal 9" in caught.value.__notes__[0]


async def test_it_starts_and_stops_beside_an_event_loop():
    async with EmbeddedBroker() as broker:
        assert broker.is_running
    assert not broker.is_running


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[tuple[int, int, Path]]:
    """Give the ids of a program and of its broker, and the broker's directory."""
    code = (
        "import sys; from broker.embedded import EmbeddedBroker; broker = EmbeddedBroker().start();"
        "print(broker.pid, broker.data_dir, flush=True); sys.stdin.read()"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert program.stdout is not None and program.stdin is not None
    pid, data_dir = program.stdout.readline().split()
    yield program.pid, int(pid), Path(data_dir)
    program.kill()
    program.wait()
    program.stdin.close()
    program.stdout.close()


def test_a_child_does_not_outlive_its_program(orphan: tuple[int, int, Path]):
    program, broker, data_dir = orphan
    ended = os.pidfd_open(broker)
    os.kill(program, signal.SIGKILL)
    assert has_ended(ended)
    os.close(ended)
    assert not data_dir.parent.exists()


def has_ended(pidfd: int) -> bool:
    """Wait for the end of a process that is not our child."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(RUN_TIMEOUT_S * 1000))


def test_a_program_that_forgets_to_close_leaves_nothing(tmp_path: Path):
    code = "from broker.embedded import EmbeddedBroker; print(EmbeddedBroker(in_process={}).start().pid)"
    for in_process in (False, True):
        done = subprocess.run(
            [sys.executable, "-c", code.format(in_process)],
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        )
        assert list(tmp_path.iterdir()) == [], done.stderr


def test_a_program_may_have_modules_of_our_names(tmp_path: Path):
    for name in ("config", "protocol", "storage"):
        (tmp_path / f"{name}.py").write_text("")
    code = (
        "import config\nfrom broker.embedded import EmbeddedBroker\nwith EmbeddedBroker(in_process={}): print('ready')"
    )

    def run(in_process: bool) -> subprocess.CompletedProcess[str]:
        (tmp_path / "program.py").write_text(code.format(in_process))
        return subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    assert run(False).stdout == "ready\n"
    refused = run(True)
    assert refused.returncode == 1
    assert "the program must not have modules of these names" in refused.stderr


def state_of_the_process() -> dict[str, object]:
    """Give what a broker in process must leave alone."""
    return {
        "signals": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)],
        "wakeup": _wakeup_fd(),
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "switch interval": sys.getswitchinterval(),
        "limit": resource.getrlimit(resource.RLIMIT_NOFILE),
        "log": (logging.root.level, list(logging.root.handlers)),
        "directory": os.getcwd(),
        "hooks": (sys.excepthook, threading.excepthook),
    }


def _wakeup_fd() -> int:
    number = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(number)
    return number


def test_a_broker_in_process_changes_nothing_of_the_process():
    before = state_of_the_process()
    with EmbeddedBroker(in_process=True) as broker:
        send(broker, b"hello")
        assert state_of_the_process() == before
    assert state_of_the_process() == before
    assert logging.getLogger("broker").handlers == [], "its page listened there"


def test_whoever_watches_a_broker_in_process_does_not_stop_the_programs_collector(monkeypatch: pytest.MonkeyPatch):
    stops: list[bool] = []
    with EmbeddedBroker(in_process=True) as broker:
        monkeypatch.setattr(gc, "disable", lambda: stops.append(True))
        for path in ("/metrics", "/"):
            with urllib.request.urlopen(f"{broker.http_url}{path}", timeout=10) as answer:
                assert answer.status == 200
        assert stops == []


def test_brokers_in_process_leave_neither_threads_nor_descriptors():
    def use() -> None:
        with EmbeddedBroker(in_process=True) as broker, RawClient(_address(broker)) as client:
            client.create_topic("some", 3)

    use()
    gc.collect()  # what other tests have left to the collector is not counted
    threads, descriptors = threading.active_count(), open_descriptors()
    for _ in range(10):
        use()
    gc.collect()
    # What others have left may still go.
    assert threading.active_count() <= threads and open_descriptors() <= descriptors


def test_brokers_live_side_by_side():
    with EmbeddedBroker(in_process=True) as one, EmbeddedBroker(in_process=True) as two, EmbeddedBroker() as three:
        brokers = (one, two, three)
        for number, broker in enumerate(brokers):
            send(broker, b"to %d" % number)
        assert [received(broker, 1) for broker in brokers] == [[b"to 0"], [b"to 1"], [b"to 2"]]


def _address(broker: EmbeddedBroker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return host, int(port)
