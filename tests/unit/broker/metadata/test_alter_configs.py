"""Alterations planned on an image, and what is in force under one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller import configs
from broker.metadata.controller.configs import ConfigChange, ResourceChange, plan_alter_configs
from broker.metadata.controller.topics import NewTopic
from broker.metadata.errors import (
    InvalidConfiguration,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from broker.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    TopicImage,
)
from broker.metadata.live_config import LiveConfig
from broker.metadata.snapshot import SnapshotId, decode_snapshot, encode_snapshot, image_records
from config.operations import Operation
from config.resolve import ConfigSource, Resolver
from config.sources import SourcedValue
from config.views import LogConfig
from protocol.stored.cluster import ConfigRecord
from storage.errors import StorageFailure
from tests.unit.broker.conftest import Node

NODE_ID = 1
T, U = (TOPIC_RESOURCE, "t"), (TOPIC_RESOURCE, "u")
BROKER, DEFAULTS = (BROKER_RESOURCE, "1"), (BROKER_RESOURCE, "")
SET, DELETE, APPEND, SUBTRACT = Operation


def image_with(**topics: dict[str, str]) -> ClusterImage:
    images = {name: TopicImage(name, name.encode() * 16, ()) for name in ("t", "u")}
    given = {(TOPIC_RESOURCE, name): values for name, values in topics.items()}
    return ClusterImage(
        "c", topics_by_name=images, topics_by_id={one.topic_id: one for one in images.values()}, configs=given
    )


def live() -> LiveConfig:
    return LiveConfig(Resolver({"log.retention.hours": SourcedValue("2", "test")}), NODE_ID)


def change(resource: tuple[int, str], *changes: tuple[str, str | None] | tuple[str, str | None, int]) -> ResourceChange:
    return ResourceChange(resource, tuple(ConfigChange(*one) for one in changes))


def replace_by(resource: tuple[int, str], *changes: tuple[str, str | None]) -> ResourceChange:
    return change(resource, *changes)._replace(replaces_all=True)


def planned(image: ClusterImage, entries: Sequence[ResourceChange]) -> tuple[ClusterImage, list[Exception | None]]:
    plan = plan_alter_configs(image, entries, live().resolver(image), NODE_ID)
    draft = MetadataDraft(image)
    for offset, record in enumerate(plan.records, image.end_offset):
        draft.replay(record, offset)
    after, delta = draft.finish(end_offset=image.end_offset + len(plan.records), epoch=1, timestamp_ms=0)
    assert delta.changed_configs == {(r.resource_type, r.resource_name) for r in plan.records}  # type: ignore[attr-defined]
    assert [result.resource for result in plan.result] == [entry.resource for entry in entries]
    return after, [result.error for result in plan.result]


def refusal(entry: ResourceChange, image: ClusterImage | None = None) -> Exception | None:
    image = image or image_with()
    after, errors = planned(image, [entry])
    assert errors[0] is None or after.configs == image.configs
    return errors[0]


def test_single_keys_are_set_and_deleted_and_lists_changed() -> None:
    image = image_with(t={"retention.ms": "1", "flush.ms": "2"})
    entry = change(
        T,
        ("retention.ms", " 7 "),
        ("flush.ms", None, DELETE),
        ("segment.ms", "x", DELETE),
        ("cleanup.policy", "compact", APPEND),
    )
    after, errors = planned(image, [entry])
    assert errors == [None]
    assert after.topic_config("t") == {"retention.ms": "7", "cleanup.policy": "delete,compact"}


def test_the_older_request_replaces_everything() -> None:
    image = image_with(t={"compression.type": "gzip", "flush.ms": "100"}, u={"flush.ms": "3"})
    after, _ = planned(image, [replace_by(T, ("compression.type", "gzip"))])
    assert after.configs == {T: {"compression.type": "gzip"}, U: {"flush.ms": "3"}}
    after, _ = planned(after, [replace_by(U)])
    assert after.configs == {T: {"compression.type": "gzip"}}


def test_a_value_equal_to_the_default_is_stored_and_one_that_is_there_already_is_not_written_again() -> None:
    after, _ = planned(image_with(), [change(T, ("cleanup.policy", "delete"))])
    assert after.topic_config("t") == {"cleanup.policy": "delete"}
    plan = plan_alter_configs(after, [change(T, ("cleanup.policy", "delete"))], live().resolver(after), NODE_ID)
    assert plan.records == []


def test_a_resource_changes_wholly_or_not_at_all_and_spares_its_neighbours() -> None:
    entries = [
        change(T, ("retention.ms", "1"), ("segment.ms", "0")),
        change(U, ("retention.ms", "5")),
        change((TOPIC_RESOURCE, "no"), ("retention.ms", "5")),
        change(BROKER, ("log.retention.ms", "9")),
    ]
    after, errors = planned(image_with(), entries)
    assert [type(error) for error in errors] == [
        InvalidConfiguration,
        type(None),
        UnknownTopicOrPartition,
        type(None),
    ]
    assert after.configs == {U: {"retention.ms": "5"}, BROKER: {"log.retention.ms": "9"}}


def test_a_resource_that_stands_twice_is_refused_both_times() -> None:
    entries = [change(T, ("retention.ms", "1")), change(U, ("retention.ms", "1")), change(T, ("retention.ms", "1"))]
    after, errors = planned(image_with(), entries)
    assert [type(error) for error in errors] == [InvalidRequest, type(None), InvalidRequest]
    assert str(errors[0]) == "Each resource must appear at most once."
    assert after.configs == {U: {"retention.ms": "1"}}


@pytest.mark.parametrize(
    ("entry", "kind", "message"),
    [
        (change(T, ("retention.ms", "1"), ("retention.ms", None, DELETE)), InvalidRequest, "duplicate config keys"),
        (
            change(T, ("retention.ms", None), ("segment.ms", None), ("flush.ms", None, DELETE)),
            InvalidRequest,
            "Null value not supported for : retention.ms, segment.ms",
        ),
        (replace_by(T, ("retention.ms", None)), InvalidRequest, "Null value not supported for : retention.ms"),
        (change(T, ("retention.ms", "1", 9)), InvalidRequest, "Unknown operations type 9"),
        (change(BROKER, ("log.retention.ms", "1", -1)), InvalidRequest, "Unknown operations type -1"),
        (change((99, "t"), ("retention.ms", "1")), InvalidRequest, "Unknown resource type 99"),
        (change((0, "t")), InvalidRequest, "Unknown resource type 0"),
        (change((TOPIC_RESOURCE, "")), InvalidRequest, "Default topic resources are not allowed."),
        (change((TOPIC_RESOURCE, "a b")), InvalidTopic, "a b"),
        (change((TOPIC_RESOURCE, "no")), UnknownTopicOrPartition, "The topic 'no' does not exist."),
        (change((TOPIC_RESOURCE, "no"), ("segment.ms", "0")), InvalidConfiguration, "at least 1"),
        (change(T, ("no.such", "1")), InvalidConfiguration, "Unknown topic config name: no.such"),
        (
            change(T, ("retention.ms", "1", APPEND)),
            InvalidConfiguration,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            change(T, ("no.such", "1", SUBTRACT)),
            InvalidConfiguration,
            "Can't SUBTRACT to key no.such because its type is not LIST.",
        ),
        (change(T, ("cleanup.policy", "foo", APPEND)), InvalidConfiguration, "String must be one of: compact, delete"),
        (
            change(BROKER, ("log.segment.bytes", "1", APPEND)),
            InvalidConfiguration,
            "Config value append is not allowed for config key: log.segment.bytes",
        ),
        (
            change(BROKER, ("log.dirs", "/x", APPEND)),
            InvalidRequest,
            "Cannot update these configs dynamically: [log.dirs]",
        ),
        (change(BROKER, ("log.retention.ms", "x")), InvalidRequest, "Not a number of type LONG"),
        (change((BROKER_RESOURCE, "7")), InvalidRequest, "Unexpected broker id, expected 1, but received 7"),
        (change((BROKER_RESOURCE, "x")), InvalidRequest, "Node id must be an integer, but it is: x"),
        (change(DEFAULTS, ("sasl.enabled.mechanisms", "PLAIN")), InvalidRequest, "at default cluster level"),
    ],
)
def test_refused_alterations(entry: ResourceChange, kind: type[Exception], message: str) -> None:
    error = refusal(entry)
    assert type(error) is kind
    assert message in str(error)


def test_deleting_what_is_not_there_is_no_fault() -> None:
    assert refusal(change(T, ("no.such", None, DELETE))) is None
    assert refusal(change(BROKER, ("log.retention.hours", None, DELETE))) is None


def test_compaction_lags_are_compared_as_they_would_be_in_force() -> None:
    image, _ = planned(image_with(), [change(DEFAULTS, ("log.cleaner.max.compaction.lag.ms", "10"))])
    error = refusal(change(T, ("min.compaction.lag.ms", "11")), image)
    assert str(error) == ("conflict topic config setting min.compaction.lag.ms (11) > max.compaction.lag.ms (10)")
    assert refusal(change(T, ("min.compaction.lag.ms", "11"), ("max.compaction.lag.ms", "11")), image) is None


def test_stored_broker_values_that_count_no_more_hinder_no_change_and_stay_until_they_are_named() -> None:
    stored = {"num.partitions": "3", "log.segment.bytes": "x", "log.roll.ms": "5"}
    image = ClusterImage("c", configs={BROKER: stored})
    after, errors = planned(image, [change(BROKER, ("log.retention.ms", "9"), ("log.segment.bytes", None, DELETE))])
    assert errors == [None]
    assert after.configs[BROKER] == {"num.partitions": "3", "log.roll.ms": "5", "log.retention.ms": "9"}
    after, errors = planned(image, [replace_by(BROKER, ("log.retention.ms", "9"))])
    assert (after.configs[BROKER], errors) == ({"log.retention.ms": "9"}, [None])


def test_a_command_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "MAX_RECORDS_PER_COMMAND", 2)
    assert refusal(change(T, ("retention.ms", "1"), ("flush.ms", "1"))) is None
    with pytest.raises(PolicyViolation):
        refusal(change(T, ("retention.ms", "1"), ("flush.ms", "1"), ("segment.ms", "1")))


def test_records_survive_a_snapshot() -> None:
    entries = [change(T, ("flush.ms", "1")), change(BROKER, ("log.retention.ms", "2")), change(DEFAULTS, ("x.y", "z"))]
    image, _ = planned(image_with(), entries)
    data = encode_snapshot(image_records(image), level=29, epoch=1, last_timestamp_ms=0, now_ms=0)
    again, _ = decode_snapshot(data, SnapshotId(9, 1), "c")
    assert again.configs == image.configs
    assert all(type(record) is not ConfigRecord or record.value for record in image_records(image))


# What is in force.


def test_layers_of_an_image_lie_above_the_static_configuration() -> None:
    config = live()
    image = image_with(u={"retention.ms": "5"})
    assert config.log_config("t", image).retention_ms == 7_200_000
    image, _ = planned(image, [change(DEFAULTS, ("log.retention.ms", "3"), ("log.segment.bytes", "2097152"))])
    assert config.log_config("t", image).retention_ms == 3
    image, _ = planned(image, [change(BROKER, ("log.retention.ms", "4"))])
    assert config.log_config("t", image).retention_ms == 4
    assert config.log_config("t", image).segment_bytes == 2_097_152
    assert config.log_config("u", image).retention_ms == 5
    effective = config.resolver(image).effective("retention.ms", image.topic_config("u"))
    assert [(link.name, link.text, link.source) for link in effective.synonyms] == [
        ("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "4", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    image, _ = planned(image, [replace_by(BROKER), replace_by(DEFAULTS)])
    assert config.log_config("t", image).retention_ms == 7_200_000


def test_values_of_other_brokers_do_not_count_here() -> None:
    image = image_with()
    other = ClusterImage("c", configs={(BROKER_RESOURCE, "2"): {"log.retention.ms": "4"}})
    assert live().log_config("t", other) == live().log_config("t", image)


def test_logs_without_overrides_share_their_settings() -> None:
    config, image = live(), image_with(u={"retention.ms": "5"})
    assert config.log_config("t", image) is config.log_config("v", image)
    plain = config.log_config("t", image)
    # A change that no log heeds gives no new value either.
    image, _ = planned(image, [change(BROKER, ("num.io.threads", "9"))])
    assert config.log_config("t", image) is plain


def test_stored_values_that_cannot_be_read_yield_to_what_is_below(caplog: pytest.LogCaptureFixture) -> None:
    stored = {BROKER: {"log.retention.ms": "soon"}, DEFAULTS: {"log.segment.bytes": "7"}, T: {"flush.ms": "later"}}
    image = ClusterImage("c", topics_by_name=image_with().topics_by_name, configs=stored)
    config = live().log_config("t", image)
    assert (config.retention_ms, config.segment_bytes) == (7_200_000, LogConfig().segment_bytes)
    assert config.flush_ms == LogConfig().flush_ms
    for text in ("soon", "7", "later"):
        assert text in caplog.text


# Through the controller.


async def test_what_was_altered_is_in_the_log_and_in_the_snapshot(node: Node) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic("t", 1, 1)])
    await controller.alter_configs([change(T, ("flush.ms", "1")), change(DEFAULTS, ("log.retention.ms", "9"))])
    assert controller.image.configs == {T: {"flush.ms": "1"}, DEFAULTS: {"log.retention.ms": "9"}}
    checked = await controller.alter_configs([change(T, ("flush.ms", "2"))], validate_only=True)
    assert checked[0].error is None
    await controller.close()
    controller = await node.start()
    assert controller.image.configs == {T: {"flush.ms": "1"}, DEFAULTS: {"log.retention.ms": "9"}}
    controller._log.snapshot(controller.image)
    await controller.alter_configs([change(T, ("flush.ms", None, DELETE))])
    await controller.close()
    controller = await node.start()
    assert controller.image.configs == {DEFAULTS: {"log.retention.ms": "9"}}
    await controller.close()


async def test_nothing_is_in_force_that_did_not_reach_the_disk(node: Node) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic("t", 1, 1)])

    async def fail(call: object) -> None:
        raise StorageFailure("no disk", str(node.log_path))

    node.flush = fail
    with pytest.raises(Exception, match="controller stopped"):
        await controller.alter_configs([change(T, ("flush.ms", "1"))])
    assert controller.image.configs == {}


GROUP, METRICS = (GROUP_RESOURCE, "g"), (CLIENT_METRICS_RESOURCE, "m")


def test_groups_and_subscriptions_have_configs_of_their_own() -> None:
    image, errors = planned(
        image_with(),
        [
            change(GROUP, ("consumer.session.timeout.ms", "50000")),
            change(METRICS, ("metrics", "a."), ("interval.ms", "100")),
        ],
    )
    assert errors == [None, None]
    assert image.configs[GROUP] == {"consumer.session.timeout.ms": "50000"}
    assert image.configs[METRICS] == {"metrics": "a.", "interval.ms": "100"}
    image, errors = planned(image, [replace_by(GROUP), change(METRICS, ("interval.ms", None, DELETE))])
    assert errors == [None, None]
    assert (GROUP in image.configs, image.configs[METRICS]) == (False, {"metrics": "a."})


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (change((GROUP_RESOURCE, ""), ("consumer.session.timeout.ms", "50000")), InvalidRequest),
        (change(GROUP, ("no.such.key", "1")), InvalidConfiguration),
        (change(GROUP, ("consumer.session.timeout.ms", "1")), InvalidConfiguration),
        (change(GROUP, ("consumer.session.timeout.ms", "1", APPEND)), InvalidConfiguration),
        (change((CLIENT_METRICS_RESOURCE, ""), ("interval.ms", "100")), InvalidRequest),
        (change(METRICS, ("no.such.key", "1")), InvalidRequest),
        (change(METRICS, ("interval.ms", "99")), InvalidRequest),
        (change(METRICS, ("interval.ms", "soon")), InvalidConfiguration),
        (change(METRICS, ("match", "color=red")), InvalidConfiguration),
        (change(METRICS, ("metrics", "a.", APPEND)), InvalidConfiguration),
    ],
)
def test_refused_configs_of_groups_and_subscriptions(entry: ResourceChange, error: type) -> None:
    image, errors = planned(image_with(), [entry])
    assert ([type(one) for one in errors], image.configs) == ([error], {})
