"""Kills at moments nobody chose, and the way back to a broker that serves."""

from __future__ import annotations

import random
import threading
from typing import NamedTuple

from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient((broker.host, broker.port), timeout_s=20)


class Kills(NamedTuple):
    """When a broker is killed."""

    life_s: tuple[float, float]
    """How long it serves, from and to."""
    recovery_s: float
    """How long a start lasts at most that is killed, too."""
    while_starting: float
    """How often that happens."""

    def kill_and_start(self, broker: BrokerProcess, rng: random.Random) -> None:
        """Kill the broker after a random while, perhaps once more while it starts, and wait until it is ready."""
        moment = threading.Event()
        moment.wait(rng.uniform(*self.life_s))
        broker.kill()
        if rng.random() < self.while_starting:
            broker.launch()
            moment.wait(rng.uniform(0, self.recovery_s))
            broker.kill()
        broker.start()
