"""Threads: what a cancelled caller may rely on."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from broker.runtime.pools import Pools
from storage.errors import StorageFailure


async def test_a_cancelled_caller_is_held_until_the_call_that_has_begun_is_over() -> None:
    pools = Pools()
    begun, release = threading.Event(), threading.Event()
    done: list[str] = []

    def call() -> None:
        begun.set()
        release.wait()
        done.append("written")

    task = asyncio.create_task(pools.io("dir", call))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["written"]
    pools.close()


@pytest.mark.parametrize("failure", [StorageFailure("no disk", "/data"), KeyError("an error of ours")])
async def test_what_an_abandoned_call_fails_with_is_logged_once_and_never_left_to_the_loop(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    pools = Pools()
    begun, release = threading.Event(), threading.Event()
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))

    def call() -> None:
        begun.set()
        release.wait()
        raise failure

    task = asyncio.create_task(pools.io("dir", call))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    task.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    pools.close()
    del task
    gc.collect()
    assert unseen == []
    [record] = caplog.records
    assert record.getMessage() == f"abandoned call failed pool=dir reason={failure}"
    assert (record.exc_info is None) == isinstance(failure, StorageFailure)


async def test_results_and_failures_come_back() -> None:
    pools = Pools()
    assert await pools.io("dir", lambda: 7) == 7
    with pytest.raises(OSError, match="no disk"):
        await pools.io("dir", _fail)
    pools.close()


def _fail() -> None:
    raise OSError("no disk")
