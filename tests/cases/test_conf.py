"""CONF-01, 02, 04, 05 and 06: topic creation, DescribeConfigs, CreatePartitions, log.dirs, advertised addresses."""

import os
import socket
from pathlib import Path

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerFailed, BrokerProcess
from tests.harness.ports import free_port
from tests.harness.raw import RawClient, Struct

EXIT_WITHIN_S = 15


def _topic(name: str, partitions: int = 1, replication: int = 1, **configs: str | None) -> dict:
    rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "num_partitions": partitions, "replication_factor": replication, "configs": rows}


def _create(client: RawClient, *topics: dict, version: int = 7, validate_only: bool = False) -> dict[str, Struct]:
    answer = client.request(
        "create_topics", version, topics=list(topics), timeout_ms=15000, validate_only=validate_only
    )
    assert len(answer.topics) == len({row.name for row in answer.topics})
    return {row.name: row for row in answer.topics}


WANTED = {
    "ok1": (_topic("ok1", -1, -1), 0),
    "rf3": (_topic("rf3", 1, 3), 38),
    "p0": (_topic("p0", 0), 37),
    "pneg": (_topic("pneg", -5), 37),
    "a_b": (_topic("a_b", 1, 3), 36),
    "a.b": (_topic("a.b"), 17),
    "": (_topic(""), 17),
    ".": (_topic("."), 17),
    "..": (_topic(".."), 17),
    "x" * 250: (_topic("x" * 250), 17),
    "a/b": (_topic("a/b"), 17),
    "cfg1": (_topic("cfg1", no_such_key="1"), 40),
    "cfg2": (_topic("cfg2", retention_ms="abc"), 40),
    "cfg3": (_topic("cfg3", cleanup_policy="foo"), 40),
    "cfg4": (_topic("cfg4", retention_ms=None), 40),
}


@pytest.mark.parametrize("version", [4, 5, 7])
def test_conf_01_create_topics_checks_each_topic_by_itself(broker_factory, version: int) -> None:
    broker = broker_factory()
    with RawClient(address(broker)) as client:
        client.create_topic("a_b")
        rows = _create(client, *(topic for topic, _ in WANTED.values()), version=version)
        assert {name: row.error_code for name, row in rows.items()} == {
            name: code for name, (_, code) in WANTED.items()
        }
        if version >= 5:
            assert (rows["ok1"].num_partitions, rows["ok1"].replication_factor) == (1, 1)
            assert {row.name for row in rows["ok1"].configs} >= {"retention.ms", "cleanup.policy"}
        assert "a_b" in rows["a.b"].error_message
        assert rows["a_b"].error_message == "Topic 'a_b' already exists."

        twice = _create(client, _topic("dup"), _topic("dup"), _topic("once"), version=version)
        assert {name: row.error_code for name, row in twice.items()} == {"dup": 42, "once": 0}

        dry = _create(client, _topic("new1"), _topic("rf3b", 1, 3), version=version, validate_only=True)
        assert {name: row.error_code for name, row in dry.items()} == {"new1": 0, "rf3b": 38}

        for name in ("ok1", "once"):
            client.wait_for_topic(name, 1)
        assert client.topic_names() == {"a_b", "ok1", "once"}
        folders = {name for name in os.listdir(broker.data_directory) if name.endswith("-0")}
        assert folders - {"__cluster_metadata-0"} == {"a_b-0", "ok1-0", "once-0"}


def _describe(client: RawClient, version: int, kind: int, name: str, keys: list[str] | None, synonyms: bool = False):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = client.request("describe_configs", version, resources=[resource], include_synonyms=synonyms)
    [result] = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


TOPIC, BROKER = 2, 4
TOPIC_CONFIGS = set(
    [
        "cleanup.policy",
        "compression.type",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "max.compaction.lag.ms",
        "min.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "min.cleanable.dirty.ratio",
        "min.insync.replicas",
        "preallocate",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "local.retention.bytes",
        "local.retention.ms",
    ]
)


@pytest.fixture
def configured(client: RawClient) -> str:
    """Give a topic with retention.ms=1000 and nothing else."""
    if "configured" not in client.topic_names():
        client.create_topic("configured", retention_ms="1000")
    return "configured"


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_conf_02_describe_configs_of_a_topic(client: RawClient, configured: str, version: int) -> None:
    everything = _describe(client, version, TOPIC, configured, None)
    assert everything.error_code == 0
    rows = {row.name: row for row in everything.configs}
    assert len(rows) == len(everything.configs)
    assert rows.keys() >= TOPIC_CONFIGS
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("1000", 1)
    # The reference sets min.insync.replicas as a cluster-wide dynamic default (3) when it formats.
    inherited = {name: row.config_source for name, row in rows.items() if name != "retention.ms"}
    assert inherited.pop("min.insync.replicas") in (3, 4, 5)
    assert set(inherited.values()) <= {4, 5}
    assert all(row.value is not None and not row.read_only and not row.is_sensitive for row in rows.values())
    assert all(row.synonyms == [] for row in rows.values())

    two = _describe(client, version, TOPIC, configured, ["retention.ms", "cleanup.policy"])
    assert {row.name: row.value for row in two.configs} == {"retention.ms": "1000", "cleanup.policy": "delete"}
    unknown = _describe(client, version, TOPIC, configured, ["no.such"])
    assert (unknown.error_code, unknown.configs) == (0, [])
    missing = _describe(client, version, TOPIC, "missing", None)
    assert (missing.error_code, missing.configs) == (3, [])
    assert _describe(client, version, TOPIC, "il legal", None).error_code == 17


