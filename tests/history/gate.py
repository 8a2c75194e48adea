"""Where a client process stops so that it can be killed there: named phases, armed over standard input.

``arm NAME`` makes the next passage of that phase print ``at NAME`` and wait for ``go``; a phase that is named with a
trailing ``+`` is announced and not waited at, so that something happens meanwhile. The end of standard input asks the
client to leave.
"""

from __future__ import annotations

import sys
import threading


def say(*words: object) -> None:
    """Print one line at once."""
    print(*words, flush=True)


class Gate:
    """The client's side."""

    def __init__(self) -> None:
        self.leaving = threading.Event()
        self._go = threading.Event()
        self._armed = ""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            verb, *names = line.split()
            if verb == "arm":
                self._go.clear()
                self._armed = names[0]
            else:
                self._go.set()
        self.leaving.set()
        self._go.set()

    def at(self, phase: str) -> None:
        """Pass a phase; wait there if it is armed."""
        if self._armed.rstrip("+") != phase:
            return
        is_waiting = not self._armed.endswith("+")
        self._armed = ""
        say("at", phase)
        if is_waiting:
            self._go.wait()
