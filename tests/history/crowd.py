"""The cast of the randomized workload under a test's control: starts, shocks, a clean end, the verdict."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import find_transaction_coordinator, init_producer_id
from tests.history.actors import ActorOptions
from tests.history.checker import anomalies
from tests.history.journal import history_of
from tests.history.logs import settled, whole_logs
from tests.history.model import History, Partition
from tests.history.processes import ClientProcess

PROGRAM = Path(__file__).with_name("actor.py")
LEAVE_S = 60.0
CATCH_UP_S = 60.0
LONGEST_CALM_S = 1.5
# Longer than sessions of groups last, shorter than transactions may.
LONGEST_PAUSE_S = 3.0
LONGEST_RECOVERY_S = 0.4
KILLED_WHILE_STARTING = 0.2


@dataclass(frozen=True)
class Role:
    """One actor: its name, its program, its settings."""

    name: str
    kind: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> str | None:
        """Give the group of a consumer."""
        group: str | None = self.settings.get("group")
        return group


class Crowd:
    """The rig: `start`, any number of `shock`s, `finish`, `check`."""

    def __init__(
        self, broker: BrokerProcess, directory: Path, roles: Iterable[Role], topics: dict[str, int], rng: random.Random
    ) -> None:
        # What happened, for the report.
        self.figures: Counter[str] = Counter()
        self._broker = broker
        self._directory = directory
        self._roles = {role.name: role for role in roles}
        self._topics = topics
        self._rng = rng
        self._processes: dict[str, ClientProcess] = {}
        # Which group each life of a consumer belongs to.
        self._group_of: dict[str, str] = {}
        self._partitions: list[Partition] = [
            (topic, number) for topic, count in topics.items() for number in range(count)
        ]

    def start(self) -> None:
        """Create the topics and start everybody."""
        (self._directory / "journals").mkdir()
        with RawClient((self._broker.host, self._broker.port)) as client:
            for topic, count in self._topics.items():
                client.create_topic(topic, count)
        for name in self._roles:
            self._launch(name)

    def _launch(self, name: str) -> None:
        self.figures["lives"] += 1
        role, life = self._roles[name], f"{name}.{self.figures['lives']}"
        if role.group is not None:
            self._group_of[life] = role.group
        options = ActorOptions(
            bootstrap=self._broker.bootstrap,
            name=name,
            life=life,
            journal=str(self._directory / "journals" / life),
            topics=self._topics,
            settings=role.settings,
        )
        command = [str(PROGRAM), role.kind, json.dumps(asdict(options))]
        self._processes[name] = ClientProcess(command, self._directory / "errors")

    # --- shocks

    def shock(self) -> None:
        """Let everybody work for a while, then kill or pause the broker, some client, or both."""
        self._rest(0, LONGEST_CALM_S)
        self._supervise()
        name = self._rng.choice(list(self._roles))
        match self._rng.choice(("kill broker", "kill broker", "pause broker", "kill client", "pause client", "both")):
            case "kill broker":
                self._kill_broker()
            case "pause broker":
                self._broker.pause()
                self._rest(0.05, LONGEST_PAUSE_S)
                self._broker.resume()
                self.figures["broker pauses"] += 1
            case "kill client":
                self._kill_client(name)
            case "pause client":
                self._processes[name].pause()
                self._rest(0.05, LONGEST_PAUSE_S)
                self._processes[name].resume()
                self.figures["client pauses"] += 1
            case "both":
                self._processes[name].pause()
                self._kill_broker()
                self._processes[name].resume()
                self._kill_client(self._rng.choice(list(self._roles)))

    def _kill_broker(self) -> None:
        self._broker.kill()
        self.figures["broker kills"] += 1
        if self._rng.random() < KILLED_WHILE_STARTING:
            self._broker.launch()
            self._rest(0, LONGEST_RECOVERY_S)
            self._broker.kill()
            self.figures["broker kills"] += 1
        self._broker.start()

    def _kill_client(self, name: str) -> None:
        self._processes[name].kill()
        self.figures["client kills"] += 1
        self._launch(name)

    def _rest(self, shortest_s: float, longest_s: float) -> None:
        threading.Event().wait(self._rng.uniform(shortest_s, longest_s))

    def _supervise(self) -> None:
        """Start those anew whose client told them to end."""
        for name, process in list(self._processes.items()):
            if not process.is_alive:
                self._ended(name, process.leave(5))
                self._launch(name)

    def _ended(self, name: str, code: int) -> None:
        if code not in (0, 3):
            raise RuntimeError(f"{name} ended with {code}: {self._state()}")
        if code == 3:
            self.figures[f"gave up: {self._roles[name].kind}"] += 1
            print(name, self._processes[name].errors)

    def _state(self) -> str:
        for process in self._processes.values():
            if process.is_alive:
                process.print_stacks()
        threading.Event().wait(1.0)
        return (self._directory / "errors").read_text(encoding="utf-8", errors="replace")[-6000:]

    # --- the end

    def finish(self) -> None:
        """Let the producers end, end what they left open, let every group read everything."""
        self._supervise()
        consumers = {name for name, role in self._roles.items() if role.group is not None}
        for name in self._roles.keys() - consumers:
            self._leave(name)
        with RawClient((self._broker.host, self._broker.port)) as client:
            for name, role in self._roles.items():
                if role.settings.get("is_transactional"):
                    find_transaction_coordinator(client, name)
                    assert init_producer_id(client, name).error_code == 0
            settled(client, self._partitions)
        self._logs = whole_logs(self._broker, self._partitions)

        def everything_is_read() -> bool:
            self._supervise()
            return not self._missed(self._history())

        try:
            eventually(everything_is_read, within_s=CATCH_UP_S, every_s=0.5)
        except AssertionError as failure:
            missed = {group: sorted(left)[:20] for group, left in self._missed(self._history()).items()}
            raise AssertionError(f"groups have not read {missed}: {self._state()}") from failure
        for name in consumers:
            self._leave(name)

    def _leave(self, name: str) -> None:
        try:
            self._ended(name, self._processes[name].leave(LEAVE_S))
            del self._processes[name]
        except TimeoutExpired as failure:
            raise AssertionError(f"{name} does not leave: {self._state()}") from failure

    def _history(self) -> History:
        history = history_of(sorted((self._directory / "journals").iterdir()))
        history.logs = self._logs
        return history

    def _missed(self, history: History) -> dict[str, set[tuple[Partition, int]]]:
        """Give what members of a group, each committing only what it has read, have passed over together."""
        read: dict[str, set[tuple[Partition, int]]] = {group: set() for group in self._group_of.values()}
        for one in history.reads:
            session = history.sessions[one.session]
            read[self._group_of[session.name.split("/")[0]]].add((session.partition, one.offset))
        isolation = {role.group: role.settings["is_committed"] for role in self._roles.values() if role.group}
        missed = {}
        for group, have in read.items():
            wanted = {
                (log.partition, offset)
                for log in self._logs
                if log.is_committed == isolation[group]
                for offset, _ in log.records
            }
            if wanted - have:
                missed[group] = wanted - have
        return missed

    def close(self) -> None:
        """End what still runs."""
        for process in self._processes.values():
            if process.is_alive:
                process.kill()

    def check(self) -> None:
        """Hold everything that was recorded against the rules."""
        history = self._history()
        self.figures["writes"] = len(history.writes)
        self.figures["reads"] = len(history.reads)
        self.figures.update(f"transactions {one.ending.value}" for one in history.transactions.values())
        if found := anomalies(history):
            raise AssertionError(f"{len(found)} anomalies: " + "; ".join(map(str, found[:20])))
