"""Scheduled topics at a broker without sockets: its scheduler, its moves, consumers that are parked, random events.

Each topic has its list of batches beside it. Two things are watched: nothing is visible before it is due by the clock
at the moment it is released, and nobody stays parked for whom there is something to read. All that is random comes from
one generator; time passes when a life says so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker.partition.delivery_scheduler import MAX_SLEEP_MS
from broker.partition.errors import LogDirOffline, PartitionOffline
from broker.partition.partition import HIGH_WATERMARK, READ_COMMITTED, READ_UNCOMMITTED
from config.views import LogConfig, MoveConfig
from protocol.records.builder import build_batch
from protocol.records.control import build_marker
from storage.log.append import AppendResult
from storage.producers.verification import NOT_ASKED
from storage.types import AppendOrigin, TopicPartition
from tests.harness.moving import MoveBed
from tests.sim.faulty_fs import FaultyFS
from tests.sim.scheduled_topic import Appended, Follower, Topic

DIRECTORIES = ("a", "b", "c")
CONFIG = LogConfig(
    segment_bytes=700,
    segment_index_bytes=1200,
    index_interval_bytes=200,
    file_delete_delay_ms=1000,
    retention_bytes=8000,
    retention_ms=-1,
    writeback_window_bytes=0,
    delivery_mode="scheduled",
)
MOVES = MoveConfig(threads=1, backoff_ms=0, chunk_bytes=400)
DELAYS_MS = (-5000, -100, 0, 50, 400, 1500, 6000)
PRODUCER_ID = 7
CLOCK_STEPS_MS = (-3_600_000, -2000, -100, 100, 2000, 3_600_000)


class ScheduledBroker(MoveBed):
    """A broker with a few scheduled topics, and what may happen to them."""

    def __init__(self, root: Path, chance: random.Random, *, topics: int) -> None:
        self.disk_faults = FaultyFS()
        super().__init__(*(root / name for name in DIRECTORIES), config=MOVES, fs=self.disk_faults)
        self.chance = chance
        self.paths = [str(root / name) for name in DIRECTORIES]
        self.topics = [self._create(number) for number in range(topics)]
        self.followers = [
            Follower(topic, level) for topic in self.topics for level in (READ_UNCOMMITTED, READ_COMMITTED)
        ]
        self.script: list[str] = []

    def _create(self, number: int) -> Topic:
        name, path = f"t{number}", self.paths[number % len(self.paths)]
        self.logs.prefer(TopicPartition(name, 0), path)
        config = replace(CONFIG, preallocate=self.chance.random() < 0.3)
        return Topic(self.hosted.create(name, config=config), config)

    # --- the model ---

    @property
    def limit(self) -> int:
        """The latest time that is due by the clock."""
        return self.clock.now_ms() - CONFIG.delivery_clock_uncertainty_ms

    def note_due(self) -> None:
        """Take note of what is due by the clock; before the clock or a setting changes."""
        for topic in self.topics:
            log = topic.partition.log
            if not topic.config.is_scheduled:
                topic.releasable = max(topic.releasable, log.log_start_offset)
                continue
            assert log.log_start_offset <= topic.releasable, "pending records were removed"
            topic.releasable = topic.first_pending(topic.releasable, self.limit)
            if log.delivery is not None and not log.is_closed:
                watermark = log.delivery.watermark
                assert topic.released <= watermark <= topic.releasable, (topic.released, watermark, topic.releasable)
                topic.released = watermark

    async def pass_ms(self, ms: int) -> None:
        """Let time pass, with whatever is under way."""
        self.note_due()
        self.hosted.timers.pass_ms(ms)
        await self.turns(self.chance.choice((1, 5, 40)))
        self.note_due()

    async def come_to_rest(self) -> None:
        """Let what runs come to its end, and the scheduler along: then nobody waits for what is there."""
        for _ in range(3):
            await self.turns(300)
            self.note_due()
            self.hosted.timers.pass_ms(MAX_SLEEP_MS + 1)
            await self.follow()  # while searches have not come to their end
            await self.turns(300)
        self.note_due()
        forgotten = [one for one in self.followers if one.is_forgotten(self.limit)]
        assert not forgotten, [(one.topic.name, one.position, one.topic.releasable) for one in forgotten]

    # --- what may happen ---

    async def append(self) -> None:
        self._append_to(self.chance.choice(self.topics))

    async def append_many(self) -> None:
        """Append more than one look at a log goes over."""
        topic = self.chance.choice(self.topics)
        for _ in range(30):
            self._append_to(topic)

    def _append_to(self, topic: Topic, *, is_transactional: bool = False) -> None:
        if not topic.partition.has_room:
            return
        timestamp = self.clock.now_ms() + self.chance.choice(DELAYS_MS)
        rows = [(b"k", bytes(self.chance.choice((5, 60))), (), timestamp - back) for back in range(3)]
        del rows[self.chance.randint(1, 3) :]
        fields: dict[str, Any] = {}
        if is_transactional:
            known = [one for one in topic.partition.log.active_producers() if one.producer_id == PRODUCER_ID]
            sequence = known[0].last_sequence + 1 if known else 0  # 0 where its batches are gone
            fields = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": sequence}
            topic.open_from = topic.end if topic.open_from is None else topic.open_from
        with topic.partition.log.transactions.in_hand(NOT_ASKED):
            result = topic.partition.append(build_batch(rows, is_transactional=is_transactional, **fields))
        self._take(topic, result, timestamp)

    def _take(self, topic: Topic, result: AppendResult, timestamp: int) -> None:
        assert result.base_offset == topic.end
        topic.appended.append(Appended(result.base_offset, result.last_offset, timestamp))

    async def transact(self) -> None:
        """Add to a transaction, or end it; the marker's time is now, so that it is due a little later."""
        topic = self.chance.choice(self.topics)
        if topic.open_from is None or self.chance.random() < 0.5:
            self._append_to(topic, is_transactional=True)
        else:
            self._end_transaction(topic)

    def _end_transaction(self, topic: Topic) -> None:
        if topic.open_from is None or not topic.partition.has_room:
            return
        now_ms = self.clock.now_ms()
        fields = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "coordinator_epoch": 0}
        marker = build_marker(is_abort=self.chance.random() < 0.5, timestamp=now_ms, **fields)
        self._take(topic, topic.partition.append(bytes(marker), origin=AppendOrigin.COORDINATOR), now_ms)
        topic.open_from = None

    async def follow(self) -> None:
        for follower in self.followers:
            if not follower.is_parked or follower.is_woken or self.chance.random() < 0.1:
                self.note_due()
                follower.look()

    async def wait(self) -> None:
        await self.pass_ms(self.chance.choice((1, 50, 250, 300, 1000)))

    async def turn(self) -> None:
        await self.turns(self.chance.choice((1, 3, 20)))

    async def set_clock(self) -> None:
        self.note_due()
        self.clock.set_by_ms += self.chance.choice(CLOCK_STEPS_MS)

    async def flip(self) -> None:
        self.note_due()
        topic = self.chance.choice(self.topics)
        is_back = not topic.config.is_scheduled
        topic.config = replace(topic.config, delivery_mode="scheduled" if is_back else "immediate")
        self.hosted.configure(topic.name, topic.config)

    async def move(self) -> None:
        tp = self.chance.choice(self.topics).partition.tp
        with suppress(LogDirOffline):
            await self.moves.alter(tp, self.chance.choice(self.paths))

    async def delete_records(self) -> None:
        topic = self.chance.choice(self.topics)
        if topic.partition.has_room:
            self.note_due()
            topic.partition.delete_records(HIGH_WATERMARK)

    async def retain(self) -> None:
        partition = self.chance.choice(self.topics).partition
        while partition.has_room and (removal := partition.log.retain(self.clock.now_ms())) is not None:
            removal.rename()
            partition.log.removed(removal)

    async def ask_latest(self) -> None:
        """Look for the exact end, as ListOffsets does, whatever may come meanwhile."""
        topic = self.chance.choice(self.topics)
        asking = asyncio.ensure_future(topic.partition.catch_up())
        for _ in range(self.chance.choice((0, 1, 3))):
            await self.chance.choice((self.append, self.turn, self.set_clock))()
        await self.until(asking.done)
        await asking

    async def fail_to_read(self) -> None:
        """Let nothing of a log be readable for a while: what is due is late, and comes once it can be read."""
        topic = self.chance.choice(self.topics)
        partition = topic.partition
        if topic.config.preallocate or any(move.tp == partition.tp for move in self.moves.running()):
            return  # who cannot read to write, or to move, gives the directory up
        fault = self.disk_faults.break_("read", partition.log.path, ".log")
        for _ in range(self.chance.randint(1, 8)):
            await self.chance.choice((self.append, self.wait, self.set_clock, self.ask_latest, self.flip))()
            self.note_due()
        self.disk_faults.faults.remove(fault)
        await self.come_to_rest()

    async def lose_directory(self) -> None:
        """Let a directory fail; those who wait for partitions in it are told."""
        self.fail(Path(self.chance.choice(self.paths)))
        await self.turns(50)
        for topic in list(self.topics):
            try:
                self.hosted.manager.get(topic.name, 0)
            except PartitionOffline:
                gone = [one for one in self.followers if one.topic is topic]
                assert all(one.is_woken for one in gone if one.is_parked)
                self.topics.remove(topic)
                self.followers = [one for one in self.followers if one.topic is not topic]

    async def end(self) -> None:
        """Let all be due, and followers read it; without a scheduled topic nobody sleeps for one."""
        await self.until(lambda: not self.moves.running())
        for topic in self.topics:
            self._end_transaction(topic)
            if not topic.config.is_scheduled:
                topic.config = replace(topic.config, delivery_mode="scheduled")
                self.hosted.configure(topic.name, topic.config)
        self.note_due()
        self.clock.set_by_ms += 1000 * 3_600_000
        await self.come_to_rest()
        for follower in self.followers:
            for _ in range(1000):
                follower.look()
                if follower.is_parked:
                    break
            assert follower.position == follower.topic.end, (follower.position, follower.topic.end)
        for topic in self.topics:
            self.hosted.configure(topic.name, replace(topic.config, delivery_mode="immediate"))
        assert self.hosted.timers.next_in_ms is None

    async def close(self) -> None:
        await self.hosted.deliveries.close()
        await super().close()


