"""The daemon as a process: what it says, how it ends, what it leaves behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness import batches
from tests.harness.broker import ROOT, BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.raw import ConnectionClosed, RawClient, eventually, fetch_row, fetch_values

pytestmark = pytest.mark.skipif(reference_wanted(), reason="about Odradek's own process")

BOUND_MS = 4_000


def odradek(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "broker", *arguments],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=30,
    )


def park_a_fetch(client: RawClient, topic: str, offset: int) -> None:
    """Leave a long poll at the log end, and know that it has arrived: a request before it has been answered."""
    client.metadata([topic])
    row = fetch_row(0, offset)
    client.send("fetch", 11, **fetch_values([{"topic": topic, "partitions": [row]}], version=11, max_wait_ms=60_000))


def marker_of(broker: BrokerProcess) -> Path:
    return broker.data_directory / ".kafka_cleanshutdown"


def test_the_ready_line_says_where_and_the_pages_agree(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    (ready,) = [line for line in broker.log_text().splitlines() if "Kafka Server started" in line]
    assert f"listeners=PLAINTEXT://127.0.0.1:{broker.port}" in ready
    assert f"http=127.0.0.1:{broker.http_port}" in ready
    assert str(broker.data_directory) in ready
    assert broker.http_get("/healthz") == "ok\n"
    assert broker.http_get("/readyz") == "ready\n"
    assert "kafka_server_kafkaserver_brokerstate 3\n" in broker.http_get("/metrics")


def test_sigterm_answers_a_parked_fetch_leaves_the_marker_and_ends_with_0(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t")
        client.produce("t", batches.simple("v"))
        park_a_fetch(client, "t", 1)
        assert not marker_of(broker).exists()
        broker.signal(signal.SIGTERM)
        _, response = client.receive("fetch", 11)
        assert response.responses[0].partitions[0].error_code == 0
        assert broker.wait(timeout_s=10) == 0
    assert marker_of(broker).exists()
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        assert client.end_offset("t") == 1
    assert not marker_of(broker).exists()


def test_a_client_that_does_not_read_cannot_hold_up_a_stop(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"odradek.shutdown.timeout.ms": str(BOUND_MS)})
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t")
        for _ in range(20):
            client.produce("t", batches.of_size(900_000))
        row = fetch_row(0, 0, partition_max_bytes=1 << 30)
        client.send("fetch", 11, **fetch_values([{"topic": "t", "partitions": [row]}], version=11, max_bytes=1 << 30))
        eventually(lambda: 'request="fetch"' in broker.http_get("/metrics"), what="the fetch is under way")
        began = time.monotonic()
        assert broker.stop(timeout_s=10) == 0
        assert time.monotonic() - began < BOUND_MS / 1000
    assert marker_of(broker).exists()


def test_a_second_sigterm_ends_the_process_at_once(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t")
        for _ in range(20):
            client.produce("t", batches.of_size(900_000))
        row = fetch_row(0, 0, partition_max_bytes=1 << 30)
        client.send("fetch", 11, **fetch_values([{"topic": "t", "partitions": [row]}], version=11, max_bytes=1 << 30))
        eventually(lambda: 'request="fetch"' in broker.http_get("/metrics"), what="the fetch is under way")
        broker.signal(signal.SIGTERM)
        eventually(lambda: "stopping reason=SIGTERM" in broker.log_text(), what="the stop has begun")
        broker.signal(signal.SIGTERM)
        assert broker.wait(timeout_s=5) == 128 + signal.SIGTERM
    assert not marker_of(broker).exists()
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        assert client.end_offset("t") == 20


def test_a_stopping_broker_takes_no_new_connection(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    address = (broker.host, broker.port)
    assert broker.stop() == 0
    with pytest.raises((OSError, ConnectionClosed)), RawClient(address) as client:
        client.versions()


def test_a_bad_value_ends_in_one_line_with_key_value_and_what_is_legal(tmp_path: Path) -> None:
    done = odradek("serve", "--override", f"log.dirs={tmp_path}", "--override", "num.partitions=many")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "num.partitions" in line and "many" in line and "32-bit integer, at least 1" in line
    assert not list(tmp_path.iterdir())


def test_each_unknown_key_is_warned_of_once_and_the_rest_is_served(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"no.such.key": "1", "another.one": "x"})
    for key in ("no.such.key", "another.one"):
        assert broker.log_text().count(key) == 1


def test_environment_and_overrides_go_over_the_file_and_config_shows_whence_each_value_came(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("num.partitions=2\nlog.retention.hours=5\nbackground.threads=3\n", encoding="utf-8")
    done = odradek(
        "config",
        str(properties),
        "--override",
        "num.partitions=4",
        environment={"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_RETENTION_HOURS": "6"},
    )
    assert done.returncode == 0, done.stderr
    lines = {line.partition("=")[0]: line for line in done.stdout.splitlines()}
    assert lines["num.partitions"].startswith("num.partitions=4 ") and "override" in lines["num.partitions"]
    assert lines["log.retention.hours"].startswith("log.retention.hours=6 ")
    assert "KAFKA_LOG_RETENTION_HOURS" in lines["log.retention.hours"]
    assert lines["background.threads"].startswith("background.threads=3 ")
    assert "server.properties" in lines["background.threads"]


def test_a_taken_port_is_said_in_one_line_and_ends_with_1(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory()
    listener = f"listeners=PLAINTEXT://127.0.0.1:{broker.port}"
    data = tmp_path / "other"
    done = odradek(
        "serve", "--override", listener, "--override", f"log.dirs={data}", "--override", "odradek.http.listener="
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == f"odradek: listeners: PLAINTEXT cannot bind 127.0.0.1:{broker.port}: Address already in use"
    http = f"odradek.http.listener=127.0.0.1:{broker.http_port}"
    done = odradek("serve", "--override", http, "--override", f"log.dirs={data}")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == f"odradek: odradek.http.listener cannot bind 127.0.0.1:{broker.http_port}: Address already in use"


def test_a_damaged_metadata_log_ends_the_start_before_anything_is_moved(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t")
        client.produce("t", batches.simple("v"))
        client.create_topic("u")
    assert broker.stop() == 0
    segment = broker.data_directory / "__cluster_metadata-0" / "00000000000000000000.log"
    whole = segment.read_bytes()
    damaged = bytearray(whole)
    damaged[300] ^= 1
    segment.write_bytes(damaged)
    done = odradek("serve", str(broker.properties_path))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert str(segment) in line and "damaged" in line
    assert {"t-0", "u-0"} <= {entry.name for entry in broker.data_directory.iterdir()}
    assert marker_of(broker).exists(), "what was not opened is as the stop before has left it"
    segment.write_bytes(whole)
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        assert client.end_offset("t") == 1
