"""One run of a broker without sockets: a partition, its moves, and metadata, all on a disk that may crash.

The moves are the broker's own, and so is everything below them. A run ends with the story it is told, or in the middle
of it when the disk dies; the next one begins on what is left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from config.views import LogConfig, MoveConfig
from protocol.records.builder import build_batch
from storage.checkpoints.lines import replace_file
from storage.producers.verification import NOT_ASKED
from storage.types import AppendOrigin, TopicPartition
from tests.harness.hosted import NOW_MS
from tests.harness.moving import MoveBed
from tests.sim.crash_fs import Crashed, CrashFS
from tests.sim.log_model import Stored, stored_batches
from tests.sim.logs import read_all

TOPIC = "t"
TP = TopicPartition(TOPIC, 0)
DIRECTORIES = ("a", "b", "c")
METADATA = "metadata"
CONFIG = LogConfig(
    segment_bytes=900,
    segment_index_bytes=1200,
    index_interval_bytes=200,
    file_delete_delay_ms=1_000,
    retention_ms=-1,
    writeback_window_bytes=0,
)
MOVES = MoveConfig(threads=1, backoff_ms=0, chunk_bytes=400)
LONGEST_STORY_TURNS = 20_000
PRODUCER_ID = 7


class Promises:
    """What the partition has taken and promised, over all runs."""

    def __init__(self) -> None:
        self.stored: list[Stored] = []  # every batch, as it was stored
        self.attempt: bytes | None = None  # the value of a batch whose append has not returned
        self.durable_end = 0  # everything below was flushed
        self.visible_end = 0  # everything below could be read, so it was acknowledged
        self.answered_start = 0  # a DeleteRecords up to here was answered
        self.wanted_start = 0  # and one up to here was begun
        self.calls_before = 0  # file calls of what comes before the moves

    @property
    def end(self) -> int:
        return self.stored[-1].last + 1 if self.stored else 0


class MovingBroker(MoveBed):
    """A run; `start` first."""

    def __init__(self, root: Path, fs: CrashFS, promises: Promises, *, config: LogConfig = CONFIG, seed: int) -> None:
        self.root = root
        self.promises = promises
        super().__init__(*(root / name for name in DIRECTORIES), config=MOVES, fs=fs, seed=seed)
        self.fs = fs
        self.hosted.configs[TOPIC] = config
        self._metadata = str(root / METADATA / "file")

    @property
    def partition(self) -> Any:
        return self.hosted.manager.get(*TP)

    async def start(self) -> None:
        """Load what there is, tell the metadata where it is, lead it, go on with its move."""
        if self.fs.exists(self._metadata):
            known = json.loads(self.fs.read_file(self._metadata))
            here = self.logs.dir_of(TP)
            directory_id = bytes.fromhex(known["directory"]) if here is None else here.directory_id
            self._record(known["epoch"] + 1, directory_id)
            self.hosted.start_with({TOPIC: 1}, self._epoch, directory_id=directory_id)
        else:
            self.logs.prefer(TP, str(self.root / DIRECTORIES[0]))
            self.hosted.create(TOPIC)
            here = self.logs.dir_of(TP)
            assert here is not None
            self._record(0, here.directory_id)
        await self.moves.start()

    def _record(self, epoch: int, directory_id: bytes) -> None:
        self._epoch = epoch
        content = {"epoch": epoch, "directory": directory_id.hex()}
        replace_file(self.fs, self._metadata, json.dumps(content).encode())  # type: ignore[arg-type]

    async def _assign(self, directories: Mapping[TopicPartition, bytes]) -> None:
        await asyncio.sleep(0)
        self._record(self._epoch, directories[TP])

    # --- what clients do ---

    def put(self, *, is_idempotent: bool = False, is_transactional: bool = False) -> None:
        """Append a batch of two records, unless appends are on hold."""
        partition, promises = self.partition, self.promises
        if not partition.has_room:
            return
        value = b"%d" % promises.end
        fields: dict[str, Any] = {}
        if is_idempotent or is_transactional:
            fields = {"producer_id": PRODUCER_ID + is_transactional, "producer_epoch": 0}
            fields |= {
                "base_sequence": self._next_sequence(fields["producer_id"]),
                "is_transactional": is_transactional,
            }
        batch = build_batch([(b"k", value), (b"l", value * 10)], timestamp=NOW_MS + promises.end, **fields)
        promises.attempt = value
        with partition.log.transactions.in_hand(NOT_ASKED):
            result = partition.append(batch)
        assert result.base_offset == promises.end
        self._take(result.base_offset)

    def end_transaction(self, marker: bytes) -> None:
        """Append a control batch, unless appends are on hold."""
        if self.partition.has_room:
            self.promises.attempt = b""
            result = self.partition.append(marker, origin=AppendOrigin.COORDINATOR)
            self._take(result.base_offset)

    def _next_sequence(self, producer_id: int) -> int:
        sent = [
            batch.header.base_sequence + len(batch.records)
            for batch in self.promises.stored
            if batch.header.producer_id == producer_id and not batch.header.is_control
        ]
        return sent[-1] if sent else 0

    def _take(self, base_offset: int) -> None:
        log = self.partition.log
        found = log.read(base_offset, max_bytes=1, bound=log.log_end_offset, min_one_batch=True)
        self.promises.stored += stored_batches(bytes(found.region.read()))
        found.region.release()
        self.promises.attempt = None
        self._note_ends()

    async def delete_records(self, offset: int) -> None:
        """Let the records below an offset go, durably when this returns."""
        await self.until(lambda: self.partition.has_room and self.partition.log.high_watermark >= offset)
        self.promises.wanted_start = offset
        self.partition.delete_records(offset)
        await self.checkpoints.save_log_starts()
        self.promises.answered_start = max(self.promises.answered_start, offset)

    async def retain(self) -> None:
        """Let the segments below the log start go."""
        partition = self.partition
        await self.until(lambda: partition.has_room)
        while (removal := partition.log.retain(self.clock.now_ms())) is not None:
            removal.rename()
            partition.log.removed(removal)

    # --- running ---

    async def live(self, story: Callable[[MovingBroker], Awaitable[None]]) -> None:
        """Start and tell the story to its end. Raises: Crashed, when the disk has died before."""
        telling = asyncio.ensure_future(self._tell(story))
        for _ in range(LONGEST_STORY_TURNS):
            if telling.done() or self.fs.is_dead:
                break
            self._note_ends()
            await asyncio.sleep(0)
        else:
            raise AssertionError("the story does not come to its end")
        if self.fs.is_dead:
            telling.cancel()
            raise Crashed
        await telling
        self._note_ends()

    async def _tell(self, story: Callable[[MovingBroker], Awaitable[None]]) -> None:
        await self.start()
        await story(self)

    def _note_ends(self) -> None:
        partition, promises = self.hosted.manager.find(TP), self.promises
        if partition is not None:
            promises.durable_end = max(promises.durable_end, partition.log.recovery_point)
            promises.visible_end = max(promises.visible_end, partition.log.high_watermark)

    async def visible(self) -> None:
        """Wait until all that was appended can be read."""
        await self.until(lambda: self.partition.log.high_watermark == self.promises.end)

    async def settled(self) -> None:
        """Wait until nothing moves, and let the delay of deletions pass."""
        await self.until(lambda: not self.moves.running(), LONGEST_STORY_TURNS)
        await self.turns(20)
        self.clock.wall_ms += CONFIG.file_delete_delay_ms
        await self.checkpoints.purge()
        await self.checkpoints.rewrite()

    def stored(self) -> list[Stored]:
        """Return what consumers can read."""
        return stored_batches(read_all(self.partition.log))

    def folders(self) -> list[str]:
        """Return where there is anything of the partition, with its name."""
        return [f"{name}/{path.name}" for name in DIRECTORIES for path in (self.root / name).glob(f"{TP}*")]
