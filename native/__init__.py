"""Compiled forms of the hot modules: loaded instead of their sources when they were made from just these sources.

`native.modules` lists the modules, `python -m native.build` compiles them with mypyc into native/built. The packages
call `prefer_compiled` before any module of theirs is loaded, because compiled modules call each other without looking:
either all of them are compiled or none is. A hash of every source stands beside the machine code. Where one differs,
or the interpreter is another, everything runs from source: what was edited is what runs.

ODRADEK_PURE=1 in the environment chooses the sources.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import source_hash, spec_from_file_location
from types import ModuleType

from native.modules import MODULES

PURE_VARIABLE = "ODRADEK_PURE"
LIBRARY = "odradek__mypyc"
"""What holds the machine code of all modules; beside it lies a small file for each that only asks for its part."""
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILT = os.path.join(HERE, "built")
STAMP = os.path.join(BUILT, "stamp")
SUFFIX = EXTENSION_SUFFIXES[0]

_reason: str | None = None  # why the sources run; None before it is decided, empty when they do not


def prefer_compiled() -> None:
    """Let the compiled modules be found from now on, if they may be; only the first call decides."""
    global _reason
    if _reason is None:
        _reason = _decide()


def is_compiled() -> bool:
    """Tell whether the hot modules run compiled."""
    return _reason == ""


def form() -> str:
    """Tell in one word how the hot modules run: "compiled" or "pure"."""
    return "compiled" if is_compiled() else "pure"


def description() -> str:
    """Tell it with the reason."""
    return "compiled" if is_compiled() else f"pure Python: {_reason}"


def _decide() -> str:
    """Arrange for the compiled modules to be found, or give the reason why they must not be."""
    if os.environ.get(PURE_VARIABLE, "0") not in ("", "0"):
        return f"{PURE_VARIABLE} is set"
    try:
        with open(STAMP) as file:
            built_from = file.read()
    except (OSError, UnicodeDecodeError):
        return "not compiled"
    try:
        is_current = built_from == stamp()
    except OSError:
        is_current = False
    if not is_current:
        return "compiled from other sources or for another Python"
    finder = Finder(BUILT)
    sys.meta_path.insert(0, finder)
    try:
        import_module(LIBRARY)
    except ImportError as failure:  # a library of the system is missing
        sys.meta_path.remove(finder)
        return str(failure)
    return ""


def stamp() -> str:
    """Describe interpreter and sources as they are; machine code of the same description may run. Raises: OSError."""
    lines = [f"{sys.version}{SUFFIX}"]
    for module in MODULES:
        with open(source_of(module), "rb") as file:
            lines.append(f"{module} {source_hash(file.read()).hex()}")
    return "\n".join(lines)


def source_of(module: str) -> str:
    """Give the path of a module's source."""
    return os.path.join(ROOT, module.replace(".", os.sep) + ".py")


class Finder:
    """Finds the compiled modules, and nothing else."""

    def __init__(self, directory: str) -> None:
        self._files = {
            name: os.path.join(directory, name.replace(".", os.sep) + SUFFIX) for name in (LIBRARY, *MODULES)
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Give a compiled module's file; None leaves it to the others."""
        file = self._files.get(name)
        return spec_from_file_location(name, file) if file is not None else None
