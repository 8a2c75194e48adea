"""From sources to a checked resolver: precedence, embedded values, refusals of one line."""

from __future__ import annotations

import os

import pytest

from config.build import broker_config, network_config
from config.errors import InvalidConfig
from config.load import load

KRAFT_SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def refusal(*overrides, environ=None):
    with pytest.raises(InvalidConfig) as caught:
        load(None, environ or {}, overrides)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_nothing_configured_runs_on_loopback_under_data():
    loaded = load(None, {}, [])
    assert loaded.warnings == ()
    listener = network_config(loaded.resolver).listeners[0]
    assert (listener.host, listener.port, listener.advertised_host) == ("127.0.0.1", 9092, "127.0.0.1")
    config = broker_config(loaded.resolver)
    assert config.log_dirs == (os.path.abspath("data"),)
    assert config.metadata_log_dir == os.path.abspath("data")
    assert config.node_id == 1
    assert config.http_listener == ("127.0.0.1", 9404)


def test_kafkas_own_file_is_accepted_unchanged(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(KRAFT_SERVER_PROPERTIES)
    loaded = load(str(path), {}, [])
    assert loaded.warnings == ()
    assert broker_config(loaded.resolver).node_id == 7
    assert broker_config(loaded.resolver).log_dirs == ("/tmp/kraft-combined-logs",)
    assert [listener.name for listener in network_config(loaded.resolver).listeners] == ["PLAINTEXT"]


def test_override_over_environment_over_file(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=1\nbroker.rack=file\nlog.dirs=/file\n")
    environ = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_BROKER_RACK": "env"}
    resolver = load(str(path), environ, ["num.partitions=3"]).resolver
    assert (resolver.get("num.partitions"), resolver.get("broker.rack"), resolver.get("log.dirs")) == (
        3,
        "env",
        ("/file",),
    )
    assert resolver.static["log.dirs"].origin == "server.properties:3"


def test_one_warning_for_each_unknown_key():
    loaded = load(
        None, {"KAFKA_NO_SUCH": "x"}, ["other=y", "rsm.config.bucket=b", "listener.name.a.ssl.client.auth=none"]
    )
    assert loaded.warnings == (
        "Unknown configuration key no.such is ignored (environment KAFKA_NO_SUCH)",
        "Unknown configuration key other is ignored (--override)",
    )


def test_an_unknown_key_that_topics_have_or_that_is_nearly_one_is_told_as_such():
    loaded = load(None, {}, ["delivery.mode=scheduled", "retention.ms=1000", "num.partition=3"])
    assert loaded.warnings == (
        "Unknown configuration key delivery.mode is ignored (--override): it is a key of topics",
        "Unknown configuration key retention.ms is ignored (--override): it is a key of topics; "
        "that of the broker is log.retention.ms",
        "Unknown configuration key num.partition is ignored (--override): did you mean num.partitions?",
    )


def test_an_authorizer_that_is_not_there_is_warned_about():
    warnings = load(
        None, {}, ["authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"]
    ).warnings
    assert len(warnings) == 1 and "authorizer.class.name" in warnings[0]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("log.retention.ms=abc", ["abc", "log.retention.ms", "64-bit integer"]),
        ("log.segment.bytes=14", ["14", "log.segment.bytes", "at least 1048576"]),
        ("auto.create.topics.enable=maybe", ["maybe", "auto.create.topics.enable", "true or false"]),
        ("log.cleanup.policy=foo", ["foo", "log.cleanup.policy", "compact, delete"]),
        ("log.dirs=", ["log.dirs", "not empty"]),
        ("log.dirs=/a,/a", ["/a,/a", "log.dirs"]),
        ("log.roll.ms=0", ["0", "log.roll.ms", "at least 1"]),
        ("log.roll.jitter.ms=-1", ["-1", "log.roll.jitter.ms", "at least 0"]),
        ("odradek.http.listener=nowhere", ["nowhere", "odradek.http.listener", "host:port"]),
        ("process.roles=controller", ["controller", "process.roles", "broker"]),
        ("log.retention.hours=0", ["log.retention.ms", "at least 1"]),
        ("log.cleaner.dedupe.buffer.size=1048576", ["1048576", "log.cleaner.dedupe.buffer.size"]),
        ("group.min.session.timeout.ms=1800001", ["1800001", "group.max.session.timeout.ms"]),
        ("log.cleaner.max.compaction.lag.ms=0", ["0", "at least 1"]),
    ],
)
def test_bad_value_names_key_value_and_what_is_legal(override, words):
    message = refusal(override)
    for word in words:
        assert word in message


def test_bad_value_names_its_origin():
    assert "(environment KAFKA_NUM_PARTITIONS)" in refusal(environ={"KAFKA_NUM_PARTITIONS": "0"})


