"""What a failing disk causes is logged without a traceback, everything else with one."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker.lifecycle import Lifecycle, Step, nothing
from broker.metadata.errors import ControllerClosed, PolicyViolation
from broker.partition.errors import PartitionOffline, UnknownPartition
from broker.runtime.failures import unexplained
from broker.runtime.scheduler import Scheduler
from broker.runtime.tasks import TaskOwner
from storage.errors import LogClosed, StorageFailure

LOST = StorageFailure("the disk is gone", "/data")
OURS = KeyError("an error of ours")


@pytest.mark.parametrize("failure", [LOST, LogClosed("t-0"), ControllerClosed("stopped"), PartitionOffline("t-0")])
def test_a_lost_directory_and_what_follows_from_it_explain_themselves(failure: Exception) -> None:
    assert unexplained(failure) is None


@pytest.mark.parametrize("failure", [OURS, PolicyViolation("too large"), UnknownPartition("t-0"), OSError(5, "EIO")])
def test_what_nobody_has_noticed_before_keeps_its_traceback(failure: Exception) -> None:
    assert unexplained(failure) is failure


async def fail_with(failure: Exception) -> None:
    raise failure


async def run_a_task(failure: Exception) -> None:
    owner = TaskOwner("test")
    owner.spawn("work", fail_with(failure))
    await owner.join()
    await asyncio.sleep(0)


async def run_a_job(failure: Exception) -> None:
    scheduler, ran = Scheduler(), asyncio.Event()

    async def job() -> None:
        ran.set()
        raise failure

    scheduler.every("work", 60_000, job, first_delay_ms=0)
    await ran.wait()
    await scheduler.close()


async def run_a_stop(failure: Exception) -> None:
    lifecycle = Lifecycle((Step("work", nothing, lambda: fail_with(failure)),))
    await lifecycle.start()
    assert not await lifecycle.stop()


@pytest.mark.parametrize("run", [run_a_task, run_a_job, run_a_stop])
@pytest.mark.parametrize("failure", [LOST, OURS])
async def test_tasks_jobs_and_steps_say_why_they_failed(
    run: object, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(run)
    await run(failure)
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert str(failure) in record.getMessage()
    assert (record.exc_info is None) == (failure is LOST)
