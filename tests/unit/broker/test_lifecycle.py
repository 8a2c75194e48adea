"""Steps run forwards at start and backwards at stop, whatever fails."""

from __future__ import annotations

import pytest

from broker.lifecycle import Lifecycle, Step


class Script:
    """Steps that write down when they are started and stopped."""

    def __init__(self, *names: str, fails: str = "") -> None:
        self.log: list[str] = []
        self.phases: list[str] = []
        self._fails = fails
        self.lifecycle = Lifecycle(tuple(self._step(name) for name in names))

    def _step(self, name: str) -> Step:
        async def start() -> None:
            await self._do(f"start {name}")

        async def stop() -> None:
            await self._do(f"stop {name}")

        return Step(name, start, stop)

    async def _do(self, what: str) -> None:
        self.log.append(what)
        self.phases.append(self.lifecycle.current)
        if what == self._fails:
            raise OSError(what)


async def test_steps_start_in_order_and_stop_in_reverse() -> None:
    script = Script("a", "b")
    assert script.lifecycle.current == "not started"
    await script.lifecycle.start()
    assert script.lifecycle.current == "running"
    assert await script.lifecycle.stop()
    assert script.lifecycle.current == "stopped"
    assert script.log == ["start a", "start b", "stop b", "stop a"]
    assert script.phases == ["a", "b", "stopping b", "stopping a"]


async def test_a_start_that_fails_stops_what_had_started_and_names_the_step() -> None:
    script = Script("a", "b", "c", fails="start b")
    with pytest.raises(OSError, match="start b") as raised:
        await script.lifecycle.start()
    assert script.log == ["start a", "start b", "stop a"]
    assert raised.value.__notes__ == ["in the start step 'b'"]


async def test_a_stop_that_fails_is_told_and_keeps_no_other_from_running(caplog: pytest.LogCaptureFixture) -> None:
    script = Script("a", "b", "c", fails="stop b")
    await script.lifecycle.start()
    assert not await script.lifecycle.stop()
    assert script.log[3:] == ["stop c", "stop b", "stop a"]
    assert "stop step failed step=b" in caplog.text


async def test_stopping_twice_stops_once() -> None:
    script = Script("a")
    await script.lifecycle.start()
    await script.lifecycle.stop()
    assert await script.lifecycle.stop()
    assert script.log == ["start a", "stop a"]
