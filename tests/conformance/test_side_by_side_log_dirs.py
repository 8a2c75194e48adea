"""AlterReplicaLogDirs and DescribeLogDirs over three healthy directories: answers as Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.admin import change_configs, delete_records
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.log_dirs import (
    alter,
    create_in,
    describe,
    folders,
    future_in,
    move,
    places,
    throttle,
    wait_until_only_in,
)
from tests.harness.pair import Pair, described_disks
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

DISKS = 3
MIB = 1 << 20
# The reference lets the first ten seconds' worth through at once.
SLOW = MIB // 4
VERSIONS = (1, 2, 3, 4, 5)
BROKER = 4
REQUEST_TIMED_OUT = 7


@pytest.fixture(scope="module")
def three_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    both = Pair(
        tmp_path_factory.mktemp("disks"),
        disks=DISKS,
        properties={"replica.fetch.backoff.ms": "100", "log.retention.ms": "-1"},
    )
    yield both
    both.close()


def disks(broker: BrokerProcess) -> list[Path]:
    return broker.log_directories


def fill(client: RawClient, topic: str, mebibytes: int) -> None:
    for number in range(mebibytes):
        records = [Record(b"%06d" % number + bytes(MIB // 4 - 100)) for _ in range(4)]
        client.append(topic, batches.build(records))


def shown(client: RawClient, *topics: str, version: int = 4) -> Any:
    """Describe all partitions 0 to 2 of these topics."""
    asked = [{"topic": topic, "partitions": [0, 1, 2]} for topic in topics]
    return described_disks(client.request("describe_log_dirs", version, topics=asked))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_described(three_disks: Pair, unique: str, version: int) -> None:
    first, second = f"{unique}-1", f"{unique}-2"

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, c = disks(broker)
        create_in(client, first, a, b)
        create_in(client, second, b)
        for number in range(5):
            client.append(first, batches.of_size(1000 + number), number % 2)
        assert move(client, c, second) == 0
        wait_until_only_in(client, c, second)
        requests = {
            "named": [{"topic": first, "partitions": [0, 1]}, {"topic": second, "partitions": [0]}],
            "one": [{"topic": first, "partitions": [1]}],
            "twice": [{"topic": first, "partitions": [1, 1]}, {"topic": first, "partitions": [1]}],
            "unknown topic": [{"topic": "nowhere", "partitions": [0]}],
            "unknown partition": [{"topic": first, "partitions": [9, -1]}],
            "some": [{"topic": first, "partitions": [0, 9]}, {"topic": "nowhere", "partitions": [0]}],
            "no partition": [{"topic": first, "partitions": []}],
            "empty name": [{"topic": "", "partitions": [0]}],
            "none": [],
        }
        answers = {
            name: described_disks(client.request("describe_log_dirs", version, topics=asked))
            for name, asked in requests.items()
        }
        everything = described_disks(client.request("describe_log_dirs", version, topics=None))
        for result in everything["results"]:
            result["topics"] = [row for row in result["topics"] if row[0].startswith(unique)]
        return {**answers, "all": everything}

    assert three_disks.same(run)["named"]["results"][1]["topics"]


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_answered_to_moves(three_disks: Pair, unique: str, version: int) -> None:
    """Every row of the rules that healthy directories can show."""

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, c = disks(broker)
        later = f"{unique}-later"
        create_in(client, unique, a, a, b)
        fill(client, unique, 3)
        answers: dict[str, Any] = {}

        def ask(name: str, *wanted: tuple[str | Path, dict[str, list[int]]]) -> None:
            answers[name] = alter(client, wanted, version=version), shown(client, unique)

        ask("already there", (a, {unique: [0, 1]}), (b, {unique: [2]}))
        for name, path in {
            "not a directory of the broker": "/nowhere",
            "empty path": "",
            "relative": a.name,
            "trailing slash": f"{a}/",
            "dots": f"{a}/../{a.name}",
            "parent": str(a.parent),
        }.items():
            ask(name, (path, {unique: [0]}))
        ask("unknown topic", (b, {f"{unique}-unknown": [0]}))
        ask("unknown partition", (b, {unique: [7, -1]}))
        ask("bad name", (b, {"not/a/name": [0], "": [0]}))
        ask("unknown topic and path", ("/nowhere", {f"{unique}-unknown": [0]}))
        ask("nothing")
        ask("no topic", (b, {}))
        ask("no partition", (b, {unique: []}))
        ask("the last path wins", (b, {unique: [0]}), (a, {unique: [0]}))
        ask("the last path wins, though it is wrong", (b, {unique: [0]}), ("/nowhere", {unique: [0]}))
        ask("several at once", (a, {unique: [0]}), ("/nowhere", {unique: [1], f"{unique}-unknown": [3]}))

        # A preference for what does not exist yet, that a bad path does not replace.
        answers["preferred"] = move(client, b, later), move(client, c, later), move(client, "/nowhere", later)
        client.create_topic(later)
        answers["placed"] = [Path(path).name for path in places(client, later)]
        return answers

    three_disks.same(run)


@pytest.mark.parametrize("length", [207, 208, 209, 210, 211, 212, 213, 214, 249])
def test_long_names_cannot_move(three_disks: Pair, unique: str, length: int) -> None:
    """A future log's folder has the topic, the partition, 34 characters for its id and `-future`."""
    topic = unique.ljust(length, "n")

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, _ = disks(broker)
        refused = move(client, a, topic), move(client, a, topic, 10), move(client, "/nowhere", topic)
        client.create_topic(topic)
        client.append(topic, batches.of_size(500))
        [home] = places(client, topic)
        other = b if home == str(a) else a
        answers = move(client, home, topic), move(client, other, topic), move(client, "/nowhere", topic)
        if answers[1] == 0:
            wait_until_only_in(client, other, topic)
        else:
            assert list(places(client, topic)) == [home]
        client.delete_topic(topic)
        eventually(lambda: not list(broker.directory.glob(f"disk-*/{topic[:150]}*")), what="the folder is deleted")
        return refused, answers

    three_disks.same(run)


