"""`python -m broker.cli.scripts DIRECTORY`: Kafka's scripts, each a line that calls the command that stands for it.

Which command that is says the table in `commands`. A script has two names, with `.sh` as Kafka ships it and without, as
packages of distributors do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from broker.cli.commands import COMMANDS, Command

EXECUTABLE = 0o755


def write_scripts(directory: Path, commands: Iterable[Command], program: Path) -> None:
    """Write the scripts of the commands that stand for one; `program` is what they call."""
    directory.mkdir(parents=True, exist_ok=True)
    for command in commands:
        if not command.script:
            continue
        script = directory / command.script
        script.write_text(f'#!/bin/sh\nexec {program} {command.name} "$@"\n', encoding="utf-8")
        script.chmod(EXECUTABLE)
        script.with_suffix("").symlink_to(script.name)


if __name__ == "__main__":
    write_scripts(Path(sys.argv[1]), COMMANDS.values(), Path(sys.executable).with_name("odradek"))
