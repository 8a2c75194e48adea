"""A transaction coordinator's door that answers what a test says, and the verifier behind which partitions ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import NamedTuple

from broker.partition.manager import PartitionManager
from broker.partition.verification import TransactionVerifier
from config.views import VerificationConfig
from protocol.errors import ErrorCode
from storage.types import TopicPartition


class Asked(NamedTuple):
    """One question."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    add: bool


class ScriptedCoordinator:
    """Answers in turn; the last answer stays, and everybody is part of every transaction if there is none."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.by_partition: dict[TopicPartition, ErrorCode] = {}
        self.asked: list[Asked] = []
        self.stall: asyncio.Event | None = None
        self.meanwhile: list[Callable[[], object]] = []
        """What happens while it is asked, one each time."""

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        self.asked.append(Asked(transactional_id, producer_id, producer_epoch, tuple(partitions), add))
        if self.stall is not None:
            await self.stall.wait()
        if self.meanwhile:
            self.meanwhile.pop(0)()
        code = ErrorCode.NONE if not self.codes else self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return {tp: self.by_partition.get(tp, code) for tp in partitions}


class ScriptedVerifier(TransactionVerifier):
    """A verifier before such a coordinator; its pauses are noted, not waited for."""

    def __init__(self, partitions: PartitionManager, config: VerificationConfig | None = None) -> None:
        self.coordinator = ScriptedCoordinator()
        self.settings = config or VerificationConfig()
        self.pauses_s: list[float] = []
        self.on_pause: Callable[[], object] = lambda: None
        self.ending: set[str] = set()
        super().__init__(
            partitions,
            self.coordinator.verify,
            lambda transactional_id: transactional_id in self.ending,
            lambda: self.settings,
            lambda: 0.0,
            self._pause,
        )

    async def _pause(self, duration_s: float) -> None:
        self.pauses_s.append(duration_s)
        self.on_pause()
