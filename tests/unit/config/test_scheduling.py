"""What excludes scheduled delivery: at a topic, and by what it inherits."""

from __future__ import annotations

import pytest

from config.errors import InvalidConfig
from config.overrides import checked_topic_configs
from config.resolve import ConfigSource, Resolver
from config.scheduling import check_inheritors, is_scheduled
from config.sources import SourcedValue
from config.views import log_config

EMPTY = Resolver({})
SCHEDULED = {"delivery.mode": "scheduled"}
COMPACTED = Resolver({"log.cleanup.policy": SourcedValue("compact", "test")})
STAMPED = Resolver({"log.message.timestamp.type": SourcedValue("LogAppendTime", "test")})


def refusal_of(overrides, resolver=EMPTY):
    with pytest.raises(InvalidConfig) as refusal:
        checked_topic_configs({**SCHEDULED, **overrides}, resolver)
    return refusal.value.message


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"cleanup.policy": ""},
        {"message.timestamp.type": "CreateTime"},
        {"delivery.max.delay.ms": "-1"},
        {"delivery.max.delay.ms": "0", "delivery.schedule.monotonic": "TRUE"},
    ],
)
def test_topics_whose_records_may_be_scheduled(overrides):
    assert checked_topic_configs({**SCHEDULED, **overrides}, EMPTY)["delivery.mode"] == "scheduled"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"cleanup.policy": "compact,delete"},
            "delivery.mode=scheduled is unsupported for compacted topics, cleanup.policy=compact,delete: "
            "compaction could remove a record before it is delivered",
        ),
        (
            {"message.timestamp.type": "LogAppendTime"},
            "delivery.mode=scheduled is unsupported with message.timestamp.type=LogAppendTime: "
            "the time of the append would replace the one at which a record is to be delivered",
        ),
        (
            {"delivery.max.delay.ms": "-2"},
            "Invalid value -2 for configuration delivery.max.delay.ms: Value must be at least -1",
        ),
        (
            {"delivery.max.delay.ms": "soon"},
            "Invalid value soon for configuration delivery.max.delay.ms: Not a number of type LONG",
        ),
        (
            {"delivery.mode": "later"},
            "Invalid value later for configuration delivery.mode: String must be one of: immediate, scheduled",
        ),
        (
            {"delivery.schedule.monotonic": "yes"},
            "Invalid value yes for configuration delivery.schedule.monotonic: "
            "Expected value to be either true or false",
        ),
    ],
)
def test_topics_whose_records_may_not(overrides, message):
    assert refusal_of(overrides) == message


def test_the_other_keys_are_checked_while_records_are_visible_at_once():
    with pytest.raises(InvalidConfig, match="at least -1"):
        checked_topic_configs({"delivery.max.delay.ms": "-2"}, EMPTY)


def test_what_is_stored_and_means_nothing_counts_as_the_default():
    stored = {"delivery.mode": "later", "delivery.max.delay.ms": "soon", "delivery.schedule.monotonic": "yes"}
    config = log_config(EMPTY, stored)
    assert not config.is_scheduled and not is_scheduled(stored)
    assert (config.delivery_max_delay_ms, config.delivery_schedule_monotonic) == (7 * 86_400_000, False)


def test_room_around_a_stored_mode_does_not_count():
    stored = {"delivery.mode": " scheduled "}
    assert log_config(EMPTY, stored).is_scheduled and is_scheduled(stored)


@pytest.mark.parametrize(
    ("resolver", "reason", "way_out"),
    [
        (COMPACTED, "compacted topics", {"cleanup.policy": "delete"}),
        (STAMPED, "LogAppendTime", {"message.timestamp.type": "CreateTime"}),
    ],
)
def test_scheduling_is_judged_with_what_is_inherited(resolver, reason, way_out):
    assert reason in refusal_of({}, resolver)
    allowed = {**SCHEDULED, **way_out}
    assert checked_topic_configs(allowed, resolver) == allowed
    assert checked_topic_configs({"delivery.mode": "immediate"}, resolver) == {"delivery.mode": "immediate"}


def test_a_broker_s_change_is_held_against_the_scheduled_topics_that_would_inherit_it():
    proposed = EMPTY.with_layers({ConfigSource.DYNAMIC_BROKER: {"log.cleanup.policy": "compact"}})
    spared = [("immediate", {}), ("own-policy", {**SCHEDULED, "cleanup.policy": "delete"})]
    check_inheritors(spared, EMPTY, proposed)
    with pytest.raises(InvalidConfig) as refusal:
        check_inheritors([*spared, ("heir", SCHEDULED)], EMPTY, proposed)
    assert refusal.value.message.startswith("Topic heir would inherit this: delivery.mode=scheduled is unsupported")


def test_what_excludes_a_topic_already_hinders_no_other_change():
    check_inheritors([("heir", SCHEDULED)], COMPACTED, COMPACTED)
