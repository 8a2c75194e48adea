"""Log directories as a whole: what each says, what they say of each other, and each log in a process of its own."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from broker.offline.verify.context import COMPACTED_TOPICS, LogContext, LogResult
from broker.offline.verify.directory import (
    Directory,
    FoundLog,
    check_identities,
    check_offsets,
    is_locked,
    is_partition_folder,
    read_directory,
)
from broker.offline.verify.findings import Finding, Findings
from broker.offline.verify.log import LogCheck
from broker.offline.verify.metadata import ClusterFacts, MetadataCheck
from broker.offline.verify.workers import WorkerDied, check_logs
from storage.env.fs import FileSystem
from storage.segment.names import CLEANER_CHECKPOINT, CLUSTER_METADATA_TOPIC, LOG_SUFFIX, parse_partition_dir
from storage.types import TopicPartition

_METADATA = TopicPartition(CLUSTER_METADATA_TOPIC, 0)


class CannotVerify(Exception):
    """Nothing can be said: one line why."""


class Verified(NamedTuple):
    """What was looked at, and what was found."""

    findings: list[Finding]
    results: list[LogResult]

    @property
    def fault_count(self) -> int:
        """How many faults there are."""
        return sum(finding.is_fault for finding in self.findings)


class Verification:
    """A run over some directories. Every method but `run` belongs to it."""

    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[str],
        *,
        topics: Collection[str] = (),
        jobs: int = 1,
        is_forced: bool = False,
    ) -> None:
        self._fs = fs
        self._topics = frozenset(topics)
        self._jobs = jobs
        self._findings = Findings()
        self._facts = ClusterFacts()
        # Logs that were named by their own folder: of their directory nothing else is judged.
        self._single: list[str] = []
        self._directories: list[Directory] = []
        self._results: list[LogResult] = []
        self._open(paths, is_forced=is_forced)

    def _open(self, paths: Sequence[str], *, is_forced: bool) -> None:
        for path in dict.fromkeys(os.path.abspath(path) for path in paths):
            try:
                if is_partition_folder(self._fs, path):
                    self._single.append(path)
                    directory = os.path.dirname(path)
                else:
                    directory = path
                    self._fs.list_dir(path)
            except OSError as error:
                raise CannotVerify(f"cannot read {path}: {error.strerror}") from error
            if not is_forced and is_locked(directory):
                raise CannotVerify(
                    f"{directory} is in use by a broker; stop it, verify a copy, or take --force and expect "
                    "complaints about what is being written"
                )
            if directory == path:
                self._directories.append(read_directory(self._fs, path, self._findings))

    @property
    def size_bytes(self) -> int:
        """How much there is to be read."""
        folders = [log.path for directory in self._directories for log in directory.logs if self._is_wanted(log)]
        return sum(_size_of(self._fs, folder) for folder in (*folders, *self._single))

    def run(self, advance: Callable[[int], None] = lambda count: None) -> Verified:
        """Read everything, and tell how many bytes were. What cannot be read is a fault, never an error."""
        check_identities(self._directories, self._findings)
        self._read_metadata(advance)
        contexts = [self._context(directory, log) for directory in self._directories for log in self._wanted(directory)]
        contexts += [self._single_context(path) for path in self._single]
        try:
            for result, found in check_logs(self._fs, contexts, self._jobs, advance):
                self._results.append(result)
                self._findings.take(found)
        except WorkerDied as error:
            raise CannotVerify("a process that checked logs was ended; try again with --jobs 1") from error
        self._check_places()
        for directory in self._directories:
            results = {
                result.tp: result for result in self._results if os.path.dirname(result.directory) == directory.path
            }
            check_offsets(directory, results, self._findings, knows_all=not self._topics)
        findings = sorted(self._findings.all(), key=lambda one: (one.path, one.position or 0))
        return Verified(findings, self._results)

    def _is_wanted(self, log: FoundLog) -> bool:
        return not self._topics or log.tp.topic in self._topics

    def _wanted(self, directory: Directory) -> list[FoundLog]:
        return [log for log in directory.logs if self._is_wanted(log) and log.tp != _METADATA]

    # --- the cluster's metadata

    def _read_metadata(self, advance: Callable[[int], None]) -> None:
        """Read what else depends on; its faults count unless only other topics are asked for."""
        for directory in self._directories:
            for log in directory.logs:
                if log.tp == _METADATA and not log.marker:
                    self._read_metadata_log(directory, log, advance)

    def _read_metadata_log(self, directory: Directory, log: FoundLog, advance: Callable[[int], None]) -> None:
        is_wanted = self._is_wanted(log)
        findings = self._findings if is_wanted else Findings()
        # Its recovery begins at 0 whenever its directory was not closed.
        context = LogContext(log.tp, log.path, directory.is_clean)
        check = LogCheck(self._fs, context, findings, advance if is_wanted else lambda count: None)
        result = check.run()
        try:
            end_offset, messages = MetadataCheck(self._fs, log.path, findings).run(result.start_offset)
        except OSError as error:
            findings.unreadable(log.path, error)
            return
        if is_wanted:
            self._results.append(result)
        self._facts.replay(messages)
        self._facts.replay((offset, message) for offset, message in check.messages if offset >= end_offset)
        self._facts.is_known = not result.is_damaged

    # --- logs

    def _context(self, directory: Directory, log: FoundLog) -> LogContext:
        has_gaps = (
            log.tp.topic in COMPACTED_TOPICS
            or self._facts.is_compacted(log.tp.topic)
            or log.tp in directory.checkpoints[CLEANER_CHECKPOINT]
        )
        topic_id = self._facts.topic_ids().get(log.tp.topic)
        is_clean = directory.is_clean and not log.marker
        return LogContext(
            log.tp,
            log.path,
            is_clean,
            directory.recovery_point(log.tp),
            directory.log_start(log.tp),
            has_gaps,
            topic_id,
        )

    def _single_context(self, path: str) -> LogContext:
        """Tell what the directory above says of one log; without any, nothing is excused."""
        parsed = parse_partition_dir(os.path.basename(path))
        assert parsed is not None, path
        tp = parsed.tp or TopicPartition(os.path.basename(path), 0)
        directory = read_directory(self._fs, os.path.dirname(path), Findings())
        is_clean = (directory.is_clean or directory.properties is None) and not parsed.marker
        has_gaps = tp.topic in COMPACTED_TOPICS or tp in directory.checkpoints[CLEANER_CHECKPOINT]
        return LogContext(tp, path, is_clean, directory.recovery_point(tp), directory.log_start(tp), has_gaps)

    def _check_places(self) -> None:
        """Compare where logs are with where they should be."""
        seen: dict[tuple[TopicPartition, str], str] = {}
        for directory in self._directories:
            for log in directory.logs:
                other = seen.setdefault((log.tp, log.marker), log.path)
                if other != log.path:
                    self._findings.fault("duplicate-log", log.path, f"the same partition is at {other}")
        if not self._facts.is_known:
            return
        topics = self._facts.topic_ids()
        present = {tp for tp, _ in seen}
        for directory in self._directories:
            for log in self._wanted(directory):
                if log.tp.topic not in topics:
                    self._findings.note("stray-log", log.path, "the cluster metadata has no such topic")
            found = directory.properties
            if found is None or found.directory_id is None:
                continue
            for tp in self._facts.logs_in(found.node_id, found.directory_id):
                if tp not in present and (not self._topics or tp.topic in self._topics):
                    what = f"{tp.topic}-{tp.partition} is missing, by the cluster metadata it is here"
                    self._findings.fault("missing-log", directory.path, what, is_excused=not directory.is_clean)


def _size_of(fs: FileSystem, folder: str) -> int:
    try:
        return sum(entry.size_bytes for entry in fs.list_dir(folder) if entry.name.endswith(LOG_SUFFIX))
    except OSError:
        return 0  # whoever reads it will tell
