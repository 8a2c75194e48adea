"""When the interpreter looks for garbage: how often decides how long everybody waits now and then."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from types import ModuleType

GARBAGE_OF_IMPORTS = (10_000, 20, 100)
"""How seldom garbage is looked for while modules are loaded: nearly all they make stays. Never looking costs memory."""
FULL_LOOKS_BETWEEN = 100
"""Looks at young objects before all are looked at. Partitions that come while we run add hundreds of thousands: with
the interpreter's own 10 a few thousand of them bring several full looks of a tenth of a second and more each."""
Undisturbed = Callable[[], AbstractContextManager[None]]
"""What is put around work that makes and drops very many objects."""


def load_modules(*names: str) -> list[ModuleType]:
    """Import what a start needs. What it makes stays: nothing is looked for from then on until the broker is ready."""
    usual = gc.get_threshold()
    gc.set_threshold(*GARBAGE_OF_IMPORTS)
    modules = [import_module(name) for name in names]
    gc.disable()
    gc.set_threshold(*usual)
    return modules


def keep_what_is_there() -> None:
    """Pass over for good what was made so far, the start, and begin to look for garbage in what comes."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_LOOKS_BETWEEN)
    gc.enable()


@contextmanager
def looking_later() -> Iterator[None]:
    """Look for no garbage until this ends: for work that makes and drops so many objects, none of them garbage, that
    the interpreter would look through all there is for their sake. For a process that is ours alone."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
