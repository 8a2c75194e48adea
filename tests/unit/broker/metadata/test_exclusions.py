"""Scheduled delivery and what excludes it, whichever comes second, by either request and within one."""

from __future__ import annotations

import pytest

from broker.metadata.errors import InvalidConfiguration
from tests.unit.broker.metadata.test_alter_configs import (
    BROKER,
    DEFAULTS,
    DELETE,
    SET,
    T,
    U,
    change,
    image_with,
    planned,
    refusal,
    replace_by,
)

MODE = ("delivery.mode", "scheduled")
SCHEDULED = dict([MODE])
EXCLUDING = [
    ("log.cleanup.policy", "cleanup.policy", "compact", "delete"),
    ("log.message.timestamp.type", "message.timestamp.type", "LogAppendTime", "CreateTime"),
]

either_request = pytest.mark.parametrize("altered", [change, replace_by])
both_keys = pytest.mark.parametrize(("broker_key", "topic_key", "bad", "good"), EXCLUDING)
both_levels = pytest.mark.parametrize("broker", [BROKER, DEFAULTS])


@either_request
@both_keys
def test_a_topic_is_refused_from_both_sides(altered, broker_key, topic_key, bad, good) -> None:
    assert isinstance(refusal(altered(T, MODE, (topic_key, bad))), InvalidConfiguration)
    scheduled, excluding = image_with(t=SCHEDULED), image_with(t={topic_key: bad})
    assert isinstance(refusal(change(T, (topic_key, bad)), scheduled), InvalidConfiguration)
    assert isinstance(refusal(change(T, MODE), excluding), InvalidConfiguration)
    assert refusal(altered(T, MODE, (topic_key, good)), excluding) is None


@either_request
@both_keys
@both_levels
def test_a_broker_s_value_is_refused_while_a_scheduled_topic_inherits_it(
    altered, broker, broker_key, topic_key, bad, good
) -> None:
    refused = refusal(altered(broker, (broker_key, bad)), image_with(t=SCHEDULED))
    assert isinstance(refused, InvalidConfiguration)
    assert str(refused).startswith("Topic t would inherit this: delivery.mode=scheduled is unsupported")
    for spared in (
        image_with(),
        image_with(t={"delivery.mode": "immediate"}),
        image_with(t={**SCHEDULED, topic_key: good}),
    ):
        assert refusal(altered(broker, (broker_key, bad)), spared) is None


@both_keys
@both_levels
def test_a_topic_is_judged_by_the_broker_s_value(broker, broker_key, topic_key, bad, good) -> None:
    image, _ = planned(image_with(), [change(broker, (broker_key, bad))])
    assert isinstance(refusal(change(T, MODE), image), InvalidConfiguration)
    image, errors = planned(image, [change(T, MODE, (topic_key, good))])
    assert errors == [None]
    assert isinstance(refusal(change(T, (topic_key, None, DELETE)), image), InvalidConfiguration)
    assert isinstance(refusal(replace_by(T, MODE), image), InvalidConfiguration)


@both_keys
def test_what_goes_away_is_judged_by_what_it_covered(broker_key, topic_key, bad, good) -> None:
    """The broker's own value hides a default of all brokers that excludes scheduling."""
    image, errors = planned(
        image_with(t=SCHEDULED), [change(BROKER, (broker_key, good)), change(DEFAULTS, (broker_key, bad))]
    )
    assert errors == [None, None]
    assert isinstance(refusal(change(BROKER, (broker_key, None, DELETE)), image), InvalidConfiguration)
    assert isinstance(refusal(replace_by(BROKER), image), InvalidConfiguration)
    assert refusal(change(DEFAULTS, (broker_key, None, DELETE)), image) is None


@both_keys
def test_entries_of_one_request_are_judged_one_above_the_other(broker_key, topic_key, bad, good) -> None:
    topic, broker = change(T, MODE), change(BROKER, (broker_key, bad))
    for first, second in ((topic, broker), (broker, topic)):
        after, (accepted, refused) = planned(image_with(), [first, second])
        assert accepted is None and isinstance(refused, InvalidConfiguration)
        assert set(after.configs) == {first.resource}
    _, errors = planned(image_with(t=SCHEDULED), [replace_by(T), broker, change(U, MODE, (topic_key, good, SET))])
    assert errors == [None, None, None]


def test_a_conflict_that_is_there_hinders_no_other_change_of_the_broker() -> None:
    image = image_with(t={**SCHEDULED, "cleanup.policy": "compact"})
    assert refusal(change(BROKER, ("log.retention.ms", "1000")), image) is None
