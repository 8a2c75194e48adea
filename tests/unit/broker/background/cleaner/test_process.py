"""Real cleaner processes with jobs of the test's own: what they give back, how they end, and when."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker.background.cleaner.child import ChildDied, CleanerChild, CleaningFailed
from broker.background.cleaner.pipe import Clean, Fault
from broker.background.cleaner.process import NICENESS
from storage.compaction.task import Progress
from tests.harness.cleaning import COMPACT, CleanerBed
from tests.harness.hosted import Hosted

DEADLINE_S = 20

PREAMBLE = """
import errno, os, signal, sys, time
from broker.background.cleaner.process import main
from storage.compaction.task import Progress
"""
PARENT = """
import asyncio, sys
from broker.background.cleaner.child import CleanerChild
from broker.background.cleaner.pipe import Clean

async def run():
    child = await CleanerChild.start(asyncio.to_thread, (sys.executable, sys.argv[1]))
    print(child.pid, flush=True)
    await child.clean(Clean(sys.argv[2], float("inf")), lambda progress: print("works", flush=True))

asyncio.run(run())
"""

Start = Callable[[str], Awaitable[CleanerChild]]


def write_job(directory: Path, body: str) -> Path:
    script = directory / "job.py"
    script.write_text(
        PREAMBLE + "def job(task, report):\n" + textwrap.indent(textwrap.dedent(body), "    ") + "\nmain(job)\n"
    )
    return script


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a process whose job is the given text."""
    children: list[CleanerChild] = []

    async def start(body: str) -> CleanerChild:
        child = await CleanerChild.start(asyncio.to_thread, (sys.executable, str(write_job(tmp_path, body))))
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        await child.ended()


async def clean(child: CleanerChild, task: Any = "task", report: Callable[[Any], None] = lambda progress: None) -> Any:
    async with asyncio.timeout(DEADLINE_S):
        return await child.clean(Clean(task, float("inf")), report)


