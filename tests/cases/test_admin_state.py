"""What administrators have set is there after a kill: configs, credentials, rules, quotas, features."""

from __future__ import annotations

from typing import Any

from tests.harness.admin import SET, change_configs, described
from tests.harness.broker import BrokerFactory
from tests.harness.raw import RawClient, eventually

CLIENT_METRICS, GROUP = 16, 32
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def set_everything(client: RawClient) -> None:
    interval, timeout = ("interval.ms", SET, "7000"), ("consumer.session.timeout.ms", SET, "50000")
    assert change_configs(client, "metrics", [interval], kind=CLIENT_METRICS).error_code == 0
    assert change_configs(client, "group", [timeout], kind=GROUP).error_code == 0
    upsertion = {"name": "alice", "mechanism": 2, "iterations": 8192, "salt": b"salt", "salted_password": b"p" * 64}
    altered = client.request("alter_user_scram_credentials", 0, deletions=[], upsertions=[upsertion])
    assert [row.error_code for row in altered.results] == [0]
    rule = {
        **{"resource_type": 2, "resource_name": "t", "resource_pattern_type": 4, "principal": "User:bob"},
        **{"host": "*", "operation": 3, "permission_type": 3},
    }
    created = client.request("create_acls", 3, creations=[rule, rule])
    assert [row.error_code for row in created.results] == [0, 0]
    entity = [{"entity_type": "user", "entity_name": None}]
    quota = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1024.0, "remove": False}]}
    changed = client.request("alter_client_quotas", 1, entries=[quota], validate_only=False)
    assert [row.error_code for row in changed.entries] == [0]
    level = {"feature": "metadata.version", "max_version_level": 30, "upgrade_type": 1}
    updated = client.request("update_features", 2, timeout_ms=15000, feature_updates=[level], validate_only=False)
    assert updated.error_code == 0, updated


def shown(client: RawClient) -> dict[str, Any]:
    users = client.request("describe_user_scram_credentials", 0, users=None).results
    every = {
        **{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1},
        **{"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1},
    }
    rules = client.request("describe_acls", 3, **every).resources
    quotas = client.request("describe_client_quotas", 1, components=[], strict=False).entries
    versions = client.request("api_versions", 4, client_software_name="test", client_software_version="1")
    levels = {one.name: one.max_version_level for one in versions.finalized_features}
    return {
        "metrics": described(client, "metrics", "interval.ms", kind=CLIENT_METRICS),
        "group": described(client, "group", "consumer.session.timeout.ms", kind=GROUP),
        "users": [(u.user, [(one.mechanism, one.iterations) for one in u.credential_infos]) for u in users],
        "rules": [(r.resource_name, r.pattern_type, [one.principal for one in r.acls]) for r in rules],
        "quotas": [([p.entity_name for p in q.entity], [(v.key, v.value) for v in q.values]) for q in quotas],
        "level": levels["metadata.version"],
    }


EXPECTED = {
    "metrics": {"interval.ms": ("7000", 7)},
    "group": {"consumer.session.timeout.ms": ("50000", 8)},
    "users": [("alice", [(2, 8192)])],
    "rules": [("t", 4, ["User:bob"])],
    "quotas": [([None], [("producer_byte_rate", 1024.0)])],
    "level": 30,
}


def test_what_was_set_is_there_after_a_kill(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(AUTHORIZER)
    with RawClient((broker.host, broker.port)) as client:
        set_everything(client)
        eventually(lambda: shown(client) == EXPECTED, what="all is described")
    broker.kill()
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        eventually(lambda: shown(client) == EXPECTED, what="all is described after the kill")
