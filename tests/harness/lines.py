"""A child process whose lines are collected as they come."""

import subprocess
import sys
import threading
from collections.abc import Callable


class LineProcess:
    """Run a Python child; ``take`` is called with each line it prints, on a thread of its own."""

    def __init__(self, take: Callable[[str], None], *arguments: str):
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._take = take
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._take(line.strip())

    def close(self) -> int:
        """Close its standard input, wait for its end, take what it said last; return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(30)
        self._thread.join(10)
        return code

    def kill(self) -> None:
        """End it by SIGKILL and take what it said last."""
        self.process.kill()
        self.process.wait()
        self._thread.join(10)
