"""The partitions of one internal topic, as coordinators write and replay them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from broker.partition.manager import PartitionManager
from broker.partition.markers import append_marker
from broker.partition.partition import Marker
from config.views import LogConfig
from protocol.records.batch import iter_batches, parse_header
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog
from storage.log.validator import ValidatedBatch
from storage.producers.verification import Verification
from storage.types import AppendOrigin, TopicPartition

SCAN_BYTES = 4 * 1024 * 1024
"""How much is read at a time while a coordinator loads."""


def _validated(batch: bytearray, config: LogConfig) -> ValidatedBatch | None:
    """Give what a validation would find of a batch that was built here just now; None where it has to look."""
    if (
        len(batch) > config.max_message_bytes
        or config.compression_type != "producer"
        or config.message_timestamp_type != "CreateTime"
    ):
        return None
    return ValidatedBatch(parse_header(batch), None)


RunBeside = Callable[[str, Callable[[], bytes]], Awaitable[bytes]]
"""Runs a read in a thread of the log directory that is named first."""


class InternalLog:
    """A coordinator's door into its topic."""

    def __init__(self, topic: str, partitions: PartitionManager, run_beside: RunBeside) -> None:
        self._topic = topic
        self._partitions = partitions
        self._run_beside = run_beside

    async def append(self, partition: int, batch: bytearray, verification: Verification | None = None) -> int:
        """Append one batch and give the offset after it; the high watermark has passed it.

        A flush that is due is waited for, and a log that is being replaced. Write-backs are not: a coordinator writes
        little, and groups wait behind it. With a verification the batch may begin a transaction.

        Raises: broker.partition.errors, storage.errors.
        """
        found = self._partitions.get(self._topic, partition)
        while found.is_on_hold:
            await found.room()
            found = self._partitions.get(self._topic, partition)
        validated = _validated(batch, found.log.config)
        if verification is None:
            result = found.append(batch, origin=AppendOrigin.COORDINATOR, validated=validated)
        else:
            with found.log.transactions.in_hand(verification):
                result = found.append(batch, origin=AppendOrigin.COORDINATOR, validated=validated)
        end_offset = result.last_offset + 1
        if found.is_held(end_offset):
            await found.durable(end_offset)
        return end_offset

    async def append_marker(self, partition: int, marker: Marker) -> int:
        """Append a marker, likewise. Raises: broker.partition.errors, storage.errors."""
        return await append_marker(self._partitions, TopicPartition(self._topic, partition), marker)

    async def scan(self, partition: int) -> AsyncIterator[memoryview]:
        """Give the stored batches one at a time, from the log start to the high watermark.

        What is read lies in no cache after a start, so a thread reads it.
        Raises: StorageFailure, after the directory was given up.
        """
        hosted = self._partitions.get(self._topic, partition)
        offset = hosted.log.log_start_offset
        while offset < (log := hosted.log).high_watermark:  # which another one may have replaced meanwhile
            data = await self._read(log, offset)
            if not data:
                return
            for position, header in iter_batches(data):
                if header.next_offset > offset:
                    yield data[position : position + header.size_bytes]
                    offset = header.next_offset

    async def _read(self, log: PartitionLog, offset: int) -> memoryview:
        try:
            found = log.read(offset, max_bytes=SCAN_BYTES, bound=log.high_watermark, min_one_batch=True)
            if found.region is None:
                return memoryview(b"")
            try:
                read = partial(found.region.read, log.config.read_buffer_cap_bytes)
                return memoryview(await self._run_beside(os.path.dirname(log.path), read))
            finally:
                found.region.release()
        except OSError as error:
            failure = StorageFailure(f"cannot read {log.path}: {error}", log.path)
            self._partitions.fail_dir_of(failure)
            raise failure from error
        except StorageFailure as failure:
            self._partitions.fail_dir_of(failure)
            raise

    def leader_epoch(self, partition: int) -> int:
        """Give the epoch of our leadership, -1 for a partition that is not hosted here."""
        found = self._partitions.find((self._topic, partition))
        return found.leader_epoch if found is not None else -1
