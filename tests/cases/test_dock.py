"""DOCK-01 and DOCK-02: how a container stops, and how a start that cannot succeed ends.

The start script of the image is a session leader here; the image itself is built and run in tests/container.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerFailed, reference_wanted
from tests.harness.entry_point import HEALTHCHECK, WITHOUT_PRIVILEGES, EntryPoint, variable
from tests.harness.ports import free_port
from tests.harness.raw import RawClient

pytestmark = pytest.mark.skipif(reference_wanted(), reason="about the image's own script")

GRACE_S = 10
START_LIMIT_S = 15

Make = Callable[..., EntryPoint]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Give a function that makes the script's process: make({key: value}, VARIABLE=value)."""
    made: list[EntryPoint] = []

    def one(properties: dict[str, str] | None = None, **variables: str) -> EntryPoint:
        made.append(EntryPoint(tmp_path / f"container-{len(made)}", properties, variables=variables))
        return made[-1]

    yield one
    for container in made:
        container.close()


def ended(container: EntryPoint) -> str:
    """Launch it, expect it to end by itself with a failure, and give the one line that says why."""
    with pytest.raises(BrokerFailed, match=r"ended with [1-9]"):
        container.start(timeout_s=START_LIMIT_S)
    (line,) = container.log_text().splitlines()
    return line


def marker_of(container: EntryPoint) -> Path:
    return container.data_directory / ".kafka_cleanshutdown"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_dock_01_a_stop_is_clean_and_the_next_start_loses_nothing(make: Make, number: signal.Signals) -> None:
    container = make()
    container.start()
    with RawClient((container.host, container.port)) as client:
        client.create_topic("t")
        client.produce("t", batches.simple("v"))
    assert not marker_of(container).exists()
    container.signal(number)
    assert container.wait(timeout_s=GRACE_S) in (0, 143)
    assert marker_of(container).exists()

    container.start(timeout_s=START_LIMIT_S)
    assert "torn" not in container.log_text() and "unclean" not in container.log_text()
    assert not marker_of(container).exists(), "a SIGKILL from now on is an unclean stop"
    with RawClient((container.host, container.port)) as client:
        assert client.end_offset("t") == 1


def test_dock_01_a_signal_before_the_broker_handles_any_ends_the_process(make: Make) -> None:
    container = make()
    container.launch()
    container.signal(signal.SIGTERM)
    assert container.wait(timeout_s=GRACE_S) in (0, 143, -signal.SIGTERM)
    container.start()
    assert container.stop(timeout_s=GRACE_S) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a process the first one")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_dock_01_process_1_gets_the_signals_that_have_no_default_for_it(make: Make, number: signal.Signals) -> None:
    container = make()
    container.wrapper = ("unshare", "--pid", "--fork")
    container.start()
    first = int(Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text())
    os.kill(first, number)
    assert container.wait(timeout_s=GRACE_S) == 0
    assert marker_of(container).exists()


def test_dock_02_a_taken_port(make: Make) -> None:
    container = make()
    with socket.create_server((container.host, container.port)):
        line = ended(container)
    where = f"{container.host}:{container.port}"
    assert line == f"odradek: listeners: PLAINTEXT cannot bind {where}: Address already in use"
    container.start()


def test_dock_02_a_taken_port_of_the_pages(make: Make) -> None:
    container = make()
    with socket.create_server((container.host, container.http_port)):
        line = ended(container)
    assert "odradek.http.listener" in line and str(container.http_port) in line
    container.start()


def test_dock_02_a_directory_that_may_only_be_read(make: Make) -> None:
    container = make()
    container.wrapper = WITHOUT_PRIVILEGES
    container.data_directory.mkdir()
    container.data_directory.chmod(0o555)
    line = ended(container)
    assert line.startswith(f"odradek: log.dirs: cannot use log directory {container.data_directory}: Permission denied")
    assert f"runs as user {os.geteuid()}" in line
    assert list(container.data_directory.iterdir()) == []
    container.data_directory.chmod(0o755)
    container.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_dock_02_a_directory_of_another_user(make: Make) -> None:
    container = make()
    container.wrapper = WITHOUT_PRIVILEGES
    container.data_directory.mkdir(mode=0o755)
    os.chown(container.data_directory, 12_345, 12_345)
    assert "Permission denied" in ended(container)
    os.chown(container.data_directory, 0, 0)
    container.start()


def test_dock_02_a_listener_that_the_protocol_map_does_not_know(make: Make) -> None:
    port = free_port()
    container = make({"listeners": f"OUTSIDE://127.0.0.1:{port}", "listener.security.protocol.map": "INSIDE:PLAINTEXT"})
    line = ended(container)
    assert "Invalid value OUTSIDE for configuration listeners" in line and "listener.security.protocol.map" in line
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