def test_value_with_line_breaks_stays_one_line():
    assert refusal("num.partitions=1\n2").startswith("Invalid value 1 2 for configuration num.partitions")


def test_retention_of_zero_is_refused_only_when_in_force():
    assert load(None, {}, ["log.retention.hours=0", "log.retention.ms=5"]).resolver.get("log.retention.ms") == 5


def test_broker_id_stands_for_node_id():
    assert broker_config(load(None, {}, ["broker.id=5"]).resolver).node_id == 5
    assert "broker.id" in refusal("broker.id=5", "node.id=6")


def test_log_dir_alone_keeps_the_embedded_directory_out(tmp_path):
    config = broker_config(load(None, {}, [f"log.dir={tmp_path}"]).resolver)
    assert config.log_dirs == (str(tmp_path),)


def test_spellings_of_log_dirs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = broker_config(load(None, {}, [f"log.dirs={tmp_path}/A/, ./B"]).resolver)
    assert config.log_dirs == (f"{tmp_path}/A", f"{tmp_path}/B")


def test_one_directory_under_two_spellings(tmp_path):
    (tmp_path / "A").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "A")
    for other in (f"{tmp_path}/A/", f"{tmp_path}/x/../A", f"{tmp_path}/link"):
        message = refusal(f"log.dirs={tmp_path}/A,{other}")
        assert "log.dirs" in message and str(tmp_path) in message and "twice" in message


def test_advertised_without_listeners_listens_everywhere():
    environ = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker.example:9092"}
    resolver = load(None, environ, []).resolver
    listener = network_config(resolver).listeners[0]
    assert (listener.host, listener.port, listener.advertised_host) == ("0.0.0.0", 9092, "broker.example")


def test_nodes_that_would_not_be_one_cluster_are_warned_of():
    voters = "1@kafka-1:9093,2@kafka-2:9093"
    assert "cluster of its own" in load(None, {"KAFKA_CONTROLLER_QUORUM_VOTERS": voters}, []).warnings[0]
    assert load(None, {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka-1:9093"}, []).warnings == ()


DEFAULTS = """\
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
log.dirs=/default
node.id=4
"""


@pytest.fixture
def with_defaults(tmp_path):
    path = tmp_path / "defaults.properties"
    path.write_text(DEFAULTS)

    def load_with(*overrides, **environ):
        resolver = load(None, environ, overrides, defaults_path=str(path)).resolver
        listener = network_config(resolver).listeners[0]
        return resolver, (listener.name, listener.host, listener.port, listener.advertised_host)

    return load_with


def test_defaults_stand_below_everything_that_is_given(with_defaults):
    resolver, listener = with_defaults(KAFKA_NUM_PARTITIONS="3")
    assert listener == ("PLAINTEXT", "", 9092, "localhost")
    assert broker_config(resolver).log_dirs == ("/default",)
    assert resolver.static["log.dirs"].origin == "defaults.properties:4"
    assert broker_config(with_defaults("log.dirs=/given")[0]).log_dirs == ("/given",)


def test_a_default_gives_way_to_another_spelling_of_its_setting(with_defaults):
    resolver, _ = with_defaults("log.dir=/given", "broker.id=9")
    config = broker_config(resolver)
    assert (config.log_dirs, config.node_id) == (("/given",), 9)


def test_listeners_and_what_is_advertised_of_them_come_from_one_place(with_defaults):
    assert with_defaults("listeners=PLAINTEXT://10.0.0.1:1")[1] == ("PLAINTEXT", "10.0.0.1", 1, "10.0.0.1")
    environ = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker.example:29092"}
    assert with_defaults(**environ)[1] == ("PLAINTEXT", "0.0.0.0", 29092, "broker.example")


def test_a_default_that_is_no_legal_value_is_refused_with_its_line(tmp_path):
    path = tmp_path / "defaults.properties"
    path.write_text("num.partitions=none\n")
    with pytest.raises(InvalidConfig, match=r"num\.partitions.*\(defaults\.properties:1\)"):
        load(None, {}, [], defaults_path=str(path))


def test_levels_of_loggers_are_pairs_in_upper_case():
    config = broker_config(load(None, {}, ["odradek.logger.levels=root=warn, broker.api=Debug"]).resolver)
    assert config.logger_levels == (("root", "WARN"), ("broker.api", "DEBUG"))
    assert "odradek.logger.levels" in refusal("odradek.logger.levels=root=LOUD")


def test_http_listener_can_be_off_or_ipv6():
    assert broker_config(load(None, {}, ["odradek.http.listener="]).resolver).http_listener is None
    assert broker_config(load(None, {}, ["odradek.http.listener=[::1]:0"]).resolver).http_listener == ("::1", 0)
