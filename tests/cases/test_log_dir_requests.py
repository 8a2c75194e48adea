"""DescribeLogDirs, cordoned directories and reassignments over the wire; both brokers answer alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import admin, batches
from tests.harness.broker import BrokerProcess, broker_class
from tests.harness.raw import RawClient, eventually
from tests.harness.wire import Struct

CORDONED = "cordoned.log.dirs"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
NO_ROOM = "All brokers are currently fenced, or have all their log directories cordoned."


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory):
    """Give a broker with three directories."""
    directory = tmp_path_factory.mktemp("broker")
    paths = ",".join(str(directory / name) for name in ("a", "b", "c"))
    process = broker_class()(directory, {"log.dirs": paths, "num.partitions": "1"})
    yield process
    process.close()
    assert not process.trouble(), process.trouble()


@pytest.fixture
def topic_name(fresh: Callable[..., str]) -> str:
    """Give a name that no other case uses."""
    return fresh()


@pytest.fixture
def paths(broker: BrokerProcess) -> list[str]:
    """Give the directories as they are configured."""
    return broker.properties["log.dirs"].split(",")


def described(client: RawClient, wanted: list[dict] | None, version: int = 5) -> list[Struct]:
    response = client.request("describe_log_dirs", version, topics=wanted)
    assert version < 3 or response.error_code == 0
    return response.results


def listed(results: list[Struct]) -> dict[str, dict[str, set[int]]]:
    return {
        result.log_dir: {topic.name: {one.partition_index for one in topic.partitions} for topic in result.topics}
        for result in results
    }


def set_broker(client: RawClient, key: str, value: str | None, name: str = "1") -> tuple[int, str | None]:
    operation = admin.SET if value is not None else admin.DELETE
    result = admin.change_configs(client, name, [(key, operation, value)], kind=admin.BROKER)
    return result.error_code, result.error_message


def create(client: RawClient, name: str, *, manual: bool = False, validate_only: bool = False) -> Struct:
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1}
    if manual:
        topic["assignments"] = [{"partition_index": 0, "broker_ids": [1]}]
    answer = client.request("create_topics", 7, topics=[topic], timeout_ms=15000, validate_only=validate_only)
    return answer.topics[0]


def test_log_dirs_show_each_partition_under_one_directory(client: RawClient, paths: list[str], topic_name: str) -> None:
    client.create_topic(topic_name, 4)
    for number in range(4):
        client.append(topic_name, batches.simple("v" * 100), number)
    everything = described(client, None, client.highest("describe_log_dirs"))
    assert sorted(listed(everything)) == sorted(paths)
    homes = {number: path for path, topics in listed(everything).items() for number in topics.get(topic_name, ())}
    assert sorted(homes) == [0, 1, 2, 3]
    one = described(client, [{"topic": topic_name, "partitions": [2, 2, 9, -1]}])
    assert listed(one) == {path: {topic_name: {2}} if path == homes[2] else {} for path in paths}
    [topic] = next(result.topics for result in one if result.topics)
    [row] = topic.partitions
    files = sum(file.stat().st_size for file in Path(homes[2], f"{topic_name}-2").glob("*.log"))
    assert (row.partition_size, row.offset_lag, row.is_future_key) == (files, 0, False)


@pytest.mark.parametrize("version", range(1, 6))
@pytest.mark.parametrize("wanted", [[], [{"topic": "none", "partitions": [0]}], [{"topic": "none", "partitions": []}]])
def test_every_directory_is_shown_where_nothing_is_selected(
    client: RawClient, paths: list[str], version: int, wanted: list[dict]
) -> None:
    results = described(client, wanted, version)
    assert {result.log_dir: (result.error_code, result.topics) for result in results} == dict.fromkeys(paths, (0, []))
    if version >= 4:
        assert all(result.total_bytes >= result.usable_bytes > 0 for result in results)


def test_a_cordoned_directory_takes_no_new_partitions(client: RawClient, paths: list[str], topic_name: str) -> None:
    a, b, c = paths
    assert set_broker(client, CORDONED, f"{a},{c}")[0] == 0
    eventually(lambda: {one.log_dir for one in described(client, []) if one.is_cordoned} == {a, c})
    client.create_topic(topic_name, 6)
    assert listed(described(client, [{"topic": topic_name, "partitions": [*range(6)]}])) == {
        a: {},
        b: {topic_name: {*range(6)}},
        c: {},
    }
    assert set_broker(client, CORDONED, "")[0] == 0
    eventually(lambda: not any(one.is_cordoned for one in described(client, [])))
    client.create_topic(f"{topic_name}.after", 2)
    homes = listed(described(client, [{"topic": f"{topic_name}.after", "partitions": [0, 1]}]))
    assert homes[b] == {}


def test_a_fully_cordoned_broker_takes_what_is_assigned_to_it_alone(client: RawClient, topic_name: str) -> None:
    client.create_topic(topic_name)
    assert set_broker(client, CORDONED, "*")[0] == 0
    eventually(lambda: all(one.is_cordoned for one in described(client, [])))
    for validate_only in (True, False):
        refused = create(client, f"{topic_name}.auto", validate_only=validate_only)
        assert (refused.error_code, refused.error_message) == (
            38,
            f"Unable to replicate the partition 1 time(s): {NO_ROOM}",
        )
    more = {"name": topic_name, "count": 2, "assignments": None}
    [result] = client.request("create_partitions", 3, topics=[more], timeout_ms=15000, validate_only=False).results
    assert (result.error_code, result.error_message) == (38, NO_ROOM)
    assert client.metadata([f"{topic_name}.asked"], create=True).topics[0].error_code == 3
    assert create(client, f"{topic_name}.manual", manual=True).error_code == 0
    more["assignments"] = [{"broker_ids": [1]}]
    [result] = client.request("create_partitions", 3, topics=[more], timeout_ms=15000, validate_only=False).results
    assert result.error_code == 0
    client.wait_for_topic(topic_name, 2)
    client.append(topic_name, batches.simple("grows on"))
    assert set_broker(client, CORDONED, None)[0] == 0
    eventually(lambda: not any(one.is_cordoned for one in described(client, [])))
    assert create(client, f"{topic_name}.auto").error_code == 0


def test_what_cannot_be_cordoned_is_refused_in_kafkas_words(client: RawClient, paths: list[str]) -> None:
    must = (
        "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries"
    )
    for value, message in (
        (f"{paths[0]},", "Configuration 'cordoned.log.dirs' values must not be empty."),
        (f"*,{paths[0]}", "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"),
        ("/nope", f"{must} : /nope"),
        (f"/nope,{paths[0]},/nada", f"{must} : /nope, /nada"),
        (f"{paths[0]}/", f"{must} : {paths[0]}/"),
    ):
        assert set_broker(client, CORDONED, value) == (42, message)
    code, message = set_broker(client, CORDONED, paths[0], name="")
    assert code == 42
    assert "broker id must be specified" in (message or "")


def test_the_limit_of_moves_can_be_set_for_a_broker_and_for_all(client: RawClient) -> None:
    for name in ("1", ""):
        assert set_broker(client, RATE, "1048576", name)[0] == 0
    shown = eventually(lambda: admin.described(client, "1", RATE, kind=admin.BROKER))
    assert shown == {RATE: ("1048576", 2)}
    message = f"Invalid value -1 for configuration {RATE}: Value must be at least 0"
    assert set_broker(client, RATE, "-1") == (42, message)
    for name in ("1", ""):
        assert set_broker(client, RATE, None, name)[0] == 0
    eventually(lambda: not admin.described(client, "1", RATE, kind=admin.BROKER))


def reassigned(client: RawClient, *topics: tuple[str, list[tuple[int, list[int] | None]]], **options: bool) -> Struct:
    rows = [
        {"name": name, "partitions": [{"partition_index": at, "replicas": replicas} for at, replicas in partitions]}
        for name, partitions in topics
    ]
    version = 1 if options else 0
    return client.request("alter_partition_reassignments", version, topics=rows, timeout_ms=15000, **options)


@pytest.mark.parametrize("options", [{}, {"allow_replication_factor_change": True}])
def test_reassignments_on_one_node(client: RawClient, topic_name: str, options: dict[str, bool]) -> None:
    client.create_topic(topic_name, 2)
    empty = "The manual partition assignment includes an empty replica list."
    unknown = "The manual partition assignment includes broker 2, but no such broker is registered."
    twice = "The manual partition assignment includes the broker 1 more than once."
    expected: list[tuple[int, list[int] | None, int, str | None]] = [
        (0, [1], 0, None),
        (1, [1], 0, None),
        (0, None, 85, None),
        (0, [], 39, empty),
        (0, [2], 39, unknown),
        (0, [3, 1, 2], 39, unknown),
        (0, [1, 1], 39, twice),
        (7, [1], 3, f"Unable to find partition {topic_name}:7."),
        (-1, None, 3, f"Unable to find partition {topic_name}:-1."),
    ]
    response = reassigned(
        client, (topic_name, [row[:2] for row in expected]), ("none", [(0, [1]), (1, None)]), **options
    )
    assert (response.error_code, response.error_message) == (0, None)
    answers = {
        topic.name: [(one.partition_index, one.error_code, one.error_message) for one in topic.partitions]
        for topic in response.responses
    }
    assert answers == {
        topic_name: [(at, code, message) for at, _, code, message in expected],
        "none": [(at, 3, "Unable to find a topic named none.") for at in (0, 1)],
    }
    nothing = reassigned(client, **options)
    assert (nothing.error_code, nothing.responses) == (0, [])


def test_the_factor_is_checked_after_the_brokers(client: RawClient, topic_name: str) -> None:
    client.create_topic(topic_name)
    targets = [(0, [1]), (0, [1, 2]), (0, None)]
    response = reassigned(client, (topic_name, targets), allow_replication_factor_change=False)
    assert response.allow_replication_factor_change is False
    assert [one.error_code for one in response.responses[0].partitions] == [0, 39, 85]


def test_no_reassignment_is_ever_under_way(client: RawClient, topic_name: str) -> None:
    client.create_topic(topic_name)
    for topics in (
        None,
        [],
        [{"name": topic_name, "partition_indexes": [0, 7]}],
        [{"name": "none", "partition_indexes": [0]}],
    ):
        response = client.request("list_partition_reassignments", 0, topics=topics, timeout_ms=1000)
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])
