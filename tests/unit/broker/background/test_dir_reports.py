"""What the controller is told when directories fail, and when the broker has to be given up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from broker.background.dir_reports import DirReports
from broker.metadata.errors import ControllerClosed
from broker.metadata.image import BROKER_RESOURCE, Delta, partitions_of
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.harness.hosted import Hosted


class Controller:
    """Remembers what it was told; answers when the test lets it."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted
        self.offline: list[tuple[frozenset[bytes], dict[TopicPartition, bytes]]] = []
        self.assigned: list[dict[TopicPartition, bytes]] = []
        self.cordoned: list[list[bytes]] = []
        self.answers = asyncio.Event()
        self.failure: Exception | None = None
        self.ended_by: Exception | None = None

    @property
    def image(self) -> Any:
        return self._hosted.current

    async def directories_offline(self, offline: Collection[bytes], where: dict[TopicPartition, bytes]) -> None:
        self.offline.append((frozenset(offline), where))
        await self.answers.wait()
        if self.failure is not None:
            raise self.failure

    def fail(self, failure: Exception) -> None:
        self.ended_by = failure

    async def assign_directories(self, directories: dict[TopicPartition, bytes]) -> None:
        self.assigned.append(directories)
        if self.failure is not None:
            raise self.failure

    async def cordon_directories(self, cordoned: list[bytes]) -> None:
        self.cordoned.append(cordoned)
        if self.failure is not None:
            raise self.failure


class Bed:
    def __init__(self, tmp_path: Path, timeout_ms: int = 60_000) -> None:
        self.hosted = Hosted(*(tmp_path / name for name in "abc"))
        self.hosted.create("t", partitions=3)
        self.dirs = self.hosted.logs.dirs
        self.reasons: list[str] = []
        self.given_up = asyncio.Event()
        self.essential = self.dirs[0]
        self.reports = DirReports(
            self.hosted.logs, lambda log_dir: log_dir is self.essential, self._give_up, timeout_ms
        )
        self.controller = Controller(self.hosted)
        self.reports.join(self.hosted.manager, cast(Any, self.controller))

    def _give_up(self, reason: str) -> None:
        self.reasons.append(reason)
        self.given_up.set()

    async def fail(self, number: int) -> None:
        failure = StorageFailure("I/O error", self.dirs[number].path)
        self.hosted.manager.fail_dir_of(failure)
        self.reports.on_lost(self.dirs[number], failure)
        await asyncio.sleep(0)


@pytest.fixture
async def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


async def test_the_controller_learns_which_directory_failed_and_what_was_there(bed: Bed) -> None:
    await bed.fail(1)
    [(offline, where)] = bed.controller.offline
    assert offline == {bed.dirs[1].directory_id}
    assert where == {TopicPartition("t", number): bed.dirs[number].directory_id for number in range(3)}
    await bed.reports.close()


async def test_a_second_failure_is_told_with_the_first(bed: Bed) -> None:
    await bed.fail(1)
    await bed.fail(2)
    assert bed.controller.offline[-1][0] == {bed.dirs[1].directory_id, bed.dirs[2].directory_id}
    assert bed.reasons == []
    await bed.reports.close()


async def test_the_directory_of_the_metadata_ends_the_broker(bed: Bed) -> None:
    await bed.fail(0)
    assert bed.controller.offline == []
    assert bed.controller.ended_by is not None, "nothing more is written"
    assert "metadata" in bed.reasons[0]
    assert "I/O error" in bed.reasons[0]


async def test_the_last_directory_ends_the_broker(bed: Bed) -> None:
    bed.essential = cast(Any, None)  # the metadata log lies elsewhere
    await bed.fail(0)
    await bed.fail(1)
    assert bed.reasons == []
    await bed.fail(2)
    assert "last log directory" in bed.reasons[0]
    await bed.reports.close()


async def test_a_controller_that_does_not_answer_in_time_ends_the_broker(tmp_path: Path) -> None:
    bed = Bed(tmp_path, timeout_ms=1)
    await bed.fail(1)
    await bed.given_up.wait()
    assert "log.dir.failure.timeout.ms=1 " in bed.reasons[0]
    assert bed.dirs[1].path in bed.reasons[0]


async def test_a_controller_that_is_closing_is_not_waited_for(bed: Bed) -> None:
    bed.controller.failure = ControllerClosed("closed")
    bed.controller.answers.set()
    await bed.fail(1)
    await bed.reports.close()
    assert bed.reasons == []


async def test_new_replicas_are_reported_where_they_landed(bed: Bed) -> None:
    created = tuple(partitions_of(bed.hosted.current.topics_by_name["t"]))
    bed.reports.publish(Delta(created_partitions=created), bed.hosted.current)
    await asyncio.sleep(0)
    assert bed.controller.assigned == [
        {TopicPartition("t", number): bed.dirs[number].directory_id for number in range(3)}
    ]


CONFIGURED = Delta(changed_configs=frozenset({(BROKER_RESOURCE, "1")}))


@pytest.mark.parametrize("delta", [CONFIGURED, Delta(features_changed=True)], ids=["configs", "features"])
async def test_cordoned_directories_are_reported_when_they_may_have_changed(bed: Bed, delta: Delta) -> None:
    bed.hosted.logs.cordoned = frozenset({bed.dirs[1].path, "/unknown"})
    bed.reports.publish(delta, replace(bed.hosted.current, features={"metadata.version": 30}))
    await asyncio.sleep(0)
    assert bed.controller.cordoned == [[bed.dirs[1].directory_id]]


async def test_cordoned_directories_are_not_reported_without_need_or_to_an_older_log(bed: Bed) -> None:
    bed.reports.publish(CONFIGURED, replace(bed.hosted.current, features={"metadata.version": 29}))
    bed.reports.publish(Delta(), replace(bed.hosted.current, features={"metadata.version": 30}))
    await asyncio.sleep(0)
    assert bed.controller.cordoned == []


async def test_a_controller_that_is_closing_need_not_know_what_landed_or_is_cordoned(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    bed.controller.failure = ControllerClosed("closed")
    created = tuple(partitions_of(bed.hosted.current.topics_by_name["t"]))
    both = CONFIGURED._replace(created_partitions=created)
    bed.reports.publish(both, replace(bed.hosted.current, features={"metadata.version": 30}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert bed.controller.cordoned == [[]]
    assert len(bed.controller.assigned) == 1
    assert not caplog.records
