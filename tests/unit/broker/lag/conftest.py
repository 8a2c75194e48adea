"""Groups that have committed offsets of real partitions, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.records import CommittedOffset, OffsetKey
from broker.coordinator.group.shard import GroupShard
from broker.lag.snapshot import LagSnapshot
from broker.lag.watch import LagWatch
from broker.runtime.pools import Pools
from protocol.records.builder import build_batch
from tests.harness.hosted import Hosted

N = TypeVar("N")


class Bed:
    """One shard of groups over hosted partitions, and who looks at them."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.groups: dict[str, Any] = {}
        self.offsets = GroupOffsets()
        self.watch = LagWatch(hosted.manager, hosted.pools, hosted.clock)
        self.shard: GroupShard = SimpleNamespace(  # type: ignore[assignment]
            all_groups=lambda: iter(self.groups.values()), offsets=self.offsets
        )

    def pass_seconds(self, seconds: float) -> None:
        self.hosted.clock.wall_ms += int(seconds * 1000)

    def produce(self, topic: str, count: int = 1, *, partition: int = 0, timestamp: int | None = None) -> None:
        """Append a batch; its records bear the time it is, unless the producer thinks otherwise."""
        stamp = self.hosted.clock.now_ms() if timestamp is None else timestamp
        batch = build_batch([(None, b"value")] * count, timestamp=stamp)
        self.hosted.manager.get(topic, partition).append(batch)

    def commit(self, group: str, topic: str, offset: int | None, partition: int = 0) -> None:
        """Commit an offset, or delete what was committed."""
        self.groups.setdefault(group, ConsumerGroup(group))
        committed = None if offset is None else CommittedOffset(offset, -1, "", self.hosted.clock.now_ms())
        self.offsets.replay(OffsetKey(group, topic, partition), committed, -1)

    async def look(self) -> LagSnapshot:
        await self.watch.look(self.hosted.current, lambda: [self.shard], with_first_records=True)
        return self.watch.latest

    async def seconds(self) -> dict[tuple[str, str, str], float]:
        """Look, and give the lag in seconds of each partition of each group."""
        found = await self.look()
        return _known(found, found.seconds)

    async def lags(self) -> dict[tuple[str, str, str], int]:
        found = await self.look()
        return _known(found, found.lags)


def _known(found: LagSnapshot, column: Sequence[N | None]) -> dict[tuple[str, str, str], N]:
    return {labels: number for labels, number in zip(found.partition_labels, column, strict=True) if number is not None}


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    hosted = Hosted(tmp_path, pools=Pools())
    bed = Bed(hosted)
    yield bed
    await bed.watch.close()
    hosted.pools.close()
    hosted.logs.close(clean=False)
