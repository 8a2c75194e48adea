"""Random sequences of requests, zombies, failures, crashes and passing time, judged by what consumers would read.

Whatever happens: data is read if and only if its producer was told that its commit is decided; nobody but the last
holder of an id adds anything; no producer id and epoch are given out twice; and in the end everything is decided.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.coordinator.errors import CoordinatorError
from broker.coordinator.transaction.state import DECIDED, LAST_PRODUCER_EPOCH, Producer, TransactionState
from storage.types import TopicPartition
from tests.sim.groups import StorageDown, settle
from tests.sim.transactions import TransactionRig, WrittenData

IDS = ("x", "y")
TIMEOUT_MS = 2_000
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))

Action = tuple[str, int, int, int]
actions = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "initialize",
                "go on",
                "write",
                "write",
                "write",
                "end",
                "end",
                "end",
                "advance",
                "crash",
                "lose",
                "log fails",
                "log works",
                "partition fails",
                "partition works",
                "use up epochs",
            )
        ),
        st.integers(0, 1),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    min_size=30,
    max_size=90,
)


class Written(NamedTuple):
    """A transaction as its producer knows it."""

    number: int
    producer: Producer


class History:
    """What producers were told, and what follows for consumers."""

    def __init__(self, server_version: int) -> None:
        self.rig = TransactionRig(server_version=server_version, abort_interval_ms=1_000, partition_count=2)
        # Everyone who ever held an id, in order; the last one holds it now.
        self.holders: dict[str, list[Producer]] = {key: [] for key in IDS}
        self.versions: dict[Producer, int] = {}
        self.given_out: set[Producer] = set()
        # The open transaction of each id, as far as producers know; and the numbers of those that were committed.
        self.open: dict[str, Written | None] = dict.fromkeys(IDS)
        self.last: dict[Producer, Written] = {}
        self.committed: set[int] = set()
        self.written: dict[TopicPartition, set[int]] = {tp: set() for tp in PARTITIONS}
        self._count = 0

    async def carry_out(self, action: Action) -> None:
        name, which, number, kind = action
        key, tp = IDS[which], PARTITIONS[number % 3]
        coordinator = self.rig.coordinator
        if name == "advance":
            await self.rig.time.advance((10, 400, 1_100, 3_500)[kind])
        elif name == "crash":
            self.rig = self.rig.restarted()
        elif name == "lose":
            coordinator.serve(2, ())
            coordinator.serve(2, (0, 1))
        elif name == "log fails":
            self.rig.log.failure = StorageDown() if kind else RuntimeError("no space")
        elif name == "log works":
            self.rig.log.failure = None
        elif name == "partition fails":
            self.rig.partitions.failures[tp] = StorageDown()
        elif name == "partition works":
            self.rig.partitions.failures.pop(tp, None)
        elif name == "use up epochs":
            await self._use_up(key)
        else:
            with contextlib.suppress(CoordinatorError):
                await self._ask(name, key, tp, number, kind)
        if kind:
            await settle()

    async def _ask(self, name: str, key: str, tp: TopicPartition, number: int, kind: int) -> None:
        holders = self.holders[key]
        if name == "initialize" or not holders:
            self._hold(key, await self.rig.coordinator.initialize(key, TIMEOUT_MS, None), version=2 * (kind % 2))
            return
        # Zombies speak up as well.
        producer = holders[-1] if number < 4 else holders[-min(len(holders), number - 2)]
        if name == "go on":
            before = holders[-1]
            after = await self.rig.coordinator.initialize(key, TIMEOUT_MS, producer)
            assert producer in holders[-2:]
            if after != before:
                self._hold(key, after, version=self.versions[producer])
        elif name == "write":
            await self._write(key, producer, tp)
        else:
            await self._end(key, producer, is_commit=kind < 2)

    def _hold(self, key: str, producer: Producer, *, version: int) -> None:
        assert producer not in self.given_out
        self.given_out.add(producer)
        self.holders[key].append(producer)
        self.versions[producer] = version
        self.open[key] = None

    async def _write(self, key: str, producer: Producer, tp: TopicPartition) -> None:
        codes = await self.rig.coordinator.verify(key, *producer, [tp], add=True)
        if codes[tp]:
            return
        assert producer == self.holders[key][-1]
        opened = self.open[key]
        if opened is None:
            self._count += 1
            opened = self.open[key] = self.last[producer] = Written(self._count, producer)
        assert self.rig.partitions.produce(tp, WrittenData(*producer, opened.number))
        self.written[tp].add(opened.number)

    async def _end(self, key: str, producer: Producer, *, is_commit: bool) -> None:
        version = self.versions[producer]
        after = await self.rig.coordinator.end(key, producer, is_commit=is_commit, client_version=version)
        ended = self.last.get(producer)
        if is_commit:
            # One who never began anything may take the end of the next holder's transaction for its own: of no effect.
            assert ended is not None or producer != self.holders[key][-1]
            self.committed.update(() if ended is None else (ended.number,))
        else:
            assert ended is None or ended.number not in self.committed
        self.open[key] = None
        if after not in self.given_out:
            self._hold(key, after, version=version)
        elif version < 2:
            self.last.pop(producer, None) if not is_commit else None
        assert after == self.holders[key][-1]

    async def _use_up(self, key: str) -> None:
        """Let an idle id come to its last epoch: its holder goes on from there."""
        try:
            found = self.rig.state(key)
        except CoordinatorError:
            return
        if found.state in DECIDED or found.state is TransactionState.ONGOING or found.is_exhausted:
            return
        runtime = self.rig.coordinator._runtime
        for partition in runtime.active_partitions():
            shard = runtime.read(partition)
            if key in shard.transactions and self.rig.log.failure is None:
                before = shard.transactions[key]
                after = before._replace(
                    producer_epoch=LAST_PRODUCER_EPOCH,
                    last_producer_epoch=-1,
                    previous_producer_id=before.producer_id,
                    state=TransactionState.EMPTY,
                )
                shard.transactions[key] = after
                # To the log as well: a crash must not bring the old epoch back.
                await runtime.execute(partition, lambda shard, after=after: shard._change(key, after, None))  # type: ignore[misc]
                self._hold(key, after.producer, version=self.versions[self.holders[key][-1]])

    async def end(self) -> None:
        """Let everything come to its end, and judge."""
        self.rig.log.failure = None
        self.rig.partitions.failures.clear()
        await self.rig.time.advance(20_000)
        for key in IDS:
            if self.holders[key]:
                assert self.rig.state(key).state not in {*DECIDED, TransactionState.ONGOING}
        for tp in PARTITIONS:
            seen, undecided = self.rig.partitions.committed(tp)
            assert not undecided
            assert set(seen) == self.committed & self.written[tp]


@pytest.fixture
def silence() -> Iterator[None]:
    """Keep the tracebacks of failed appends, which are many here, from being rendered."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("silence")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions, st.sampled_from((0, 1, 2)))
def test_consumers_read_what_producers_were_told(todo: list[Action], server_version: int) -> None:
    async def run() -> None:
        history = History(server_version)
        for action in todo:
            await history.carry_out(action)
        await history.end()

    asyncio.run(run())