@pytest.mark.parametrize("version", [1, 4])
def test_conf_02_synonyms_list_every_layer(client: RawClient, configured: str, version: int) -> None:
    result = _describe(client, version, TOPIC, configured, ["retention.ms", "max.message.bytes"], synonyms=True)
    found = {row.name: [(layer.name, layer.value, layer.source) for layer in row.synonyms] for row in result.configs}
    # Only log.retention.ms counts as a synonym, and it has no value: minutes and hours do not show.
    assert found["retention.ms"] == [("retention.ms", "1000", 1)]
    assert found["max.message.bytes"] == [("message.max.bytes", "1048588", 5)]


@pytest.mark.parametrize("version", [1, 4])
def test_conf_02_describe_configs_of_the_broker(client: RawClient, version: int) -> None:
    mine = _describe(client, version, BROKER, "1", None)
    rows = {row.name: row for row in mine.configs}
    assert mine.error_code == 0
    assert rows.keys() >= {"log.retention.hours", "num.partitions", "message.max.bytes", "log.dirs", "node.id"}
    assert (rows["node.id"].value, rows["node.id"].config_source, rows["node.id"].read_only) == ("1", 4, True)
    assert (rows["num.partitions"].value, rows["num.partitions"].config_source) == ("1", 5)
    passwords = {row.name for row in mine.configs if row.is_sensitive}
    assert passwords >= {"ssl.keystore.password", "ssl.key.password", "ssl.truststore.password"}
    assert all(rows[name].value is None for name in passwords)

    picked = _describe(client, version, BROKER, "1", ["num.partitions", "no.such"])
    assert [row.name for row in picked.configs] == ["num.partitions"]
    for wrong in ("999", "abc"):
        assert _describe(client, version, BROKER, wrong, None).error_code == 42
    defaults = _describe(client, version, BROKER, "", None)
    assert defaults.error_code == 0
    assert {(row.name, row.config_source) for row in defaults.configs} <= {("min.insync.replicas", 3)}
    assert _describe(client, version, 77, "1", None).error_code == 42


def _grow(client: RawClient, topic: str, count: int, *, validate_only: bool = False, version: int = 3) -> int:
    answer = client.request(
        "create_partitions",
        version,
        topics=[{"name": topic, "count": count, "assignments": None}],
        timeout_ms=15000,
        validate_only=validate_only,
    )
    [result] = answer.results
    assert result.name == topic
    return result.error_code


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_conf_04_create_partitions(broker: BrokerProcess, client: RawClient, fresh, version: int) -> None:
    topic = fresh()
    client.create_topic(topic)
    old = batches.simple(*(f"{number}" for number in range(10)))
    client.append(topic, old)
    before = client.fetch_all(topic)
    assert _grow(client, topic, 4, version=version) == 0
    client.wait_for_topic(topic, 4)
    assert client.append(topic, batches.simple("new"), 3) == 0
    assert _grow(client, topic, 4, version=version) == 37
    assert _grow(client, topic, 2, version=version) == 37
    assert _grow(client, "missing", 4, version=version) == 3
    assert _grow(client, topic, 6, validate_only=True, version=version) == 0
    assert len(client.topic(topic).partitions) == 4
    assert client.fetch_all(topic) == before


def test_conf_04_partitions_survive_a_restart(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, batches.simple("old"))
    assert _grow(client, topic, 4) == 0
    client.wait_for_topic(topic, 4)
    client.append(topic, batches.simple("new"), 3)
    broker.restart()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, 4)
        assert [later.end_offset(topic, partition) for partition in range(4)] == [1, 0, 0, 1]
        assert [record.value for record in batches.records_of(later.fetch_all(topic, 3))] == [b"new"]


def _log_dirs(client: RawClient) -> dict[str, set[tuple[str, int]]]:
    """List the partitions by directory; the reference leaves the "." of "./B" in its path."""
    answer = client.request("describe_log_dirs", 1, topics=None)
    return {
        os.path.normpath(row.log_dir): {
            (topic.name, part.partition_index) for topic in row.topics for part in topic.partitions
        }
        for row in answer.results
    }


