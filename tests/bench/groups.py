"""Groups: heartbeats of 1,000 groups of 5, rebalances of a group of 200, offset commits per second."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.fleet import CpuMeter, Fleet, fleet
from tests.bench.load import PinnedBroker, Result
from tests.bench.members import (
    HEARTBEAT,
    JOIN,
    REPORT,
    SYNC,
    ClassicMembers,
    ConsumerMembers,
    decoded,
    frame,
)
from tests.harness.groups import find_coordinator
from tests.harness.raw import RawClient, eventually

GROUPS = 1_000
MEMBERS = 5
PARTITIONS = 10
CLASSIC_INTERVAL_S = 3.0
CONSUMER_INTERVAL_S = 5.0
SESSION_MS = 15_000
BEAT_FOR_S = 20.0
"""Longer than a session, so that a member that was missed would be gone."""

LARGE_GROUP = 200
LARGE_PARTITIONS = 1_000

COMMITS, FLUSHED_COMMITS = 20_000, 4_000
COMMIT_VERSION = 9


@contextmanager
def _broker(directory: Path, **properties: str) -> Iterator[tuple[PinnedBroker, RawClient]]:
    broker = PinnedBroker(directory)
    broker.properties.update({key.replace("_", "."): value for key, value in properties.items()})
    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            find_coordinator(client, "any")
            yield broker, client
    finally:
        broker.close()


# -- heartbeats ------------------------------------------------------------------------------------------------------


def heartbeats(directory: Path, rounds: int) -> Iterator[Result]:
    """Heartbeat for longer than a session; nobody may be missed. One round, which is long."""
    count = GROUPS * MEMBERS
    with _broker(directory, group_initial_rebalance_delay_ms="3000") as (broker, client):
        client.create_topic("beats", PARTITIONS)
        with fleet(client.address, count) as load:
            classic = ClassicMembers(load, MEMBERS, "beats", PARTITIONS, SESSION_MS)
            classic.begin()
            frames = [classic.heartbeat_frame(index, classic.generation) for index in range(count)]
            yield from _beat(broker, load, "classic", frames, CLASSIC_INTERVAL_S, _is_fine_heartbeat)
            _ensure_all_there(client, [classic.group(index) for index in range(0, count, MEMBERS)])
        with fleet(client.address, count) as load:
            consumer = ConsumerMembers(load, MEMBERS, "beats")
            for index, answer in enumerate(load.exchange([consumer.join_frame(index) for index in range(count)])):
                consumer.take_in(index, answer)
            consumer.settle(PARTITIONS)
            frames = [consumer.report_frame(index, says_owned=False) for index in range(count)]
            yield from _beat(broker, load, "consumer", frames, CONSUMER_INTERVAL_S, _is_fine_report)
            assert all(consumer.is_settled(client, first) for first in range(0, count, MEMBERS))


def _beat(
    broker: PinnedBroker,
    load: Fleet,
    name: str,
    frames: Sequence[bytes],
    interval_s: float,
    check: Callable[[bytes], None],
) -> Iterator[Result]:
    meter = CpuMeter(broker.pid)
    latencies = load.beat(frames, interval_s, BEAT_FOR_S, check)
    percent = meter.percent()
    title = f"{GROUPS:,} {name} groups of {MEMBERS}, every {interval_s:.0f} s"
    yield Result(f"{title}: sent", "beats/s", [len(latencies) / BEAT_FOR_S])
    yield from _latencies("  answered", [latencies])
    yield Result("  broker", "% CPU", [percent], "nobody evicted")


def _latencies(name: str, rounds: Sequence[Sequence[float]]) -> Iterator[Result]:
    cuts = [statistics.quantiles(latencies, n=100) for latencies in rounds]
    yield Result(f"{name}, p50", "ms", [cut[49] for cut in cuts])
    yield Result(f"{name}, p99", "ms", [cut[98] for cut in cuts])
    yield Result(f"{name}, max", "ms", [max(latencies) for latencies in rounds])


def _is_fine_heartbeat(answer: bytes) -> None:
    beat = decoded("heartbeat", HEARTBEAT, answer)
    assert beat.error_code == 0, beat


def _is_fine_report(answer: bytes) -> None:
    report = decoded("consumer_group_heartbeat", REPORT, answer)
    assert report.error_code == 0, report


def _ensure_all_there(client: RawClient, groups: Sequence[str]) -> None:
    described = client.request("describe_groups", 4, groups=list(groups)).groups
    assert all(row.group_state == "Stable" and len(row.members) == MEMBERS for row in described)


# -- rebalances ------------------------------------------------------------------------------------------------------


def rebalances(directory: Path, rounds: int) -> Iterator[Result]:
    """Rebalance a large group."""
    with _broker(directory, group_initial_rebalance_delay_ms="1000") as (_, client):
        client.create_topic("large", LARGE_PARTITIONS)
        with fleet(client.address, LARGE_GROUP) as load:
            members = ClassicMembers(load, LARGE_GROUP, "large", LARGE_PARTITIONS, 60_000)
            leads = members.begin()
            samples = [_rejoin_all(members, leads) for _ in range(rounds)]
        yield Result(f"rebalance of {LARGE_GROUP} classic members", "ms", samples, "<= 2,000 from last join")
        joins, changes = [], []
        for number in range(rounds):
            with fleet(client.address, LARGE_GROUP) as load:
                consumer = ConsumerMembers(load, LARGE_GROUP, "large", name=f"large-{number}")
                joins.append(_join_all(consumer))
                changes.append(_replace_last(consumer, client))
        yield Result(f"{LARGE_GROUP} consumer members join at once", "ms", joins, "<= 2,000 from last join")
        yield Result(f"one of {LARGE_GROUP} consumer members comes anew", "ms", changes, "<= 2,000 from its join")


def _rejoin_all(members: ClassicMembers, leads: Sequence[bool]) -> float:
    """Have everyone rejoin, as after a change; time from the last JoinGroup to the last assignment."""
    load, generation = members.load, members.generation + 1
    leader = leads.index(True)
    others = [index for index in range(len(load)) if index != leader]
    # The leader's own JoinGroup starts it; it comes last where the order is ours, so that only one frame is timed.
    load.send(leader, members.join_frame(leader))
    for index in others[:-1]:
        load.send(index, members.join_frame(index))
    last = members.join_frame(others[-1])
    syncs = [members.sync_frame(i, leads=leads[i], generation=generation) for i in range(len(load))]
    joined: dict[int, bytes] = {}
    synced: dict[int, bytes] = {}
    load.send(others[-1], last)
    started = time.perf_counter()
    while len(synced) < len(load):
        for index, answer in load.answers():
            if index in joined:
                synced[index] = answer
            else:
                joined[index] = answer
                load.send(index, syncs[index])
    elapsed_ms = (time.perf_counter() - started) * 1e3
    members.take_in([decoded("join_group", JOIN, joined[index]) for index in range(len(load))])
    assert all(decoded("sync_group", SYNC, answer).error_code == 0 for answer in synced.values())
    assert members.generation == generation
    return elapsed_ms


def _join_all(members: ConsumerMembers) -> float:
    frames = [members.join_frame(index) for index in range(len(members.load))]
    answers = members.load.exchange(frames)
    started = time.perf_counter()
    for index, answer in enumerate(answers):
        members.take_in(index, answer)
    members.settle(LARGE_PARTITIONS)
    return (time.perf_counter() - started) * 1e3


def _replace_last(members: ConsumerMembers, client: RawClient) -> float:
    last = len(members.load) - 1
    eventually(lambda: members.is_settled(client), what="a stable group")
    time.sleep(1.1)  # the assignment interval
    members.epochs[last] = -1
    left = members.load.exchange([None] * last + [members.report_frame(last, says_owned=False)])[last]
    assert decoded("consumer_group_heartbeat", REPORT, left).error_code == 0
    members.owned[last] = {}
    answer = members.load.exchange([None] * last + [members.join_frame(last)])[last]
    started = time.perf_counter()
    members.take_in(last, answer)
    members.settle(LARGE_PARTITIONS)
    return (time.perf_counter() - started) * 1e3


# -- commits ---------------------------------------------------------------------------------------------------------


def commits(directory: Path, rounds: int) -> Iterator[Result]:
    """Commit offsets as fast as it goes, with and without a flush of each."""
    for flushes in (False, True):
        yield from _commits(directory / f"flushes-{flushes}", rounds, flushes=flushes)


def _commits(directory: Path, rounds: int, *, flushes: bool) -> Iterator[Result]:
    durable = "each flushed" if flushes else "page cache"
    cases = ((1, 8, 8), (1, 16, 1)) if flushes else ((1, 8, 8), (1, 50, 50), (10, 8, 8), (1, 16, 1))
    count = FLUSHED_COMMITS if flushes else COMMITS
    properties = {"odradek_log_flush_on_append": "true"} if flushes else {}
    with _broker(directory, **properties) as (broker, client):
        client.create_topic("commits", 10)
        for partitions, connections, groups in cases:
            rates, percents, costs, latencies = [], [], [], []
            for _ in range(rounds):
                meter = CpuMeter(broker.pid)
                elapsed_s, found = _commit(client, count, partitions, connections, groups)
                percents.append(meter.percent())
                costs.append(percents[-1] * 1e4 * elapsed_s / len(found))
                rates.append(len(found) / elapsed_s)
                latencies.append(found)
            title = f"commits of {partitions}, {connections} connections, {groups} groups, {durable}"
            yield Result(title, "req/s", rates, ">= 10,000")
            yield from _latencies("  answered", latencies)
            yield Result("  broker", "% CPU", percents)
            yield Result("  broker, each", "us CPU", costs)


def _commit(client: RawClient, count: int, partitions: int, connections: int, groups: int) -> tuple[float, list[float]]:
    frames = [_commit_frame(f"committers-{index % groups}", partitions) for index in range(connections)]
    left = itertools.count()

    def next_frame(index: int) -> bytes | None:
        return frames[index] if next(left) < count else None

    def check(answer: bytes) -> None:
        assert len(answer) == size and not any(answer[4:9]), answer

    with fleet(client.address, connections) as load:
        [first, *_] = load.exchange([frames[0], *[None] * (connections - 1)])
        rows = decoded("offset_commit", COMMIT_VERSION, first).topics[0].partitions
        assert [row.error_code for row in rows] == [0] * partitions
        assert first is not None
        size = len(first)
        started = time.perf_counter()
        latencies = load.pipeline(next_frame, 4, check)
        return time.perf_counter() - started, latencies


def _commit_frame(group: str, partitions: int) -> bytes:
    return frame(
        "offset_commit",
        COMMIT_VERSION,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            {
                "name": "commits",
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": 1_234_567 + number,
                        "committed_leader_epoch": 0,
                        "committed_metadata": "",
                    }
                    for number in range(partitions)
                ],
            }
        ],
    )
