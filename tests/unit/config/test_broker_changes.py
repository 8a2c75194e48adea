"""Dynamic values of brokers: which may be set at which level, and which stored ones count."""

from __future__ import annotations

import logging

import pytest

from config.broker_changes import checked_broker_configs, usable_layer
from config.errors import InvalidConfig
from config.resolve import Resolver
from config.sources import SourcedValue

STATIC = Resolver({})


def refusal_of(values, *, is_default=False, current=STATIC):
    with pytest.raises(InvalidConfig) as refusal:
        checked_broker_configs(values, current, is_default=is_default)
    return refusal.value.message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"log.retention.hours": "5"}, "Cannot update these configs dynamically: [log.retention.hours]"),
        (
            {"message.max.bytes": "1", "log.roll.hours": "1", "num.partitions": "1"},
            "Cannot update these configs dynamically: [log.roll.hours, num.partitions]",
        ),
        (
            {"ssl.keystore.password": "secret"},
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.password]",
        ),
        (
            {"log.retention.ms": "abc"},
            "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            {"log.segment.bytes": "100"},
            "Invalid value 100 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        ({"log.roll.ms": "0"}, "Invalid value 0 for configuration log.roll.ms: Value must be at least 1"),
        (
            {"compression.type": "none"},
            "Invalid value none for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            {"num.io.threads": "100"},
            "Dynamic thread count update validation failed for num.io.threads=100, "
            "value should not be greater than double the current value 8",
        ),
        (
            {"num.io.threads": "3"},
            "Dynamic thread count update validation failed for num.io.threads=3, "
            "value should be at least half the current value 8",
        ),
        (
            {"log.local.retention.ms": "604800001"},
            "Invalid value 604800001 for configuration log.local.retention.ms: "
            "Value must not be more than log.retention.ms property value: 604800000",
        ),
        ({"listener.name.plaintext.ssl.client.auth": "maybe"}, None),
        (
            {"group.consumer.assignment.interval.ms": "15001"},
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        ({"log.retention.ms": "0"}, None),
        ({"log.flush.interval.ms": "-1"}, None),
        ({"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"}, None),
        ({"log.cleaner.dedupe.buffer.size": "100"}, None),
        ({"log.cleaner.threads": "0"}, None),
        ({"listeners": "PLAINTEXT://127.0.0.1:1"}, None),
        ({"any.key": "x" * 32_768}, None),
    ],
)
def test_values_that_no_running_broker_takes(values, message):
    assert message in (None, refusal_of(values))


@pytest.mark.parametrize("name", ["listeners", "sasl.enabled.mechanisms", "listener.name.plaintext.ssl.keystore.type"])
def test_keys_of_one_broker_are_no_default_of_all(name):
    text = "PLAINTEXT://:9092" if name == "listeners" else "x"
    assert refusal_of({name: text}, is_default=True) == (
        f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]"
    )
    assert checked_broker_configs({name: text}, STATIC, is_default=False) == {name: text}


def test_limits_of_a_listener_may_be_a_default_of_all():
    values = {"listener.name.plaintext.max.connections": "5"}
    assert checked_broker_configs(values, STATIC, is_default=True) == values


def test_accepted_values_are_stored_in_canonical_form_and_unknown_keys_as_they_are():
    values = {"log.preallocate": " TRUE ", "log.cleanup.policy": " compact , delete", "my.plugin.key": " v "}
    expected = {"log.preallocate": "true", "log.cleanup.policy": "compact,delete", "my.plugin.key": " v "}
    assert checked_broker_configs(values, STATIC, is_default=False) == expected
    assert checked_broker_configs({}, STATIC, is_default=True) == {}


def test_a_change_is_judged_together_with_the_other_level():
    lag = "log.cleaner.{}.compaction.lag.ms".format
    current = Resolver({}, dynamic_broker={lag("max"): "10"})
    assert checked_broker_configs({lag("min"): "10"}, current, is_default=True)
    assert "must not be greater" in refusal_of({lag("min"): "11"}, is_default=True, current=current)
    # The layer is replaced, so its own bound is gone.
    assert checked_broker_configs({lag("min"): "11"}, current, is_default=False)


def test_assignment_intervals_change_within_bounds_that_do_not():
    interval = "group.{}.{}assignment.interval.ms".format
    for kind in ("consumer", "share", "streams"):
        current = Resolver({interval(kind, "min."): SourcedValue("1000", "test")})
        assert checked_broker_configs({interval(kind, ""): "15000"}, current, is_default=True)
        assert "greater than or equal" in refusal_of({interval(kind, ""): "999"}, is_default=True, current=current)
        assert "Cannot update" in refusal_of({interval(kind, "min."): "0"}, is_default=True, current=current)


def test_thread_counts_move_from_what_is_in_force():
    current = Resolver({"num.io.threads": SourcedValue("4", "test")}, dynamic_default={"num.io.threads": "6"})
    assert checked_broker_configs({"num.io.threads": "12"}, current, is_default=False)
    assert "double the current value 6" in refusal_of({"num.io.threads": "13"}, current=current)


def test_a_secret_is_not_repeated_in_its_refusal():
    # Passwords take any text today; the one that is refused is too long.
    message = refusal_of({"listener.name.a.ssl.key.password": "s3cret" * 6000})
    assert "s3cret" not in message


def test_stored_values_that_count_no_more_are_left_out_with_a_warning(caplog):
    stored = {
        "log.retention.ms": "abc",
        "log.retention.hours": "1",
        "ssl.key.password": "secret",
        "log.segment.bytes": "2097152",
        "listeners": "PLAINTEXT://:1",
        "unknown.key": "x",
    }
    with caplog.at_level(logging.WARNING):
        assert usable_layer(stored, is_default=True) == {"log.segment.bytes": "2097152", "unknown.key": "x"}
    assert len(caplog.records) == 4 and "secret" not in caplog.text
    assert set(usable_layer(stored, is_default=False)) == {"log.segment.bytes", "unknown.key", "listeners"}