def has_ended(pid: int) -> bool:
    """Wait until a process that is not our child has ended; False at the deadline."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], DEADLINE_S)[0])
    finally:
        os.close(descriptor)


async def test_tasks_go_there_and_results_come_back_one_after_the_other(start: Start) -> None:
    child = await start("print('said by the job'); return task * 2")
    assert [await clean(child, task) for task in (2, "ab", b"x" * 1_000_000)] == [4, "abab", b"x" * 2_000_000]
    assert child.is_alive


async def test_a_real_process_cleans_a_log_group_by_group(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    bed = CleanerBed(hosted, partial(CleanerChild.start, asyncio.to_thread))
    partition = bed.create("t", segments=6, keys=20, config=replace(COMPACT, segment_bytes=8_000))
    before = partition.log.segment_count
    await bed.cleaner.look()
    async with asyncio.timeout(DEADLINE_S):
        while bed.cleaner.is_busy(partition.tp):
            await bed.turns()
    assert [record.offset for record in bed.records("t")] == list(range(1_180, 1_200))
    assert bed.leftovers("t") == []
    assert 1 < partition.log.segment_count < before
    assert hosted.logs.cleaner_checkpoint(partition.tp) == 1_200
    await bed.cleaner.close()
    hosted.logs.close(clean=False)


async def test_progress_is_told_and_what_is_finished_always(start: Start) -> None:
    child = await start("""
        for number in range(1, 4):
            report(Progress(number, 10, 0))
        report(Progress(4, 10, 0, "a group"))
        report(Progress(5, 10, 0))
    """)
    told: list[Progress] = []
    await clean(child, report=told.append)
    assert told == [Progress(1, 10, 0), Progress(4, 10, 0, "a group")]


@pytest.mark.parametrize(
    ("failure", "fault"),
    [
        ("ValueError('bad batch')", Fault.DATA),
        ("AssertionError('bad batch')", Fault.DATA),
        ("MemoryError('bad batch')", Fault.OTHER),
        ("OSError(errno.ENOSPC, 'bad batch')", Fault.OTHER),
        ("FileNotFoundError('bad batch')", Fault.OTHER),
        ("OSError(errno.EIO, 'bad batch')", Fault.DISK),
        ("OSError(errno.EROFS, 'bad batch')", Fault.DISK),
    ],
)
async def test_a_failure_says_whose_it_was_and_the_process_goes_on(start: Start, failure: str, fault: Fault) -> None:
    child = await start(f"if task: raise {failure}\nreturn 1")
    with pytest.raises(CleaningFailed, match="bad batch") as caught:
        await clean(child)
    assert caught.value.fault is fault
    assert "in job" in caught.value.details
    assert await clean(child, "") == 1


@pytest.mark.parametrize(
    ("end", "said"), [("os._exit(3)", "status 3"), ("os.kill(os.getpid(), signal.SIGKILL)", "memory runs out")]
)
async def test_a_process_that_dies_says_how(start: Start, end: str, said: str) -> None:
    child = await start(end)
    with pytest.raises(ChildDied, match=said):
        await clean(child)
    assert not child.is_alive
    with pytest.raises(ChildDied):
        await clean(child)


async def test_a_process_that_is_killed_in_the_middle_is_gone_when_it_is_said_to_be(start: Start) -> None:
    child = await start("while True: report(Progress(0, 0, 0, 'works'))")
    working = asyncio.Event()
    task = asyncio.create_task(clean(child, report=lambda progress: working.set()))
    await working.wait()
    child.kill()
    assert not child.is_alive
    with pytest.raises(ChildDied):
        await task
    await child.ended()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


async def test_the_process_steps_behind_the_broker_and_ignores_a_terminals_signals(start: Start) -> None:
    child = await start("""
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        return open("/proc/self/oom_score_adj").read()
    """)
    assert int(await clean(child)) > 0
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)


def test_the_process_ends_when_its_pipe_closes(tmp_path: Path) -> None:
    script = write_job(tmp_path, "while True: pass")
    with subprocess.Popen(
        [sys.executable, str(script), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_killed_broker_takes_the_process_with_it_and_nothing_is_written_after(tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = write_job(
        tmp_path,
        """
        with open(task, "ab", buffering=0) as file:
            while True:
                file.write(b"x")
                report(Progress(0, 0, 0, "works"))
        """,
    )
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(script), str(written)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == b"works\n"
        parent.send_signal(signal.SIGKILL)
        parent.wait(DEADLINE_S)
        assert has_ended(pid)
        size = written.stat().st_size
        assert size > 0
        assert written.stat().st_size == size


def test_a_process_whose_parent_is_gone_before_it_looks_does_nothing(tmp_path: Path) -> None:
    script = write_job(tmp_path, "return 1")
    done = subprocess.run(
        [sys.executable, str(script), "1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_a_process_is_not_started_by_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    popen = subprocess.Popen

    def watched(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return popen(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", watched)
    child = await CleanerChild.start(asyncio.to_thread, ("sleep",))
    child.kill()
    await child.ended()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_ending_processes_leaves_the_files_of_threads_alone(tmp_path: Path) -> None:
    """Two threads open, ask and close as the I/O pool does; no number may be closed under them."""
    path = tmp_path / "file"
    path.touch()
    is_over = threading.Event()

    def use_files() -> None:
        while not is_over.is_set():
            numbers = [os.open(path, os.O_RDONLY) for _ in range(8)]
            for number in numbers:
                os.close(number)

    async def end_many() -> None:
        for _ in range(100):
            child = await CleanerChild.start(asyncio.to_thread, ("sleep",))
            child.kill()
            await child.ended()
            starting = asyncio.create_task(CleanerChild.start(asyncio.to_thread, ("sleep",)))
            await asyncio.sleep(0)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)

    with ThreadPoolExecutor(2) as pool:
        users = [pool.submit(use_files) for _ in range(2)]
        try:
            uvloop.run(end_many())
        finally:
            is_over.set()
        for user in users:
            user.result(DEADLINE_S)
