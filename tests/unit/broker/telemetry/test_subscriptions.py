"""Who is to push what, and when a client comes too early, too late, or with something else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.telemetry import subscriptions as room
from broker.telemetry.subscriptions import Client, Instance, Refused, Subscriptions
from protocol.errors import ErrorCode
from protocol.uuids import ZERO_UUID, format_uuid

E = ErrorCode
CLIENT = Client("app-1", "apache-kafka-java", "4.3.1", "10.0.0.7", 40_000)
ID = b"c" * 16


class Rig:
    """Subscriptions by a clock of the test's own."""

    def __init__(self, *configs: Mapping[str, str]) -> None:
        self.now_ms = 0.0
        self.forgotten: list[str] = []
        self.all = Subscriptions(lambda: self.now_ms, lambda size: b"r" * size, self.forgotten.append)
        self.all.update(configs)

    def instance(self, instance_id: bytes = ID, client: Client = CLIENT) -> Instance:
        return self.all.instance(instance_id, client)

    def ask(self) -> ErrorCode:
        return _code(lambda: self.instance().ask(self.now_ms))

    def push(
        self, subscription_id: int | None = None, *, codec: int = 0, size: int = 10, terminating: bool = False
    ) -> ErrorCode:
        instance = self.instance()
        asked = instance.subscription_id if subscription_id is None else subscription_id
        return _code(lambda: instance.push(asked, codec, size, self.now_ms, max_bytes=100, terminating=terminating))


def _code(call: object) -> ErrorCode:
    try:
        call()  # type: ignore[operator]
    except Refused as refused:
        return refused.code
    return E.NONE


def test_without_a_subscription_nothing_is_wanted() -> None:
    instance = Rig().instance()
    assert (instance.metrics, instance.interval_ms) == ((), 300_000)


def test_all_subscriptions_that_match_count_together() -> None:
    rig = Rig(
        {"metrics": "a.,b.", "interval.ms": "5000", "match": "client_id=app-.*"},
        {"metrics": "b.,c.", "interval.ms": "9000"},
        {"metrics": "d.", "interval.ms": "100", "match": "client_id=app-.*,client_software_name=librdkafka"},
    )
    instance = rig.instance()
    assert (instance.metrics, instance.interval_ms) == (("a.", "b.", "c."), 5000)


def test_one_that_wants_everything_stands_for_all() -> None:
    assert Rig({"metrics": "a."}, {"metrics": "*"}).instance().metrics == ("*",)


@pytest.mark.parametrize(
    ("match", "hits"),
    [
        ("client_id=app-1", True),
        ("client_id=app", False),
        ("client_software_version=4\\.3.*", True),
        ("client_source_address=10.*,client_source_port=40000", True),
        ("client_source_port=9", False),
        (f"client_instance_id={format_uuid(ID)}", True),
    ],
)
def test_a_pattern_matches_the_whole_of_what_it_is_for(match: str, hits: bool) -> None:
    assert bool(Rig({"metrics": "a.", "match": match}).instance().metrics) is hits


def test_a_client_that_says_too_much_of_itself_matches_no_pattern() -> None:
    rig = Rig({"metrics": "a.", "match": "client_id=x*"})
    assert rig.instance(b"1" * 16, CLIENT._replace(client_id="x" * 1024)).metrics == ("a.",)
    assert rig.instance(b"2" * 16, CLIENT._replace(client_id="x" * 1025)).metrics == ()


def test_a_stored_pattern_that_cannot_be_read_leaves_the_other_subscriptions_in_force() -> None:
    rig = Rig({"metrics": "a.", "match": "client_id=(?=app).*"}, {"metrics": "b."})
    assert rig.instance().metrics == ("b.",)


