"""Imports of a command, which are most of what a short one costs.

Only the process of a command line does this: nothing here may happen to a program that embeds the broker.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from broker.runtime.garbage import GARBAGE_OF_IMPORTS

CONSTRUCTS_DEBUGGER = "construct.debug"
"""construct loads it unasked, and with it pdb and all that pdb needs: a tenth of what `odradek topics --list` takes."""


def imported(name: str) -> Any:
    """Import a module and what it needs, looking for garbage seldom."""
    if "construct" not in sys.modules:
        sys.modules[CONSTRUCTS_DEBUGGER] = ModuleType(CONSTRUCTS_DEBUGGER)
    usual = gc.get_threshold()
    gc.set_threshold(*GARBAGE_OF_IMPORTS)
    try:
        return import_module(name)
    finally:
        gc.set_threshold(*usual)
