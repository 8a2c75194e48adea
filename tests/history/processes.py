"""Client processes that a test stops at gates, kills, pauses and starts again."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.harness.broker import ROOT


class ClientProcess:
    """One life of a client; its output is read as it comes."""

    def __init__(self, command: Sequence[str], error_path: Path) -> None:
        with error_path.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                start_new_session=True,
            )
        self.committed = 0
        self.errors: list[str] = []
        self._arrivals: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                verb, _, rest = line.strip().partition(" ")
                if verb == "committed":
                    self.committed += 1
                elif verb == "at":
                    self._arrivals.put(rest)
                else:
                    self.errors.append(line.strip())

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def arm(self, phase: str) -> None:
        """Ask it to stop, or to say so, when it next passes a phase."""
        self._write(f"arm {phase}")

    def go(self) -> None:
        """Let it pass."""
        self._write("go")

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def arrived(self, within_s: float) -> bool:
        """Wait until it stands at the armed phase."""
        try:
            self._arrivals.get(timeout=within_s)
        except queue.Empty:
            return False
        return True

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.process.kill()
        self.process.wait()
        self._close()

    def pause(self) -> None:
        """Stop it by SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again."""
        self.process.send_signal(signal.SIGCONT)

    def print_stacks(self) -> None:
        """Have its threads' stacks printed to its errors."""
        self.process.send_signal(signal.SIGUSR1)

    def leave(self, within_s: float) -> int:
        """Ask it to end and give its exit code."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(within_s)
        self._close()
        return code

    def _close(self) -> None:
        self._reader.join(5)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
