"""A consume-transform-produce loop under a test's control: its topics, its workers, kills at phases, the verdict."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.history.checker import anomalies
from tests.history.clients import Options
from tests.history.journal import Journal, history_of
from tests.history.logs import settled, whole_logs
from tests.history.model import Ending, History, Partition
from tests.history.processes import ClientProcess

PROGRAM = Path(__file__).with_name("transform.py")
PARTITIONS = 4
WAITING_PHASES = ("begun", "produced", "offsets", "committed")
# What a round feeds, and keeps feeding while it waits: several transactions for each worker.
ROUND_INPUTS = 24
PROGRESS_S = 60.0
# From the moment a commit is about to be asked for to some time after its answer.
LONGEST_COMMIT_S = 0.03
LONGEST_ANYTIME_S = 0.5


@dataclass(frozen=True)
class Kind:
    """Which client loops, in which kind of group."""

    client: str
    protocol: str = "classic"
    is_static: bool = False
    workers: int = 2

    def __str__(self) -> str:
        return f"{self.client}-{self.protocol}{'-static' if self.is_static else ''}"


@dataclass
class Figures:
    """What happened, for the report."""

    rounds: int = 0
    broker_kills: int = 0
    client_kills: int = 0
    pauses: int = 0
    lives: int = 0
    gave_up: int = 0  # lives that ended because the client had met an error that it cannot go on after
    transactions: Counter[str] = field(default_factory=Counter)
    inputs: int = 0


class Feeder:
    """Numbers the source; an idempotent producer that outlives the broker."""

    def __init__(self, broker: BrokerProcess, topic: str, journal: Path) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._journal = Journal(journal, "feeder")
        self._journal.producer("feeder")
        self._topic = topic
        self.count = 0

    def feed(self, count: int) -> None:
        """Send the next numbers."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset, value = message.offset(), message.value()
            assert error is None and offset is not None and value is not None, error
            self._journal.written(value.decode(), offset)

        for _ in range(count):
            number = str(self.count)
            partition = (self._topic, self.count % PARTITIONS)
            self._journal.writing("feeder", partition, number)
            self._producer.produce(self._topic, number.encode(), partition=partition[1], on_delivery=delivered)
            self.count += 1
        self._producer.poll(0)

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        assert self._producer.flush(PROGRESS_S) == 0


