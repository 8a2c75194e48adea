"""Hundreds of admin requests, good and bad, are answered as Apache Kafka answers them, message by message.

What differs is listed here with its reason. The reference changes its metadata before every part of it has heard of it,
so what only looks at something is asked again until it has.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.conformance.admin.script import CHAPTERS
from tests.conformance.admin.step import Step
from tests.harness.broker import BrokerProcess
from tests.harness.pair import Pair
from tests.harness.raw import RawClient, eventually
from tests.harness.wire import Struct

pytestmark = pytest.mark.jvm

CATCH_UP_S = 3.0
LOOKS = ("describe_", "list_", "offset_fetch")

# Answered otherwise: chapter and step, and why.
DIFFERENT = {
    ("client metrics", "unknown operation"): "the reference fails, we say what is wrong with the request",
    ("features", "kraft version down, v1"): "our voters stand in the log, which is kraft.version 1",
    ("features", "kraft version down, v2"): "our voters stand in the log, which is kraft.version 1",
    ("what quotas may be", "not a number"): "a quota that is not a number limits nothing and nobody",
}

# Refused with the same code, in other words: the reference's are empty, of another version, or beside the point.
IN_OTHER_WORDS = {
    "configs of groups": ("offset reset unknown",),
    "other configs": (
        *("describe an unknown topic", "describe an illegal topic", "describe no topic"),
        *("describe kind 0", "describe kind 99"),
    ),
    "features": (
        *(f"metadata version as it is, v{version}" for version in (0, 1)),
        *("metadata version as it is, safe downgrade, v1", "kraft version as it is, v1", "a feature twice, v1"),
        *("metadata version down, safe, v1", "metadata version down, unsafe, v1"),
        *(f"group version too high, v{version}" for version in (1, 2)),
        # Level 30 is finished only in later releases of the reference, and its messages name the highest level.
        *(f"metadata version too high, v{version}" for version in (0, 1, 2)),
        *(f"metadata version {which}, v{version}" for which in ("below the lowest", "to 0") for version in (1, 2)),
    ),
    "quorum": (*(f"{what}, v2" for what in ("another partition", "another topic", "two partitions", "two topics")),),
    "what quotas may be": ("address and user", "a key twice", "set and remove"),
    "topics": (
        *("create an illegal name", "create no name", "create a dot", "create a long name", "create factor 2"),
        "more of an unknown topic",
    ),
}

# Where the numbers are each broker's own: what is left of them.
OWN_NUMBERS = {"leader_epoch", "high_watermark", "log_end_offset", "last_fetch_timestamp_ms", "last_fetch_timestamp"}
OWN_NUMBERS |= {"last_caught_up_timestamp_ms", "last_caught_up_timestamp", "subscription_id", "port"}
OWN_IDS = {"replica_directory_id", "topic_id"}


def test_there_are_enough_requests() -> None:
    assert sum(len(chapter()) for chapter in CHAPTERS.values()) >= 300


def test_every_difference_is_of_a_step() -> None:
    names = {(title, step.name) for title, chapter in CHAPTERS.items() for step in chapter()}
    in_other_words = {(title, name) for title, steps in IN_OTHER_WORDS.items() for name in steps}
    assert {*DIFFERENT, *in_other_words} <= names


@pytest.mark.parametrize("title", CHAPTERS)
def test_chapter(pair: Pair, unique: str, title: str) -> None:
    clients = [RawClient((broker.host, broker.port)) for broker in pair.brokers]
    for broker, client in zip(pair.brokers, clients, strict=True):
        _prepare(broker, client, unique)
    ours, kafka = clients
    differences = {}
    for step in CHAPTERS[title]():
        values = _filled(step.values, unique)
        wording = step.name not in IN_OTHER_WORDS.get(title, ())
        mine = _shown(ours.request(step.api, step.version, **values), unique, wording)
        theirs = _ask_until(mine, kafka, step, values, unique, wording)
        if (title, step.name) in DIFFERENT:
            assert mine != theirs, f"no difference any more: {step.name}"
        elif mine != theirs:
            differences[step.name] = (mine, theirs)
    for client in clients:
        client.close()
    assert not differences, "ours, Kafka's:\n" + "\n".join(f"{name}: {rows}" for name, rows in differences.items())


def _prepare(broker: BrokerProcess, client: RawClient, topic: str) -> None:
    """Make the topic, and the coordinator's own one, that groups be known."""
    client.create_topic(topic, 2)
    asked = {"key_type": 0, "coordinator_keys": [topic]}
    eventually(lambda: client.request("find_coordinator", 4, **asked).coordinators[0].error_code == 0)
    eventually(lambda: client.request("describe_groups", 5, groups=[topic]).groups[0].error_code == 0)
    assert broker.process is not None


def _ask_until(mine: Any, client: RawClient, step: Step, values: dict[str, Any], unique: str, wording: bool) -> Any:
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        theirs = _shown(client.request(step.api, step.version, **values), unique, wording)
        if theirs == mine or not step.api.startswith(LOOKS) or time.monotonic() > deadline:
            return theirs
        time.sleep(0.05)


def _filled(value: Any, unique: str) -> Any:
    if isinstance(value, str):
        return value.replace("{t}", unique)
    if isinstance(value, list):
        return [_filled(one, unique) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, unique) for key, one in value.items()}
    return value


def _shown(value: Any, unique: str, wording: bool) -> Any:
    """Describe an answer without what may differ: order, numbers and names of each broker's own, no message or none."""
    if isinstance(value, Struct):
        return {
            name: _field(name, one, unique, wording)
            for name, one in vars(value).items()
            if name not in ("seen_tags", "throttle_time_ms")
        }
    if isinstance(value, list | tuple):
        rows = [_shown(one, unique, wording) for one in value if not _is_of_others(one, unique)]
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    return value.hex() if isinstance(value, bytes) else value


def _field(name: str, value: Any, unique: str, wording: bool) -> Any:
    if name == "error_message":
        return (value or None) if wording else None
    if name in OWN_NUMBERS:
        return value > 0 if name != "subscription_id" else bool(value)
    if name == "client_instance_id":
        return value == bytes(16)
    return None if name in OWN_IDS else _shown(value, unique, wording)


def _is_of_others(row: Any, unique: str) -> bool:
    """Tell whether a row of a list of everything is about something that another test has made."""
    if not isinstance(row, Struct):
        return False
    name = getattr(row, "resource_name", getattr(row, "topic", None))
    kind = getattr(row, "resource_type", 16)
    return (
        isinstance(name, str)
        and unique not in name
        and kind in (2, 16, 32)
        and not name.startswith("a b")
        and bool(name)
    )