def test_conf_05_spelling_of_log_dirs(broker_factory, monkeypatch: pytest.MonkeyPatch) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    monkeypatch.chdir(broker.directory)  # the reference's format step has the working directory of the tests
    absolute, relative = broker.directory / "A", broker.directory / "B"
    broker.data_directory = absolute  # where the reference's harness looks for a formatted directory
    broker.properties["log.dirs"] = f"{absolute}/, ./B"
    broker.start()
    topics = [f"t{number}" for number in range(6)]
    with RawClient(address(broker)) as client:
        for topic in topics:
            client.create_topic(topic)
            client.append(topic, batches.simple(topic))
        offers_log_dirs = client.offers("describe_log_dirs", 1)
        if offers_log_dirs:
            assert _log_dirs(client).keys() == {str(absolute), str(relative)}
    assert broker.stop() in (0, 143)
    where = {topic: [d for d in (absolute, relative) if (d / f"{topic}-0").is_dir()] for topic in topics}
    assert all(len(found) == 1 for found in where.values())
    assert {found[0] for found in where.values()} == {absolute, relative}
    broker.properties["log.dirs"] = f"{absolute},{relative}"
    broker.start()
    with RawClient(address(broker)) as client:
        for topic in topics:
            client.wait_for_topic(topic, 1)
            assert (client.start_offset(topic), client.end_offset(topic)) == (0, 1)
            assert [record.value for record in batches.records_of(client.fetch_all(topic))] == [topic.encode()]
        if offers_log_dirs:
            assert _log_dirs(client).keys() == {str(absolute), str(relative)}


def _refused(broker: BrokerProcess) -> str:
    """Assert that the broker ends with a non-zero code in time; return what it logged."""
    try:
        broker.launch()
    except AssertionError as refusal:  # the reference's format step refuses some already
        return str(refusal)
    assert broker.wait(timeout_s=EXIT_WITHIN_S) != 0
    with socket.socket() as probe:
        assert probe.connect_ex((broker.host, broker.port)) != 0
    return broker.log_text()


def test_conf_05_the_same_directory_twice_is_refused(broker_factory) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    directory = broker.directory / "A"
    broker.data_directory = directory
    broker.properties["log.dirs"] = f"{directory},{directory}/"
    said = _refused(broker)
    assert str(directory) in said


def test_conf_05_missing_directories_are_created(broker_factory) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    deep = broker.directory / "deep" / "er" / "still"
    broker.data_directory = deep
    broker.properties["log.dirs"] = str(deep)
    broker.start()
    with RawClient(address(broker)) as client:
        client.create_topic("t")
        assert client.append("t", batches.simple("v")) == 0
    assert (deep / "t-0").is_dir()
    assert (deep / "meta.properties").is_file()


def _listeners(broker: BrokerProcess, listeners: str, advertised: str | None) -> None:
    controller = getattr(broker, "controller_port", None)
    extra = f",CONTROLLER://127.0.0.1:{controller}" if controller else ""
    broker.properties["listeners"] = listeners + extra
    broker.properties.pop("advertised.listeners", None)
    if advertised is not None:
        broker.properties["advertised.listeners"] = advertised


def test_conf_06_advertising_0_0_0_0_is_refused(broker_factory) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    _listeners(broker, f"PLAINTEXT://0.0.0.0:{broker.port}", f"PLAINTEXT://0.0.0.0:{broker.port}")
    said = _refused(broker)
    assert "advertised.listeners" in said
    assert "0.0.0.0" in said


@pytest.mark.parametrize("host", ["0.0.0.0", ""], ids=["0.0.0.0", "empty"])
def test_conf_06_wildcard_host_is_never_advertised(broker_factory, host: str) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    _listeners(broker, f"PLAINTEXT://{host}:{broker.port}", None)
    try:
        broker.start()
    except (BrokerFailed, AssertionError) as refusal:
        assert "listeners" in str(refusal)  # a clear refusal is as good
        return
    with RawClient(address(broker)) as client:
        [node] = client.metadata([]).brokers
        assert node.host not in ("", "0.0.0.0", "::")
        assert node.port == broker.port
        with RawClient((node.host, node.port)) as through:
            assert through.metadata([]).brokers


def test_conf_06_lower_case_scheme_works(broker_factory) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    _listeners(broker, f"plaintext://127.0.0.1:{broker.port}", None)
    broker.start()
    with RawClient(address(broker)) as client:
        assert [(node.host, node.port) for node in client.metadata([]).brokers] == [address(broker)]


def test_conf_06_two_listeners_on_one_port_are_refused(broker_factory) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    port = free_port()
    both = f"PLAINTEXT://127.0.0.1:{port},EXT://127.0.0.1:{port}"
    _listeners(broker, both, both)
    broker.properties["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    said = _refused(broker)
    assert "listeners" in said
    assert "port" in said


def test_conf_05_relative_directory_is_below_the_working_directory(
    broker_factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker: BrokerProcess = broker_factory(start=False)
    monkeypatch.chdir(broker.directory)
    broker.data_directory = Path(broker.directory, "here")
    broker.properties["log.dirs"] = "here"
    broker.start()
    assert (broker.directory / "here" / "meta.properties").is_file()