class Loop:
    """The rig: `start`, any number of `round`s, `finish`, `check`."""

    def __init__(self, broker: BrokerProcess, directory: Path, kind: Kind, rng: random.Random) -> None:
        self.figures = Figures()
        self._broker = broker
        self._directory = directory
        self._kind = kind
        self._rng = rng
        self._workers: dict[str, ClientProcess] = {}
        self._lives = 0
        # What the lives that have ended committed.
        self._committed_before = 0
        self._partitions: list[Partition] = [(topic, n) for topic in ("source", "target") for n in range(PARTITIONS)]

    def start(self) -> None:
        """Create the topics and start the workers."""
        directory = self._directory / "journals"
        directory.mkdir()
        with RawClient((self._broker.host, self._broker.port)) as client:
            for topic in ("source", "target"):
                client.create_topic(topic, PARTITIONS)
        self._feeder = Feeder(self._broker, "source", directory / "feeder")
        for number in range(self._kind.workers):
            self._launch(f"worker-{number}")

    def _launch(self, worker: str) -> None:
        self._lives += 1
        life = f"{worker}.{self._lives}"
        options = Options(
            bootstrap=self._broker.bootstrap,
            source="source",
            target="target",
            partitions=PARTITIONS,
            group="loop",
            worker=worker,
            life=life,
            journal=str(self._directory / "journals" / life),
            protocol=self._kind.protocol,
            is_static=self._kind.is_static,
        )
        command = [str(PROGRAM), self._kind.client, json.dumps(asdict(options))]
        self._workers[worker] = ClientProcess(command, self._directory / "errors")
        self.figures.lives += 1

    def _bury(self, worker: str) -> None:
        self._committed_before += self._workers[worker].committed

    # --- rounds

    def round(self, victim: str, phase: str) -> None:
        """Kill the broker, a client or both when a client stands at a phase; return once the loop goes on."""
        self.figures.rounds += 1
        worker = self._rng.choice(list(self._workers))
        self._stand(worker, phase)
        if victim in ("broker", "both"):
            self._broker.kill()
            self.figures.broker_kills += 1
        if victim in ("client", "both"):
            self._workers[worker].kill()
            self._bury(worker)
            self.figures.client_kills += 1
        if victim == "pause":
            self._pause(worker)
        is_early = self._rng.random() < 0.5  # meets a broker that is down
        if is_early and victim == "broker":
            self._workers[worker].go()
        if victim in ("broker", "both"):
            self._broker.start()
        if victim in ("client", "both"):
            self._launch(worker)
        self._workers[worker].go()
        self._go_on()

    def _stand(self, worker: str, phase: str) -> None:
        """Return when the worker has reached the phase; a phase between gates is a random time after one."""
        if phase == "anytime":
            self._feeder.feed(ROUND_INPUTS)
            threading.Event().wait(self._rng.uniform(0, LONGEST_ANYTIME_S))
            return
        self._workers[worker].arm("committing+" if phase == "committing" else phase)

        def stands() -> bool:
            # A life that ends and begins anew has nothing armed.
            if self._supervise():
                self._workers[worker].arm("committing+" if phase == "committing" else phase)
            self._feeder.feed(ROUND_INPUTS)
            return self._workers[worker].arrived(1.0)

        self._eventually(stands, f"{worker} reaches {phase}")
        if phase == "committing":
            threading.Event().wait(self._rng.uniform(0, LONGEST_COMMIT_S))

    def _pause(self, worker: str) -> None:
        """Stop a client for longer than its group waits for it."""
        self._workers[worker].pause()
        threading.Event().wait(3.0)
        self._workers[worker].resume()
        self.figures.pauses += 1

    def _go_on(self) -> None:
        """Wait for two more commits: the first may have been on its way."""
        before = self._committed()

        def goes_on() -> bool:
            self._supervise()
            self._feeder.feed(2)
            return self._committed() >= before + 2

        self._eventually(goes_on, "the loop goes on")

    def _committed(self) -> int:
        return self._committed_before + sum(worker.committed for worker in self._workers.values())

    def _supervise(self) -> bool:
        """Start those anew whose client told them to end; say if there were any."""
        ended = [name for name, worker in self._workers.items() if not worker.is_alive]
        for name in ended:
            code = self._workers[name].leave(5)
            if code != 3:
                raise RuntimeError(f"{name} ended with {code}: {self._state()}")
            self.figures.gave_up += 1
            self._bury(name)
            self._launch(name)
        return bool(ended)

    def _eventually(self, check: Callable[[], bool], what: str) -> None:
        try:
            eventually(check, within_s=PROGRESS_S, every_s=0.1, what=what)
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {self._state()}") from failure

    def _state(self) -> str:
        for worker in self._workers.values():
            worker.print_stacks()
        threading.Event().wait(1.0)
        said = {name: worker.errors for name, worker in self._workers.items()}
        errors = (self._directory / "errors").read_text(encoding="utf-8", errors="replace")
        return f"{said} {errors[-3000:]}"

    # --- the end

    def finish(self) -> None:
        """Let the workers take what is left, then let them go."""
        self._feeder.finish()
        with RawClient((self._broker.host, self._broker.port)) as client:

            def all_is_taken() -> bool:
                self._supervise()
                answer = client.request(
                    "offset_fetch",
                    7,
                    group_id="loop",
                    topics=[{"name": "source", "partition_indexes": list(range(PARTITIONS))}],
                    require_stable=True,
                )
                ends = [client.end_offset("source", number) for number in range(PARTITIONS)]
                rows = {row.partition_index: row for row in answer.topics[0].partitions}
                return [rows[number].committed_offset for number in range(PARTITIONS)] == ends

            self._eventually(all_is_taken, "every input is taken")
            for name, worker in self._workers.items():
                assert worker.leave(PROGRESS_S) in (0, 3), f"{name}: {self._state()}"
            settled(client, self._partitions)

    def close(self) -> None:
        """End what still runs."""
        for worker in self._workers.values():
            if worker.is_alive:
                worker.kill()

    def check(self) -> None:
        """Hold everything that was recorded against the rules, and each input against its effects."""
        history = history_of(sorted((self._directory / "journals").iterdir()))
        history.logs = whole_logs(self._broker, self._partitions)
        self.figures.transactions = Counter(one.ending.value for one in history.transactions.values())
        self.figures.inputs = self._feeder.count
        if found := anomalies(history):
            raise AssertionError(f"{len(found)} anomalies: " + "; ".join(map(str, found[:20])))
        if wrong := wrong_effects(history, self._feeder.count):
            raise AssertionError(f"seen another number of times than once: {wrong}")
        assert self.figures.transactions[Ending.COMMITTED.value] > 0


def wrong_effects(history: History, inputs: int) -> dict[str, int]:
    """Give the inputs that read_committed does not see the effect of exactly once, and how often it does."""
    effects = Counter(
        value.split(">")[0]
        for log in history.logs
        if log.is_committed and log.partition[0] == "target"
        for _, value in log.records
    )
    wanted = {str(number): 1 for number in range(inputs)}
    return {one: effects[one] for one in wanted.keys() | effects.keys() if effects[one] != wanted.get(one, 0)}
