"""ConfigCommand: every kind of entity, by name and as default; what is shown, added, taken away and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.tool_host import Tools

pytestmark = pytest.mark.jvm

CONFIGS = "kafka-configs"
BACKOFF = "log.cleaner.backoff.ms"
QUOTAS = {"producer_byte_rate": 1024.0, "consumer_byte_rate": 2048.0, "request_percentage": 50.0}
QUOTAS |= {"controller_mutation_rate": 2.0}


class Entity:
    """One entity, by the options that name it."""

    def __init__(self, tools: Tools, *named: str) -> None:
        self.tools = tools
        self.named = named

    def add(self, **values: object) -> str:
        pairs = ",".join(f"{key.replace('__', '.')}={value}" for key, value in values.items())
        return self.tools.run(CONFIGS, *self.named, "--alter", "--add-config", pairs)

    def delete(self, *keys: str) -> str:
        return self.tools.run(CONFIGS, *self.named, "--alter", "--delete-config", ",".join(keys))

    def shown(self, *options: str) -> dict[str, str]:
        """Give each key with what is said about it."""
        lines = self.tools.run(CONFIGS, *self.named, "--describe", *options).splitlines()
        return dict(line.strip().split("=", 1) for line in lines if line.startswith("  "))

    def refused(self, pair: str) -> str:
        return self.tools.refusal(CONFIGS, *self.named, "--alter", "--add-config", pair)


def test_topics(tools: Tools, unique: str, tmp_path: Path) -> None:
    tools.run("kafka-topics", "--create", "--topic", unique)
    topic = Entity(tools, "--entity-type", "topics", "--entity-name", unique)
    assert topic.shown() == {}
    assert topic.add(retention__ms=1_000_000, cleanup__policy="[compact,delete]").strip() == (
        f"Completed updating config for topic {unique}."
    )
    assert topic.shown() == {
        "cleanup.policy": "compact,delete sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "retention.ms": "1000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000000}",
    }
    everything = topic.shown("--all")
    assert everything["segment.bytes"] == (
        "1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}"
    )
    assert len(everything) > 25
    topic.delete("retention.ms", "cleanup.policy")
    assert topic.shown() == {}

    several = tmp_path / "add.properties"
    several.write_text("retention.ms=5000\nsegment.bytes=1048576\n")
    tools.run(CONFIGS, *topic.named, "--alter", "--add-config-file", str(several))
    assert topic.shown().keys() == {"retention.ms", "segment.bytes"}
    assert f"Dynamic configs for topic {unique} are:" in tools.run(CONFIGS, "--entity-type", "topics", "--describe")
    assert "Unknown topic config name: no.such.key" in topic.refused("no.such.key=1")
    assert "retention.ms" in topic.refused("retention.ms=-2")
    missing = tools.run(CONFIGS, "--topic", f"{unique}-missing", "--describe")
    assert f"The topic '{unique}-missing' doesn't exist and doesn't have dynamic config." in missing


def test_brokers_and_their_defaults(tools: Tools) -> None:
    broker, defaults = Entity(tools, "--broker", "1"), Entity(tools, "--broker-defaults")
    broker.add(log__cleaner__backoff__ms=20_000)
    defaults.add(log__cleaner__backoff__ms=30_000)
    try:
        assert broker.shown()[BACKOFF] == (
            f"20000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{BACKOFF}=20000, "
            f"DYNAMIC_DEFAULT_BROKER_CONFIG:{BACKOFF}=30000, DEFAULT_CONFIG:{BACKOFF}=15000}}"
        )
        assert defaults.shown()[BACKOFF] == (
            f"30000 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{BACKOFF}=30000}}"
        )
        listed = tools.run(CONFIGS, "--entity-type", "brokers", "--describe")
        assert "Dynamic configs for broker 1 are:" in listed
        assert "Default configs for brokers in the cluster are:" in listed
        broker.delete(BACKOFF)
        assert BACKOFF not in broker.shown() or broker.shown()[BACKOFF].startswith("30000 ")
        everything = broker.shown("--all")
        assert everything[BACKOFF].startswith("30000 ") and everything["node.id"].startswith("1 ")
    finally:
        defaults.delete(BACKOFF)
    assert BACKOFF not in defaults.shown()
    assert "Not a number of type LONG" in broker.refused(f"{BACKOFF}=soon")
    assert "Cannot update these configs dynamically: [node.id]" in broker.refused("node.id=7")
    assert "The broker '77' doesn't exist" in tools.run(CONFIGS, "--broker", "77", "--describe")


@pytest.mark.parametrize("kind", ["client", "user"])
def test_clients_and_users_and_their_defaults(tools: Tools, unique: str, kind: str) -> None:
    what = {"client": "client-id", "user": "user-principal"}[kind]
    one, defaults = Entity(tools, f"--{kind}", unique), Entity(tools, f"--{kind}-defaults")

    def described(*named: str) -> list[str]:
        return sorted(tools.run(CONFIGS, *named, "--describe").splitlines())

    one.add(**QUOTAS)
    [line] = described(*one.named)
    head, _, tail = line.partition(" are ")
    assert head == f"Quota configs for {what} '{unique}'"
    assert dict(pair.split("=") for pair in tail.split(", ")) == {key: str(value) for key, value in QUOTAS.items()}
    defaults.add(producer_byte_rate=99)
    by_default = f"Quota configs for the default {what} are producer_byte_rate=99.0"
    assert described(*defaults.named) == [by_default]
    assert {line, by_default} <= set(described("--entity-type", f"{kind}s"))
    defaults.delete("producer_byte_rate")
    one.delete(*QUOTAS)
    assert described(*defaults.named) == described(*one.named) == []
    assert "many" in one.refused("producer_byte_rate=many")
    assert "Unexpected config names: Set(no_such_rate)" in one.refused("no_such_rate=1")


def test_users_with_clients(tools: Tools, unique: str) -> None:
    both = Entity(tools, "--user", unique, "--client", f"{unique}-c")
    defaults = Entity(tools, "--user-defaults", "--client-defaults")
    both.add(producer_byte_rate=10)
    defaults.add(producer_byte_rate=11)
    of_both = f"Quota configs for user-principal '{unique}', client-id '{unique}-c' are producer_byte_rate=10.0"
    of_defaults = "Quota configs for the default user-principal, the default client-id are producer_byte_rate=11.0"
    try:
        kinds = ("--entity-type", "users", "--entity-type", "clients")
        assert {of_both, of_defaults} <= set(tools.run(CONFIGS, *kinds, "--describe").splitlines())
        of_user = ("--entity-type", "users", "--entity-name", unique, "--entity-type", "clients")
        assert tools.run(CONFIGS, *of_user, "--describe").splitlines() == [of_both]
    finally:
        defaults.delete("producer_byte_rate")
        both.delete("producer_byte_rate")
    assert tools.run(CONFIGS, *both.named, "--describe") == ""


def test_addresses_and_their_defaults(tools: Tools) -> None:
    one, defaults = Entity(tools, "--ip", "127.0.0.9"), Entity(tools, "--ip-defaults")
    one.add(connection_creation_rate=1007)
    defaults.add(connection_creation_rate=1008)
    try:
        assert set(tools.run(CONFIGS, "--entity-type", "ips", "--describe").splitlines()) >= {
            "Quota configs for ip '127.0.0.9' are connection_creation_rate=1007.0",
            "Quota configs for the default ip are connection_creation_rate=1008.0",
        }
    finally:
        one.delete("connection_creation_rate")
        defaults.delete("connection_creation_rate")
    assert tools.run(CONFIGS, *one.named, "--describe") == tools.run(CONFIGS, *defaults.named, "--describe") == ""
    wrong = Entity(tools, "--ip", "no address")
    assert "must be a valid IP or resolvable host" in wrong.refused("connection_creation_rate=7")


def test_groups(tools: Tools, unique: str) -> None:
    group = Entity(tools, "--group", unique)
    group.add(consumer__session__timeout__ms=50_000, share__isolation__level="read_committed")
    timeout, level = "consumer.session.timeout.ms", "share.isolation.level"
    own = {
        timeout: f"50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{timeout}=50000, "
        f"DEFAULT_CONFIG:group.{timeout}=45000}}",
        level: f"read_committed sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{level}=read_committed, "
        f"DEFAULT_CONFIG:{level}=read_uncommitted}}",
    }
    assert group.shown() == own
    everything = group.shown("--all")
    assert len(everything) == 17 and own.items() <= everything.items()
    assert everything["streams.num.standby.replicas"] == (
        "0 sensitive=false synonyms={DEFAULT_CONFIG:group.streams.num.standby.replicas=0}"
    )
    assert f"Dynamic configs for group {unique} are:" in tools.run(CONFIGS, "--entity-type", "groups", "--describe")
    group.delete(timeout, level)
    assert group.shown() == {}
    assert "must be less than or equal to group.consumer.max.session" in group.refused(f"{timeout}=60001")


def test_client_metrics(tools: Tools, unique: str) -> None:
    metrics = Entity(tools, "--client-metrics", unique)
    metrics.add(interval__ms=7000, metrics="[a.,b.]", match="[client_id=x]")
    described = metrics.shown()
    assert described["metrics"] == "a.,b. sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:metrics=a.,b.}"
    assert {key: text.split()[0] for key, text in described.items()} == {
        "interval.ms": "7000",
        "match": "client_id=x",
        "metrics": "a.,b.",
    }
    assert f"client-metric {unique} are:" in tools.run(CONFIGS, "--entity-type", "client-metrics", "--describe")
    metrics.delete("interval.ms", "metrics", "match")
    assert unique not in tools.run(CONFIGS, "--entity-type", "client-metrics", "--describe")
    assert "Illegal client matching pattern" in metrics.refused("match=[colour=red]")


def test_loggers(tools: Tools) -> None:
    loggers = Entity(tools, "--broker-logger", "1")
    before = loggers.shown()["root"].split()[0]
    loggers.add(root="WARN")
    try:
        assert loggers.shown()["root"] == "WARN sensitive=false synonyms={}"
        # The tool looks up what it deletes among those that exist, and asks the broker no further.
        assert "Invalid broker logger(s): no.such" in loggers.refused("no.such=DEBUG")
        assert "Valid log levels are" in loggers.refused("root=LOUD")
        gone = tools.refusal(CONFIGS, *loggers.named, "--alter", "--delete-config", "root")
        assert "Removing the log level of the root logger is not allowed" in gone
    finally:
        loggers.add(root=before)
    assert loggers.shown()["root"].split()[0] == before