Event = Callable[[ScheduledBroker], Any]
WEIGHTS: dict[Event, float] = {
    ScheduledBroker.append: 40,
    ScheduledBroker.append_many: 3,
    ScheduledBroker.transact: 12,
    ScheduledBroker.follow: 25,
    ScheduledBroker.wait: 20,
    ScheduledBroker.turn: 10,
    ScheduledBroker.set_clock: 3,
    ScheduledBroker.flip: 3,
    ScheduledBroker.move: 6,
    ScheduledBroker.delete_records: 2,
    ScheduledBroker.retain: 3,
    ScheduledBroker.ask_latest: 5,
    ScheduledBroker.come_to_rest: 4,
    ScheduledBroker.fail_to_read: 2,
    ScheduledBroker.lose_directory: 0.3,
}


async def live(root: Path, seed: int, events: int) -> ScheduledBroker:
    """Live through so many events; all that was appended has been read in the end."""
    chance = random.Random(seed)
    broker = ScheduledBroker(root, chance, topics=3)
    await broker.moves.start()
    try:
        for _ in range(events):
            [event] = chance.choices([*WEIGHTS], [*WEIGHTS.values()])
            broker.script.append(event.__name__)
            await event(broker)
            broker.note_due()
            if not broker.topics:
                break
        await broker.end()
    except BaseException:
        print(f"SEED={seed} after {len(broker.script)} events: {', '.join(broker.script[-25:])}")
        raise
    finally:
        await broker.close()
    return broker
