"""Directories that take nothing new: what is refused, what is placed elsewhere, and what is shown, as by Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.admin import BROKER, DELETE, SET, change_configs, described
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.log_dirs import (
    UNKNOWN_TOPIC_OR_PARTITION,
    create_in,
    describe,
    future_in,
    move,
    places,
    throttle,
    wait_until_only_in,
)
from tests.harness.pair import Pair, described_disks
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

CORDONED = "cordoned.log.dirs"
MIB = 1 << 20


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Give both with three disks; Kafka at the level at which its controller is told of cordoned directories."""
    both = Pair(
        tmp_path_factory.mktemp("cordoned"),
        disks=3,
        properties={"replica.fetch.backoff.ms": "100", "log.retention.ms": "-1"},
        release_version="4.3-IV0",
    )
    yield both
    both.close()


@pytest.fixture(autouse=True)
def _clean_up(disks: Pair) -> Iterator[None]:
    yield
    for broker in disks.brokers:
        with RawClient((broker.host, broker.port)) as client:
            uncordon(client)
            throttle(client, None)


def cordon(client: RawClient, *paths: Path | str) -> None:
    """Set the key, and wait until it has effect."""
    wanted = ",".join(map(str, paths))
    result = change_configs(client, "1", [(CORDONED, SET, wanted)], kind=BROKER)
    assert result.error_code == 0, result
    chosen = set(map(str, paths))

    def has_effect() -> bool:
        found = describe(client, version=5)
        return {path for path, one in found.items() if one.is_cordoned} == (found.keys() if "*" in chosen else chosen)

    eventually(has_effect, what=f"{wanted} cordoned")


def uncordon(client: RawClient) -> None:
    result = change_configs(client, "1", [(CORDONED, DELETE, None)], kind=BROKER)
    assert result.error_code == 0, result
    eventually(lambda: not any(one.is_cordoned for one in describe(client, version=5).values()))


