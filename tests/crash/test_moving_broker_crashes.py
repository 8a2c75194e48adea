"""Sweep the calls of moves between log directories, with appends all the way: whatever is left, one whole log is.

The moves are those of the broker: one to its end, one that is cancelled, one that is redirected, with DeleteRecords,
retention and rolls in between. It dies at a file call; what a kill leaves is all that was done, what a power failure
leaves is all that was synced and some of the rest. Then it starts again, and again in the middle of that.

Checked each time: the start is not refused; one log holds what was acknowledged, once and in order, and for a power
failure what was flushed; what DeleteRecords has let go does not come back; a move that was under way comes to its end
by itself; no other folder of the partition is left after the delay, no row in a checkpoint of a directory without it;
and the log goes on.
"""

from __future__ import annotations

import asyncio
import copy
import os
import random
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.records.control import build_marker
from tests.harness.hosted import NOW_MS
from tests.sim.crash_fs import Crashed, CrashFS
from tests.sim.log_model import Stored
from tests.sim.moving_broker import CONFIG, DIRECTORIES, METADATA, PRODUCER_ID, TP, MovingBroker, Promises

CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")
STRIDE = int(os.environ.get("MOVE_CRASH_STRIDE", "17"))


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr("broker.background.moves.copy_steps.PAUSE_SECONDS", 0)
    monkeypatch.setattr("storage.log.copying.FLUSH_EVERY_BYTES", 700)


def put(run: MovingBroker, number: int) -> None:
    """Append: plainly, idempotently, or as part of a transaction of a few batches."""
    if number % 8 == 7:
        fields = {"producer_id": PRODUCER_ID + 1, "producer_epoch": 0, "coordinator_epoch": 0}
        run.end_transaction(bytes(build_marker(is_abort=number % 16 == 7, timestamp=NOW_MS, **fields)))
    else:
        run.put(is_idempotent=number % 3 == 0, is_transactional=number % 4 == 1)