def test_dock_02_a_missing_key_store(make: Make) -> None:
    line = ended(make(KAFKA_SSL_KEYSTORE_FILENAME="no-such.jks"))
    assert line == "odradek: KAFKA_SSL_KEYSTORE_FILENAME: cannot read /etc/kafka/secrets/no-such.jks"


def test_dock_02_a_malformed_line(make: Make) -> None:
    container = make()
    path = container.directory / "given.properties"
    path.write_text("num.partitions=2\nbroker.rack=\\u12\n", encoding="utf-8")
    container.arguments = (str(path),)
    assert ended(container) == r"odradek: Malformed \uxxxx encoding in a properties file (given.properties:2)"


def test_dock_02_a_number_out_of_range(make: Make) -> None:
    line = ended(make({"num.partitions": "0"}))
    assert "num.partitions" in line and "at least 1" in line and "KAFKA_NUM_PARTITIONS" in line


def test_dock_02_an_unknown_property_is_a_warning(make: Make) -> None:
    container = make({"no.such.key": "1"})
    container.start()
    warnings = [line for line in container.log_text().splitlines() if "warning" in line]
    assert warnings == [
        "odradek: warning: Unknown configuration key no.such.key is ignored (environment KAFKA_NO_SUCH_KEY)"
    ]


def test_variables_of_the_jvm_say_nothing_and_do_nothing(make: Make) -> None:
    names = ("HEAP_OPTS", "OPTS", "JMX_PORT", "JMX_OPTS", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS", "TOOLS_LOG4J_LOGLEVEL")
    container = make(**{f"KAFKA_{name}": "-Xmx1g" for name in names})
    container.start()
    assert "warning" not in container.log_text()


def test_the_log_has_the_lines_that_test_frameworks_wait_for(make: Make) -> None:
    container = make()
    container.start()
    for pattern in (
        r".*Transitioning from RECOVERY to RUNNING.*",
        r".*\[KafkaServer id=\d+\] started.*",
        r".*Kafka Server started.*",
    ):
        assert len(re.findall(pattern, container.log_text())) == 1, pattern


def test_levels_of_log4j_are_levels_of_ours(make: Make) -> None:
    container = make(KAFKA_LOG4J_ROOT_LOGLEVEL="warn", KAFKA_LOG4J_LOGGERS="kafka.server=TRACE,broker.lifecycle=INFO")
    container.start()
    assert {line.split()[3] for line in container.log_text().splitlines()} == {"broker.lifecycle"}


def test_cluster_id_is_for_fresh_directories(make: Make) -> None:
    container = make(CLUSTER_ID="5L6g3nShT-eMCtK--X86sw")
    container.start()
    assert "cluster.id=5L6g3nShT-eMCtK--X86sw" in container.log_text()
    container.stop()
    container.set_variables(CLUSTER_ID="another")
    container.start()
    assert "Kafka Server started" in container.log_text()
    assert "log directories keep their cluster.id=5L6g3nShT-eMCtK--X86sw" in container.log_text()


def test_arguments_go_over_variables(make: Make) -> None:
    container = make({"num.partitions": "2"})
    container.arguments = ("KAFKA_NUM_PARTITIONS=3", "--override", "broker.rack=here")
    container.start()
    with RawClient((container.host, container.port)) as client:
        topics = [{"name": "t", "num_partitions": -1, "replication_factor": 1}]
        client.request("create_topics", 7, topics=topics, timeout_ms=15_000)
        client.wait_for_topic("t", 3)
        assert client.metadata([]).brokers[0].rack == "here"


def test_listeners_follow_from_what_is_advertised(make: Make) -> None:
    container = make()
    del container.properties["listeners"]
    container.properties["advertised.listeners"] = f"PLAINTEXT://broker.example:{container.port}"
    container.set_variables(KAFKA_LISTENERS="")
    container.start()
    assert f"listeners=PLAINTEXT://0.0.0.0:{container.port}" in container.log_text()
    with RawClient((container.host, container.port)) as client:
        assert client.metadata([]).brokers[0].host == "broker.example"


def test_the_settings_of_a_combined_node_bind_its_controller_listener(make: Make) -> None:
    container = make()
    controller = free_port()
    container.properties |= {
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"1@localhost:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://:{container.port},BROKER://:{free_port()},CONTROLLER://:{controller}",
        "advertised.listeners": f"PLAINTEXT://localhost:{container.port},BROKER://localhost:{free_port()}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
    }
    container.start()
    with RawClient((container.host, controller)) as client:
        assert client.request("describe_quorum", 0, topics=[]).error_code == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="the check is a bash script")
def test_the_health_check_follows_readiness(make: Make) -> None:
    container = make()
    environment = {variable("odradek.http.listener"): container.properties["odradek.http.listener"]}

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run([HEALTHCHECK], env=environment, capture_output=True, text=True, timeout=30)

    assert check().returncode != 0
    container.start()
    assert (check().returncode, check().stdout) == (0, "ready\n")
    container.pause()
    with pytest.raises(subprocess.TimeoutExpired):
        check()
    container.resume()
