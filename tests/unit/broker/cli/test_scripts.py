"""Kafka's scripts are made of the table of commands."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from broker.cli.commands import COMMANDS, Command
from broker.cli.scripts import write_scripts


def test_a_script_calls_the_command_that_stands_for_it_with_its_arguments_as_they_are(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nfor word; do echo "[$word]"; done\n', encoding="utf-8")
    program.chmod(0o755)
    rows = [Command("topics", "", "kafka-topics.sh"), Command("verify", "")]
    write_scripts(tmp_path / "bin", rows, program)
    assert sorted(os.listdir(tmp_path / "bin")) == ["kafka-topics", "kafka-topics.sh"]
    for name in os.listdir(tmp_path / "bin"):
        done = subprocess.run(
            [tmp_path / "bin" / name, "--list", "a b", ""], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines() == ["[topics]", "[--list]", "[a b]", "[]"]


def test_every_script_of_the_table_has_a_name_as_kafkas() -> None:
    scripts = [command.script for command in COMMANDS.values() if command.script]
    assert all(re.fullmatch(r"kafka-[a-z-]+\.sh", script) for script in scripts)
    assert len(set(scripts)) == len(scripts)
