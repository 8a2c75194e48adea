"""Client quotas over raw sockets: what responses say, and what waits."""

from __future__ import annotations

import time

import pytest

from tests.harness import batches
from tests.harness.admin import BROKER, DELETE, SET, change_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.quotas import set_quota
from tests.harness.raw import ConnectionClosed, RawClient, eventually, fetch_row, fetch_values, produce_values
from tests.harness.scraped import scrape

CLIENT = "metered"
WAITED = "odradek_connection_throttle_seconds_total"


def address(broker: BrokerProcess) -> tuple[str, int]:
    return broker.host, broker.port


def batch(size: int) -> bytes:
    return batches.build([Record(bytes(size), b"k")])


def throttled_produce(client: RawClient, topic: str, size: int) -> int:
    """Produce and return the throttle time."""
    answer = client.request("produce", 9, **produce_values(topic, {0: batch(size)}))
    [[result]] = [row.partition_responses for row in answer.responses]
    assert result.error_code == 0, result
    return answer.throttle_time_ms


def test_a_producer_over_its_quota_is_answered_at_once_and_read_no_further(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient(address(broker), client_id=CLIENT) as client, RawClient(address(broker)) as other:
        other.create_topic("t")
        set_quota(other, {"client-id": CLIENT}, producer_byte_rate=50_000)
        started = time.monotonic()
        throttle_ms = throttled_produce(client, "t", 600_000)
        answered_s = time.monotonic() - started
        # Ten windows allow 500,000 bytes; 100,000 more take two seconds.
        assert 1_900 < throttle_ms < 2_200
        assert answered_s < throttle_ms / 1000
        assert throttled_produce(other, "t", 900_000) == 0
        client.request("api_versions", 0)
        assert 1.9 < time.monotonic() - started < 10


def test_other_connections_of_a_muted_client_are_read_until_they_ask_themselves(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with (
        RawClient(address(broker), client_id=CLIENT) as first,
        RawClient(address(broker), client_id=CLIENT) as second,
        RawClient(address(broker)) as other,
    ):
        other.create_topic("t")
        set_quota(other, {"client-id": CLIENT}, producer_byte_rate=10_000)
        started = time.monotonic()
        assert throttled_produce(first, "t", 150_000) > 4_900
        first.send("api_versions", 0)
        second.request("api_versions", 0)
        other.request("api_versions", 0)
        assert time.monotonic() - started < 3.5
        first.expect_silence(for_s=1.0)


@pytest.mark.parametrize("version", [3, 9, 12])
def test_the_throttle_time_stands_where_each_version_has_it(broker_factory: BrokerFactory, version: int) -> None:
    broker = broker_factory()
    with RawClient(address(broker), client_id=CLIENT) as client, RawClient(address(broker)) as other:
        other.create_topic("t")
        set_quota(other, {"client-id": CLIENT}, producer_byte_rate=1_000_000)
        values = produce_values("t", {0: batch(800_000)})
        times = [client.request("produce", version, **values).throttle_time_ms for _ in range(14)]
        # The same request again and again, so most go the short way.
        assert times[:9] == [0] * 9 and times[-1] > 0, times


def test_a_producer_that_asks_for_no_answer_waits_all_the_same(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient(address(broker), client_id=CLIENT) as client, RawClient(address(broker)) as other:
        other.create_topic("t")
        set_quota(other, {"client-id": CLIENT}, producer_byte_rate=50_000)
        started = time.monotonic()
        client.send("produce", 9, **produce_values("t", {0: batch(600_000)}, 0))
        client.request("metadata", 9, topics=[])
        assert 1.0 < time.monotonic() - started < 10


def test_a_fetch_over_the_quota_returns_nothing_but_the_time_to_wait(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with (
        RawClient(address(broker), client_id=CLIENT) as client,
        RawClient(address(broker), client_id=CLIENT) as twin,
        RawClient(address(broker)) as other,
    ):
        other.create_topic("t")
        for _ in range(30):
            other.append("t", batch(50_000))
        set_quota(other, {"client-id": CLIENT}, consumer_byte_rate=50_000)

        def fetch(
            asking: RawClient, offset: int, session: tuple[int, int], max_bytes: int = 460_000
        ) -> tuple[int, int, int]:
            topics = [{"topic": "t", "partitions": [fetch_row(0, offset, partition_max_bytes=max_bytes)]}]
            values = fetch_values(topics, version=11, session_id=session[0], session_epoch=session[1])
            answer = asking.request("fetch", 11, **values)
            assert answer.error_code == 0
            size = sum(len(part.records or b"") for row in answer.responses for part in row.partitions)
            return answer.throttle_time_ms, size, answer.session_id

        throttle_ms, size, session_id = fetch(client, 0, (0, 0))
        assert throttle_ms == 0 and session_id > 0
        assert size > 400_000
        throttle_ms, size, none = fetch(twin, 9, (0, 0))
        assert throttle_ms > 5_000 and (size, none) == (0, 0), "a full request that is throttled opens no session"
        started = time.monotonic()
        throttle_ms, size, same = fetch(client, 9, (session_id, 1))
        assert throttle_ms > 5_000 and (size, same) == (0, session_id)
        for epoch in range(2, 6):
            throttle_ms, size, same = fetch(client, 9, (session_id, epoch))
            assert same == session_id and (throttle_ms == 0) == (size > 0)
            if size:
                break
        assert size > 0 and 5 < time.monotonic() - started < 20


def test_a_fetch_finds_no_more_than_the_quota_allows_at_once(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient(address(broker), client_id=CLIENT) as client, RawClient(address(broker)) as other:
        other.create_topic("t")
        for _ in range(30):
            other.append("t", batch(50_000))
        set_quota(other, {"client-id": CLIENT}, consumer_byte_rate=50_000)

        def fetch() -> int:
            values = fetch_values([{"topic": "t", "partitions": [fetch_row(0, 0)]}], version=11, min_bytes=900_000)
            answer = client.request("fetch", 11, **values)
            return sum(len(part.records or b"") for row in answer.responses for part in row.partitions)

        # One that is filled to the brim, as the reference does, waits for the rest of its response.
        size = eventually(fetch, within_s=5)
        assert 400_000 <= size <= 500_000


def test_changes_of_the_cluster_are_refused_by_new_versions_and_delayed_by_old_ones(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory()

    def create(client: RawClient, version: int, *names: str, partitions: int = 5) -> tuple[int, list[int], str | None]:
        answer = client.request(
            "create_topics",
            version,
            topics=[{"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names],
            timeout_ms=15_000,
        )
        codes = {row.name: row.error_code for row in answer.topics}
        messages = [row.error_message for row in answer.topics if row.error_code]
        return answer.throttle_time_ms, [codes[name] for name in names], messages[0] if messages else None

    with RawClient(address(broker), client_id=CLIENT) as client, RawClient(address(broker)) as other:
        set_quota(other, {"client-id": CLIENT}, controller_mutation_rate=1)
        # Eleven tokens: two topics fit, the third overdraws, the fourth is refused.
        throttle_ms, codes, message = create(client, 6, "a", "b", "c", "d")
        assert codes == [0, 0, 0, 89]
        assert message is None, "the code says it all"
        assert 3_000 < throttle_ms <= 4_000
        assert other.topic("d").error_code == 3
        throttle_ms, codes, message = create(client, 5, "e")
        assert codes == [0] and message is None and throttle_ms > 4_000
        set_quota(other, {"client-id": CLIENT}, controller_mutation_rate=None)
        assert create(other, 6, "f") == (0, [0], None)


def test_the_share_of_the_brokers_time_is_held_to_a_percentage(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    with RawClient(address(broker), client_id=CLIENT) as client, RawClient(address(broker)) as other:
        set_quota(other, {"client-id": CLIENT}, request_percentage=0.01)
        times = []
        deadline = time.monotonic() + 20
        while (not times or times[-1] == 0) and time.monotonic() < deadline:
            times.append(client.request("metadata", 9, topics=[]).throttle_time_ms)
        assert 0 < times[-1] <= 1_000
        assert other.request("metadata", 9, topics=[]).throttle_time_ms == 0


def connect(broker: BrokerProcess, times: int) -> tuple[int, int, float]:
    """Connect again and again, with one request each; return how many were served and sent away, and in what time."""
    served = closed = 0
    began = time.monotonic()
    for _ in range(times):
        try:
            with RawClient(address(broker)) as client:
                client.request("api_versions", 0)
            served += 1
        except (OSError, ConnectionClosed):
            closed += 1
    return served, closed, time.monotonic() - began


@pytest.mark.parametrize(
    "key", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
def test_connections_above_the_rate_wait_and_none_is_lost(broker_factory: BrokerFactory, key: str) -> None:
    broker = broker_factory({key: "10", "quota.window.num": "2"})
    served, closed, took_s = connect(broker, 40)
    assert (served, closed) == (40, 0)
    assert 2 < took_s < 15


@pytest.mark.skipif(reference_wanted(), reason="asks for a metric of Odradek")
def test_the_rate_of_connections_is_changed_while_the_broker_runs(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"quota.window.num": "2"})

    def total_s() -> float:
        return sum(scrape(broker).get(WAITED, {}).values())

    def waited_s() -> float:
        """Connect often, and return for how long the broker has let these connections wait."""
        before = total_s()
        connect(broker, 25)
        return total_s() - before

    assert waited_s() == 0
    with RawClient(address(broker)) as client:
        key = "max.connection.creation.rate"
        assert not change_configs(client, "", [(key, SET, "10")], kind=BROKER).error_code
        eventually(lambda: waited_s() > 0.3)
        assert not change_configs(client, "", [(key, DELETE, None)], kind=BROKER).error_code
        eventually(lambda: waited_s() == 0)


def test_an_address_above_its_rate_is_sent_away(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"quota.window.num": "3"})
    with RawClient(address(broker)) as client:
        set_quota(client, {"ip": broker.host}, connection_creation_rate=10)
        eventually(lambda: connect(broker, 30)[1] > 0, what="the quota")
        set_quota(client, {"ip": broker.host}, connection_creation_rate=None)
        eventually(lambda: connect(broker, 30)[:2] == (30, 0), what="no quota")