def test_moves_into_a_cordoned_directory_are_refused(disks: Pair, unique: str) -> None:
    """Also whether this comes before or after the other rules."""
    long = unique.ljust(240, "n")
    later = f"{unique}-later"

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, c = broker.log_directories
        create_in(client, unique, a, b)
        for _ in range(5):
            client.append(unique, batches.build([Record(bytes(1000)) for _ in range(1024)]))
        throttle(client, MIB // 4)
        shown: dict[str, Any] = {"moves before": move(client, b, unique)}
        eventually(lambda: future_in(client, b, unique))
        preferred = move(client, c, later)
        cordon(client, b)
        shown |= {
            "to where a move goes": move(client, b, unique),
            "still moves": sorted(Path(path).name for path in places(client, unique)),
            "to where it is": move(client, b, unique, 1),
            "away": move(client, c, unique, 1),
            "unknown topic": (preferred, move(client, b, later), move(client, b, f"{unique}-unknown")),
            "long name": move(client, b, long),
            "unknown path": move(client, "/nowhere", unique),
        }
        throttle(client, None)
        wait_until_only_in(client, b, unique)
        wait_until_only_in(client, c, unique, 1)
        client.create_topic(later)
        shown["the preference was kept"] = [Path(path).name for path in places(client, later)]
        shown["appends go on"] = client.produce(unique, batches.simple("v")).error_code
        shown["out of it"] = move(client, a, unique)
        wait_until_only_in(client, a, unique)
        uncordon(client)
        shown["and into it again"] = move(client, b, unique)
        wait_until_only_in(client, b, unique)
        return shown

    disks.same(run)


@pytest.mark.parametrize("version", [1, 4, 5])
def test_what_is_described(disks: Pair, unique: str, version: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        cordon(client, *broker.log_directories[1:])
        shown = described_disks(client.request("describe_log_dirs", version, topics=[]))
        uncordon(client)
        return shown

    disks.same(run)


def test_new_partitions_are_placed_elsewhere(disks: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        cordon(client, *broker.log_directories[:2])
        client.create_topic(unique, 5)
        found = {Path(path).name for partition in range(5) for path in places(client, unique, partition)}
        uncordon(client)
        return found

    assert disks.same(run) == {"disk-2"}


def test_a_directory_that_was_preferred_before_it_was_cordoned(disks: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        _, b, _ = broker.log_directories
        assert move(client, b, unique) == UNKNOWN_TOPIC_OR_PARTITION
        cordon(client, b)
        client.create_topic(unique)
        found = [Path(path).name for path in places(client, unique)]
        uncordon(client)
        client.delete_topic(unique)
        client.create_topic(unique)
        return found == ["disk-1"]

    disks.same(run)


def test_cordoning_changes_nothing_of_what_moves(disks: Pair, unique: str) -> None:
    """A move into a directory that is cordoned meanwhile, and is redirected, cancelled, and asked for again."""

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, c = broker.log_directories
        create_in(client, unique, a)
        for _ in range(5):
            client.append(unique, batches.build([Record(bytes(1000)) for _ in range(1024)]))
        throttle(client, MIB // 4)
        shown: dict[str, Any] = {"begun": move(client, b, unique)}
        eventually(lambda: future_in(client, b, unique))
        cordon(client, a, b)
        shown |= {
            "redirected": move(client, c, unique),
            "back to a cordoned one": move(client, b, unique),
            "cancelled": move(client, a, unique),
            "there": sorted(Path(path).name for path in places(client, unique)),
        }
        uncordon(client)
        shown["cancelled later"] = move(client, a, unique)
        throttle(client, None)
        wait_until_only_in(client, a, unique)
        return shown

    disks.same(run)


def _created(client: RawClient, name: str, **options: Any) -> tuple[int, str]:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, **options}
    [result] = client.request("create_topics", 7, topics=[topic], timeout_ms=15000).topics
    return result.error_code, result.error_message


def test_a_broker_that_is_cordoned_altogether_gets_no_new_partitions(disks: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique)
        client.append(unique, batches.simple("v"))
        shown: dict[str, Any] = {}
        for name, paths in {"all": broker.log_directories, "star": ["*"]}.items():
            cordon(client, *paths)
            new = {"name": unique, "count": 3, "assignments": None}
            [grown] = client.request(
                "create_partitions", 3, topics=[new], timeout_ms=15000, validate_only=False
            ).results
            manual = {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [1]}],
            }
            shown[name] = {
                "topic": eventually(lambda: _refused(_created(client, f"{unique}-none"))),
                "partitions": (grown.error_code, grown.error_message),
                "manual": _created(client, f"{unique}-{name}", **manual),
                "moves": [move(client, path, unique) for path in broker.log_directories],
                "append": client.produce(unique, batches.simple("v")).error_code,
            }
        uncordon(client)
        shown["afterwards"] = eventually(lambda: _created(client, f"{unique}-after")[0] == 0)
        return shown

    disks.same(run)


def _refused(answer: tuple[int, str]) -> tuple[int, str] | None:
    return answer if answer[0] else None


def test_which_values_are_taken(disks: Pair) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, _ = map(str, broker.log_directories)
        values = {
            "one": a,
            "two": f"{a},{b}",
            "spaces": f" {a} , {b} ",
            "twice": f"{a},{a}",
            "nothing": "",
            "blank": "   ",
            "star": "*",
            "star and more": f"*,{a}",
            "two stars": "*,*",
            "hole": f",{a}",
            "hole at the end": f"{a},",
            "unknown": "/nope",
            "some unknown": f"{a},/nope,/never",
            "slash": f"{a}/",
            "relative": "disk-0",
            "null": None,
        }
        shown: dict[str, Any] = {}
        for name, value in values.items():
            result = change_configs(client, "1", [(CORDONED, SET, value)], kind=BROKER, validate_only=True)
            message = (result.error_message or "").replace(str(broker.directory), "")
            shown[name] = result.error_code, message
        default = change_configs(client, "", [(CORDONED, SET, a)], kind=BROKER, validate_only=True)
        shown["cluster default"] = default.error_code, (default.error_message or "").replace(str(broker.directory), "")
        shown["described"] = described(client, "1", CORDONED, kind=BROKER)[CORDONED]
        return shown

    disks.same(run)
