"""Leader epoch ↔ start offset of one log, ascending in both, kept in `leader-epoch-checkpoint`.

An append only notes its epoch here. The file follows with the next flush, before the recovery point passes the first
batch of the epoch: above it a restart finds the epoch again in the batches, below it would not. An epoch without
batches needs no file: loading drops it anyway. Truncations may be lost in a crash, loading repeats them.

A truncation writes at once, on the owner's side, while a flush may be writing what was planned before. Each has its own
temporary file, and the older one gives way; where it is too late for that, the next flush writes once more.
Source: Kafka's LeaderEpochFileCache; KIP-101, KIP-279, KAFKA-15305.
"""

from __future__ import annotations

import logging
import os.path
from dataclasses import dataclass
from typing import Final

from storage.checkpoints.leader_epochs import SAVE_SUFFIX, read_leader_epochs, write_leader_epochs
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint
from storage.segment.names import LEADER_EPOCH_CHECKPOINT

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
_NOTHING: Final = 1 << 63

logger: Final = logging.getLogger(__name__)


class LeaderEpochCache:
    """The epochs in which batches of this log were written."""

    __slots__ = ("_directory", "_entries", "_fs", "_has_early_entries", "_unsaved_from", "latest_epoch", "version")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._entries: list[tuple[int, int]] = []  # (epoch, start offset)
        self.latest_epoch = NO_EPOCH  # of the last entry; read on each append
        self._unsaved_from = _NOTHING  # the lowest start offset of an epoch that the file lacks
        self.version = 0  # counts the writes of truncations
        self._has_early_entries = False  # the file still tells of epochs below the log start

    def load(self) -> None:
        """Read the file; a damaged one counts as empty, since recovery and appends fill the cache again."""
        try:
            self._replace(read_leader_epochs(self._fs, self._path()))
        except CorruptCheckpoint as error:
            logger.warning("ignoring a damaged checkpoint path=%s reason=%s", error.path, error.reason)
            self._replace([])

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; contradicting later entries go. The next flush makes it last."""
        if epoch < 0 or start_offset < 0 or not self._assign(epoch, start_offset):
            return False
        self._unsaved_from = min(self._unsaved_from, start_offset)
        return True

    def assign_recovered(self, epoch: int, start_offset: int) -> None:
        """Note an epoch found in a batch during recovery."""
        if epoch > self.latest_epoch:
            self.assign(epoch, start_offset)

    def _assign(self, epoch: int, start_offset: int) -> bool:
        entries = self._entries
        if entries and entries[-1][0] == epoch and entries[-1][1] <= start_offset:
            return False
        self._replace([entry for entry in entries if entry[0] < epoch and entry[1] < start_offset])
        self._entries.append((epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def lacks_file(self, log_end_offset: int) -> bool:
        """Tell whether the file lacks the epoch of a batch; a flush must write it."""
        return self._unsaved_from < log_end_offset

    def is_worth_saving(self, log_end_offset: int) -> bool:
        """Tell whether a stop should write the file; an epoch without batches alone is no reason."""
        return self._has_early_entries or self.lacks_file(log_end_offset)

    def plan_save(self) -> EpochSave:
        """Return the write that brings the file up to date, for any thread; what is assigned from now on waits."""
        save = EpochSave(self, self._directory, tuple(self._entries), self._unsaved_from, self.version)
        self._note_saved()
        return save

    def save_failed(self, save: EpochSave) -> None:
        """Take back a write that did not happen."""
        self._unsaved_from = min(self._unsaved_from, save.unsaved_from)

    def saved(self, save: EpochSave) -> None:
        """Note a write that a flush has done: one that a truncation has overtaken is to be repeated."""
        if save.version != self.version:
            self.save_failed(save)

    def write(self, save: EpochSave) -> None:
        """Write what was planned, unless the log has left the directory or its epochs were cut. Blocking: disk."""

        def is_wanted() -> bool:
            # A new log may have the directory's name by now.
            return save.directory == self._directory and save.version == self.version

        if is_wanted():
            write_leader_epochs(self._fs, self._path(), save.entries, suffix=SAVE_SUFFIX, is_wanted=is_wanted)

    def _note_saved(self) -> None:
        self._unsaved_from, self._has_early_entries = _NOTHING, False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch found, its end offset): what a follower with `epoch` as its latest may keep."""
        entries = self._entries
        if epoch < 0 or not entries or epoch > entries[-1][0]:
            return NO_EPOCH, NO_OFFSET
        if epoch == entries[-1][0]:
            return epoch, log_end_offset
        if epoch < entries[0][0]:
            return epoch, entries[0][1]
        at = max(slot for slot, entry in enumerate(entries) if entry[0] <= epoch)
        return entries[at][0], entries[at + 1][1]

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch in which the record at `offset` was written, -1 when unknown."""
        for epoch, start_offset in reversed(self._entries):
            if start_offset <= offset:
                return epoch
        return NO_EPOCH

    def earliest(self) -> tuple[int, int] | None:
        """Return the first (epoch, start offset)."""
        return self._entries[0] if self._entries else None

    def entries(self) -> list[tuple[int, int]]:
        """Return all (epoch, start offset) pairs, ascending."""
        return list(self._entries)

    def truncate_from_end(self, offset: int) -> None:
        """Drop the entries that start at or above `offset`."""
        kept = [entry for entry in self._entries if entry[1] < offset]
        self._replace_and_write(kept)

    def truncate_from_start(self, offset: int) -> None:
        """Drop the entries that end at or before `offset`; the one that covers it now starts there.

        The file follows with the next save: loading trims what it reads, and a log start moves often.
        """
        entries = self._entries
        covering = max((slot for slot, entry in enumerate(entries) if entry[1] <= offset), default=-1)
        if covering >= 0:
            kept = [(entries[covering][0], offset), *entries[covering + 1 :]]
            self._has_early_entries = self._has_early_entries or kept != entries
            self._replace(kept)

    def clear(self) -> None:
        """Forget everything, as an appended legacy batch or a new start demands."""
        self._replace_and_write([])

    def move_to_directory(self, directory: str) -> None:
        """Follow a rename of the partition's directory."""
        self._directory = directory

    def _replace_and_write(self, entries: list[tuple[int, int]]) -> None:
        if entries != self._entries:
            self._replace(entries)
            self.version += 1
            write_leader_epochs(self._fs, self._path(), entries)
            self._note_saved()

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        self._entries = entries
        self.latest_epoch = entries[-1][0] if entries else NO_EPOCH

    def _path(self) -> str:
        return os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class EpochSave:
    """What the file is to hold, as of the plan of a flush."""

    _cache: LeaderEpochCache
    directory: str
    entries: tuple[tuple[int, int], ...]
    unsaved_from: int
    version: int

    def run(self) -> None:
        """Write the file; the caller syncs the directory before it relies on the rename. Blocking: disk; any thread."""
        self._cache.write(self)
