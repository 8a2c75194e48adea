"""Leader epochs: what `leader-epoch-checkpoint` says of offsets, against what the batches there carry."""

from __future__ import annotations

import os.path
from bisect import bisect_right

from broker.offline.verify.context import LogContext
from broker.offline.verify.findings import Findings
from protocol.records.batch import BatchHeader
from storage.checkpoints.leader_epochs import read_leader_epochs
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint
from storage.segment.names import LEADER_EPOCH_CHECKPOINT


class EpochsCheck:
    """The epochs of one log, batch by batch."""

    def __init__(self, fs: FileSystem, context: LogContext, findings: Findings) -> None:
        self._context = context
        self._findings = findings
        self._path = os.path.join(context.directory, LEADER_EPOCH_CHECKPOINT)
        self._starts: list[int] = []
        self._epochs: list[int] = []
        self._last_epoch = -1
        self._is_readable = True
        try:
            entries = read_leader_epochs(fs, self._path)
        except CorruptCheckpoint as error:
            self._is_readable = False
            findings.fault("leader-epochs", self._path, error.reason)
            return
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]

    def take(self, path: str, position: int, header: BatchHeader) -> None:
        """Take the next batch."""
        epoch = header.partition_leader_epoch
        if epoch < 0:
            return
        is_excused = self._context.is_excused(header.base_offset)
        if not self._starts:
            if epoch < self._last_epoch:
                what = f"epoch {epoch} after {self._last_epoch} at offset {header.base_offset}"
                self._findings.fault("batch-epoch", path, what, position)
            elif self._last_epoch < 0 and self._is_readable:
                what = f"names no epoch, the batches have {epoch}"
                self._findings.note("leader-epochs", self._path, what)
            self._last_epoch = max(epoch, self._last_epoch)
            return
        slot = bisect_right(self._starts, header.base_offset) - 1
        # Below the first entry lie records that were deleted: theirs is not kept, but it cannot be above.
        known = self._epochs[max(slot, 0)]
        if known != epoch if slot >= 0 else epoch > known:
            what = f"epoch {epoch} at offset {header.base_offset}, where {LEADER_EPOCH_CHECKPOINT} has {known}"
            self._findings.fault("batch-epoch", path, what, position, is_excused=is_excused)

    def finish(self, end_offset: int) -> None:
        """Tell of an epoch that begins behind the log."""
        if self._starts and self._starts[-1] > end_offset:
            what = f"epoch {self._epochs[-1]} begins at {self._starts[-1]}, the log ends at {end_offset}"
            self._findings.fault("leader-epochs", self._path, what, is_excused=not self._context.is_clean)