def test_the_subscription_id_is_that_of_client_and_wishes() -> None:
    wishes = {"metrics": "a.", "interval.ms": "500"}
    first = Rig(wishes).instance().subscription_id
    assert first == Rig(wishes).instance().subscription_id
    assert first != Rig(wishes | {"interval.ms": "501"}).instance().subscription_id
    assert first != Rig(wishes).instance(b"d" * 16).subscription_id
    assert -(2**31) <= first < 2**31


def test_a_client_without_an_id_gets_one() -> None:
    assert Rig().instance(ZERO_UUID).instance_id not in room.RESERVED_IDS


def test_questions_and_pushes_keep_to_the_interval() -> None:
    rig = Rig({"interval.ms": "1000"})
    assert rig.ask() is E.NONE
    assert rig.ask() is E.THROTTLING_QUOTA_EXCEEDED
    rig.now_ms = 10
    assert rig.push() is E.NONE, "the first push may come at any time"
    assert rig.push() is E.THROTTLING_QUOTA_EXCEEDED
    rig.now_ms = 1009
    assert rig.push() is E.THROTTLING_QUOTA_EXCEEDED
    rig.now_ms = 1010
    assert rig.push() is E.NONE
    assert rig.ask() is E.THROTTLING_QUOTA_EXCEEDED


def test_a_changed_subscription_is_told_at_once() -> None:
    rig = Rig({"interval.ms": "1000", "metrics": "a."})
    assert rig.ask() is E.NONE
    old = rig.instance().subscription_id
    rig.all.update([{"interval.ms": "1000", "metrics": "b."}])
    assert rig.push(old) is E.UNKNOWN_SUBSCRIPTION_ID
    assert rig.ask() is E.NONE
    assert rig.instance().metrics == ("b.",)


@pytest.mark.parametrize(
    ("push", "code"),
    [
        ({"subscription_id": 1}, E.UNKNOWN_SUBSCRIPTION_ID),
        ({"codec": 9}, E.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, E.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 101}, E.TELEMETRY_TOO_LARGE),
        ({"size": 100, "codec": 4}, E.NONE),
    ],
)
def test_pushes_that_are_something_else(push: dict[str, int], code: ErrorCode) -> None:
    rig = Rig()
    assert rig.ask() is E.NONE
    assert rig.push(**push) is code


@pytest.mark.parametrize(
    ("push", "again"),
    [({"subscription_id": 1}, E.NONE), ({"codec": 9}, E.NONE), ({"size": 101}, E.THROTTLING_QUOTA_EXCEEDED)],
)
def test_who_was_told_that_it_knows_the_wrong_thing_may_ask_again(push: dict[str, int], again: ErrorCode) -> None:
    rig = Rig()
    rig.ask()
    rig.push(**push)
    assert rig.ask() is again


def test_after_a_last_push_nothing_more_is_taken() -> None:
    rig = Rig({"interval.ms": "1000"})
    rig.ask()
    rig.push()
    assert rig.push(terminating=True) is E.NONE, "a last one need not wait"
    rig.now_ms = 5000
    assert rig.push(terminating=True) is E.INVALID_REQUEST


def test_silent_clients_are_forgotten_after_three_intervals() -> None:
    rig = Rig({"interval.ms": "100000"})
    rig.instance()
    rig.now_ms = 299_999
    rig.instance(b"d" * 16)
    assert rig.forgotten == []
    rig.now_ms = 300_000
    rig.instance(b"d" * 16)
    assert rig.forgotten == [format_uuid(ID)]
    assert len(rig.all) == 1


def test_a_short_interval_is_not_a_short_memory() -> None:
    rig = Rig({"interval.ms": "100"})
    rig.instance()
    rig.now_ms = 59_999
    rig.instance(b"d" * 16)
    assert rig.forgotten == []


def test_only_so_many_clients_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_INSTANCES", 2)
    rig = Rig()
    for instance_id in (b"a" * 16, b"b" * 16, b"a" * 16, b"d" * 16):
        rig.instance(instance_id)
    assert rig.forgotten == [format_uuid(b"b" * 16)]
