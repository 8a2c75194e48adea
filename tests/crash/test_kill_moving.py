"""SIGKILL at each kind of file call of a move, under load: after the next start the move comes to its end by itself."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import pytest

from tests.crash.kill_points import CALLS, KILL
from tests.crash.load import IdempotentProducer, Ledger, Load, PlainProducer, all_of
from tests.harness import batches, log_dirs
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import ConnectionClosed, RawClient, eventually

pytestmark = pytest.mark.skipif(reference_wanted(), reason="kills Odradek's own process at its own calls")

TOPICS = ("plain", "once")
NEVER = "3600000"
PROPERTIES = {
    "log.segment.bytes": str(1024 * 1024),
    "log.segment.delete.delay.ms": "100",
    "replica.fetch.max.bytes": str(64 * 1024),
    # What is written of checkpoints belongs to the move.
    "log.flush.offset.checkpoint.interval.ms": NEVER,
    "log.flush.start.offset.checkpoint.interval.ms": NEVER,
    "replica.high.watermark.checkpoint.interval.ms": NEVER,
}
RECORDS_PER_S = 500
# Between any two of these the state on the disks is another one; of the other calls a few are tried each time.
STEPS = (
    "make future",
    "write future .log",
    "sync future",
    "sync the metadata log",
    "rename to delete",
    "sync first",
    "rename future to plain",
    "sync second",
    "write recovery-point-offset-checkpoint.tmp of first",
    "unlink delete .log",
)
OTHERS = int(os.environ.get("ODRADEK_TEST_KILLS", "50")) // 10


class KilledBroker(BrokerProcess):
    """A broker with kill points."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.crash.kill_points", "serve", str(self.properties_path)]


class Sweep:
    """Moves topics between two directories, with or without a kill on the way."""

    def __init__(self, root: Path) -> None:
        self.directories = [root / "first", root / "second"]
        self.calls, self.kill = root / "calls", root / "kill"
        self.broker = KilledBroker(
            root,
            {"log.dirs": ",".join(map(str, self.directories)), **PROPERTIES},
            environment={CALLS: str(self.calls), KILL: str(self.kill)},
        )
        self.ledgers = {name: Ledger(name) for name in TOPICS}

    def connect(self) -> RawClient:
        return RawClient((self.broker.host, self.broker.port), timeout_s=20)

    def where(self, topic: str) -> int | None:
        """Return the number of the directory that has the only log of a topic, None while a copy is beside it."""
        found = [
            (number, name)
            for number, directory in enumerate(self.directories)
            for name in log_dirs.folders(directory, topic)
            if not name.endswith("-delete")
        ]
        assert sum(name == f"{topic}-0" for _, name in found) <= 1, found
        return found[0][0] if len(found) == 1 and found[0][1] == f"{topic}-0" else None

    def settle(self, topic: str) -> int:
        """Wait until one log is left; nothing that was acknowledged is lost, nothing is there twice."""
        eventually(lambda: self.where(topic) is not None, within_s=60)
        number = self.where(topic)
        assert number is not None
        with self.connect() as client:
            for ledger in self.ledgers.values():
                ledger.check(client)
        return number

    def move(self, topic: str, *, kill_at: str = "") -> None:
        """Move a topic to the other directory, and have the broker killed on the way."""
        target = 1 - self.settle(topic)
        if kill_at:
            self.kill.write_text(kill_at)
        try:
            with self.connect() as client:
                assert log_dirs.move(client, self.directories[target], topic) == 0
        except (OSError, ConnectionClosed):
            assert kill_at, "the broker has gone"
        if not kill_at:
            eventually(lambda: self.where(topic) == target, within_s=60)
            return
        assert self.broker.wait(timeout_s=30) == -signal.SIGKILL
        self.kill.unlink()
        self.broker.start()

    def names(self) -> list[str]:
        """Record what calls there are in moves, there and back, deletions included."""
        self.calls.unlink(missing_ok=True)
        for topic in (TOPICS[0], TOPICS[0]):
            self.move(topic)
            eventually(lambda: not self.leftovers())
        return self.calls.read_text().splitlines()

    def leftovers(self) -> list[str]:
        """List folders of logs that are to be deleted."""
        return [path.name for directory in self.directories for path in directory.glob("*-delete")]


class PacedProducer(IdempotentProducer):
    """An idempotent producer that leaves the machine to others."""

    def step(self) -> None:
        super().step()
        self.stopping.wait(1 / RECORDS_PER_S)


@pytest.mark.timeout(600)
def test_a_kill_at_any_kind_of_call_of_a_move_leaves_one_whole_log(tmp_path: Path, rng: random.Random) -> None:
    sweep = Sweep(tmp_path)
    broker, ledgers = sweep.broker, sweep.ledgers
    broker.start()
    try:
        with sweep.connect() as client:
            for name in TOPICS:
                log_dirs.create_in(client, name, sweep.directories[0])
                for number in range(25):  # a few segments
                    client.append(name, batches.simple(b"%d." % number + bytes(100_000)))
        loads: list[Load] = [PlainProducer(broker, ledgers["plain"]), PacedProducer(broker, ledgers["once"])]
        all_of(loads, Load.start)
        try:
            names = sweep.names()
            assert set(names) >= set(STEPS), names
            others = [name for name in names if name not in STEPS]
            for number, name in enumerate([*STEPS, *rng.sample(others, min(OTHERS, len(others)))]):
                topic = TOPICS[number % 2]
                sweep.move(topic, kill_at=name)
                sweep.settle(topic)
                assert [load.failure for load in loads] == [None] * len(loads), name
        finally:
            all_of(loads, Load.stop)
        with sweep.connect() as client:
            for ledger in ledgers.values():
                ledger.check_from_the_start(client)
        eventually(lambda: not sweep.leftovers())
        for topic in TOPICS:
            other = sweep.directories[1 - sweep.settle(topic)]
            eventually(lambda other=other, topic=topic: not log_dirs.checkpointed_in(other, topic))
        assert broker.stop() == 0
        assert not broker.trouble()
    finally:
        broker.close()
