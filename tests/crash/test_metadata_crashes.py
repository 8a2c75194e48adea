"""Sweep every mutating call of a metadata log that lets old parts go: no committed command is ever lost.

Promises checked after each crash: what is left passes for whole; it loads, from some snapshot and the log behind it;
every topic whose creation was committed is there, and none that was never written; the log takes a further command and
loads once more.
"""

import os
import shutil
from pathlib import Path

import pytest

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller.features import bootstrap_records
from broker.metadata.damage import ensure_whole
from broker.metadata.image import ClusterImage
from broker.metadata.log import ClusterLog, Voter, format_metadata_dir
from broker.metadata.retention import MetadataRetention, reason_to_go
from config.views import LogConfig
from protocol.stored.cluster import TopicRecord
from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition
from tests.harness.hosted import ManualClock
from tests.sim.crash_fs import Crashed, CrashFS

VOTER = Voter(1, b"directory of one")
TP = TopicPartition("__cluster_metadata", 0)
CONFIG = LogConfig(segment_bytes=700, segment_index_bytes=1200, retention_ms=-1, file_delete_delay_ms=0)
EVERYTHING = MetadataRetention(max_bytes=0, max_ms=-1)
SEEDS_PER_CALL = 2
ROUNDS, TOPICS_A_ROUND = 4, 5


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """The simulated crash knows what was synced; the machine's own disk need not."""
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class Life:
    """A metadata log in use, and what was promised of it."""

    def __init__(self, fs, root: str) -> None:
        log = PartitionLog.open(fs, ManualClock(), SeededRng(1), os.path.join(root, str(TP)), TP, CONFIG)
        self.log = ClusterLog(fs, ManualClock(), log, VOTER, "cluster")
        self.written: set[str] = set()
        self.committed: set[str] = set()
        self.image, _ = self.log.load()
        self.log.begin_epoch()
        if not self.image.features:
            self.execute(*bootstrap_records())

    def execute(self, *records: object) -> None:
        """Run one command to its end."""
        self.written |= {record.name for record in records if isinstance(record, TopicRecord)}
        base_offset = self.log.append(records)
        plan, end_offset = self.log.flush_plan(), self.log.end_offset
        assert plan is not None
        plan.run()
        self.log.committed(plan, end_offset)
        self.committed |= self.written
        draft = MetadataDraft(self.image)
        for offset, record in enumerate(records, base_offset):
            draft.replay(record, offset)
        self.image, _ = draft.finish(end_offset=end_offset, epoch=self.log.epoch, timestamp_ms=0)

    def create(self, number: int) -> None:
        self.execute(TopicRecord(name=f"topic-{number}", topic_id=number.to_bytes(16, "big")))

    def housekeep(self) -> None:
        """Let everything go that a snapshot covers, as the controller does it."""
        log, snapshots = self.log, self.log.snapshot_files()
        while reason_to_go(snapshots, EVERYTHING, log_size_bytes=log.size_bytes, now_ms=0):
            log.remove_snapshot(snapshots.pop(0).id)
            log.start_at(snapshots[0].id)
            while (removal := log.let_go()) is not None:
                removal.rename()
                log.removed(removal)
        unlink = log.take_due_deletions()
        if unlink is not None:
            unlink()


def live(fs, root: str, lives: list[Life]) -> None:
    life = Life(fs, root)
    lives.append(life)
    for round_ in range(ROUNDS):
        for number in range(TOPICS_A_ROUND):
            life.create(round_ * TOPICS_A_ROUND + number)
        life.log.snapshot(life.image)
        life.log.snapshot_written(life.image)
        if round_ % 2:
            life.housekeep()
    life.log.close()


def check(root: str, lives: list[Life], context: str) -> None:
    fs = PosixFileSystem()
    ensure_whole(fs, os.path.join(root, str(TP)))
    committed = lives[0].committed if lives else set()
    written = lives[0].written if lives else set()
    again = Life(fs, root)
    assert committed <= set(again.image.topics_by_name), context
    assert set(again.image.topics_by_name) <= written, context
    again.create(999)
    again.log.close()
    loaded: ClusterImage = Life(fs, root).image
    assert set(loaded.topics_by_name) == set(again.image.topics_by_name), context


def test_every_crash_point_of_housekeeping_leaves_a_log_that_loads(tmp_path: Path) -> None:
    formatted = tmp_path / "formatted"
    posix = PosixFileSystem()
    formatted.mkdir()
    format_metadata_dir(posix, ManualClock(), str(formatted), str(formatted / str(TP)), VOTER)
    whole = tmp_path / "whole"
    shutil.copytree(formatted, whole)
    fs = CrashFS(str(whole))
    live(fs, str(whole), [])
    left = {path.name for path in (whole / str(TP)).iterdir()}
    assert sum(name.endswith(".checkpoint") for name in left) == 1
    assert 0 < sum(name.endswith(".log") for name in left) < 4
    assert not any(name.endswith(".deleted") for name in left)
    assert fs.calls > 100
    first_seed = int(os.environ.get("SEED", "1"))
    for crash_at in range(fs.calls):
        root = tmp_path / f"run-{crash_at}"
        shutil.copytree(formatted, root)
        crashing = CrashFS(str(root), crash_at=crash_at)
        lives: list[Life] = []
        with pytest.raises(Crashed):
            live(crashing, str(root), lives)
        for seed in range(first_seed, first_seed + SEEDS_PER_CALL):
            after = str(tmp_path / "after")
            crashing.aftermath(after, seed)
            check(after, lives, f"crash_at={crash_at} SEED={seed}")
        shutil.rmtree(root)