async def put_for(run: MovingBroker, turns: int) -> None:
    """Append something every few turns, as long as anything moves."""
    for turn in range(turns):
        if not run.moves.running():
            return
        if turn % 6 == 0:
            put(run, turn // 6)
        await asyncio.sleep(0)


def path(run: MovingBroker, name: str) -> str:
    return str(run.root / name)


async def story(run: MovingBroker) -> None:
    for number in range(16):
        put(run, number)
    await run.visible()
    await run.disk.flushes.flush(run.partition)
    run.promises.calls_before = run.fs.calls
    await run.delete_records(4)
    await run.moves.alter(TP, path(run, "b"))
    await put_for(run, 20)
    await run.delete_records(20)
    await run.retain()
    run.partition.log.roll()
    await put_for(run, 150)
    await run.settled()
    assert run.dir_of(run.partition) == "b"
    put(run, 0)
    for number in range(16):
        put(run, number)
    await run.visible()
    await run.moves.alter(TP, path(run, "c"))
    await put_for(run, 8)
    await run.checkpoints.rewrite()  # which say how far this copy is durable; the next one in the directory is not
    await run.moves.alter(TP, path(run, "b"))
    assert not run.moves.running()
    await run.moves.alter(TP, path(run, "c"))
    await put_for(run, 3)
    await run.moves.alter(TP, path(run, "a"))
    await put_for(run, 150)
    await run.settled()
    await run.visible()
    assert run.dir_of(run.partition) == "a"


def live(
    root: Path, promises: Promises, tell, *, preallocate: bool, crash_at: int | None = None, seed: int = 1
) -> CrashFS:
    """Let one run live; return its disk, dead or not."""
    for name in (*DIRECTORIES, METADATA):
        (root / name).mkdir(parents=True, exist_ok=True)
    fs = CrashFS(str(root), crash_at=crash_at, direct_block_bytes=32 if preallocate else None)

    async def run() -> None:
        broker = MovingBroker(root, fs, promises, config=replace(CONFIG, preallocate=preallocate), seed=seed)
        try:
            await broker.live(tell)
            check(broker)
            await broker.close()
        finally:
            broker.logs.close(clean=False)

    with suppress(Crashed):
        asyncio.run(run())
    return fs


def check(run: MovingBroker) -> None:
    (folder,) = run.folders()
    name, _, folder_name = folder.partition("/")
    assert folder_name == str(TP)
    for directory in DIRECTORIES:
        for checkpoint in CHECKPOINTS:
            file = run.root / directory / checkpoint
            rows = file.read_text().splitlines()[2:] if file.exists() else []
            assert directory == name or not rows, (directory, checkpoint, rows)
    promises, log = run.promises, run.partition.log
    assert promises.answered_start <= log.log_start_offset <= promises.wanted_start
    found = [batch.data for batch in run.stored()]
    assert found == [batch.data for batch in promises.stored if batch.last >= log.log_start_offset]
    assert log.log_end_offset == promises.end


def without_a_hole(promises: Promises, found: list[Stored], path: str) -> list[Stored]:
    """Leave out what is missing before a segment that was begun: what no flush has covered may go, in whole batches."""
    there = {batch.base for batch in found}
    missing = [batch for batch in promises.stored if found and found[0].base < batch.base < found[-1].base]
    missing = [batch for batch in missing if batch.base not in there]
    for batch in missing:
        assert batch.base >= promises.durable_end, "what was flushed is missing"
        following = min(base for base in there if base > batch.base)
        assert os.path.exists(os.path.join(path, f"{following:020}.log")), "it is missing within a segment"
    return [batch for batch in promises.stored if batch not in missing]


def take_what_survived(run: MovingBroker, *, is_kill: bool) -> None:
    """Compare what a start has found with what was promised, and go on from that."""
    promises = run.promises
    found = run.stored()
    start, end = run.partition.log.log_start_offset, run.partition.log.log_end_offset
    assert promises.answered_start <= start <= promises.wanted_start
    attempted = promises.end  # where the append that did not return was to be, whatever is missing before it
    if not is_kill:
        promises.stored = without_a_hole(promises, found, run.partition.log.path)
    expected = [batch for batch in promises.stored if batch.last >= start]
    common = min(len(found), len(expected))
    assert [batch.data for batch in found[:common]] == [batch.data for batch in expected[:common]]
    if len(found) > len(expected):
        (more,) = found[len(expected) :]
        assert promises.attempt is not None and more.base == attempted
        promises.stored.append(more)
    promised = promises.visible_end if is_kill else promises.durable_end
    assert end >= promised, "something is lost"
    promises.stored = [batch for batch in promises.stored if batch.last < end]
    promises.durable_end = promises.visible_end = 0
    promises.attempt = None


def start_again(
    root: Path, promises: Promises, *, preallocate: bool, is_kill: bool, crash_at: int | None, seed: int
) -> CrashFS:
    """Start on what a crash has left, let what moves come to its end, append some more."""

    async def tell(run: MovingBroker) -> None:
        take_what_survived(run, is_kill=is_kill)
        await run.settled()
        put(run, 3)
        put(run, 0)
        await run.visible()

    return live(root, promises, tell, preallocate=preallocate, crash_at=crash_at, seed=seed)


def leave(fs: CrashFS, target: Path, *, is_kill: bool, seed: int) -> None:
    """Build what a restart finds."""
    if is_kill:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(fs.root, target)
    else:
        fs.aftermath(str(target), seed)


@pytest.mark.parametrize("preallocate", [False, True])
def test_whenever_it_crashes_one_whole_log_is_left(tmp_path: Path, seed: int, preallocate: bool) -> None:
    whole = Promises()
    calls = live(tmp_path / "whole", whole, story, preallocate=preallocate).calls
    assert calls - whole.calls_before > 300
    for crash_at in range(whole.calls_before + seed % STRIDE, calls, STRIDE):
        shutil.rmtree(tmp_path / "life", ignore_errors=True)
        promises = Promises()
        fs = live(tmp_path / "life", promises, story, preallocate=preallocate, crash_at=crash_at)
        assert fs.is_dead
        for is_kill in (True, False):
            try:
                check_starts(fs, tmp_path, copy.deepcopy(promises), preallocate=preallocate, is_kill=is_kill, seed=seed)
            except BaseException as error:
                raise AssertionError(f"SEED={seed} crash_at={crash_at} is_kill={is_kill}") from error


def check_starts(
    fs: CrashFS, tmp_path: Path, promises: Promises, *, preallocate: bool, is_kill: bool, seed: int
) -> None:
    """Start on what a crash has left, crash again at some call, and start once more."""
    kind: dict[str, bool] = {"preallocate": preallocate, "is_kill": is_kill}
    leave(fs, tmp_path / "after", is_kill=is_kill, seed=seed)
    second = random.Random(fs.calls).randrange(150)
    crashed = start_again(tmp_path / "after", promises, **kind, crash_at=second, seed=2)
    if crashed.is_dead:
        leave(crashed, tmp_path / "again", is_kill=is_kill, seed=seed)
        assert not start_again(tmp_path / "again", promises, **kind, crash_at=None, seed=3).is_dead
