"""SIGKILL while logs are cleaned, of the broker or of its cleaner process: no newest record is lost."""

from __future__ import annotations

import os
import random
import select
import signal
import threading
from pathlib import Path

import pytest

from tests.crash.kills import connect
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.disk import active_base, checkpointed, folder, wait_until_cleaned
from tests.harness.raw import RawClient, eventually

ROUNDS = int(os.environ.get("ODRADEK_TEST_KILLS", "50")) // 5
TOPIC = "compacted"
KEYS = 300
DEADLINE_S = 20
NOW = 1_700_000_000_000
PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "100",
}
MODULE = b"broker.background.cleaner.process"


def cleaners_of(broker: BrokerProcess) -> list[int]:
    """List the cleaner processes of a broker."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == broker.pid and MODULE in (stat.parent / "cmdline").read_bytes():
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def has_ended(pid: int) -> bool:
    """Wait until a process that is not our child has ended; False at the deadline."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], DEADLINE_S)[0])
    finally:
        os.close(descriptor)


def write(client: RawClient, rng: random.Random, newest: dict[bytes, bytes], count: int) -> None:
    """Append batches of random keys, and note what is the newest of each."""
    for _ in range(count):
        chosen = [b"k%d" % rng.randrange(KEYS) for _ in range(40)]
        records = [Record(rng.randbytes(100), key, timestamp=NOW) for key in chosen]
        client.append(TOPIC, batches.build(records), acks=-1)
        newest.update((key, record.value) for key, record in zip(chosen, records, strict=True) if record.value)


def stored(client: RawClient) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in batches.records_of(client.fetch_all(TOPIC))}


def leftovers(broker: BrokerProcess) -> list[str]:
    return [path.name for path in folder(broker, TOPIC).iterdir() if path.suffix in (".cleaned", ".swap")]


@pytest.mark.timeout(600)
def test_the_newest_record_of_each_key_outlives_kills_in_the_middle_of_cleanings(
    broker_factory: BrokerFactory, rng: random.Random
) -> None:
    broker = broker_factory({**PROPERTIES, "log.cleaner.io.max.bytes.per.second": "2000000"})
    newest: dict[bytes, bytes] = {}
    killed_at_work = 0
    with connect(broker) as client:
        client.create_topic(TOPIC, **{"cleanup.policy": "compact", "internal.segment.bytes": "60000"})
    for number in range(ROUNDS):
        with connect(broker) as client:
            write(client, rng, newest, 60)
        threading.Event().wait(rng.uniform(0, 0.6))
        cleaners = cleaners_of(broker)
        killed_at_work += bool(cleaners)
        broker.kill()
        assert all(map(has_ended, cleaners))
        if number == ROUNDS - 1:
            del broker.properties["log.cleaner.io.max.bytes.per.second"]
        broker.start()
        with connect(broker) as client:
            assert stored(client) == newest
    assert killed_at_work > ROUNDS // 3
    wait_until_cleaned(broker, TOPIC, active_base(broker, TOPIC))
    with connect(broker) as client:
        assert stored(client) == newest
    eventually(lambda: not leftovers(broker), what="no files of unfinished passes")


def test_a_killed_cleaner_process_costs_a_while_and_nothing_else(
    broker_factory: BrokerFactory, rng: random.Random
) -> None:
    broker = broker_factory({**PROPERTIES, "log.cleaner.io.max.bytes.per.second": "100000"})
    newest: dict[bytes, bytes] = {}
    with connect(broker) as client:
        client.create_topic(TOPIC, **{"cleanup.policy": "compact", "internal.segment.bytes": "60000"})
        write(client, rng, newest, 60)
        os.kill(eventually(lambda: cleaners_of(broker), what="a cleaner process")[0], signal.SIGKILL)
        eventually(lambda: "cleaning failed topic=compacted" in broker.log_text(), what="a line in the log")
        assert "signal 9" in broker.log_text()
        end = active_base(broker, TOPIC)
        another = eventually(lambda: cleaners_of(broker), what="another cleaner process")
        broker.stop()
        assert all(map(has_ended, another))
        assert not leftovers(broker)
        del broker.properties["log.cleaner.io.max.bytes.per.second"]
        broker.start()
    wait_until_cleaned(broker, TOPIC, end)
    with connect(broker) as client:
        assert stored(client) == newest
    assert "uncleanable" not in broker.log_text(all_runs=True)
    eventually(lambda: not cleaners_of(broker), what="the process ends when nothing is left to do")


def test_groups_are_loaded_from_an_offsets_topic_that_was_cleaned(broker_factory: BrokerFactory) -> None:
    offsets = "__consumer_offsets"
    broker = broker_factory(
        {**PROPERTIES, "offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "1048576"}
    )
    with connect(broker) as client:
        client.create_topic("t")

        def commit(group: str, offset: int) -> None:
            partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "x" * 2000}
            answer = client.request(
                "offset_commit",
                8,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": "t", "partitions": [partition]}],
            )
            assert answer.topics[0].partitions[0].error_code == 0

        eventually(lambda: _is_coordinated(client, "once"), what="the coordinator")
        commit("once", 41)
        for number in range(1_200):
            commit("often", number)
        wait_until_cleaned(broker, offsets, active_base(broker, offsets))
    assert checkpointed(broker, "cleaner-offset-checkpoint", offsets)
    size = sum(path.stat().st_size for path in folder(broker, offsets).glob("*.log"))
    assert size < 1_400_000
    broker.kill()
    broker.start()
    with connect(broker) as client:
        eventually(lambda: _is_coordinated(client, "once"), what="the coordinator")
        assert [_committed(client, group) for group in ("once", "often")] == [41, 1_199]


def _is_coordinated(client: RawClient, group: str) -> bool:
    found = client.request("find_coordinator", 4, key_type=0, coordinator_keys=[group])
    return found.coordinators[0].error_code == 0 and _committed(client, group) is not None


def _committed(client: RawClient, group: str) -> int | None:
    wanted = {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}
    answer = client.request("offset_fetch", 8, groups=[wanted], require_stable=False).groups[0]
    return None if answer.error_code else answer.topics[0].partitions[0].committed_offset
