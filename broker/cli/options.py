"""Parsers of command lines in which a mistake is a line, not a page.

Options are Kafka's own, and as in Kafka's tools any beginning of a name that is clear will do.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from broker.cli.errors import CommandError

MISUSED_TOOL = 1
"""The exit status of Kafka's tools for arguments they do not understand."""
MISUSED_BROKER = 2
"""That of `serve` and `config`: a supervisor can tell a wrong command line from a failed start."""


class Parser(argparse.ArgumentParser):
    """A parser of one command."""

    def __init__(self, name: str, text: str, *, misuse_status: int = MISUSED_TOOL) -> None:
        super().__init__(prog=f"odradek {name}", description=text)
        self._misuse_status = misuse_status

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise CommandError(f"{message} (see `{self.prog} --help`)", status=self._misuse_status)