def test_a_throttled_move_is_seen_until_it_ends(three_disks: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, c = disks(broker)
        create_in(client, unique, a)
        fill(client, unique, 6)
        size = places(client, unique)[str(a)].size
        throttle(client, SLOW)
        answers: dict[str, Any] = {"begun": move(client, b, unique)}
        seen = []

        def has_fallen() -> bool:
            placed = places(client, unique)
            assert placed[str(a)] == (size, 0, False)
            future = placed[str(b)]
            assert future.is_future
            seen.append(future)
            return 0 < future.lag < 24 and future.size > 0

        eventually(has_fallen, what="the lag falls")
        assert [one.lag for one in seen] == sorted((one.lag for one in seen), reverse=True)
        # What has been copied and what has not make up the log.
        assert all((24 - one.lag) * size // 24 == one.size for one in seen if one.lag < 24)
        answers["by version"] = {
            version: [
                (len(result["topics"]), [row[1][0][3] for row in result["topics"]])
                for result in shown(client, unique, version=version)["results"]
            ]
            for version in VERSIONS
        }
        answers["repeated"] = move(client, b, unique), places(client, unique).keys() == {str(a), str(b)}
        answers["redirected"] = move(client, c, unique)
        eventually(lambda: future_in(client, c, unique))
        answers["after the redirection"] = sorted(Path(path).name for path in places(client, unique))
        answers["refused meanwhile"] = move(client, "/nowhere", unique)
        answers["still to C"] = sorted(Path(path).name for path in places(client, unique))
        answers["cancelled"] = move(client, a, unique)
        answers["after the cancellation"] = sorted(Path(path).name for path in places(client, unique))
        eventually(lambda: not folders(b, unique) and not folders(c, unique))
        answers["again"] = move(client, c, unique)
        eventually(lambda: future_in(client, c, unique))
        throttle(client, None)
        wait_until_only_in(client, c, unique)
        eventually(lambda: not folders(a, unique))
        answers["in the end"] = shown(client, unique), folders(c, unique)
        return answers

    three_disks.same(run)


def test_a_topic_is_deleted_and_created_again_while_it_moves(three_disks: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, _ = disks(broker)
        create_in(client, unique, a)
        fill(client, unique, 4)
        throttle(client, SLOW)
        assert move(client, b, unique) == 0
        eventually(lambda: future_in(client, b, unique))
        client.delete_topic(unique)
        eventually(lambda: not folders(a, unique) and not folders(b, unique))
        gone = move(client, b, unique), shown(client, unique)
        client.create_topic(unique)
        throttle(client, None)
        return gone, shown(client, unique)["results"][1], client.end_offset(unique)

    three_disks.same(run)


def test_records_are_deleted_while_a_partition_moves(three_disks: Pair, unique: str, is_reference: bool) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, _ = disks(broker)
        create_in(client, unique, a, retention_ms="-1", segment_bytes=str(MIB))
        fill(client, unique, 6)
        throttle(client, SLOW)
        assert move(client, b, unique) == 0
        eventually(lambda: future_in(client, b, unique))
        deleted = delete_records(client, unique, 14, timeout_ms=500)
        answer = deleted.error_code, deleted.low_watermark
        start = client.start_offset(unique)
        throttle(client, None)
        wait_until_only_in(client, b, unique)
        data = batches.records_of(client.fetch_all(unique, offset=14))
        return answer, start, client.start_offset(unique), client.end_offset(unique), data[-1], data[-10]

    (answer, *ours), (kafkas_answer, *kafkas) = three_disks.both(run)
    assert ours == kafkas
    # Kafka lets the request wait for the copy, and counts the copy's start; we let the copy begin where the log does.
    assert kafkas_answer == (REQUEST_TIMED_OUT, 0)
    assert answer == ((0, 14) if not is_reference else kafkas_answer)


RATES = ("0", "-1", "1", "9223372036854775807", "9223372036854775808", "abc", "")


def test_which_rates_are_taken(three_disks: Pair) -> None:
    key = "replica.alter.log.dirs.io.max.bytes.per.second"

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        return {
            (rate, node): change_configs(client, node, [(key, 0, rate)], kind=BROKER, validate_only=True).error_code
            for rate in RATES
            for node in ("1", "")
        }

    three_disks.same(run)


def test_placement_counts_logs(three_disks: Pair, unique: str) -> None:
    """A new partition goes where the fewest logs are."""

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, 9)
        found = [sum(len(topic.partitions) for topic in result.topics) for result in describe(client).values()]
        return max(found) - min(found) <= 1 or found

    three_disks.both(run)
