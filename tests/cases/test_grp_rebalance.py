"""GRP-09: stock consumers joining, leaving and dying while numbered records flow."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.groups import describe, find_coordinator
from tests.harness.lines import LineProcess
from tests.harness.raw import RawClient, eventually

PROPERTIES = {"offsets.topic.num.partitions": "1"}
PARTITIONS = 12
MEMBER = Path(__file__).parents[1] / "harness" / "consumer_process.py"


class ConsumerProcess(LineProcess):
    """A consumer in a process of its own; it tells what it owns, what it read and what went wrong."""

    def __init__(self, client: str, broker: BrokerProcess, group: str, topic: str, assignor: str):
        self.owned: set[int] = set()
        self.read: set[int] = set()
        self.errors: list[str] = []
        super().__init__(self._hear, str(MEMBER), client, broker.bootstrap, group, topic, assignor)

    def _hear(self, line: str) -> None:
        kind, _, text = line.partition(" ")
        if kind == "owned":
            self.owned = {int(number) for number in text.split()}
        elif kind == "read":
            self.read = self.read | {int(number) for number in text.split()}
        elif kind == "error":
            self.errors.append(text)


@contextlib.contextmanager
def _numbers(broker: BrokerProcess, topic: str) -> Iterator[list[int]]:
    """Append numbered records, each to the next partition, until left; yields the numbers that were acknowledged."""
    done: list[int] = []
    stop = threading.Event()

    def work() -> None:
        with RawClient(address(broker)) as client:
            while not stop.wait(0.01):
                number = len(done)
                client.append(topic, batches.simple(f"{number}"), number % PARTITIONS)
                done.append(number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def _settled(members: list[ConsumerProcess]) -> bool:
    owners = Counter(partition for member in members for partition in member.owned)
    return owners == Counter(range(PARTITIONS)) and all(member.owned for member in members)


MIXED = ["confluent", "aiokafka", "confluent", "aiokafka", "confluent"]
RUNS = {"range": MIXED, "roundrobin": MIXED, "cooperative-sticky": ["confluent"] * 5}


@pytest.fixture
def everyone() -> Iterator[list[ConsumerProcess]]:
    """Collect all members, so that none outlives a failed test."""
    members: list[ConsumerProcess] = []
    yield members
    for member in members:
        member.kill()


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("assignor", RUNS)
def test_grp_09_members_join_leave_and_die(
    broker: BrokerProcess, client: RawClient, everyone: list[ConsumerProcess], fresh, assignor: str
) -> None:
    topic, group = fresh(), fresh("group")
    client.create_topic(topic, PARTITIONS)
    find_coordinator(client, group)
    kinds = RUNS[assignor]

    def add() -> ConsumerProcess:
        everyone.append(ConsumerProcess(kinds[len(everyone)], broker, group, topic, assignor))
        return everyone[-1]

    with _numbers(broker, topic) as done:
        living = []
        for _ in range(4):
            living.append(add())
            time.sleep(1)  # the case's own pace
        eventually(lambda: _settled(living), within_s=60, what="four owners")
        assert living.pop(0).close() == 0
        eventually(lambda: _settled(living), within_s=60, what="three owners")
        living.pop(0).kill()
        eventually(lambda: _settled(living), within_s=60, what="two owners")
        living.append(add())
        eventually(lambda: _settled(living), within_s=60, what="three owners again")
        eventually(lambda: len(done) > 200)
    eventually(lambda: describe(client, group).group_state == "Stable", what="the last rebalance is over")

    def missing() -> list[int]:
        return sorted(set(done).difference(*(member.read for member in everyone)))

    with contextlib.suppress(AssertionError):
        eventually(lambda: not missing(), within_s=60)
    assert missing() == []
    assert [member.errors for member in everyone] == [[]] * len(everyone)
    assert [member.close() for member in living] == [0, 0, 0]
    eventually(lambda: describe(client, group).group_state == "Empty")
