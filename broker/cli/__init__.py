"""The command line: `odradek <command> …`.

Which commands there are says the table in `commands`. A command is a module with `run(arguments) -> exit status`; it
is imported when it is called, so `odradek topics --list` does not pay for a broker, nor `serve` for a tool. What goes
wrong is one line on standard error.

Exit status: 0 when all went well, 1 for what was refused or failed, 2 for a command that is not known and for arguments
of `serve`, `config` and `verify` that are not understood; `verify` has 1 for faults and 2 for what it could not check;
tools that stand in for Kafka's scripts end with 1 then, as those do.
130 after Ctrl-C, 141 when whoever read the output went away.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from broker.cli.commands import COMMANDS, overview
from broker.cli.errors import CommandError
from broker.cli.imports import imported
from broker.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except CommandError as error:
        print(f"odradek: {error.message}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        _give_output_up()
        return 128 + signal.SIGPIPE
    except OSError as error:  # a full disk behind standard output, a folder as standard input
        _give_output_up()
        print(f"odradek: {error.filename or 'standard input or output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _open_what_is_closed() -> None:
    """Read nothing from, and write nothing to, the standard files that whoever called us has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we run


def _give_output_up() -> None:
    """Have the interpreter, which flushes standard output once more at its end, not fail with it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    name = words[0] if words else None
    if name in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0
    if name == "--version":
        print(f"odradek {VERSION} ({imported('native').description()})")
        return 0
    if name is None:
        sys.stderr.write(overview())
        return 2
    command = COMMANDS.get(name)
    if command is None:
        raise CommandError(f"there is no command {name[:40]!r}; `odradek help` lists them", status=2)
    status: int = imported(command.module).run(words[1:])
    return status
