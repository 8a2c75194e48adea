"""Starting and stopping, step by step. The order is the content of this file; each step says what it guards.

Start: what fails is undone by running the stop steps of what had been started. Stop: every step runs, also when one
before it failed, and the time left is shared by those that wait for others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import native
from broker.runtime.failures import unexplained
from broker.version import VERSION
from config.views import BrokerConfig, ListenerConfig

logger = logging.getLogger(__name__)


class Step(NamedTuple):
    """One step: what is started, how, why at this place, and how it is stopped again."""

    name: str
    start: Callable[[], Awaitable[None]]
    stop: Callable[[], Awaitable[None]]


async def nothing() -> None:
    """For steps that leave nothing behind."""


def log_ready(
    config: BrokerConfig, cluster_id: str, listeners: Iterable[ListenerConfig], http_port: int | None, took_s: float
) -> None:
    """Tell that the start is over, and where everything is.

    Test frameworks wait for what Apache Kafka says then, of one version or another; the first line is for them.
    """
    logger.info(
        "[BrokerLifecycleManager id=%d] Transitioning from RECOVERY to RUNNING. [KafkaServer id=%d] started.",
        config.node_id,
        config.node_id,
    )
    http = "off" if http_port is None or config.http_listener is None else f"{config.http_listener[0]}:{http_port}"
    logger.info(
        "Kafka Server started version=%s form=%s node.id=%d cluster.id=%s listeners=%s log.dirs=%s http=%s took_s=%.3f",
        VERSION,
        native.form(),
        config.node_id,
        cluster_id,
        ",".join(f"{one.name}://{one.host}:{one.port}" for one in listeners),
        ",".join(config.log_dirs),
        http,
        took_s,
    )


class Lifecycle:
    """Runs steps forwards at start and backwards at stop."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps
        self._started: list[Step] = []
        self.current = "not started"

    async def start(self) -> None:
        """Run every start. Raises: what a step raises, after the steps before it have been stopped again."""
        for step in self._steps:
            self.current = step.name
            try:
                await step.start()
            except BaseException as failure:
                failure.add_note(f"in the start step {step.name!r}")
                await self.stop()
                raise
            self._started.append(step)
        self.current = "running"

    async def stop(self) -> bool:
        """Stop what was started, last first; True when every step went well."""
        clean = True
        while self._started:
            step = self._started.pop()
            self.current = f"stopping {step.name}"
            try:
                await step.stop()
            except Exception as failure:
                clean = False
                logger.error("stop step failed step=%s reason=%s", step.name, failure, exc_info=unexplained(failure))
        self.current = "stopped"
        return clean
