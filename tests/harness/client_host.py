"""Java's consumers and producers, side by side in one JVM (`tests/jvm/ClientHost.java`), told what to do."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from tests.harness import java

SOURCE = Path(__file__).resolve().parents[1] / "jvm" / "ClientHost.java"

# What a consumer is told of a record: partition, offset, when poll returned it (milliseconds), value.
OnSeen = Callable[[int, int, float, str], None]


class Refused(Exception):
    """A client failed; the text begins with the class of Java's exception."""


class ClientHost:
    """The JVM and the names of what runs in it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java.program(SOURCE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            text=True,
            encoding="utf-8",
        )
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[str]] = {}  # filled by who asks, emptied by the thread
        self._on_seen: dict[str, OnSeen] = {}  # filled before the consumer starts, read by the thread
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, verb: str, name: str, *arguments: object) -> Future[str]:
        """Have a command done; give what will be its answer."""
        answer: Future[str] = Future()
        assert self._process.stdin is not None
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
            self._process.stdin.write("\t".join(map(str, (number, verb, name, *arguments))) + "\n")
            self._process.stdin.flush()
        return answer

    def ask(self, verb: str, name: str, *arguments: object) -> str:
        """Have a command done and wait for its answer.

        Raises: Refused if the client fails.
        """
        return self.send(verb, name, *arguments).result(java.TIMEOUT_S)

    def make(self, kind: str, name: str, settings: dict[str, object], on_seen: OnSeen | None = None) -> None:
        """Make a consumer or a producer."""
        if on_seen is not None:
            self._on_seen[name] = on_seen
        self.ask(kind, name, *(f"{key}={value}" for key, value in settings.items()))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, *words = line.rstrip("\n").split("\t")
            if kind == "seen":
                name, partition, offset, at_us, value = words
                self._on_seen[name](int(partition), int(offset), int(at_us) / 1000, value)
            elif kind == "answer":
                waiting = self._waiting.pop(int(words[0]))
                if words[1] == "ok":
                    waiting.set_result(words[2])
                else:
                    waiting.set_exception(Refused(words[2]))
        for waiting in self._waiting.values():
            waiting.set_exception(Refused("the JVM has ended"))

    def close(self) -> None:
        """End the JVM."""
        java.end(self._process)
