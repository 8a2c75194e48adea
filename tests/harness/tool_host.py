"""Runs of Apache Kafka's tools in one JVM (`tests/jvm/ToolHost.java`), whose start takes longer than most of them.

A process of the tests has one such JVM, `shared`, for `attempt` and `run`.
"""

from __future__ import annotations

import base64
import functools
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.harness import java
from tests.harness.java import MAIN_CLASSES

SOURCE = Path(__file__).resolve().parents[1] / "jvm" / "ToolHost.java"


class Done(NamedTuple):
    """How one run ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Return all that was printed."""
        return self.out + self.err


class ToolHost:
    """The JVM. What it runs has ended before the next one begins."""

    def __init__(self, jvm_options: tuple[str, ...] = java.TOOL_OPTIONS) -> None:
        self._command = java.program(SOURCE, jvm_options=jvm_options)
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )

    def attempt(self, name: str, *arguments: str, stdin: str = "", timeout_s: float = java.TIMEOUT_S) -> Done:
        """Run a tool by its script's name, whatever its exit code is."""
        return self._run(MAIN_CLASSES[name], arguments, stdin, timeout_s)

    def attempt_together(self, name: str, count: int, *arguments: str, timeout_s: float = java.TIMEOUT_S) -> Done:
        """Run a tool so many times side by side; `#` in an argument stands for the number of the run."""
        return self._run("ToolHost$Together", (str(count), MAIN_CLASSES[name], *arguments), "", timeout_s)

    def _run(self, main_class: str, arguments: Sequence[str], stdin: str, timeout_s: float) -> Done:
        if self._process.poll() is not None:  # what ran last has taken the JVM along
            self._process = self._start()
        assert self._process.stdin is not None and self._process.stdout is not None
        words = (main_class, stdin, *arguments)
        # The sign in front keeps an empty text a word.
        line = " ".join(base64.b64encode(f"-{word}".encode()).decode("ascii") for word in words)
        self._process.stdin.write(f"{line}\n".encode("ascii"))
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not ready:
            self._process.kill()
            self._process.wait()
        assert ready, f"no end within {timeout_s} s: {main_class} {' '.join(arguments)}"
        answer = self._process.stdout.readline().decode("ascii").split()
        assert len(answer) == 3, f"{main_class}: {answer}"
        code, out, err = answer
        return Done(int(code), *(base64.b64decode(text[1:]).decode("utf-8") for text in (out, err)))

    def close(self) -> None:
        """End the JVM."""
        java.end(self._process)


@functools.cache
def shared() -> ToolHost:
    """Return the JVM of all tools that need none of their own; it ends with this process, since its input does."""
    return ToolHost()


def attempt(name: str, *arguments: str, stdin: str = "") -> Done:
    """Run a tool by its script's name, whatever its exit code is."""
    return shared().attempt(name, *arguments, stdin=stdin)


def run(name: str, *arguments: str, stdin: str = "") -> str:
    """Run a tool by its script's name and return its standard output; its exit code must be 0."""
    done = attempt(name, *arguments, stdin=stdin)
    assert done.code == 0, f"{name} {' '.join(arguments)}\n{done.text}"
    return done.out


class Tools:
    """The tools, run against one broker."""

    def __init__(self, host: ToolHost, bootstrap: str) -> None:
        self._host = host
        self._bootstrap = bootstrap

    def attempt(self, name: str, *arguments: str, stdin: str = "") -> Done:
        """Run a tool that may fail."""
        return self._host.attempt(name, "--bootstrap-server", self._bootstrap, *arguments, stdin=stdin)

    def run(self, name: str, *arguments: str, stdin: str = "") -> str:
        """Run a tool and return its standard output; its exit code must be 0."""
        done = self.attempt(name, *arguments, stdin=stdin)
        assert done.code == 0, f"{name} {' '.join(arguments)}\n{done.text}"
        return done.out

    def refusal(self, name: str, *arguments: str) -> str:
        """Run a tool and return all it prints; its exit code must not be 0."""
        done = self.attempt(name, *arguments)
        assert done.code != 0, f"{name} {' '.join(arguments)}\n{done.text}"
        return done.text
