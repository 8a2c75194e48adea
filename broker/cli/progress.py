"""A progress bar for long work: on standard error, and only while that is a terminal.

with Progress("checking", total=size_bytes) as progress:
    ...
    progress.advance(len(piece))
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

SHOWN_AFTER_S = 0.5
"""Short work shows nothing."""
REDRAWN_EVERY_S = 0.1
WIDTH = 30
SCALES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


class Progress:
    """How much of a total is done; without a total, how much is done."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()
        self._now_s = now_s
        self._began_s = now_s()
        self.done = 0
        self._next_s = self._began_s + SHOWN_AFTER_S  # when to draw; changed by _draw
        self._was_drawn = False  # whether there is a line to take away; changed by _draw

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, count: int = 1) -> None:
        """Note that so much more is done. Costs next to nothing where nobody looks."""
        self.done += count
        if self._is_shown and self._now_s() >= self._next_s:
            self._draw()

    def close(self) -> None:
        """Take the bar away."""
        if self._was_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self) -> None:
        now_s = self._now_s()
        self._next_s = now_s + REDRAWN_EVERY_S
        self._was_drawn = True
        rate = self.done / (now_s - self._began_s)
        self._stream.write(f"\r\x1b[K{self._what} {self._bar()} {short(rate)}/s")
        self._stream.flush()

    def _bar(self) -> str:
        if not self._total:
            return short(self.done)
        share = min(self.done / self._total, 1.0)
        filled = int(share * WIDTH)
        return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} {short(self.done)} of {short(self._total)}"


def short(count: float) -> str:
    """Say a number in three or four digits."""
    for letter, scale in SCALES:
        if count >= scale:
            return f"{count / scale:.3g}{letter}"
    return f"{count:.0f}"
