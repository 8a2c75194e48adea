"""Partitions of a scheduled topic behind the API families, in time that passes when a test says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from broker.api.delete_records import DeleteRecordsApi
from broker.api.leaders import Leaders
from broker.api.offsets import LATEST, OffsetsApi
from broker.api.produce import ProduceApi
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from config.views import LogConfig
from protocol.api_keys import ApiKey
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.builder import build_batch
from storage.env.fs import FileSystem
from tests.harness.hosted import Hosted, context
from tests.harness.verifying import ScriptedVerifier

TOPIC = "t"
FOREVER = (1 << 63) - 1
SCHEDULED = LogConfig(delivery_mode="scheduled")
E_MS = SCHEDULED.delivery_clock_uncertainty_ms


class Scheduled:
    """One broker with a topic of one partition; times are said as milliseconds after now."""

    def __init__(self, directory: Path, *, config: LogConfig = SCHEDULED, fs: FileSystem | None = None) -> None:
        self.pools = Pools()
        self.hosted = Hosted(directory, pools=self.pools, fs=fs)
        self._fs = fs
        self.directory = directory
        manager = self.hosted.manager
        verifier = ScriptedVerifier(manager)
        self._produce = ProduceApi(
            manager, self.hosted.image, Leaders(self.hosted.image), self.pools, verifier, frozenset()
        )
        self._offsets = OffsetsApi(manager, self.pools)
        self._deletions = DeleteRecordsApi(manager, self._saved)
        self.hosted.configs[TOPIC] = config
        self.partition: Partition

    async def _saved(self) -> None:
        """Log starts need not last here."""

    def create(self, **changes: Any) -> Partition:
        """Create the topic."""
        config = replace(self.hosted.configs[TOPIC], **changes)
        self.partition = self.hosted.create(TOPIC, config=config)
        return self.partition

    def configure(self, **changes: Any) -> None:
        """Change the topic's settings."""
        self.hosted.configure(TOPIC, replace(self.hosted.configs[TOPIC], **changes))

    @property
    def now_ms(self) -> int:
        """What the wall clock says."""
        return self.hosted.clock.now_ms()

    def pass_ms(self, ms: int) -> None:
        """Let time pass; the scheduler comes along when its timer says so."""
        self.hosted.timers.pass_ms(ms)

    def set_clock(self, by_ms: int) -> None:
        """Set the wall clock, which moves nothing else."""
        self.hosted.clock.set_by_ms += by_ms

    async def produce(
        self, *in_ms: int, at: int | None = None, acks: int = -1, batch: bytearray | None = None, **options: Any
    ) -> tuple[int, int]:
        """Send a batch with a record for each of these times, or one record for a time `at`; give (error, offset)."""
        times = [at] if at is not None else [self.now_ms + ms for ms in in_ms]
        if batch is None:
            batch = build_batch([(b"k", b"v" * 20, (), time) for time in times], **options)
        data = PartitionProduceData(index=0, records=memoryview(bytes(batch)))
        request = ProduceRequest(
            acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
        )
        response = await self._produce.produce(request, context(ApiKey.PRODUCE, 12))
        assert response is not None
        answer = response.responses[0].partition_responses[0]
        self.message = answer.error_message
        return answer.error_code, answer.base_offset

    def append(self, in_ms: int) -> None:
        """Append one record as a client would have it appended, without an answer."""
        self.partition.append(build_batch([(b"k", b"v")], timestamp=self.now_ms + in_ms))

    async def list_offset(self, timestamp: int = LATEST, *, isolation_level: int = 0, replica_id: int = -1) -> int:
        """Ask for an offset by time, by default for the latest."""
        error, offset = await self.try_list_offset(
            timestamp, 30_000, isolation_level=isolation_level, replica_id=replica_id
        )
        assert not error
        return offset

    async def try_list_offset(self, timestamp: int, timeout_ms: int, **options: int) -> tuple[int, int]:
        """Ask for an offset within a time; give (error, offset)."""
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
        topic = ListOffsetsTopic(name=TOPIC, partitions=[asked])
        request = ListOffsetsRequest(**{"replica_id": -1, **options}, topics=[topic], timeout_ms=timeout_ms)
        response = await self._offsets.list_offsets(request, context(ApiKey.LIST_OFFSETS, 11))
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.offset

    async def delete_records(self, offset: int, timeout_ms: int = 30_000) -> tuple[int, int]:
        """Delete up to an offset; give (error, low watermark)."""
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        response = await self._deletions.delete_records(request, context(ApiKey.DELETE_RECORDS, 2))
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    async def restart(self) -> Scheduled:
        """Stop cleanly and start again on the same files, clock and settings."""
        await self.close(clean=True)
        again = Scheduled(self.directory, config=self.hosted.configs[TOPIC], fs=self._fs)
        again.hosted.clock.wall_ms, again.hosted.clock.set_by_ms = (
            self.hosted.clock.wall_ms,
            self.hosted.clock.set_by_ms,
        )
        again.hosted.start_with({TOPIC: 1}, epoch=1)
        found = again.hosted.manager.find((TOPIC, 0))
        assert found is not None
        again.partition = found
        return again

    async def close(self, *, clean: bool = False) -> None:
        """Stop."""
        await self.hosted.deliveries.close()
        if self.hosted.disk is not None:
            await self.hosted.disk.close()
        self.hosted.logs.close(clean=clean)
        self.pools.close()
