"""Who is throttled, for how long, and what is refused: the same as by Apache Kafka."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.pair import Pair
from tests.harness.quotas import Entity, set_quota
from tests.harness.raw import ConnectionClosed, RawClient, eventually, fetch_row, fetch_values, produce_values

pytestmark = pytest.mark.jvm

TEN_WINDOWS_MS = 10_000
LEEWAY_MS = 400
"""What a machine under load may take longer for a few requests."""


def _set(admin: RawClient, values: dict[str, dict[str, float]]) -> None:
    """Set quotas of client ids, and let the reference, where a controller tells the broker, catch up."""
    for client_id, quotas in values.items():
        set_quota(admin, {"client-id": client_id}, **quotas)
    time.sleep(1)


def _batch(size: int) -> bytes:
    return batches.build([Record(bytes(size), b"k", timestamp=int(time.time() * 1000))])


@contextlib.contextmanager
def _client(broker: BrokerProcess, client_id: str | None) -> Iterator[RawClient]:
    with RawClient((broker.host, broker.port), client_id=client_id) as client:
        yield client


def _produce(client: RawClient, topic: str, size: int, *, version: int = 9, acks: int = -1) -> int:
    answer = client.request("produce", version, **produce_values(topic, {0: _batch(size)}, acks))
    assert answer.responses[0].partition_responses[0].error_code == 0
    return answer.throttle_time_ms


def _close(ours: Any, kafka: Any, leeway: int = LEEWAY_MS) -> bool:
    return len(ours) == len(kafka) and all(abs(a - b) <= leeway for a, b in zip(ours, kafka, strict=True))


def test_producers_are_throttled_for_the_same_time(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, admin: RawClient) -> list[int]:
        admin.create_topic(unique)
        _set(admin, {unique: {"producer_byte_rate": 50_000}})
        times = []
        with _client(broker, unique) as client:
            for size in (300_000, 190_000, 30_000, 10, 50_000):
                times.append(_produce(client, unique, size))
        return times

    ours, kafka = pair.both(run)
    assert _close(ours, kafka), (ours, kafka)
    assert kafka[:2] == [0, 0] and kafka[2] > 0 and kafka[4] > 0


def test_the_first_throttle_time_is_the_same_to_the_millisecond(pair: Pair, unique: str) -> None:
    """With nothing before it, the time depends on nothing but the size of the request."""

    def run(broker: BrokerProcess, admin: RawClient) -> list[int]:
        admin.create_topic(unique)
        times = []
        sizes = {f"{unique}-{size}": size for size in (20_000, 54_321, 700_000)}
        _set(admin, {name: {"producer_byte_rate": 1_000} for name in sizes})
        for name, size in sizes.items():
            with _client(broker, name) as client:
                times.append(_produce(client, unique, size))
        return times

    ours, kafka = pair.both(run)
    assert _close(ours, kafka, leeway=2), (ours, kafka)


def test_a_fetch_over_the_quota_is_answered_alike(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, admin: RawClient) -> tuple[list[Any], list[int]]:
        admin.create_topic(unique)
        for _ in range(30):
            admin.append(unique, _batch(50_000))
        _set(admin, {unique: {"consumer_byte_rate": 50_000}})
        seen, times = [], []

        def fetch(client: RawClient, offset: int, session_id: int, epoch: int) -> int:
            row = fetch_row(0, offset, partition_max_bytes=400_000 - 400_000 % len(_batch(50_000)))
            values = fetch_values(
                [{"topic": unique, "partitions": [row]}], version=11, session_id=session_id, session_epoch=epoch
            )
            answer = client.request("fetch", 11, **values)
            size = sum(len(part.records or b"") for topic in answer.responses for part in topic.partitions)
            same_session = answer.session_id == session_id
            seen.append((answer.error_code, size, len(answer.responses), answer.session_id > 0, same_session))
            times.append(answer.throttle_time_ms)
            return answer.session_id

        with _client(broker, unique) as client, _client(broker, unique) as twin, _client(broker, unique) as third:
            session_id = fetch(client, 0, 0, 0)
            fetch(twin, 7, 0, 0)
            fetch(third, 7, 0, -1)
            fetch(client, 7, session_id, 1)
        return seen, times

    (seen, ours), (kafka_seen, kafka) = pair.both(run)
    assert seen == kafka_seen
    assert _close(ours, kafka), (ours, kafka)
    assert kafka[0] == 0 and min(kafka[1:]) > 0


BY_PRECEDENCE: tuple[Callable[[str], Entity], ...] = (
    lambda name: {"client-id": None},
    lambda name: {"client-id": name},
    lambda name: {"user": None},
    lambda name: {"user": None, "client-id": None},
    lambda name: {"user": None, "client-id": name},
    lambda name: {"user": "ANONYMOUS"},
    lambda name: {"user": "ANONYMOUS", "client-id": None},
    lambda name: {"user": "ANONYMOUS", "client-id": name},
)
"""The least specific one first."""


def test_the_most_specific_of_eight_levels_holds(pair: Pair, unique: str) -> None:
    """Each level is set on top of those below it; its quota shows in the throttle time of one request."""
    limits = [1_000 + 500 * level for level in range(8)]

    def limit_in_force(broker: BrokerProcess, client_id: str | None) -> int:
        with _client(broker, client_id) as client:
            size = len(client.frame("produce", 9, **produce_values(unique, {0: _batch(80_000)}))[1]) - 4
            throttle_ms = _produce(client, unique, 80_000)
        return round(size * 1000 / (throttle_ms + TEN_WINDOWS_MS)) if throttle_ms else 0

    def run(broker: BrokerProcess, admin: RawClient) -> list[tuple[int, int]]:
        admin.create_topic(unique)
        held: list[tuple[int, int]] = []
        for with_id in (True, False):
            try:
                for level, entity in enumerate(BY_PRECEDENCE):
                    name = f"{unique}-{level}"
                    set_quota(admin, entity(name), producer_byte_rate=limits[level])
                    time.sleep(0.3)
                    held.append((level, limit_in_force(broker, name if with_id else None)))
            finally:
                for level, entity in enumerate(BY_PRECEDENCE):
                    set_quota(admin, entity(f"{unique}-{level}"), producer_byte_rate=None)
        return held

    ours, kafka = pair.both(run)
    assert [level for level, _ in ours] == [level for level, _ in kafka]
    differing = [(a, b) for a, b in zip(ours, kafka, strict=True) if abs(a[1] - b[1]) > max(a[1], b[1]) * 0.1]
    assert not differing, (ours, kafka)


def _create(client: RawClient, version: int, names: dict[str, int], *, validate_only: bool = False) -> Any:
    answer = client.request(
        "create_topics",
        version,
        topics=[
            {"name": name, "num_partitions": partitions, "replication_factor": 1} for name, partitions in names.items()
        ],
        timeout_ms=15_000,
        validate_only=validate_only,
    )
    return sorted((row.name, row.error_code, row.error_message) for row in answer.topics), answer.throttle_time_ms


def _extend(client: RawClient, version: int, names: dict[str, int]) -> Any:
    topics = [{"name": name, "count": count, "assignments": None} for name, count in names.items()]
    answer = client.request("create_partitions", version, topics=topics, timeout_ms=15_000, validate_only=False)
    return sorted((row.name, row.error_code, row.error_message) for row in answer.results), answer.throttle_time_ms


def _delete(client: RawClient, version: int, names: list[str]) -> Any:
    values = {"topics": [{"name": name} for name in names]} if version >= 6 else {"topic_names": names}
    answer = client.request("delete_topics", version, timeout_ms=15_000, **values)
    rows = sorted((row.name, row.error_code, getattr(row, "error_message", None)) for row in answer.responses)
    return rows, answer.throttle_time_ms


def test_cluster_changes_are_refused_and_delayed_alike(pair: Pair, unique: str) -> None:
    """Each step has a client of its own, so that no mute of the one before gets in its way."""

    def run(broker: BrokerProcess, admin: RawClient) -> tuple[list[Any], list[int]]:
        seen, times = [], []
        steps: dict[str, tuple[Callable[[RawClient], Any], ...]] = {}

        def step(name: str, *calls: Callable[[RawClient], Any]) -> None:
            steps[name] = calls

        def named(*names: str) -> list[str]:
            return [f"{unique}.{name}" for name in names]

        a, b, c, d, e, f, g, h, i = named(*"abcdefghi")
        step("fits", lambda client: _create(client, 7, {a: 11}), lambda client: _create(client, 7, {b: 4}))
        step("refused", *(2 * [lambda client: _create(client, 6, {c: 6, d: 6, e: 2})]))
        step("delayed", lambda client: _create(client, 5, {e: 20}), lambda client: _create(client, 5, {f: 1}))
        step("checked", lambda client: _create(client, 7, {g: 20}, validate_only=True))
        step("checked again", lambda client: _create(client, 7, {g: 12}), lambda client: _create(client, 7, {d: 1}))
        step("extended", lambda client: _extend(client, 3, {a: 30}), lambda client: _extend(client, 3, {a: 31}))
        step("extended, old", lambda client: _extend(client, 2, {b: 30}), lambda client: _extend(client, 2, {b: 31}))
        step("deleted", lambda client: _delete(client, 6, [a]), lambda client: _delete(client, 5, [b]))
        step("deleted, old", lambda client: _delete(client, 4, [b]), lambda client: _delete(client, 4, [c]))
        step("mixed", lambda client: _create(client, 7, {h: 12, i: 1, a: 1, "in valid": 1}))
        _set(admin, {f"{unique}-{name}": {"controller_mutation_rate": 1} for name in steps})
        for name, calls in steps.items():
            for call in calls:
                with _client(broker, f"{unique}-{name}") as client:
                    rows, throttle_ms = call(client)
                # Of errors that have nothing to do with quotas the words differ.
                told = [(row[0].replace(unique, "t"), row[1], row[2] if row[1] in (0, 89) else "") for row in rows]
                seen.append((name, told, throttle_ms > 0))
                times.append(throttle_ms)
        return seen, times

    (seen, ours), (kafka_seen, kafka) = pair.both(run)
    assert seen == kafka_seen
    assert _close(ours, kafka, leeway=1_000), (ours, kafka)


def test_a_topic_that_exceeds_the_quota_is_not_created_on_the_way(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, admin: RawClient) -> tuple[bool, int, int]:
        _set(admin, {unique: {"controller_mutation_rate": 0.001}})
        with _client(broker, unique) as client:
            times = [client.metadata([f"{unique}-{number}"], create=True).throttle_time_ms for number in range(3)]
            eventually(lambda: f"{unique}-0" in admin.topic_names())
            time.sleep(0.5)  # nothing tells that the others were not created
            there = sorted(name.removeprefix(unique) for name in admin.topic_names() if name.startswith(unique))
        return sum(times), len(there), there == ["-0"]

    pair.same(run)


def test_the_same_requests_are_held_to_a_share_of_the_brokers_time(pair: Pair, unique: str) -> None:
    """With next to no time allowed, every request that is held to it is throttled, for a second at most."""
    requests: dict[str, tuple[int, dict[str, Any]]] = {
        "api_versions": (3, {"client_software_name": "a", "client_software_version": "1"}),
        "metadata": (9, {"topics": []}),
        "list_offsets": (5, {"replica_id": -1, "isolation_level": 0, "topics": []}),
        "find_coordinator": (3, {"key": "g", "key_type": 0}),
        "list_groups": (4, {"states_filter": []}),
        "describe_groups": (5, {"groups": ["g"], "include_authorized_operations": False}),
        "heartbeat": (4, {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}),
        "offset_fetch": (7, {"group_id": "g", "topics": [], "require_stable": False}),
        "init_producer_id": (1, {"transactional_id": None, "transaction_timeout_ms": 60_000}),
        "describe_configs": (4, {"resources": []}),
        "describe_client_quotas": (1, {"components": [], "strict": False}),
        "describe_cluster": (0, {"include_cluster_authorized_operations": False}),
        "fetch": (11, fetch_values([], version=11, session_epoch=-1)),
    }

    def run(broker: BrokerProcess, admin: RawClient) -> dict[str, bool]:
        admin.create_topic(unique)
        # Without a coordinator the reference forgets to tell the time, though it mutes.
        eventually(lambda: admin.request("find_coordinator", 3, key="g", key_type=0).error_code == 0)
        held = {}
        names = [*requests, "acks-1", "acks-0"]
        _set(admin, {f"{unique}-{name}": {"request_percentage": 0.000001} for name in names})
        for name, (version, values) in requests.items():
            client_id = f"{unique}-{name}"
            with _client(broker, client_id) as client:
                answer = client.request(name, version, **values)
            held[name] = 0 < answer.throttle_time_ms <= 1_000
        for acks in (1, 0):
            client_id = f"{unique}-acks-{acks}"
            with _client(broker, client_id) as client:
                if acks:
                    assert _produce(client, unique, 10, acks=acks) == 1_000
                else:
                    started = time.monotonic()
                    client.send("produce", 9, **produce_values(unique, {0: _batch(10)}, 0))
                    client.request("metadata", 9, topics=[])
                    held["acks=0"] = time.monotonic() - started > 0.9
        return held

    held = pair.same(run)
    assert [name for name, is_held in held.items() if not is_held] == ["acks=0"]


def test_a_quota_that_is_changed_holds_for_connections_that_are_open(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, admin: RawClient) -> list[bool]:
        admin.create_topic(unique)
        throttled = []
        with _client(broker, unique) as client:
            throttled.append(_produce(client, unique, 30_000) > 0)
            _set(admin, {unique: {"producer_byte_rate": 2_000}})
            throttled.append(_produce(client, unique, 30_000) > 0)
            _set(admin, {unique: {"producer_byte_rate": 200_000}})
            throttled.append(_produce(client, unique, 30_000) > 0)
            set_quota(admin, {"client-id": unique}, producer_byte_rate=None)
            time.sleep(0.5)
            throttled.append(_produce(client, unique, 900_000) > 0)
        return throttled

    assert pair.same(run) == [False, True, False, False]


def test_an_address_that_connects_too_fast_is_sent_away(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, admin: RawClient) -> tuple[int, int]:
        set_quota(admin, {"ip": broker.host}, connection_creation_rate=1)
        time.sleep(0.5)
        served = closed = 0
        try:
            for _ in range(14):
                try:
                    with _client(broker, unique) as client:
                        client.request("api_versions", 0)
                    served += 1
                except (OSError, ConnectionClosed):
                    closed += 1
        finally:
            set_quota(admin, {"ip": broker.host}, connection_creation_rate=None)
        return served, closed

    ours, kafka = pair.both(run)
    assert abs(ours[0] - kafka[0]) <= 1 and kafka[1] > 0, (ours, kafka)
