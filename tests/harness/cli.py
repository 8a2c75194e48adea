"""Runs of our own tools in this process, as the command line would run them."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from broker.cli import main
from tests.harness.tool_host import Done


def attempt(name: str, *arguments: str, bootstrap: str | None = None) -> Done:
    """Run a command, whatever its exit status is."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
    where = () if bootstrap is None else ("--bootstrap-server", bootstrap)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([name, *where, *arguments])
    return Done(code, out.buffer.getvalue().decode(), err.getvalue())


def run(name: str, *arguments: str, bootstrap: str | None = None) -> str:
    """Run a command that must succeed and return what it printed."""
    done = attempt(name, *arguments, bootstrap=bootstrap)
    assert done.code == 0, f"{name} {' '.join(arguments)}\n{done.text}"
    return done.out


def run_json(name: str, *arguments: str, bootstrap: str | None = None) -> Any:
    """Run a command with --json and return what it said."""
    return json.loads(run(name, *arguments, "--json", bootstrap=bootstrap))


def refusal(name: str, *arguments: str, bootstrap: str | None = None) -> str:
    """Run a command that must end with status 1 and one line on standard error, and return that line."""
    done = attempt(name, *arguments, bootstrap=bootstrap)
    assert done.code == 1 and done.err.startswith("odradek: ") and done.err.count("\n") == 1, done
    return done.err.removeprefix("odradek: ").rstrip("\n")
